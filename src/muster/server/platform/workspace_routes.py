"""The routes that notebooks and TensorBoards have in common: one of them, start, stop, restart, events and logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Request, Response

from muster.kube.kinds import Kind
from muster.platform.permissions import Actor
from muster.platform.records.pods import KubernetesEvent
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, event_stream
from muster.server.platform.workspace_access import (
    changes_of,
    find_workspace,
    happenings,
    log_stream,
    log_text,
    set_running,
)

_MOST_TAIL: Final = 100_000
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_Tail = Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only this many lines at the end.")]
_Times = Annotated[bool, Query(description="Put its time in front of each line.")]

DescribeOne: TypeAlias = Callable[[Services, Actor, str, str], Awaitable[Any]]
"""Finds a workspace by namespace and name, checks that the user may see it, and returns its record."""


def add_workspace_routes(
    router: APIRouter, kind: Kind, word: str, record: type, describe: DescribeOne, *, stop_help: str
) -> None:
    """`word` is how the routes call the kind, and `record` is what they return."""
    one = "/{namespace}/{name}"

    @router.get(one, operation_id=f"get_{word}", response_model=record)
    async def get(namespace: str, name: str, here: Here, who: Who) -> Any:
        return await describe(here, who, namespace, name)

    async def change(
        namespace: str, name: str, here: Services, who: Actor, action: Literal["start", "stop", "restart"]
    ) -> Any:
        right = "stop" if action == "stop" else "start"
        found = await find_workspace(here, who, kind, namespace, name, right)
        await set_running(here, who, kind, found, action)
        return await describe(here, who, namespace, name)

    @router.post(f"{one}/start", operation_id=f"start_{word}", response_model=record)
    async def start(namespace: str, name: str, here: Here, who: Who) -> Any:
        return await change(namespace, name, here, who, "start")

    @router.post(f"{one}/stop", operation_id=f"stop_{word}", response_model=record, description=stop_help)
    async def stop(namespace: str, name: str, here: Here, who: Who) -> Any:
        return await change(namespace, name, here, who, "stop")

    @router.post(f"{one}/restart", operation_id=f"restart_{word}", response_model=record)
    async def restart(namespace: str, name: str, here: Here, who: Who) -> Any:
        """Restarts it, or starts it if it is stopped."""
        return await change(namespace, name, here, who, "restart")

    @router.get(f"{one}/happenings", operation_id=f"list_{word}_events")
    async def list_events(namespace: str, name: str, here: Here, who: Who) -> list[KubernetesEvent]:
        """Lists its events and those of its Pod, the oldest first."""
        return await happenings(here, await find_workspace(here, who, kind, namespace, name))

    watch_help = f"Server-sent events: the {word} now and after every change (`{word}`), until it is deleted (`gone`)."

    @router.get(
        f"{one}/events",
        operation_id=f"watch_{word}",
        response_class=Response,
        responses=EVENTS,
        description=watch_help,
    )
    async def watch(namespace: str, name: str, here: Here, who: Who, request: Request) -> Response:
        found = await find_workspace(here, who, kind, namespace, name)
        return event_stream(request, changes_of(here, kind, found, partial(describe, here, who, namespace, name)))

    @router.get(f"{one}/log", operation_id=f"get_{word}_log", response_class=Response, responses=_TEXT)
    async def get_log(
        namespace: str, name: str, request: Request, here: Here, who: Who, tail: _Tail = None, times: _Times = False
    ) -> Response:
        """Returns what its server has written so far, as text."""
        find = partial(find_workspace, here, who, kind, namespace, name)
        return await log_text(request, here, find, await find(), tail, times)

    @router.get(f"{one}/log/events", operation_id=f"watch_{word}_log", response_class=Response, responses=EVENTS)
    async def watch_log(namespace: str, name: str, request: Request, here: Here, who: Who) -> Response:
        """Server-sent events: a `line` for each line as it is written, and `end` when it is stopped."""
        find = partial(find_workspace, here, who, kind, namespace, name)
        await find()
        return log_stream(request, here, find)
