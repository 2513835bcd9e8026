"""Mutexes and semaphores of all workflows, in memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


class _Line:
    """One lock: who has it, and who waits in line for it."""

    def __init__(self) -> None:
        self.limit = 1
        self.holders: dict[str, None] = {}
        self.waiting: dict[str, tuple[int, str, int]] = {}
        self.heap: list[tuple[int, str, int, str]] = []

    def first(self) -> str | None:
        while self.heap:
            *rank, holder = self.heap[0]
            if self.waiting.get(holder) == tuple(rank):
                return holder
            heapq.heappop(self.heap)
        return None


class LockTable:
    """Implements `Locks`. Holders are `namespace/workflow`, or `namespace/workflow/node`."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._turns: dict[str, None] = {}
        self._count = 0

    def acquire(self, lock: str, holder: str, *, limit: int, priority: int, since: str) -> str:
        line = self._lines.setdefault(lock, _Line())
        line.limit = limit
        if holder in line.holders:
            return ""
        if holder not in line.waiting:
            self._count += 1
            rank = (-priority, since, self._count)
            line.waiting[holder] = rank
            heapq.heappush(line.heap, (*rank, holder))
        first = line.first()
        free = limit - len(line.holders)
        if free > 0 and first is not None and _workflow(first) == _workflow(holder):
            del line.waiting[holder]
            line.holders[holder] = None
            self._call_next(line)
            return ""
        self._call_next(line)
        return f"Waiting for {lock} lock. Lock status: {max(free, 0)}/{limit}"

    def release(self, lock: str, holder: str) -> None:
        line = self._lines.get(lock)
        if line is None:
            return
        line.holders.pop(holder, None)
        line.waiting.pop(holder, None)
        self._call_next(line)
        if not line.holders and not line.waiting:
            del self._lines[lock]

    def restore(self, lock: str, holders: Iterable[str]) -> None:
        line = self._lines.setdefault(lock, _Line())
        for holder in holders:
            line.holders[holder] = None
            line.waiting.pop(holder, None)

    def forget(self, workflow: str) -> None:
        """A workflow (`namespace/name`) is gone, and gives back all it had."""
        for lock, line in list(self._lines.items()):
            for holder in [h for h in (*line.holders, *line.waiting) if _workflow(h) == workflow]:
                self.release(lock, holder)

    def holders(self, lock: str) -> list[str]:
        line = self._lines.get(lock)
        return list(line.holders) if line is not None else []

    def waiting_for_turn(self) -> list[str]:
        """The workflows (`namespace/name`) to step, for a lock that they wait for is free; each is told once."""
        turns, self._turns = list(self._turns), {}
        return turns

    def _call_next(self, line: _Line) -> None:
        first = line.first()
        if first is not None and len(line.holders) < line.limit:
            self._turns[_workflow(first)] = None


def _workflow(holder: str) -> str:
    return "/".join(holder.split("/", 2)[:2])
