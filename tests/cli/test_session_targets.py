from __future__ import annotations

import pytest

from muster.cli.errors import CommandError
from muster.cli.session import parse_target, parse_targets, resource_name
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind

POD = Kind("", "v1", "Pod", "pods", short_names=("po",), categories=("all",))
SERVICE = Kind("", "v1", "Service", "services", short_names=("svc",), categories=("all",))
JOB = Kind("batch", "v1", "Job", "jobs", categories=("all",))
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
CATALOGUE = Catalogue([POD, SERVICE, JOB, NODE])


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["pods"], [(POD, ())]),
        (["po"], [(POD, ())]),
        (["Pod"], [(POD, ())]),
        (["pod", "x", "y"], [(POD, ("x", "y"))]),
        (["po,svc"], [(POD, ()), (SERVICE, ())]),
        (["po,svc", "x"], [(POD, ("x",)), (SERVICE, ("x",))]),
        (["pod/x"], [(POD, ("x",))]),
        (["pod/x", "po/y", "svc/z", "pod/w"], [(POD, ("x", "y")), (SERVICE, ("z",)), (POD, ("w",))]),
        (["jobs.batch"], [(JOB, ())]),
        (["job.v1.batch/train"], [(JOB, ("train",))]),
        (["all"], [(POD, ()), (SERVICE, ()), (JOB, ())]),
    ],
)
def test_arguments_name_objects(words: list[str], targets: list[tuple[Kind, tuple[str, ...]]]) -> None:
    assert [tuple(target) for target in parse_targets(words, CATALOGUE)] == targets


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "specify the objects"),
        (["pod", "pod/x"], '"pod" has no type'),
        (["pod/"], "use TYPE/NAME"),
        (["/x"], "use TYPE/NAME"),
        (["pod/x/y"], "use TYPE/NAME"),
    ],
)
def test_arguments_that_name_nothing_are_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        parse_targets(words, CATALOGUE)


def test_an_unknown_type_gives_the_server_s_error_with_a_hint() -> None:
    with pytest.raises(NotFound, match=r'resource type "podz".*did you mean "pod'):
        parse_targets(["podz"], CATALOGUE)


def test_one_target_defaults_to_a_pod() -> None:
    assert parse_target("x", CATALOGUE) == (POD, "x")
    assert parse_target("job/x", CATALOGUE) == (JOB, "x")


def test_titles_include_the_group() -> None:
    assert (resource_name(POD, "x"), resource_name(JOB, "train")) == ("pod/x", "job.batch/train")
