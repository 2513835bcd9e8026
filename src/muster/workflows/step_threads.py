"""Threads for the engine's work on workflows, so that the event loop stays free for everything else.

The work is pure Python, so threads make it no faster. They let the interpreter switch to the event loop every few
milliseconds, however long a step takes; `WorkMeter` makes long work yield and ends it when its budget is used up.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from muster.kube.budgets import Budgets
from muster.workflows.engine.budget import new_meter
from muster.workflows.engine.run import Run, dismantle
from muster.workflows.engine.synchronization import LockTable
from muster.workflows.lang.limits import WorkMeter, metered

T = TypeVar("T")
_SWITCH_SECONDS = 0.001
"""How long the event loop waits at most for the interpreter while a step computes. A request waits several times, and
Python's default is five times as much."""


class StepThreads:
    def __init__(self, budgets: Budgets, threads: int) -> None:
        self._budgets = budgets
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="workflow-step")
        self._meters: set[WorkMeter] = set()
        self._closed = False
        self._used: dict[str, float] = {}
        """CPU seconds by the uid of the workflow."""

    async def run(self, workflow: str, work: Callable[[], T]) -> T:
        """Does some work for the workflow with this uid in a thread. Raises BudgetExceeded."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, workflow, work)

    def dispose(self, run: Run) -> None:
        """Frees the memory of a run, some time."""
        if not self._closed:
            self._pool.submit(dismantle, run)

    def forget(self, workflow: str) -> None:
        """The workflow has ended."""
        self._used.pop(workflow, None)

    def close(self) -> None:
        """Ends all work. Nothing waits for it."""
        self._closed = True
        for meter in list(self._meters):
            meter.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, workflow: str, work: Callable[[], T]) -> T:
        meter = new_meter(self._budgets, self._used.get(workflow, 0.0))
        self._meters.add(meter)
        try:
            with metered(meter):
                return work()
        finally:
            self._meters.discard(meter)
            self._used[workflow] = self._used.get(workflow, 0.0) + meter.used


async def run_metered(work: Callable[[], T]) -> T:
    """Evaluates a user's text for something other than a step, in a thread. Raises BudgetExceeded."""

    def run() -> T:
        with metered(new_meter(Budgets(), 0.0)):
            return work()

    return await asyncio.to_thread(run)


class SharedLockTable(LockTable):
    """Mutexes and semaphores of workflows, for several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.RLock()

    def acquire(self, lock: str, holder: str, *, limit: int, priority: int, since: str) -> str:
        with self._guard:
            return super().acquire(lock, holder, limit=limit, priority=priority, since=since)

    def release(self, lock: str, holder: str) -> None:
        with self._guard:
            super().release(lock, holder)

    def restore(self, lock: str, holders: Iterable[str]) -> None:
        with self._guard:
            super().restore(lock, holders)

    def forget(self, workflow: str) -> None:
        with self._guard:
            super().forget(workflow)

    def waiting_for_turn(self) -> list[str]:
        with self._guard:
            return super().waiting_for_turn()
