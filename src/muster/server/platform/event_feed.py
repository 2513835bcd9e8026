"""Feeds of events: the changes of one thing, for all clients that watch it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    data: Any
    name: str = "message"


class EventFeed:
    """Changes of one thing, for all clients that watch it. The last events are kept for clients that reconnect; a
    client that was away for too long gets a `reset` event and loads everything again."""

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
        """The id of the last event. A client that loads everything now continues after it."""
        return f"{self._epoch}{self._number}"

    async def after(self, last: str) -> AsyncIterator[Event]:
        """Yields events after `last`, without end; from now on if `last` is ''."""
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
        """None if events after it were dropped, or if the id is not from this feed."""
        number = last.removeprefix(self._epoch) if last.startswith(self._epoch) else ""
        if not number.isdecimal() or int(number) > self._number:
            return None
        oldest = self._place(self._kept[0].id) if self._kept else self._number + 1
        return int(number) if int(number) >= oldest - 1 else None

    def _place(self, identifier: str) -> int:
        return int(identifier.removeprefix(self._epoch))
