"""Events are stored as in Kubernetes, and counted instead of repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import EventExpiry
from muster.kube.builtin import EVENT, new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, name_of

POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"},
}
NODE: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        yield cluster


async def stored(cluster: EmbeddedCluster) -> list[Object]:
    return (await cluster.list(EVENT)).items


async def test_an_event_names_the_object_and_what_happened(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "kubelet")
    recorder.event(POD, "Warning", "BackOff", "restarting a failed container")
    await recorder.flush()
    (event,) = await stored(cluster)
    assert event["involvedObject"]["name"] == "p"
    assert event["involvedObject"]["uid"] == "u"
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "BackOff", 1)
    assert event["source"]["component"] == "kubelet"
    assert name_of(event).startswith("p.")


async def test_the_same_again_is_counted(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "kubelet")
    for _ in range(3):
        recorder.event(POD, "Normal", "Pulled", "x")
    await recorder.flush()
    recorder.event(POD, "Normal", "Pulled", "x")
    recorder.event(POD, "Normal", "Pulled", "y")
    await recorder.flush()
    assert sorted((e["message"], e["count"]) for e in await stored(cluster)) == [("x", 4), ("y", 1)]


async def test_an_expired_event_is_stored_again(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "kubelet")
    recorder.event(POD, "Normal", "Pulled", "x")
    await recorder.flush()
    later = datetime.now(UTC) + timedelta(hours=25)
    assert await EventExpiry(cluster).delete_expired(later) == 1
    recorder.event(POD, "Normal", "Pulled", "x")
    await recorder.flush()
    (event,) = await stored(cluster)
    assert event["count"] == 2


async def test_of_too_many_events_the_oldest_go(cluster: EmbeddedCluster) -> None:
    about = {"kind": "Pod", "name": "x", "namespace": "default"}
    for second in (3, 1, 4, 2):
        time = f"2026-01-01T00:00:0{second}Z"
        metadata = {"name": f"e{second}", "namespace": "default"}
        head = {"apiVersion": "v1", "kind": "Event", "metadata": metadata}
        await cluster.create({**head, "involvedObject": about, "firstTimestamp": time, "lastTimestamp": time})
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert await EventExpiry(cluster, most=2).delete_expired(now) == 2
    assert [name_of(event) for event in (await cluster.list(EVENT)).items] == ["e3", "e4"]


async def test_events_of_a_cluster_scoped_object_are_in_default(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "node-agent")
    recorder.event(NODE, "Normal", "Starting", "x")
    await recorder.flush()
    assert [e["metadata"]["namespace"] for e in await stored(cluster)] == ["default"]


async def test_a_namespace_that_is_gone_stops_nobody(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "kubelet")
    recorder.event({**POD, "metadata": {"name": "p", "namespace": "gone", "uid": "u"}}, "Normal", "Pulled", "x")
    await recorder.flush()
    assert await stored(cluster) == []


async def test_messages_that_differ_every_time_become_one_event(cluster: EmbeddedCluster) -> None:
    recorder = EventRecorder(cluster, "kubelet")
    for number in range(100):
        recorder.event(POD, "Warning", "Unhealthy", f"probe failed: {number}" + "x" * 5000)
        recorder.event(NODE, "Normal", "Created", f"node {number}")
    recorder.event(POD, "Warning", "BackOff", "another reason")
    await recorder.flush()
    found = [e for e in await stored(cluster) if e["reason"] == "Unhealthy"]
    assert len(found) == 11
    assert {e["count"] for e in found if "combined" in e["message"]} == {90}
    assert max(len(e["message"]) for e in found) <= 1024
    assert len(await stored(cluster)) == 11 + 100 + 1
