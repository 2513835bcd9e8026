"""Events of events.k8s.io/v1 and of the core group are the same objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import EVENT, NEWER_EVENT
from muster.kube.errors import BadRequest, Invalid, NotFound
from muster.kube.event_versions import from_core_event, to_core_event
from muster.kube.objects import Object
from muster.kube.tables import format_cell
from tests.embedded.samples import pod

TIME = "2026-07-01T12:00:00.000000Z"


def newer(name: str = "e", **fields: Any) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": TIME,
        "reportingController": "muster.dev/test",
        "reportingInstance": "here",
        "action": "Do",
        "reason": "Done",
        "type": "Normal",
        "note": "it is done",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        **fields,
    }


def test_nothing_is_lost_on_the_way_there_and_back() -> None:
    event = newer(series={"count": 2, "lastObservedTime": TIME}, deprecatedCount=3, deprecatedSource={"component": "c"})
    assert from_core_event(to_core_event(event)) == event
    assert to_core_event(event)["involvedObject"]["name"] == "p"
    assert to_core_event(event)["count"] == 3
    assert from_core_event({"apiVersion": "v1", "message": "m"})["eventTime"] is None


def test_both_groups_have_the_same_table() -> None:
    event, now = newer(regarding={"kind": "Pod", "name": "p", "fieldPath": "spec"}), datetime(2026, 7, 2, tzinfo=UTC)
    shown = [format_cell(column, event, now) for column in NEWER_EVENT.columns]
    assert shown == [format_cell(column, to_core_event(event), now) for column in EVENT.columns]
    assert {"pod/p", "it is done", "spec"} <= set(shown)


async def test_both_groups_show_and_change_the_same_events(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(newer())
    assert made["apiVersion"] == "events.k8s.io/v1"
    core = await cluster.get(EVENT, "e", "default")
    assert (core["apiVersion"], core["message"], core["reportingComponent"]) == ("v1", "it is done", "muster.dev/test")
    await cluster.patch(EVENT, "e", "default", {"message": "again", "count": 2})
    assert (await cluster.get(NEWER_EVENT, "e", "default"))["note"] == "again"

    patched = await cluster.patch(NEWER_EVENT, "e", "default", {"series": {"count": 2, "lastObservedTime": TIME}})
    assert (patched["note"], patched["series"]["count"]) == ("again", 2)
    updated = await cluster.update({**patched, "note": "third"})
    assert (updated["apiVersion"], updated["note"], updated["deprecatedCount"]) == ("events.k8s.io/v1", "third", 2)
    assert (await cluster.get(EVENT, "e", "default"))["message"] == "third"

    await cluster.create({**to_core_event(newer("old")), "eventTime": None, "count": 1})
    await cluster.patch(NEWER_EVENT, "old", "default", {"note": "changed"})
    assert (await cluster.get(EVENT, "old", "default"))["message"] == "changed"

    await cluster.delete(NEWER_EVENT, "e", "default")
    with pytest.raises(NotFound):
        await cluster.get(EVENT, "e", "default")


async def test_selectors_and_watches_use_the_names_of_the_group(cluster: EmbeddedCluster) -> None:
    await cluster.create(pod())
    await cluster.create(newer("a"))
    await cluster.create(newer("b", regarding={"kind": "Pod", "namespace": "default", "name": "q"}))
    found = await cluster.list(NEWER_EVENT, "default", fields="regarding.name=q,reportingController=muster.dev/test")
    assert [event["metadata"]["name"] for event in found.items] == ["b"]
    for source, names in (("muster.dev/test", ["a", "b"]), ("other", [])):
        core = await cluster.list(EVENT, "default", fields=f"source={source}")
        assert [event["metadata"]["name"] for event in core.items] == names, "who reports it, if there is no source"
    with pytest.raises(BadRequest, match=r"involvedObject\.name"):
        await cluster.list(NEWER_EVENT, fields="involvedObject.name=q")

    watch = cluster.watch(NEWER_EVENT, "default", resource_version=found.resource_version)
    change = asyncio.ensure_future(anext(watch))
    await cluster.patch(EVENT, "a", "default", {"message": "seen"})
    event = await asyncio.wait_for(change, 10)
    assert (event.type, event.object["note"], event.object["apiVersion"]) == ("MODIFIED", "seen", "events.k8s.io/v1")
    assert isinstance(watch, AsyncGenerator)
    await watch.aclose()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"action": ""}, "action"),
        ({"type": "Odd"}, "type"),
        ({"note": "x" * 1025}, "note"),
        ({"message": "of the core group"}, "message"),
    ],
)
async def test_the_rules_of_the_newer_group(cluster: EmbeddedCluster, fields: Object, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        await cluster.create(newer(**fields))
