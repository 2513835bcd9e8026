"""Watches and logs, as lines and as server-sent events."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest

from muster.kube.builtin import POD
from muster.kube.cluster import WatchEvent
from muster.kube.objects import Object
from muster.server.argo.streams import latest_of_each
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.kinds import WORKFLOW
from tests.server.argo.served import Argo
from tests.server.kubernetes.served import Served

NODE: Object = {"id": "wf", "name": "wf", "type": "Pod", "phase": "Succeeded", "templateName": "main"}


async def messages(response: aiohttp.ClientResponse) -> Any:
    async for line in response.content:
        if line.strip():
            yield orjson.loads(line.removeprefix(b"data: "))


async def read(served: Served, path: str, accept: str = "", **query: str) -> list[Any]:
    """Reads the stream to its end."""
    async with (
        served.session() as session,
        session.get(f"/api/v1/{path}", params=query, headers={"accept": accept}) as r,
    ):
        assert r.status == 200, await r.text()
        return [message async for message in messages(r)]


@pytest.mark.parametrize("accept", ["", "text/event-stream"])
async def test_a_watch_starts_with_existing_workflows_and_continues(argo: Argo, accept: str) -> None:
    await argo.workflow("wf", "Running", {"wf": NODE})
    await argo.workflow("other", "Running")
    query = {"listOptions.fieldSelector": "metadata.name=wf", "listOptions.resourceVersion": "0"}
    async with (
        argo.served.session() as session,
        session.get("/api/v1/workflow-events/default", params=query, headers={"accept": accept}) as response,
    ):
        assert response.content_type == (accept or "application/json")
        stream = messages(response)
        first = (await anext(stream))["result"]
        assert (first["type"], first["object"]["status"]["nodes"]) == ("ADDED", {"wf": NODE})
        await argo.cluster.patch(WORKFLOW, "wf", "default", {"status": {"phase": "Succeeded"}})
        second = (await anext(stream))["result"]
        assert (second["type"], second["object"]["status"]["phase"]) == ("MODIFIED", "Succeeded")


async def test_a_watch_of_a_missing_workflow_is_refused(argo: Argo) -> None:
    query = {"listOptions.fieldSelector": "metadata.name=nope"}
    assert (await argo("GET", "workflow-events/default", status=404, query=query))["code"] == 5


async def test_a_watch_may_omit_the_nodes(argo: Argo) -> None:
    await argo.workflow("wf", "Running", {"wf": NODE})
    query = {"fields": "result.object.metadata.name,result.type"}
    async with (
        argo.served.session() as session,
        session.get("/api/v1/workflow-events/default", params=query) as response,
    ):
        found = (await anext(messages(response)))["result"]
        assert found["object"] == {"metadata": {"name": "wf"}}


def test_a_slow_client_gets_only_the_latest_state() -> None:
    def event(type_: Any, uid: str, number: int) -> WatchEvent:
        return WatchEvent(type_, {"metadata": {"uid": uid}, "number": number})

    batch = [event("ADDED", "a", 1), event("MODIFIED", "b", 1), event("MODIFIED", "a", 2), event("DELETED", "b", 2)]
    assert latest_of_each(batch) == [event("ADDED", "a", 2), event("DELETED", "b", 2)]


async def test_logs_of_all_pods_are_in_order_of_time(argo: Argo) -> None:
    nodes = {one: {**NODE, "id": one, "name": one} for one in ("wf", "wf.b")}
    await argo.workflow("wf", "Succeeded", nodes)
    other = pod_name("wf", "wf.b", "main")
    argo.served.node.write("default", "wf", b"2026-01-01T00:00:01Z first\n2026-01-01T00:00:03Z third, longer\n")
    argo.served.node.write("default", other, b"2026-01-01T00:00:02Z second\n")
    found = await read(argo.served, "workflows/default/@latest/log", **{"logOptions.container": "main"})
    assert [(one["result"]["podName"], one["result"]["content"]) for one in found] == [
        ("wf", "first"),
        (other, "second"),
        ("wf", "third, longer"),
    ]
    only = await read(argo.served, "workflows/default/wf/wf/log", "text/event-stream", grep="thi[rx]d")
    assert [one["result"]["content"] for one in only] == ["third, longer"]
    stamped = await read(argo.served, "workflows/default/wf/log", podName=other, **{"logOptions.timestamps": "true"})
    assert [one["result"]["content"] for one in stamped] == ["2026-01-01T00:00:02Z second"]


async def test_logs_are_followed_until_the_workflow_ends(argo: Argo) -> None:
    await argo.workflow("wf", "Running")
    path = "/api/v1/workflows/default/wf/log"
    async with argo.served.session() as session, session.get(path, params={"logOptions.follow": "true"}) as response:
        stream = messages(response)
        argo.served.node.write("default", "wf", b"2026-01-01T00:00:01Z hello\n")
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        labels = {"workflows.argoproj.io/workflow": "wf"}
        await argo.cluster.create({**pod, "metadata": {"name": "wf", "namespace": "default", "labels": labels}})
        await argo.cluster.patch(POD, "wf", "default", {"status": {"phase": "Running"}}, subresource="status")
        assert (await anext(stream))["result"]["content"] == "hello"
        argo.served.node.write("default", "wf", b"2026-01-01T00:00:02Z more\n")
        assert (await anext(stream))["result"]["content"] == "more"


async def test_errors_name_the_wrong_log_option(argo: Argo) -> None:
    await argo.workflow("wf", "Succeeded")
    for query, told in (
        ({"grep": "("}, "grep"),
        ({"logOptions.tailLines": "x"}, "logOptions.tailLines"),
        ({"logOptions.sinceTime": "x"}, "logOptions.sinceTime"),
    ):
        assert told in (await argo("GET", "workflows/default/wf/log", status=400, query=query))["message"]
    await argo("GET", "workflows/default/nope/log", status=404)


async def test_events_are_streamed(argo: Argo) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Workflow", "name": "wf", "namespace": "default"},
        "reason": "WorkflowRunning",
        "type": "Normal",
    }
    await argo.cluster.create(event)
    async with (
        asyncio.timeout(10),
        argo.served.session() as session,
        session.get("/api/v1/stream/events/default") as response,
    ):
        assert (await anext(messages(response)))["result"]["reason"] == "WorkflowRunning"
