"""Feeds of events: the changes of one thing, for all clients that watch it; and how many may watch."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from muster.kube.budgets import Budgets, setting_name
from muster.platform.database.announcements import announcements
from muster.platform.database.database import Database
from muster.platform.errors import TooManyRequestsProblem
from muster.platform.runs.runs import find_stored

_LONGEST_NUMBER = 18
"""Digits. Python refuses to read thousands of them."""


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
            news, missed = self._news, self._number - seen
            if missed > len(self._kept):
                # A slow client: nothing is kept for it beyond what is kept for all.
                seen = self._number
                yield Event(f"{self._epoch}{seen}", None, "reset")
            elif missed:
                seen += 1
                yield self._kept[-missed]
            else:
                await news.wait()

    def _position(self, last: str) -> int | None:
        """None if events after it were dropped, or if the id is not from this feed."""
        number = last.removeprefix(self._epoch) if last.startswith(self._epoch) else ""
        if not number.isdecimal() or len(number) > _LONGEST_NUMBER or int(number) > self._number:
            return None
        oldest = self._place(self._kept[0].id) if self._kept else self._number + 1
        return int(number) if int(number) >= oldest - 1 else None

    def _place(self, identifier: str) -> int:
        return int(identifier.removeprefix(self._epoch))


async def follow_other_servers(database: Database, run_feed: EventFeed) -> None:
    """Publishes changes of runs that other servers on the same database have stored, until it is cancelled."""
    async for announced in announcements(database):
        database.note_other_server(access=announced.access)
        if announced.missed:
            run_feed.publish(None, "reset")
        runs = sorted(announced.runs)
        stored = await database.read(lambda connection: [find_stored(connection, each) for each in runs])  # noqa: B023
        for each in stored:
            if each is not None:
                run_feed.publish(each, "run")


class OpenStreams:
    """Counts the open streams of each user."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._open.total()

    @contextmanager
    def count(self, user_id: str) -> Iterator[None]:
        """Raises TooManyRequests if the user, or all users together, have too many."""
        for number, field in ((self._open[user_id], "user_streams"), (self._open.total(), "streams")):
            most = getattr(self._budgets, field)
            if number >= most:
                problem = TooManyRequestsProblem.of("stream.many", most=most, setting=setting_name(field))
                raise problem.with_headers({"Retry-After": "10"})
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1
            if not self._open[user_id]:
                del self._open[user_id]
