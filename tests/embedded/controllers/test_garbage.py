from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import (
    DependentPlan,
    GarbageCollector,
    OwnerState,
    blocks_deletion,
    plan_dependent,
)
from muster.kube.builtin import CONFIG_MAP, NODE, POD, new_catalogue
from muster.kube.cluster import Propagation
from muster.kube.errors import NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, key_of, meta, name_of, owner_reference, uid_of, version_of


def ref(name: str, **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}", **more}


@pytest.mark.parametrize(
    ("states", "finalizers", "has_dependents", "expected"),
    [
        ([], [], False, (None, [])),
        (["present"], [], False, (None, ["0"])),
        (["present", "gone"], [], False, (None, ["0"])),
        (["leaving", "present"], [], True, (None, ["1"])),
        (["gone"], [], True, ("Background", ["0"])),
        (["gone", "gone"], [], False, ("Background", ["0", "1"])),
        (["gone"], ["orphan"], True, ("Orphan", ["0"])),
        (["gone"], ["foregroundDeletion"], False, ("Foreground", ["0"])),
        (["leaving"], [], False, ("Background", ["0"])),
        (["leaving"], [], True, ("Foreground", ["0"])),
        (["leaving", "gone"], [], True, ("Foreground", ["0", "1"])),
    ],
)
def test_an_object_lives_as_long_as_one_of_its_owners(
    states: list[OwnerState],
    finalizers: list[str],
    has_dependents: bool,
    expected: tuple[Propagation | None, list[str]],
) -> None:
    owners = [ref(str(number)) for number in range(len(states))]
    obj = {"metadata": {"name": "x", "ownerReferences": owners, "finalizers": finalizers}}
    delete, kept = expected
    assert plan_dependent(obj, states, has_dependents) == DependentPlan(delete, [ref(name) for name in kept])


def test_which_dependents_block_an_owner() -> None:
    obj = {"metadata": {"ownerReferences": [ref("a", blockOwnerDeletion=True), ref("b")]}}
    assert blocks_deletion(obj, "uid-a")
    assert not blocks_deletion(obj, "uid-b")
    assert not blocks_deletion(obj, "uid-c")


async def make(cluster: EmbeddedCluster, name: str, *owners: Object, finalizers: tuple[str, ...] = ()) -> Object:
    metadata = {
        "name": name,
        "namespace": "default",
        "finalizers": list(finalizers),
        "ownerReferences": [owner_reference(owner, controller=False) for owner in owners],
    }
    return await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def until_left(cluster: EmbeddedCluster, *names: str) -> None:
    """Waits until exactly these exist. Fails at the timeout of the test."""
    if {name_of(o) for o in (await cluster.list(CONFIG_MAP)).items} == set(names):
        return
    async for _ in cluster.watch(CONFIG_MAP):
        if {name_of(o) for o in (await cluster.list(CONFIG_MAP)).items} == set(names):
            return


async def idle(cluster: EmbeddedCluster) -> None:
    """Waits until the controllers cause no more commits."""
    while True:
        before = cluster.store.version
        for _ in range(20):
            await asyncio.sleep(0)
        await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"generateName": "x-"}})
        if cluster.store.version == before + 1:
            return


