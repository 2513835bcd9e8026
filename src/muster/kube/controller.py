"""A work queue that calls `reconcile(key)`: one call per key at a time, with back-off when it fails."""

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
"""(key, seconds, what went wrong): told after every look."""

_FIRST_RETRY = 0.01
_IN_A_ROW = 4
"""How many urgent ones may go before one that is not."""
_LONGEST_AWAY = 5.0
"""Seconds until the next try at most while the cluster does not answer: when it is back, nobody shall wait long."""


class Controller(Generic[K]):
    """`enqueue` may be called at any time, from the loop's thread. `reconcile` looks at what is and acts; it answers
    the seconds after which it wants to look again, or None. A look it has asked for is never taken back: one too many
    does no harm, one too few may leave something hanging."""

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
        self._wishes: _Timers[K] = {}
        self._retries: _Timers[K] = {}

    def enqueue(self, key: K, *, urgent: bool = False) -> None:
        """Look at `key` soon. While it is being looked at, that means once more afterwards. What is `urgent` goes
        first, most of the time: a thousand new ones do not keep waiting what is under way."""
        if key in self._active:
            self._again[key] = self._again.get(key, False) or urgent
        else:
            self._queue.put(key, urgent=urgent)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Of several such wishes for one key, the earliest wins."""
        self._set(self._wishes, key, seconds)

    @property
    def depth(self) -> int:
        """How many keys wait to be looked at."""
        return len(self._queue)

    async def finish(self) -> None:
        """Begins nothing more, and waits until what was begun is done."""
        self._closing = True
        while self._active:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._name} {number}")
        finally:
            for timers in (self._wishes, self._retries):
                for _, timer in timers.values():
                    timer.cancel()
                timers.clear()

    def _set(self, timers: _Timers[K], key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            loop.call_soon(self.enqueue, key)  # uvloop has no timer for what is due already
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
            retry[1].cancel()  # this is it, whoever asked for it
        began = time.perf_counter()
        try:
            again = await self._reconcile(key)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            self._retry(key, error)  # something it waited for was cancelled: that must not cost us a worker
            self._tell(key, began, error)
        except Exception as error:
            self._retry(key, error)
            self._tell(key, began, error)
        else:
            self._tell(key, began, None)
            self._failures.pop(key, None)
            if again is not None:
                self.enqueue_after(key, again)

    def _tell(self, key: K, began: float, error: BaseException | None) -> None:
        if self._on_done is not None:
            self._on_done(key, time.perf_counter() - began, error)

    def _retry(self, key: K, error: BaseException) -> None:
        failures = self._failures[key] = min(self._failures.get(key, 0) + 1, 30)  # 2**1024 would not be a float
        delay = backoff(failures, error, self._max_backoff)
        if isinstance(error, Conflict):
            log.debug("%s %s: %s", self._name, key, error)
        elif isinstance(error, ApiError):
            log.warning("%s %s: %s; again in %.2f s", self._name, key, error, delay)
        else:
            log.error("%s %s failed; again in %.2f s", self._name, key, delay, exc_info=error)
        self._set(self._retries, key, delay)


class PriorityQueue(Generic[K]):
    """A queue in which each key waits once. What is urgent goes first, yet never keeps the others waiting for good."""

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
        is_urgent = bool(self._urgent) and (self._in_a_row < _IN_A_ROW or not self._others)
        self._in_a_row = self._in_a_row + 1 if is_urgent else 0
        lane = self._urgent if is_urgent else self._others
        key = next(iter(lane))
        del lane[key]
        return key


def backoff(failures: int, error: BaseException, longest: float) -> float:
    """Seconds until the next try."""
    longest = min(longest, _LONGEST_AWAY) if isinstance(error, Unavailable) else longest
    return min(_FIRST_RETRY * 2.0 ** (failures - 1), longest)


_Timers: TypeAlias = dict[K, tuple[float, asyncio.Handle]]
"""When they are due, and what cancels them: uvloop makes no timer of less than a millisecond, so none is asked."""


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
