from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing
from muster.workflows.cleanup import collect_garbage, is_clean, needs_finalizer
from muster.workflows.model import Node
from tests.workflows.artifacts.conftest import SCOPE, WORKFLOW, Shop


async def test_the_box_has_a_repository_of_its_own(shop: Shop) -> None:
    kept = await shop.artifacts.save(WORKFLOW, {"name": "m", "path": "/x/m.txt"}, shop.file("model"), SCOPE)
    assert kept == {"name": "m", "path": "/x/m.txt", "s3": {"key": "wf/wf-a/m.tgz"}}
    assert (await shop.fetched(kept)).read_text() == "model"
    assert await shop.artifacts.keys(WORKFLOW, {"s3": {"key": ""}}) == ["wf/wf-a/m.tgz"]
    before = await shop.read(kept)
    await shop.artifacts.save(WORKFLOW, {"name": "m", "path": "/x/m.txt"}, shop.file("model"), SCOPE)
    assert await shop.read(kept) == before
    assert not any((shop.home / "workflows/passing").iterdir())


def test_what_the_last_server_left_in_transit_is_removed(shop: Shop) -> None:
    shop.file("x", "workflows/passing/left/packed")
    artifacts = ArtifactClient(shop.cluster, shop.home / "workflows")
    shop.file("x", "workflows/passing/new/packed")
    artifacts.sweep()
    assert [path.name for path in (shop.home / "workflows/passing").iterdir()] == ["new"]


async def test_each_namespace_has_its_own(shop: Shop) -> None:
    kept = await shop.artifacts.save(WORKFLOW, {"name": "m", "path": "/m"}, shop.file("model"), SCOPE)
    other = {**WORKFLOW, "metadata": {"name": "wf", "namespace": "other"}}
    with pytest.raises(ArtifactMissing):
        await shop.fetched(kept, other)


async def test_a_key_of_ones_own_is_used_as_it_is(shop: Shop) -> None:
    artifact = {"name": "m", "path": "/m", "archive": {"none": {}}, "s3": {"key": "my/key.txt"}}
    assert await shop.artifacts.save(WORKFLOW, artifact, shop.file("model"), SCOPE) == artifact
    assert await shop.read(artifact) == b"model"


@pytest.mark.parametrize("key", ["../x", "a/../../x", "", "a/.coming-x/b"])
async def test_a_key_cannot_lead_out_of_the_repository(shop: Shop, key: str) -> None:
    artifact = {"name": "m", "path": "/m", "s3": {"key": key}}
    with pytest.raises(ArtifactError):
        await shop.fetched(artifact)


async def test_one_key_cannot_be_inside_another(shop: Shop) -> None:
    plain = {"name": "m", "path": "/m", "archive": {"none": {}}}
    await shop.artifacts.save(WORKFLOW, {**plain, "s3": {"key": "a"}}, shop.file("1"), SCOPE)
    with pytest.raises(ArtifactError):
        await shop.artifacts.save(WORKFLOW, {**plain, "s3": {"key": "a/b"}}, shop.file("2"), SCOPE)
    assert await shop.read({"s3": {"key": "a"}}) == b"1"
    await shop.artifacts.save(WORKFLOW, {**plain, "s3": {"key": "c/d"}}, shop.file("3"), SCOPE)
    with pytest.raises(ArtifactError):
        await shop.artifacts.save(WORKFLOW, {**plain, "s3": {"key": "c"}}, shop.file("4"), SCOPE)
    assert await shop.read({"s3": {"key": "c/d"}}) == b"3"


