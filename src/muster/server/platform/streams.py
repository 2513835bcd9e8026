"""Server-sent events. A client that was cut off comes back with the id of the last event it saw, and misses nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import StreamingResponse

from muster.platform.errors import Problem
from muster.server.platform.security import authenticate

HEARTBEAT_SECONDS = 15.0
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
"""For a route's `responses`: what it says of itself in the OpenAPI document."""
_RETRY_MILLISECONDS = 2000


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    data: Any
    name: str = "message"


def last_event_id(request: Request) -> str:
    """Where the client left off; '' if it is here for the first time."""
    return request.headers.get("last-event-id", "")


def event_stream(
    request: Request, events: AsyncIterator[Event], *, heartbeat: float = HEARTBEAT_SECONDS
) -> StreamingResponse:
    """Sends what `events` yields, until it ends or the client leaves. It has to begin after `last_event_id(request)`.
    Between events it makes sure that the client still is who it was."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(request, events, heartbeat), media_type="text/event-stream", headers=headers)


def encode(event: Event) -> bytes:
    data = orjson.dumps(event.data).decode()  # one line, whatever is in it
    name = "" if event.name == "message" else f"event: {event.name}\n"
    return f"id: {event.id}\n{name}data: {data}\n\n".encode()


class EventFeed:
    """What happened to one thing, for everybody who watches it. The last so many events are kept for those who come
    back; whoever was away for longer is told to load everything anew by an event called `reset`."""

    def __init__(self, keep: int = 1000, epoch: str = "") -> None:
        self._kept: deque[Event] = deque(maxlen=keep)
        self._epoch = epoch
        self._number = 0
        self._news = asyncio.Event()

    def publish(self, data: Any, name: str = "message") -> Event:
        self._number += 1
        event = Event(f"{self._epoch}{self._number}", data, name)
        self._kept.append(event)
        news, self._news = self._news, asyncio.Event()
        news.set()
        return event

    @property
    def last(self) -> str:
        """The id of what was published last: whoever loads everything now goes on after it."""
        return f"{self._epoch}{self._number}"

    async def after(self, last: str) -> AsyncIterator[Event]:
        """From there on, for ever; from now on if `last` is ''."""
        seen = self._number if last == "" else self._position(last)
        if seen is None:
            seen = self._number
            yield Event(f"{self._epoch}{seen}", None, "reset")
        while True:
            news = self._news
            for event in [e for e in self._kept if self._place(e.id) > seen]:
                seen = self._place(event.id)
                yield event
            await news.wait()

    def _position(self, last: str) -> int | None:
        """None if there is more after it than was kept, or it is not ours."""
        number = last.removeprefix(self._epoch) if last.startswith(self._epoch) else ""
        if not number.isdecimal() or int(number) > self._number:
            return None
        oldest = self._place(self._kept[0].id) if self._kept else self._number + 1
        return int(number) if int(number) >= oldest - 1 else None

    def _place(self, identifier: str) -> int:
        return int(identifier.removeprefix(self._epoch))


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
