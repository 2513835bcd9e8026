"""What connects the dispatcher to one kind of cluster.

An adapter maps; it does not decide. It keeps no state between calls except its connection, repeats no call that
changes something, and raises one of the five errors of `muster.dispatch.errors`. The dispatcher does the rest: when to
start, whether to repeat, how long to back off, what to adopt.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from muster.dispatch.model import Capacity, Job, JobDescription, Line, OnUnclear, Spec


class DispatcherAdapter(Protocol):
    """Derive from it to inherit the defaults, or implement it."""

    name: str
    """`local`, `aihc`, ...: what `submit(on=...)` and `route` refer to."""

    finds: bool = True
    """Whether `find` works: the cluster can be asked for a job by the name it was started under. Then a start happens
    exactly once. Otherwise `on_unclear` says what follows an unclear answer."""

    on_unclear: OnUnclear = "hold"
    """After an unclear start, if the cluster cannot be asked. `hold`: the job waits for `resolve()`. `again`: start it
    again, which may run it twice. `fail`: the job fails."""

    settle: float = 2
    """Seconds between an unclear answer and the first `find`: until then, the cluster may not list the job yet."""

    starts_at_once: int = 100
    """How many starts a dispatcher has under way at a time. If it dies, as many are unclear."""

    functions: bool = False
    """Whether it runs function jobs, whose code comes from the dispatcher's machine."""

    poll_every: float = 2
    """Seconds between two looks at a young job. The interval grows to 30 seconds for jobs that run for an hour."""

    def job_folder(self, job: Job) -> str:
        """Returns the path under which the job finds its folder; '' if it does not see it."""
        return job.folder

    async def capacity(self) -> Capacity | None:
        """Returns what the cluster has and what is free. None: not known; start and see (NoCapacity)."""
        return None

    @abstractmethod
    async def start(self, job: Job, spec: Spec, name: str) -> str:
        """Creates the job under `name`, or takes over the one with that name. Returns the external id at once."""
        ...

    async def find(self, job: Job, name: str) -> str | None:
        """Returns the external id of the job that was started under `name`; None if there is none."""
        return None

    @abstractmethod
    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        """Returns what the cluster says about these jobs, by `Job.id`, with as few calls as possible. A job that is
        missing in the answer is unknown to the cluster. Raises Transient if the cluster cannot be asked."""
        ...

    @abstractmethod
    async def stop(self, job: Job, grace: float) -> None:
        """Asks the cluster to stop the job; `describe` says when it has. Does nothing if it ended or is unknown."""
        ...

    async def set_priority(self, job: Job) -> None:
        """Tells the cluster the new `job.priority` of a job that waits there. Does nothing if the cluster cannot change
        it (any more). Idempotent."""
        return

    async def release(self, job: Job) -> None:
        """Removes what an ended attempt left on the cluster, as far as the cluster does not do so. Idempotent."""
        return

    @abstractmethod
    def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        """Yields the job's log: the last `tail` lines, or all; with `follow`, until the job ends."""
        ...

    @abstractmethod
    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        """Returns what `start` would send. Pure. Keys stay `Secret` objects, so that they are masked when shown.
        Raises Refused if the job cannot be expressed on this cluster."""
        ...

    async def changed(self) -> None:
        """Returns when jobs of this cluster may have changed, so that they are described at once. A hint: without it,
        changes are noticed by polling."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Closes the connection."""
        return