async def test_dependents_follow_their_owner_through_all_generations(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    child = await make(tidy_cluster, "child", owner)
    await make(tidy_cluster, "grandchild", child)
    await make(tidy_cluster, "bystander")
    await tidy_cluster.delete(CONFIG_MAP, "owner")
    await until_left(tidy_cluster, "bystander")


async def test_a_second_owner_keeps_a_dependent_and_the_lost_one_is_struck_off(tidy_cluster: EmbeddedCluster) -> None:
    one, two = await make(tidy_cluster, "one"), await make(tidy_cluster, "two")
    await make(tidy_cluster, "child", one, two)
    await tidy_cluster.delete(CONFIG_MAP, "one")
    async for event in tidy_cluster.watch(CONFIG_MAP, fields="metadata.name=child"):
        if [r["name"] for r in meta(event.object)["ownerReferences"]] == ["two"]:
            break
    await tidy_cluster.delete(CONFIG_MAP, "two")
    await until_left(tidy_cluster)


async def test_an_owner_of_the_same_name_is_not_the_owner(tidy_cluster: EmbeddedCluster) -> None:
    impostor = await make(tidy_cluster, "owner")
    real = {**impostor, "metadata": {**meta(impostor), "uid": "of-one-that-was-here-before"}}
    await make(tidy_cluster, "child", real)
    await until_left(tidy_cluster, "owner")


async def test_a_dependent_created_after_its_owner_was_deleted_is_deleted(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    await tidy_cluster.delete(CONFIG_MAP, "owner")
    await make(tidy_cluster, "late", owner)
    await until_left(tidy_cluster)


async def test_orphans_stay_and_forget_their_owner(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    await make(tidy_cluster, "child", owner)
    await tidy_cluster.delete(CONFIG_MAP, "owner", propagation="Orphan")
    await until_left(tidy_cluster, "child")
    assert "ownerReferences" not in meta(await tidy_cluster.get(CONFIG_MAP, "child"))


async def test_foreground_deletion_removes_the_owner_last(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    child = await make(tidy_cluster, "child", owner, finalizers=("x.dev/hold",))
    await make(tidy_cluster, "grandchild", child)
    leaving = await tidy_cluster.delete(CONFIG_MAP, "owner", propagation="Foreground")
    assert meta(leaving)["finalizers"] == ["foregroundDeletion"]
    await until_left(tidy_cluster, "owner", "child")
    held = await tidy_cluster.get(CONFIG_MAP, "child")
    assert meta(held)["deletionTimestamp"]
    await idle(tidy_cluster)
    assert meta(await tidy_cluster.get(CONFIG_MAP, "owner"))["deletionTimestamp"]
    await tidy_cluster.patch(CONFIG_MAP, "child", "", {"metadata": {"finalizers": None}})
    await until_left(tidy_cluster)


async def test_a_dependent_that_does_not_block_is_not_waited_for(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    reference = owner_reference(owner, block_deletion=False)
    metadata = {"name": "child", "ownerReferences": [reference], "finalizers": ["x.dev/hold"]}
    await tidy_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await tidy_cluster.delete(CONFIG_MAP, "owner", propagation="Foreground")
    await until_left(tidy_cluster, "child")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("length", [1, 2, 3, 7])
async def test_a_cycle_of_owners_is_deleted_with_one_of_them(
    tidy_cluster: EmbeddedCluster, length: int, propagation: Propagation
) -> None:
    crew = tidy_cluster.catalogue.register(Kind("x.dev", "v1", "Crew", "crews"))
    ring = [
        await tidy_cluster.create({"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": f"r{number}"}})
        for number in range(length)
    ]
    for number, member in enumerate(ring):
        owner = owner_reference(ring[number - 1], controller=False)
        await tidy_cluster.patch(crew, name_of(member), "", {"metadata": {"ownerReferences": [owner]}})
    await idle(tidy_cluster)
    assert len((await tidy_cluster.list(crew)).items) == length
    await tidy_cluster.delete(crew, "r0", propagation=propagation)
    async for _ in tidy_cluster.watch(crew, resource_version=version_of(ring[0])):
        if not (await tidy_cluster.list(crew)).items:
            break


async def test_owners_that_cannot_be_looked_up_keep_their_dependents(tidy_cluster: EmbeddedCluster) -> None:
    """The kind may be registered later, and a cluster-scoped object has no namespace for its owner."""
    unknown = {"apiVersion": "x.dev/v1", "kind": "Crew", "name": "c", "uid": "u"}
    metadata = {"name": "of-a-crew", "ownerReferences": [unknown]}
    await tidy_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    namespaced = ref("somewhere")
    await tidy_cluster.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "ownerReferences": [namespaced]}}
    )
    await idle(tidy_cluster)
    await until_left(tidy_cluster, "of-a-crew")
    assert await tidy_cluster.get(NODE, "n")


async def test_an_owner_in_another_namespace_is_none(tidy_cluster: EmbeddedCluster) -> None:
    await tidy_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    owner = await tidy_cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "other"}}
    )
    await make(tidy_cluster, "child", owner)
    await until_left(tidy_cluster, "owner")


async def test_a_cluster_scoped_owner_is_found_from_any_namespace(tidy_cluster: EmbeddedCluster) -> None:
    node = await tidy_cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    await make(tidy_cluster, "child", node)
    await idle(tidy_cluster)
    await until_left(tidy_cluster, "child")
    await tidy_cluster.delete(NODE, "n")
    await until_left(tidy_cluster)


async def test_pods_of_a_deleted_owner_get_their_grace(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    container = {"name": "c", "image": "i", "command": ["true"]}
    metadata = {"name": "p", "ownerReferences": [owner_reference(owner)]}
    spec = {"containers": [container]}
    pod = await tidy_cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await tidy_cluster.bind([(key_of(pod), uid_of(pod), "n")])
    await tidy_cluster.delete(CONFIG_MAP, "owner")
    async for event in tidy_cluster.watch(POD):
        if meta(event.object).get("deletionTimestamp"):
            break
    assert meta(await tidy_cluster.get(POD, "p"))["deletionGracePeriodSeconds"] == 30


async def test_a_thousand_dependents_are_deleted(tidy_cluster: EmbeddedCluster) -> None:
    owner = await make(tidy_cluster, "owner")
    await asyncio.gather(*(make(tidy_cluster, f"child-{number}", owner) for number in range(1000)))
    await tidy_cluster.delete(CONFIG_MAP, "owner")
    await until_left(tidy_cluster)


async def test_unfinished_deletions_continue_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        for name in ("background", "foreground", "orphaned"):
            owner = await make(cluster, name)
            await make(cluster, f"child-of-{name}", owner)
        await cluster.delete(CONFIG_MAP, "background")
        await cluster.delete(CONFIG_MAP, "foreground", propagation="Foreground")
        await cluster.delete(CONFIG_MAP, "orphaned", propagation="Orphan")
        assert len((await cluster.list(CONFIG_MAP)).items) == 5
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        collecting = asyncio.create_task(GarbageCollector(cluster).run())
        await until_left(cluster, "child-of-orphaned")
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
        with pytest.raises(NotFound):
            await cluster.get(CONFIG_MAP, "foreground")
