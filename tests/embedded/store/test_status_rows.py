"""Status rows: clients see the whole map, the store has one row per entry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.errors import Conflict, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, uid_of, version_of
from muster.kube.schema import OBJECT_META

FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": OBJECT_META,
        "spec": FREE,
        "status": FREE,
    },
}
TREE = Kind("example.com", "v1", "Tree", "trees", schema=SCHEMA, has_status=False, stored_as_rows=("status", "leaves"))


def tree(leaves: dict[str, Any] | None = None, **status: Any) -> Object:
    made: Object = {
        "apiVersion": TREE.api_version,
        "kind": "Tree",
        "metadata": {"name": "oak", "namespace": "default"},
        "spec": {"height": 3},
    }
    if leaves is not None or status:
        made["status"] = {**status, **({"leaves": leaves} if leaves is not None else {})}
    return made


@pytest.fixture
def cluster(cluster: EmbeddedCluster) -> EmbeddedCluster:
    cluster.catalogue.register(TREE)
    return cluster


async def test_the_map_is_taken_off_and_put_back(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(tree({"a": {"n": 1}, "b": {"n": 2}}, season="spring"))
    assert made["status"] == {"season": "spring"}
    assert cluster.with_status_rows(made)["status"] == {"season": "spring", "leaves": {"a": {"n": 1}, "b": {"n": 2}}}


async def test_a_write_without_the_map_leaves_it_and_one_with_it_replaces_it(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(tree({"a": {"n": 1}, "b": {"n": 2}}))
    changed = await cluster.update({**made, "status": {"season": "autumn"}})
    assert cluster.status_rows(TREE, uid_of(made)) == {"a": {"n": 1}, "b": {"n": 2}}
    await cluster.update({**changed, "status": {"leaves": {"b": {"n": 3}}}})
    assert cluster.status_rows(TREE, uid_of(made)) == {"b": {"n": 3}}


@pytest.mark.parametrize(
    ("type", "patch", "leaves"),
    [
        ("merge", {"status": {"leaves": {"a": {"n": 5}}}}, {"a": {"n": 5}, "b": {"n": 2}}),
        ("merge", {"status": {"leaves": {"a": None}}}, {"b": {"n": 2}}),
        ("json", [{"op": "replace", "path": "/status/leaves/a/n", "value": 5}], {"a": {"n": 5}, "b": {"n": 2}}),
        ("merge", {"metadata": {"labels": {"x": "y"}}}, {"a": {"n": 1}, "b": {"n": 2}}),
    ],
)
async def test_a_patch_applies_to_the_whole_object(
    cluster: EmbeddedCluster, type: Any, patch: Any, leaves: dict[str, Any]
) -> None:
    made = await cluster.create(tree({"a": {"n": 1}, "b": {"n": 2}}))
    await cluster.patch(TREE, "oak", "default", patch, type=type)
    assert cluster.status_rows(TREE, uid_of(made)) == leaves


async def test_entries_are_written_one_by_one_with_the_object_or_without(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(tree({"a": {"n": 1}}))
    same = await cluster.write_status_rows(TREE, made, {"b": {"n": 2}})
    assert version_of(same) == version_of(made)
    after = await cluster.write_status_rows(
        TREE, made, {"a": {"n": 9}}, update={**made, "status": {"season": "summer"}}
    )
    assert after["status"] == {"season": "summer"}
    assert cluster.status_rows(TREE, uid_of(made)) == {"a": {"n": 9}, "b": {"n": 2}}
    with pytest.raises(Conflict):
        await cluster.write_status_rows(TREE, made, {"a": {"n": 10}})
    assert cluster.status_rows(TREE, uid_of(made))["a"] == {"n": 9}


async def test_a_writer_of_rows_can_rebase_on_a_concurrent_change(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(tree({"a": {"n": 1}}))
    changing = cluster.patch(TREE, "oak", "default", {"metadata": {"labels": {"by": "another"}}})
    seen: list[tuple[Object, dict[str, Any]]] = []

    def rebase(now: Object, parts: dict[str, Any]) -> Object | None:
        seen.append((now, parts))
        return {**now, "status": {"season": "summer"}} if parts["a"] == {"n": 1} else None

    writing = cluster.write_status_rows(TREE, made, {"b": {"n": 2}}, update={**made, "status": {}}, rebase=rebase)
    _, written = await asyncio.gather(changing, writing)
    assert [(labels_of(now), parts) for now, parts in seen] == [({"by": "another"}, {"a": {"n": 1}})]
    assert (labels_of(written), written["status"]) == ({"by": "another"}, {"season": "summer"})
    assert cluster.status_rows(TREE, uid_of(made)) == {"a": {"n": 1}, "b": {"n": 2}}
    await cluster.patch(TREE, "oak", "default", {"status": {"leaves": {"a": {"n": 5}}}})
    with pytest.raises(Conflict):
        await cluster.write_status_rows(TREE, written, {"b": {"n": 3}}, rebase=rebase)
    assert cluster.status_rows(TREE, uid_of(made))["b"] == {"n": 2}


async def test_nothing_stays_behind(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(tree({"a": {"n": 1}}))
    await cluster.delete(TREE, "oak", "default")
    assert cluster.status_rows(TREE, uid_of(made)) == {}
    with pytest.raises(NotFound):
        await cluster.write_status_rows(TREE, made, {"b": {"n": 2}})


async def test_nor_in_a_namespace_that_is_deleted(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    cluster.catalogue.register(TREE)
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wood"}})
    made = tree({"a": {"n": 1}})
    made = await cluster.create({**made, "metadata": {"name": "oak", "namespace": "wood"}})
    namespaces = cluster.catalogue.of("v1", "Namespace")
    await cluster.delete(namespaces, "wood")
    async for event in cluster.watch(namespaces, fields="metadata.name=wood"):
        if event.type == "DELETED":
            break
    assert cluster.status_rows(TREE, uid_of(made)) == {}


async def test_a_restart_loses_none(tmp_path: Path) -> None:
    for _ in range(2):
        catalogue = new_catalogue()
        catalogue.register(TREE)
        async with EmbeddedCluster(tmp_path / "same", catalogue, durability="process") as cluster:
            found = (await cluster.list(TREE)).items
            if not found:
                await cluster.create(tree({"a": {"n": 1}}))
            else:
                assert cluster.with_status_rows(found[0])["status"]["leaves"] == {"a": {"n": 1}}
