"""A work queue that calls `reconcile(key)`: one call per key at a time, with back-off when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from muster.kube.errors import ApiError, Conflict

K = TypeVar("K")
log = logging.getLogger(__name__)


class Controller(Generic[K]):
    """`enqueue` may be called at any time, from the loop's thread. `reconcile` looks at what is and acts; it answers
    the seconds after which it wants to look again, or None."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 4,
        max_backoff: float = 30.0,
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._max_backoff = max_backoff
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def enqueue(self, key: K) -> None:
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Of several such wishes for one key, the earliest wins."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(at, self._due, key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._name} {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._active.add(key)
            try:
                again = await self._reconcile(key)
            except Exception as error:
                self._retry(key, error)
            else:
                self._failures.pop(key, None)
                if again is not None:
                    self.enqueue_after(key, again)
            finally:
                self._active.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.enqueue(key)

    def _retry(self, key: K, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(0.005 * 2**failures, self._max_backoff)
        if isinstance(error, Conflict):
            log.debug("%s %s: %s", self._name, key, error)
        elif isinstance(error, ApiError):
            log.warning("%s %s: %s; again in %.2f s", self._name, key, error, delay)
        else:
            log.exception("%s %s failed; again in %.2f s", self._name, key, delay)
        self.enqueue_after(key, delay)
