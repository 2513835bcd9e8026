"""What has to be looked at next: now, at a time, or once there is room."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from datetime import datetime

from muster.workflows.engine.phases import is_ended
from muster.workflows.engine.work import Advancing, Place, Work


class Agenda:
    def __init__(self) -> None:
        self._queue: deque[Advancing] = deque()
        self._times: list[tuple[datetime, int, Advancing]] = []
        self._number = itertools.count()
        self._blocked: list[tuple[Place, int, Advancing]] = []
        self._is_granted = False

    def add(self, item: Advancing) -> None:
        if not item.queued:
            item.queued = True
            self._queue.append(item)

    def add_at(self, moment: datetime, item: Advancing) -> None:
        heapq.heappush(self._times, (moment, next(self._number), item))

    def may_begin(self, item: Advancing, place: Place) -> bool:
        """Whether one more Pod may run now. If not, the item is told to go on once it may. Whoever comes first in the
        workflow goes first, not who asked first: a restart would forget that."""
        if self._is_granted:
            self._is_granted = False
            return True
        if not item.blocked:
            item.blocked = True
            heapq.heappush(self._blocked, (place, next(self._number), item))
        return False

    def add_due(self, now: datetime) -> None:
        while self._times and self._times[0][0] <= now:
            self.add(heapq.heappop(self._times)[2])

    def next_time(self) -> datetime | None:
        while self._times and _is_over(self._times[0][2]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def drain(self, is_full: Callable[[], bool]) -> None:
        """Goes on until there is nothing more to do now."""
        while True:
            while self._queue:
                item = self._queue.popleft()
                item.queued = False
                item.advance()
            if not self._blocked or is_full():
                return
            item = heapq.heappop(self._blocked)[2]
            item.blocked = False
            self._is_granted = True
            item.advance()
            self._is_granted = False


def _is_over(item: Advancing) -> bool:
    if not isinstance(item, Work):
        return False
    node = item.run.tree.nodes.get(item.id)
    return node is None or is_ended(node)
