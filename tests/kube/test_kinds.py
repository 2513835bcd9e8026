from __future__ import annotations

import pytest

from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind

POD = Kind("", "v1", "Pod", "pods", short_names=("po",))
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short_names=("no",))
JOB = Kind("batch", "v1", "Job", "jobs")
VOLCANO_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", short_names=("vcjob", "po"))
PYTORCH_JOB = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", short_names=("pt",))
OLD_PYTORCH_JOB = Kind("kubeflow.org", "v1beta1", "PyTorchJob", "pytorchjobs", short_names=("pt",))
PT = Kind("example.com", "v1", "Pt", "pts")


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue([POD, NODE, JOB, VOLCANO_JOB, PYTORCH_JOB, OLD_PYTORCH_JOB])


def test_the_names_of_a_kind() -> None:
    assert (POD.api_version, POD.singular, POD.resource, str(POD)) == ("v1", "pod", "pods", "v1 Pod")
    assert (JOB.api_version, JOB.singular, JOB.resource, str(JOB)) == ("batch/v1", "job", "jobs.batch", "batch/v1 Job")


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("pods", POD),
        ("pod", POD),
        ("Pod", POD),
        ("PODS", POD),
        ("po", POD),
        ("pods.v1.", POD),
        ("no", NODE),
        ("jobs", JOB),
        ("job.batch", JOB),
        ("jobs.v1.batch", JOB),
        ("jobs.batch.volcano.sh", VOLCANO_JOB),
        ("po.batch.volcano.sh", VOLCANO_JOB),
        ("vcjob", VOLCANO_JOB),
        ("pt", PYTORCH_JOB),
        ("PyTorchJob.kubeflow.org", PYTORCH_JOB),
        ("pytorchjobs.v1beta1.kubeflow.org", OLD_PYTORCH_JOB),
        ("pt.v1beta1.kubeflow.org", OLD_PYTORCH_JOB),
    ],
)
def test_a_kind_is_found_by_any_of_its_names(catalogue: Catalogue, word: str, kind: Kind) -> None:
    assert catalogue.find(word) is kind


def test_a_full_name_goes_before_another_kinds_short_one(catalogue: Catalogue) -> None:
    catalogue.register(PT)
    assert catalogue.find("pt") is PT
    assert catalogue.find("pt.kubeflow.org") is PYTORCH_JOB


def test_a_name_nobody_has_is_guessed_at(catalogue: Catalogue) -> None:
    with pytest.raises(NotFound, match=r'resource type "podz" \(did you mean "pod[s]?"\?\)'):
        catalogue.find("podz")
    with pytest.raises(NotFound, match=r'resource type "quux"$'):
        catalogue.find("quux")


def test_registering_again_replaces_and_keeps_the_names(catalogue: Catalogue) -> None:
    new = Kind("", "v1", "Pod", "pods", short_names=("po", "pd"))
    assert catalogue.register(new) is new
    assert [catalogue.find(word) for word in ("po", "pod", "pods", "pd")] == [new] * 4
    assert catalogue.of("v1", "Pod") is new
    assert next(iter(catalogue)) is new
    without = Kind("", "v1", "Pod", "pods")
    catalogue.register(without)
    assert catalogue.find("po") is VOLCANO_JOB
    with pytest.raises(NotFound):
        catalogue.find("pd")


def test_names_of_a_kind_that_is_gone_go_to_the_next(catalogue: Catalogue) -> None:
    catalogue.unregister(POD)
    catalogue.unregister(PYTORCH_JOB)
    assert catalogue.find("po") is VOLCANO_JOB
    assert catalogue.find("pytorchjobs.kubeflow.org") is OLD_PYTORCH_JOB
    with pytest.raises(NotFound):
        catalogue.find("pods")
    catalogue.unregister(POD)
    assert POD not in list(catalogue)


@pytest.mark.parametrize(
    ("api_version", "kind", "complaint"),
    [
        ("v1", "pod", 'no kind "pod" ("v1"); did you mean "Pod"?'),
        ("v1", "PyTorchJob", 'in "v1"; this cluster has it in kubeflow.org/v1, kubeflow.org/v1beta1'),
        ("v1", "Posse", 'this cluster has no kind "Posse" ("v1")'),
        ("v1", "Quux", 'this cluster has no kind "Quux" ("v1")'),
        ("", "", 'this cluster has no kind "" ("")'),
    ],
)  # fmt: skip
def test_an_unknown_kind_says_what_there_is(catalogue: Catalogue, api_version: str, kind: str, complaint: str) -> None:
    with pytest.raises(NotFound) as caught:
        catalogue.of_object({"apiVersion": api_version, "kind": kind})
    assert caught.value.message.endswith(complaint)


def test_by_what_stands_in_an_object_or_a_url(catalogue: Catalogue) -> None:
    assert catalogue.of("batch/v1", "Job") is JOB
    assert catalogue.of_object({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}) is VOLCANO_JOB
    assert catalogue.find_resource("", "v1", "pods") is POD
    assert catalogue.find_resource("kubeflow.org", "v1beta1", "pytorchjobs") is OLD_PYTORCH_JOB
    with pytest.raises(NotFound, match="could not find the requested resource"):
        catalogue.find_resource("", "v2", "pods")


def test_in_whichever_version(catalogue: Catalogue) -> None:
    found = catalogue.of_resource("pytorchjobs.kubeflow.org")
    assert found in (PYTORCH_JOB, OLD_PYTORCH_JOB)
    assert catalogue.in_group("kubeflow.org", "PyTorchJob") is found
    assert catalogue.of_resource("pods") is POD
    assert catalogue.of_resource("nothing") is None
    assert catalogue.in_group("batch", "Pod") is None


def test_a_kind_may_be_registered_while_one_goes_through_them(catalogue: Catalogue) -> None:
    for _ in catalogue:
        catalogue.register(PT)
    assert catalogue.find("pts") is PT
