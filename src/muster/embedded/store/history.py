"""The recent changes of one kind: a watch resumes from them, and a paged list looks back to them.

A watcher is a position in this history and holds no events itself. If it is too slow, its position is dropped.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import NamedTuple

from muster.kube.cluster import WatchEvent
from muster.kube.errors import Gone
from muster.kube.objects import Key, Object


class Change(NamedTuple):
    """One committed change of one object. `event` is what a watcher without selectors sees."""

    version: int
    key: Key
    before: Object | None
    after: Object | None
    event: WatchEvent


class History:
    """Keeps at least the last `limit` changes, and not many more."""

    def __init__(self, limit: int, floor: int = 0) -> None:
        self.floor = floor
        """The oldest version after which all changes are known."""
        self._limit = limit
        self._changes: list[Change] = []
        self._first = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._first + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)

    def trim(self) -> list[Change]:
        """Drops the oldest changes beyond the limit and returns them."""
        surplus = len(self._changes) - self._limit
        if surplus <= self._limit // 4:
            return []
        forgotten = self._changes[:surplus]
        del self._changes[:surplus]
        self._first += surplus
        self.floor = forgotten[-1].version
        return forgotten

    def position(self, version: int) -> int:
        """Returns the position where the changes after `version` begin."""
        if version < self.floor:
            raise Gone(f"too old resource version: {version} ({self.floor})")
        return self._first + bisect_right(self._changes, version, key=_version)

    def read(self, position: int, limit: int = 1000) -> list[Change]:
        """Returns up to `limit` changes from `position` on."""
        start = position - self._first
        if start < 0:
            raise Gone(f"this watch fell behind by more than {self._limit} changes; list again")
        return self._changes[start : start + limit]

    def subscribe(self) -> asyncio.Future[None]:
        """Returns a future that is done when something has changed. Call `unsubscribe` when you stop waiting."""
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        return news

    def unsubscribe(self, news: asyncio.Future[None]) -> None:
        self._waiting.discard(news)

    def wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, set()
        for news in waiting:
            wake_future(news)


def make_change(version: int, key: Key, before: Object | None, obj: Object, gone: bool) -> Change:
    if gone:
        return Change(version, key, before, None, WatchEvent("DELETED", obj))
    return Change(version, key, before, obj, WatchEvent("ADDED" if before is None else "MODIFIED", obj))


def wake_future(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


def _version(change: Change) -> int:
    return change.version
