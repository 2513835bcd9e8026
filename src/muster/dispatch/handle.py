"""`JobHandle`: a submitted job, as `submitit` and `concurrent.futures` have it, but with a memory: the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from muster.dispatch.errors import JobCancelled, JobFailed
from muster.dispatch.model import Job, JobFault, State

if TYPE_CHECKING:
    from muster.dispatch.dispatcher import Dispatcher
    from muster.dispatch.store import Event

LONGEST_LOOK = 0.5
"""Seconds between two looks at a job that has not ended."""


class JobHandle(Awaitable[Any]):
    """A submitted job. It holds nothing but the id, so it can be made again: `dispatcher.get(id)`."""

    def __init__(self, dispatcher: Dispatcher, id: str) -> None:
        self._dispatcher = dispatcher
        self.id = id

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def refresh(self) -> Job:
        """Returns the job as it is now."""
        return self._dispatcher.job(self.id)

    @property
    def state(self) -> State:
        return self.refresh().state

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the end, and returns the result. Raises JobFailed, JobCancelled, or TimeoutError: then the job goes
        on, and `result` may be called again."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while True:
            job = self.refresh()
            if job.has_ended:
                return result_of(job)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {self.id} is {job.state} after {timeout:g} seconds: {job.reason}".rstrip(": "))
            time.sleep(pause)
            pause = min(LONGEST_LOOK, pause * 1.5)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        pause = 0.01
        while True:
            job = await asyncio.to_thread(self.refresh)
            if job.has_ended:
                return result_of(job)
            await asyncio.sleep(pause)
            pause = min(LONGEST_LOOK, pause * 1.5)

    def cancel(self, grace: float = 30.0) -> None:
        """Asks for the end, and returns at once. After `grace` seconds the job is killed."""
        self._dispatcher.cancel(self.id, grace)

    def restart(self) -> JobHandle:
        return self._dispatcher.restart(self.id)

    def logs(self, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Yields the lines of the last attempt's log."""
        make = self._dispatcher.logs(self.id, follow=follow, tail=tail)
        return (line.text for line in self._dispatcher.stream(lambda: make))

    def events(self, follow: bool = False) -> Iterator[Event]:
        """Yields what happened to the job; with `follow`, until it has ended."""
        last, pause = 0, 0.02
        while True:
            ended = not follow or self.refresh().has_ended
            for event in self._dispatcher.events(self.id, last):
                last, pause = event.id, 0.02
                yield event
            if ended:
                return
            time.sleep(pause)
            pause = min(LONGEST_LOOK, pause * 1.5)


def result_of(job: Job) -> Any:
    """Returns the result of an ended job, or raises why there is none."""
    if job.state == "succeeded":
        return job.result
    if job.state == "cancelled":
        raise JobCancelled(f"job {job.id} was cancelled")
    raise JobFailed(job.fault or JobFault("Dispatch.Unknown", job.reason or "it failed", "dispatch"))
