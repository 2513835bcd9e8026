"""Logs of a workflow, or of one of its Pods, as a stream of lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from muster.kube import builtin
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest
from muster.kube.objects import parse_time
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import is_true
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.logs import MAIN, LogSelection, read_log_lines


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
    query = log_query(request.call.query, datetime.now(UTC))
    pod = request.names.get("podName") or request.option("podName")
    wanted = LogSelection(
        pods=(pod,) if pod else (),
        container=query.container,
        selector=request.option("selector"),
        query=query,
    )
    fits = _grep(request.option("grep"))
    async for bunch in read_log_lines(api.cluster, api.whole(workflow), wanted):
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
    except ValueError:
        raise BadRequest(f'logOptions.sinceTime: "{text}" is not a time such as 2026-01-31T12:00:00Z') from None


def _number(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise BadRequest(f'logOptions.{name} is "{text}"; it must be a number')
    return int(text)
