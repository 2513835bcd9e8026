"""Streams of changes of workflows, and of events about them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from muster.kube import builtin
from muster.kube.cluster import WatchEvent
from muster.kube.objects import name_of, uid_of
from muster.server.argo.access import LATEST
from muster.server.argo.requests import Request
from muster.workflows.kinds import WORKFLOW

_NAME = re.compile(r"metadata\.name==?([^,]+)")


async def workflows(request: Request) -> None:
    await request.stream(_workflows(request))


async def events(request: Request) -> None:
    await request.stream(_events(request))


async def nothing(request: Request) -> None:
    """Streams of Argo Events' kinds, which do not exist here."""
    await request.stream(_nothing())


async def _workflows(request: Request) -> AsyncIterator[Any]:
    api = request.api
    selector = request.option("listOptions.fieldSelector")
    named = _NAME.search(selector)
    if named is not None:
        # Fails at once if the workflow does not exist.
        workflow = await api.find(named[1], request.namespace)
        if named[1] == LATEST:
            selector = selector.replace(LATEST, name_of(workflow))
    fields = request.fields.below("result.object.")
    with_nodes = fields.wants("status.nodes")
    async for batch in api.watch(
        WORKFLOW,
        request.namespace,
        labels=request.option("listOptions.labelSelector"),
        fields=selector,
        version=request.option("listOptions.resourceVersion"),
    ):
        for event in latest_of_each(batch):
            obj = api.whole(event.object) if with_nodes else event.object
            yield {"type": event.type, "object": fields.cut(obj)}


async def _events(request: Request) -> AsyncIterator[Any]:
    async for batch in request.api.watch(
        builtin.EVENT,
        request.namespace,
        labels=request.option("listOptions.labelSelector"),
        fields=request.option("listOptions.fieldSelector"),
        version=request.option("listOptions.resourceVersion"),
    ):
        for event in batch:
            yield event.object


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


def latest_of_each(batch: list[WatchEvent]) -> list[WatchEvent]:
    """Skips intermediate states for slow clients: a workflow with thousands of nodes is megabytes. An ADDED event is
    never skipped."""
    last: dict[str, WatchEvent] = {}
    for event in batch:
        if event.type == "BOOKMARK":
            continue
        earlier = last.pop(uid_of(event.object), None)
        is_new = earlier is not None and earlier.type == "ADDED" and event.type == "MODIFIED"
        last[uid_of(event.object)] = WatchEvent("ADDED", event.object) if is_new else event
    return list(last.values())