async def test_modes_are_set(shop: Shop) -> None:
    artifact: dict[str, Any] = {"name": "m", "mode": 0o750, "raw": {"data": "x"}}
    assert (await shop.fetched(artifact)).stat().st_mode & 0o777 == 0o750
    shop.file("x", "tree/deep/f")
    kept = await shop.artifacts.save(WORKFLOW, {"name": "t", "path": "/t"}, shop.home / "tree", SCOPE)
    folder = await shop.fetched({**kept, "mode": 0o700, "recurseMode": True})
    assert (folder / "deep/f").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("artifact", "message"),
    [
        ({"hdfs": {"addresses": ["h:1"], "path": "/p"}}, "webhdfs"),
        ({"plugin": {"name": "p", "configuration": "c", "key": "k"}}, "plugins are not supported"),
        ({"oss": {"bucket": "b", "endpoint": "e", "key": "k", "lifecycleRule": {"x": 1}}}, "oss.lifecycleRule"),
    ],
)
async def test_what_is_not_supported_says_what_to_do(shop: Shop, artifact: dict[str, Any], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        await shop.fetched({"name": "a", **artifact})


async def test_a_repository_may_be_named(shop: Shop) -> None:
    await shop.config_map("mine", logs="archiveLogs: true", bad="- x")
    for ref, found in (({"key": "logs"}, True), ({"key": "bad"}, None), ({"key": "none"}, None)):
        workflow = {**WORKFLOW, "spec": {"artifactRepositoryRef": {"configMap": "mine", **ref}}}
        if found is None:
            with pytest.raises(ArtifactError, match="mine"):
                await shop.artifacts.repository(workflow)
        else:
            assert await shop.artifacts.repository(workflow) == {"s3": {}, "archiveLogs": True}
            assert await shop.artifacts.repository_status(workflow) == {
                "configMap": "mine",
                "key": "logs",
                "namespace": "default",
                "artifactRepository": {"s3": {}, "archiveLogs": True},
            }


def node(name: str, *artifacts: dict[str, Any]) -> Node:
    return Node(id=name, name=name, type="Pod", outputs={"artifacts": list(artifacts)})


def test_a_template_that_a_template_ref_leads_to_can_ask_for_collection() -> None:
    def with_stored(strategy: str) -> dict[str, Any]:
        artifact = {"name": "a", "path": "/a", "artifactGC": {"strategy": strategy}}
        return {**WORKFLOW, "status": {"storedTemplates": {"namespaced/t/x": {"outputs": {"artifacts": [artifact]}}}}}

    assert needs_finalizer(with_stored("OnWorkflowDeletion"))
    assert not needs_finalizer(with_stored("Never"))


async def test_garbage_is_collected_by_strategy(shop: Shop) -> None:
    workflow = {**WORKFLOW, "spec": {"artifactGC": {"strategy": "OnWorkflowDeletion"}}}
    wishes: dict[str, dict[str, Any]] = {
        "by-workflow": {},
        "at-end": {"artifactGC": {"strategy": "OnWorkflowCompletion"}},
        "never": {"artifactGC": {"strategy": "Never"}},
    }
    nodes = {}
    for name, wish in wishes.items():
        artifact = {"name": name, "path": "/x", **wish}
        nodes[name] = node(name, await shop.artifacts.save(workflow, artifact, shop.file(name), SCOPE))
    assert needs_finalizer(workflow)

    async def left() -> list[str]:
        keys = await shop.artifacts.keys(workflow, {"s3": {"key": ""}})
        return sorted(key.rpartition("/")[2].removesuffix(".tgz") for key in keys)

    done = await collect_garbage(shop.artifacts, workflow, nodes, "OnWorkflowCompletion")
    assert done.problems == []
    assert await left() == ["by-workflow", "never"]
    assert done.nodes["at-end"]["outputs"]["artifacts"][0]["deleted"] is True
    nodes |= done.nodes
    assert not is_clean(workflow, nodes)
    done = await collect_garbage(shop.artifacts, workflow, nodes, "OnWorkflowDeletion")
    assert await left() == ["never"]
    assert is_clean(workflow, nodes | done.nodes)


async def test_what_cannot_be_deleted_is_told_and_tried_again(shop: Shop) -> None:
    workflow = {**WORKFLOW, "spec": {"artifactGC": {"strategy": "OnWorkflowCompletion"}}}
    nodes = {"a": node("a", {"name": "m", "raw": {"data": "x"}})}
    done = await collect_garbage(shop.artifacts, workflow, nodes, "OnWorkflowCompletion")
    assert done.nodes == {}
    assert done.problems == ["artifact m of node a was not deleted: raw artifacts cannot be deleted"]
