"""Server-sent events. A client that reconnects sends the id of the last event it has, and misses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import StreamingResponse

from muster.platform.errors import Problem
from muster.server.platform.event_feed import Event
from muster.server.platform.security import authenticate

HEARTBEAT_SECONDS = 15.0
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""For the `responses` of a route in the OpenAPI document."""
_RETRY_MILLISECONDS = 2000


def last_event_id(request: Request) -> str:
    """The last event that the client has; '' for a new client."""
    return request.headers.get("last-event-id", "")


def event_stream(
    request: Request, events: AsyncIterator[Event], *, heartbeat: float = HEARTBEAT_SECONDS
) -> StreamingResponse:
    """Sends what `events` yields, until it ends or the client disconnects. `events` must start after
    `last_event_id(request)`. Between events the identity of the client is checked again."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(request, events, heartbeat), media_type="text/event-stream", headers=headers)


def encode(event: Event) -> bytes:
    data = orjson.dumps(event.data, option=orjson.OPT_UTC_Z).decode()  # one line, whatever is in it
    name = "" if event.name == "message" else f"event: {event.name}\n"
    return f"id: {event.id}\n{name}data: {data}\n\n".encode()


async def _lines(request: Request, events: AsyncIterator[Event], heartbeat: float) -> AsyncIterator[bytes]:
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    coming: asyncio.Future[Event] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait([coming], timeout=heartbeat)
            if not done:
                await authenticate(request)
                yield b": still here\n\n"
                continue
            yield encode(coming.result())
            coming = None
    except (StopAsyncIteration, Problem):
        return
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming
        if isinstance(events, AsyncGenerator):
            await events.aclose()
