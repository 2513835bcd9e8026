"""The work queue of a controller: calls `reconcile(key)`, once per key at a time, with back-off after failures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

from muster.kube.errors import ApiError, Conflict, Unavailable

K = TypeVar("K")
log = logging.getLogger(__name__)

OnDone: TypeAlias = Callable[[K, float, BaseException | None], None]
"""(key, seconds, error): called after every reconcile."""

_FIRST_RETRY = 0.01
_MAX_URGENT_IN_A_ROW = 4
"""How many urgent keys may come before one that is not."""
_MAX_BACKOFF_UNAVAILABLE = 5.0
"""The maximum delay while the cluster does not respond, so that work resumes soon after it is back."""


class Controller(Generic[K]):
    """`enqueue` may be called at any time, from the event loop's thread. `reconcile` observes and acts. It returns the
    seconds until the next reconcile, or None. A requested reconcile is never cancelled: one too many does no harm, one
    too few may leave something stuck."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 4,
        max_backoff: float = 30.0,
        on_done: OnDone[K] | None = None,
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._max_backoff = max_backoff
        self._on_done = on_done
        self._closing = False
        self._idle = asyncio.Event()
        self._queue: PriorityQueue[K] = PriorityQueue()
        self._active: set[K] = set()
        self._again: dict[K, bool] = {}
        self._failures: dict[K, int] = {}
        self._requested: _Timers[K] = {}
        self._retries: _Timers[K] = {}

    def enqueue(self, key: K, *, urgent: bool = False) -> None:
        """Requests a reconcile of `key`. If one is running, another follows. Urgent keys mostly come first, so that a
        thousand new keys do not delay work in progress."""
        if key in self._active:
            self._again[key] = self._again.get(key, False) or urgent
        else:
            self._queue.put(key, urgent=urgent)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Of several requests for one key, the earliest wins."""
        self._schedule(self._requested, key, seconds)

    @property
    def depth(self) -> int:
        """The number of keys that wait for a reconcile."""
        return len(self._queue)

    async def finish(self) -> None:
        """Starts no more reconciles, and waits for those that run."""
        self._closing = True
        while self._active:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._name} {number}")
        finally:
            for timers in (self._requested, self._retries):
                for _, timer in timers.values():
                    timer.cancel()
                timers.clear()

    def _schedule(self, timers: _Timers[K], key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            loop.call_soon(self.enqueue, key)  # uvloop has no timer for a time in the past
            return
        at = loop.time() + seconds
        timer = timers.get(key)
        if timer is not None:
            if timer[0] <= at:
                return
            timer[1].cancel()
        timers[key] = at, loop.call_at(at, self._due, timers, key)

    def _due(self, timers: _Timers[K], key: K) -> None:
        timers.pop(key, None)
        self.enqueue(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            if self._closing:
                return
            self._active.add(key)
            try:
                await self._attempt(key)
            finally:
                self._active.discard(key)
                if not self._active:
                    self._idle.set()
                if key in self._again:
                    self.enqueue(key, urgent=self._again.pop(key))

    async def _attempt(self, key: K) -> None:
        retry = self._retries.pop(key, None)
        if retry is not None:
            retry[1].cancel()  # this call is the retry, whatever caused it
        began = time.perf_counter()
        try:
            again = await self._reconcile(key)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            self._retry(key, error)  # something that it awaited was cancelled: that must not end the worker
            self._report(key, began, error)
        except Exception as error:
            self._retry(key, error)
            self._report(key, began, error)
        else:
            self._report(key, began, None)
            self._failures.pop(key, None)
            if again is not None:
                self.enqueue_after(key, again)

    def _report(self, key: K, began: float, error: BaseException | None) -> None:
        if self._on_done is not None:
            self._on_done(key, time.perf_counter() - began, error)

    def _retry(self, key: K, error: BaseException) -> None:
        failures = self._failures[key] = min(self._failures.get(key, 0) + 1, 30)  # 2**1024 would overflow a float
        delay = backoff(failures, error, self._max_backoff)
        if isinstance(error, Conflict):
            log.debug("%s %s: %s", self._name, key, error)
        elif isinstance(error, ApiError):
            log.warning("%s %s: %s; retrying in %.2f s", self._name, key, error, delay)
        else:
            log.error("%s %s failed; retrying in %.2f s", self._name, key, delay, exc_info=error)
        self._schedule(self._retries, key, delay)


class PriorityQueue(Generic[K]):
    """A queue in which each key waits once. Urgent keys come first, but never starve the others."""

    def __init__(self) -> None:
        self._urgent: dict[K, None] = {}
        self._others: dict[K, None] = {}
        self._filled: asyncio.Queue[None] = asyncio.Queue()
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)

    def put(self, key: K, *, urgent: bool = False) -> None:
        if key in self._urgent:
            return
        if key not in self._others:
            self._filled.put_nowait(None)
        elif urgent:
            del self._others[key]
        else:
            return
        (self._urgent if urgent else self._others)[key] = None

    async def get(self) -> K:
        await self._filled.get()
        is_urgent = bool(self._urgent) and (self._in_a_row < _MAX_URGENT_IN_A_ROW or not self._others)
        self._in_a_row = self._in_a_row + 1 if is_urgent else 0
        lane = self._urgent if is_urgent else self._others
        key = next(iter(lane))
        del lane[key]
        return key


def backoff(failures: int, error: BaseException, longest: float) -> float:
    """Returns the seconds until the next attempt."""
    longest = min(longest, _MAX_BACKOFF_UNAVAILABLE) if isinstance(error, Unavailable) else longest
    return min(_FIRST_RETRY * 2.0 ** (failures - 1), longest)


_Timers: TypeAlias = dict[K, tuple[float, asyncio.Handle]]
"""When a timer is due, and the handle that cancels it. uvloop's handles of less than a millisecond do not know when."""


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
