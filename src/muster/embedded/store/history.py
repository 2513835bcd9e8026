"""The recent changes of one kind: a watch resumes from them, and a paged list looks back to them.

A watcher is a position in this history and holds no events itself. If it is too slow, its position is dropped. Changes
from before the last start of the server are read from the disk when they are asked for, which is rare.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

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


class ChangeRecord(NamedTuple):
    """What the disk holds of a change."""

    version: int
    size: int
    """The bytes of its row."""
    before: int
    """The version of the object that it replaced; 0 if it created the object."""
    gone: bool


ReadChanges: TypeAlias = Callable[[Sequence[ChangeRecord]], list[Change]]


class History:
    """Keeps at least the last `limit` changes, and not many more; fewer if these have more than `limit_bytes`.

    `stored` are the changes that are on disk only. `read_changes` reads them."""

    def __init__(
        self,
        limit: int,
        floor: int = 0,
        *,
        limit_bytes: int = 1 << 62,
        stored: Sequence[ChangeRecord] = (),
        read_changes: ReadChanges | None = None,
    ) -> None:
        self.floor = floor
        """The oldest version after which all changes are known."""
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._records = deque(stored)
        self._bytes = sum(record.size for record in stored)
        self._changes: list[Change] = []
        """The last changes, those in memory."""
        self._first = 0
        """The position of the first record."""
        self._read_changes = read_changes
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._first + len(self._records)

    def append(self, change: Change, size: int = 0, before: int = 0) -> None:
        """`size` are the bytes of the change's row, `before` is the version of the object that it replaced."""
        self._records.append(ChangeRecord(change.version, size, before, change.after is None))
        self._changes.append(change)
        self._bytes += size

    def trim(self) -> list[ChangeRecord]:
        """Drops the oldest changes beyond the limits and returns them. The last change always stays."""
        records = self._records
        if len(records) <= self._limit + self._limit // 4 and self._bytes <= self._limit_bytes + self._limit_bytes // 4:
            return []
        forgotten = []
        while len(records) > 1 and (len(records) > self._limit or self._bytes > self._limit_bytes):
            record = records.popleft()
            self._bytes -= record.size
            forgotten.append(record)
        if not forgotten:
            return []
        del self._changes[: max(0, len(self._changes) - len(records))]
        self._first += len(forgotten)
        self.floor = forgotten[-1].version
        return forgotten

    def position(self, version: int) -> int:
        """Returns the position where the changes after `version` begin."""
        if version < self.floor:
            raise Gone(f"too old resource version: {version} ({self.floor})")
        on_disk = len(self._records) - len(self._changes)
        if on_disk and version < self._records[on_disk - 1].version:
            self._load(on_disk)
            on_disk = 0
        return self._first + on_disk + bisect_right(self._changes, version, key=_version)

    def read(self, position: int, limit: int = 1000) -> list[Change]:
        """Returns up to `limit` changes from `position` on."""
        start = position - self._first - (len(self._records) - len(self._changes))
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

    def _load(self, count: int) -> None:
        assert self._read_changes is not None
        self._changes[:0] = self._read_changes([self._records[number] for number in range(count)])


def make_change(version: int, key: Key, before: Object | None, obj: Object, gone: bool) -> Change:
    if gone:
        return Change(version, key, before, None, WatchEvent("DELETED", obj))
    return Change(version, key, before, obj, WatchEvent("ADDED" if before is None else "MODIFIED", obj))


def wake_future(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


def _version(change: Change) -> int:
    return change.version
