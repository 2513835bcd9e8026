"""Long responses: server-sent events, logs and files.

A client that reconnects to server-sent events sends the id of the last event it has, and misses nothing.

A stream ends as soon as the client may no longer read it: at once if this server changed the rights (a token was
revoked, a session ended, a member left a team), and after a few seconds in all other cases. The last event is `closed`
and says why. A client that still has the right connects again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import orjson
from fastapi import Request
from sqlalchemy.exc import DBAPIError
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from muster.platform.errors import ForbiddenProblem, Problem
from muster.platform.permissions import Actor
from muster.server.platform.event_feed import Event
from muster.server.platform.problems import problem_of
from muster.server.platform.security import authenticate
from muster.server.platform.services import services_of

HEARTBEAT_SECONDS = 15.0
RECHECK_SECONDS = 5.0
"""How late a stream notices changes that other servers made, or that concern only its subject."""
SLOWEST_SECONDS = 60.0
"""A client that takes longer to accept one piece is disconnected: nothing is kept for it."""
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""For the `responses` of a route in the OpenAPI document."""
_RETRY_MILLISECONDS = 2000

Check = Callable[[], Awaitable[object]]
"""Raises a Problem if the client may no longer read the subject of a stream."""


def last_event_id(request: Request) -> str:
    """The last event that the client has; '' for a new client."""
    return request.headers.get("last-event-id", "")


def event_stream(
    request: Request,
    events: AsyncIterator[Event],
    check: Check | None = None,
    *,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> StreamingResponse:
    """Sends what `events` yields, until it ends, the client disconnects, or it may no longer read this. `events` must
    start after `last_event_id(request)`. `check` is for streams about one subject."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = _lines(StreamAccess(request, check), events, heartbeat)
    return _Stream(request, lines, media_type="text/event-stream", headers=headers)


def download(
    request: Request,
    content: AsyncIterator[bytes],
    check: Check | None = None,
    *,
    media_type: str,
    headers: dict[str, str] | None = None,
) -> StreamingResponse:
    """Sends `content`. If the client loses the right to it, the connection is closed before the end."""
    access = StreamAccess(request, check)

    async def checked() -> AsyncIterator[bytes]:
        async for piece in content:
            if await access.refusal() is not None:
                raise Interrupted
            yield piece

    return _Stream(request, checked(), media_type=media_type, headers=headers)


def encode(event: Event) -> bytes:
    data = orjson.dumps(event.data, option=orjson.OPT_UTC_Z).decode()  # one line, whatever is in it
    name = "" if event.name == "message" else f"event: {event.name}\n"
    return f"id: {event.id}\n{name}data: {data}\n\n".encode()


class Interrupted(Exception):
    """A stream has to end before its content does."""


class StreamAccess:
    """Whether the client of a request may still read its answer."""

    def __init__(self, request: Request, check: Check | None) -> None:
        self._request, self._check = request, check
        self._began_as: Actor = request.state.actor
        self.changes = services_of(request).database.access_changes
        self._seen, self._at = self.changes.number, time.monotonic()

    async def refusal(self) -> Problem | None:
        """Why not; None if it may. Looks only if access has changed, or if it has not looked for a while."""
        if self._seen == self.changes.number and time.monotonic() - self._at < RECHECK_SECONDS:
            return None
        self._seen, self._at = self.changes.number, time.monotonic()
        try:
            actor = await authenticate(self._request)
            if _rights(actor) != _rights(self._began_as):
                return ForbiddenProblem.of("stream.rights")
            if self._check is not None:
                await self._check()
        except (Problem, DBAPIError) as error:
            return problem_of(error, self._request.url.path)
        return None


class _Stream(StreamingResponse):
    def __init__(self, request: Request, content: AsyncIterator[bytes], **more: Any) -> None:
        super().__init__(content, **more)
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor: Actor = self._request.state.actor
        with services_of(self._request).streams.count(actor.id):
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            async with asyncio.timeout(SLOWEST_SECONDS):
                await send(message)

        # Without the end of the body, the server closes the connection, and the client knows that something is missing.
        with suppress(Interrupted, TimeoutError):
            await super().stream_response(send_soon)


async def _lines(access: StreamAccess, events: AsyncIterator[Event], heartbeat: float) -> AsyncIterator[bytes]:
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    coming: asyncio.Future[Event] | None = None
    changed: asyncio.Future[Any] | None = None
    quiet_since = time.monotonic()
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            changed = changed or asyncio.ensure_future(access.changes.next())
            await asyncio.wait(
                [coming, changed], timeout=min(heartbeat, RECHECK_SECONDS), return_when=asyncio.FIRST_COMPLETED
            )
            if changed.done():
                changed = None
            refusal = await access.refusal()
            if refusal is not None:
                yield _closed(refusal)
                return
            if coming.done():
                yield encode(coming.result())
                coming, quiet_since = None, time.monotonic()
            elif time.monotonic() - quiet_since >= heartbeat:
                quiet_since = time.monotonic()
                yield b": still here\n\n"
    except StopAsyncIteration:
        return
    except (Problem, DBAPIError) as error:
        yield _closed(problem_of(error, "an event stream"))
    finally:
        for task in (coming, changed):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await task
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _closed(problem: Problem) -> bytes:
    """The last event. It has no id, so that a client that comes back continues after the one before."""
    said = {"detail": problem.detail, "status": problem.status, "code": problem.code or None}
    return f"event: closed\ndata: {orjson.dumps(said).decode()}\n\n".encode()


def _rights(actor: Actor) -> tuple[object, ...]:
    return actor.id, actor.admin, dict(actor.teams), actor.scopes, actor.run
