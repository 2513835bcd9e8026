"""Deletion: grace periods, finalizers and preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.errors import (
    Conflict,
    Invalid,
    NotFound,
)
from muster.kube.kinds import Kind
from muster.kube.objects import key_of, meta, uid_of, version_of
from tests.embedded.samples import config_map, pod


async def test_deleting(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(config_map())
    with pytest.raises(Conflict):
        await cluster.delete(CONFIG_MAP, "c", uid="other")
    with pytest.raises(Conflict):
        await cluster.delete(CONFIG_MAP, "c", resource_version="1")
    gone = await cluster.delete(CONFIG_MAP, "c", uid=uid_of(made), resource_version=version_of(made))
    assert uid_of(gone) == uid_of(made)
    assert int(version_of(gone)) > int(version_of(made))
    with pytest.raises(NotFound):
        await cluster.delete(CONFIG_MAP, "c")
    again = await cluster.create(config_map())
    assert uid_of(again) != uid_of(made)


async def test_a_finalizer_holds_an_object_until_it_is_taken_away(cluster: EmbeddedCluster) -> None:
    given = config_map()
    given["metadata"]["finalizers"] = ["x.dev/hold"]
    await cluster.create(given)
    held = await cluster.delete(CONFIG_MAP, "c")
    assert meta(held)["deletionTimestamp"]
    assert await cluster.delete(CONFIG_MAP, "c") is held
    with pytest.raises(Invalid, match="no new finalizers"):
        await cluster.patch(CONFIG_MAP, "c", "", {"metadata": {"finalizers": ["x.dev/hold", "x.dev/more"]}})
    changed = await cluster.patch(CONFIG_MAP, "c", "", {"data": {"still": "editable"}})
    assert meta(changed)["deletionTimestamp"] == meta(held)["deletionTimestamp"]
    last = await cluster.patch(CONFIG_MAP, "c", "", {"metadata": {"finalizers": None}})
    assert last["data"] == {"still": "editable"}
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAP, "c")
    types = [e.type for e in await taken(cluster, CONFIG_MAP, 4)]
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_watchers_see_when_a_pod_was_deleted_that_does_not_run(cluster: EmbeddedCluster) -> None:
    await cluster.create(pod())
    gone = await cluster.delete(POD, "p")
    assert meta(gone)["deletionTimestamp"] and meta(gone)["deletionGracePeriodSeconds"] == 0
    assert meta((await taken(cluster, POD, 2))[-1].object)["deletionTimestamp"] == meta(gone)["deletionTimestamp"]


async def taken(cluster: EmbeddedCluster, kind: Kind, count: int) -> list[Any]:
    found = []
    async for event in cluster.watch(kind, resource_version="1"):
        found.append(event)
        if len(found) == count:
            break
    return found


async def test_a_running_pod_is_deleted_by_its_node(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(pod(terminationGracePeriodSeconds=7))
    await cluster.bind([(key_of(made), uid_of(made), "n")])
    leaving = await cluster.delete(POD, "p")
    assert meta(leaving)["deletionGracePeriodSeconds"] == 7
    assert await cluster.get(POD, "p") is leaving
    await cluster.delete(POD, "p", grace_seconds=0)
    with pytest.raises(NotFound):
        await cluster.get(POD, "p")


async def test_a_pod_that_never_ran_is_removed_at_once(cluster: EmbeddedCluster) -> None:
    await cluster.create(pod())
    await cluster.delete(POD, "p")
    with pytest.raises(NotFound):
        await cluster.get(POD, "p")
