"""Settings that are YAML inside of an object, and are read on the event loop of all members: the patch of a Pod, and
the artifact repositories and the object stores of a namespace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.manifests import MAX_SETTING, ManifestError, parse_setting
from muster.kube.objects import Object
from muster.pipelines.object_stores import read_object_stores
from muster.pipelines.spec import PipelineError
from muster.workflows.artifacts.client import find_repository
from muster.workflows.artifacts.locations import ArtifactError
from muster.workflows.executors.pod_spec import CannotRun, build_pod
from tests.workflows.executors.test_pod_spec import CONTAINER, WORKFLOW, launch


def _levels(write: str) -> str:
    """Each of nine levels has the one before ten times."""
    levels = ["l0: &l0 {a: x}"]
    for number in range(1, 10):
        below = [write.format(place=place, below=f"*l{number - 1}") for place in range(10)]
        levels.append(f"l{number}: &l{number} " + ("{%s}" if ":" in write else "[%s]") % ", ".join(below))
    return "\n".join(levels)


TEXTS = {
    "mappings that stand for a billion values": _levels("k{place}: {below}"),
    "lists that stand for a billion values": _levels("{below}"),
    "a megabyte of values": "".join(f"k{number}: [a, b, c]\n" for number in range(50_000)),
    "a megabyte in one value": f"a: {'x' * 1_000_000}",
    "a megabyte of comments": "#\n" * 500_000 + "a: b",
    "brackets without end": "a: " + "[" * 30_000,
    "an alias of itself": "a: &a {b: *a}",
}
texts = pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))


@texts
@pytest.mark.parametrize("of_workflow", [True, False], ids=["of the workflow", "of a template"])
def test_a_patch_of_a_pod_that_takes_too_long(text: str, of_workflow: bool) -> None:
    """The podSpecPatch of a member stops the server for seconds, or for ever"""
    template: dict[str, Any] = CONTAINER if of_workflow else {**CONTAINER, "podSpecPatch": text}
    wanted = replace(launch(template), spec_patch=text if of_workflow else "")
    with pytest.raises(CannotRun, match="PodSpecPatch") as refused:
        build_pod(WORKFLOW, {}, wanted)
    assert "\n" not in str(refused.value), "it is the message of a node"


@texts
async def test_a_repository_that_takes_too_long(tmp_path: Path, text: str) -> None:
    """A ConfigMap of a member with an artifact repository stops the server for seconds, at each use"""
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        await cluster.create({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"r": text},
        })  # fmt: skip
        spec = {"artifactRepositoryRef": {"configMap": "mine", "key": "r"}}
        workflow: Object = {"metadata": {"name": "w", "namespace": "default"}, "spec": spec}
        with pytest.raises(ArtifactError, match='ConfigMap "mine", key "r"'):
            await find_repository(cluster, workflow)


@texts
def test_object_stores_that_take_too_long(text: str) -> None:
    """The ConfigMap kfp-launcher of a member stops the server for seconds, at each run of a pipeline"""
    with pytest.raises(PipelineError, match="providers"):
        read_object_stores({"providers": text})


def test_settings_of_the_usual_kind() -> None:
    """(for comparison) aliases, JSON, and a text of the greatest size are read"""
    assert parse_setting("a: &x [1]\nb: *x", "x") == {"a": [1], "b": [1]}
    assert parse_setting('{"a":\t1}', "x") == {"a": 1}
    assert [parse_setting(text, "x") for text in ("", "# nothing", "text")] == [None, None, "text"]
    assert parse_setting("a: " + "b" * (MAX_SETTING - 3), "x")["a"]
    with pytest.raises(ManifestError, match="at most 32,768"):
        parse_setting("a: " + "b" * MAX_SETTING, "x")
