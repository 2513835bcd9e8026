"""What Argo's API streams: changes of workflows, events about them, and logs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from muster.kube import builtin
from muster.kube.cluster import LogQuery, WatchEvent
from muster.kube.errors import BadRequest, is_count
from muster.kube.objects import name_of, namespace_of, parse_time, uid_of
from muster.server.argo.access import LATEST
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import is_true
from muster.workflows.kinds import WORKFLOW
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.logs import MAIN, LogSelection, read_log_lines

_NAME = re.compile(r"metadata\.name==?([^,]+)")


async def watch_workflows(request: Request) -> None:
    await request.stream(_workflow_changes(request))


async def watch_events(request: Request) -> None:
    await request.stream(_event_changes(request))


async def watch_nothing(request: Request) -> None:
    """Streams of Argo Events' kinds, which do not exist here."""
    await request.stream(_nothing())


async def _workflow_changes(request: Request) -> AsyncIterator[Any]:
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
            obj = api.with_nodes(event.object) if with_nodes else event.object
            yield {"type": event.type, "object": fields.cut(obj)}


async def _event_changes(request: Request) -> AsyncIterator[Any]:
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


async def workflow_log(request: Request) -> None:
    await request.stream(_entries(request))


def log_query(query: dict[str, str], now: datetime) -> LogQuery:
    """From `logOptions.*`."""
    options = {name.removeprefix("logOptions."): value for name, value in query.items() if value}
    since: float | None = _number(options, "sinceSeconds")
    moment = _since_time(options)
    if moment is not None:
        since = max(0.0, (now - moment).total_seconds())
    return LogQuery(
        container=options.get("container", MAIN),
        follow=is_true(options.get("follow")),
        previous=is_true(options.get("previous")),
        timestamps=is_true(options.get("timestamps")),
        tail_lines=_number(options, "tailLines"),
        since_seconds=since,
        limit_bytes=_number(options, "limitBytes") or None,
    )


async def _entries(request: Request) -> AsyncIterator[Any]:
    api = request.api
    workflow = await api.find(request.name, request.namespace)
    for verb in ("list", "watch"):
        api.require(verb, builtin.POD, request.namespace)
    api.require("get", builtin.POD, request.namespace, subresource="log")
    api.protect_runs(WORKFLOW, namespace_of(workflow), name_of(workflow))
    query = log_query(request.call.query, datetime.now(UTC))
    pod = request.names.get("podName") or request.option("podName")
    wanted = LogSelection(
        pods=(pod,) if pod else (),
        container=query.container,
        selector=request.option("selector"),
        query=query,
    )
    fits = _grep(request.option("grep"))
    async for bunch in read_log_lines(api.cluster, api.with_nodes(workflow), wanted):
        for entry in bunch:
            content = f"{entry.stamp} {entry.text}" if query.timestamps else entry.text
            if fits(content):
                yield {"content": content, "podName": entry.pod}


def _grep(pattern: str) -> Callable[[str], bool]:
    if not pattern:
        return lambda _: True
    try:
        return compile_regex(pattern).matches
    except ExpressionError as error:
        raise BadRequest(f"grep: {error}") from None


def _since_time(options: dict[str, str]) -> datetime | None:
    text = options.get("sinceTime")
    try:
        if text:
            return parse_time(text)
        seconds = options.get("sinceTime.seconds")
        return datetime.fromtimestamp(int(seconds), UTC) if seconds else None
    except (ValueError, OverflowError, OSError):
        raise BadRequest(f'logOptions.sinceTime: "{text}" is not a time such as 2026-01-31T12:00:00Z') from None


def _number(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not is_count(text):
        raise BadRequest(f'logOptions.{name} is "{text}"; it must be a number')
    return int(text)
