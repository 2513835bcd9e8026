"""The jobs that a dispatcher holds by lease. What a job becomes is stored here, before anything is done about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from muster.dispatch import lifecycle, store
from muster.dispatch.admission import Limits
from muster.dispatch.database import Database
from muster.dispatch.model import Job, JobType

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    folder: Path
    limits: Limits = field(default_factory=dict)
    lease: float = 30.0
    """Seconds for which a job is held without a sign of life. Then another dispatcher takes it over."""
    interval: float = 1.0
    """Seconds between two rounds, if nothing happens before."""
    starts_per_round: int = 100
    call_timeout: float = 60.0
    """Seconds for a call of an adapter."""
    lost_after: float = lifecycle.LOST_AFTER


class HeldJob:
    """A job that this dispatcher holds."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.initialized = False
        """Whether `initialize` has run in this dispatcher."""
        self.task: asyncio.Task[None] | None = None
        self.check: asyncio.Task[None] | None = None
        self.sending = False
        """`start` is being called, so a cancel has to wait for its answer."""
        self.poll_at = 0.0
        self.check_at = 0.0
        self.writing = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        return self.task is not None and not self.task.done()


class HeldJobs:
    """They are found by their ids."""

    def __init__(
        self,
        database: Database,
        types: Mapping[str, JobType],
        settings: LoopSettings,
        holder: str,
        clock: Callable[[], datetime],
        on_stored: Callable[[HeldJob], None],
    ) -> None:
        """`on_stored` is called after every stored change. A job that has ended or waits again is not held any more."""
        self._database, self._types, self._settings = database, types, settings
        self._holder, self._clock, self._on_stored = holder, clock, on_stored
        self._jobs: dict[str, HeldJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, held: HeldJob) -> bool:
        """Whether it is still held; the same job may be held anew."""
        return self._jobs.get(held.job.id) is held

    def all(self) -> list[HeldJob]:
        return list(self._jobs.values())

    def on(self, adapter: str) -> list[HeldJob]:
        return [held for held in self._jobs.values() if held.job.on == adapter]

    def find(self, id: str) -> HeldJob | None:
        return self._jobs.get(id)

    def hold(self, job: Job) -> HeldJob:
        held = self._jobs[job.id] = HeldJob(self._complete(job))
        held.check_at = monotonic() + self._types[job.type].check_every
        return held

    def _complete(self, job: Job) -> Job:
        """Adds what is not stored."""
        type = self._types[job.type]
        retry = replace(job.retry, on=type.retry.on)
        return replace(job, folder=str(self._settings.folder / job.id), retry=retry)

    async def observe(self, held: HeldJob, observed: lifecycle.Observation) -> bool:
        """Stores what follows from an observation. False: this dispatcher does not hold the job any more."""
        lost_after = self._settings.lost_after
        return await self.apply(
            held, lambda job: lifecycle.advance(job, observed, self._clock(), lost_after=lost_after)
        )

    async def apply(self, held: HeldJob, change: Callable[[Job], Job], *, always: bool = False) -> bool:
        """Stores a change. If a user has changed the job meanwhile, the change is made to what the user left. False:
        this dispatcher does not hold the job any more. `always`: finds that out even if nothing changes."""
        async with held.writing:
            while True:
                before = held.job
                after = change(before)
                if after == before and not always:
                    return True
                if await self._database.run(partial(_save, before, after, self._holder)):
                    break
                if not await self.reload(held):
                    return False
            noted, held.job = held.job, replace(after, version=before.version + 1)
            if noted.cancel_requested is not None and before.cancel_requested is None:
                # A user cancelled it during the write. The round that noted that reads it only once.
                held.job = replace(held.job, cancel_requested=noted.cancel_requested, grace=noted.grace)
        if after.has_ended or after.state in store.QUEUED:
            self._jobs.pop(after.id, None)
        self._on_stored(held)
        return True

    async def reload(self, held: HeldJob) -> bool:
        """Someone else has changed the job: a user, or the dispatcher that took it over."""
        id = held.job.id
        if id not in {wish.id for wish in await self.read_wishes()}:
            log.warning("job %s: another dispatcher holds it now", id)
            self._jobs.pop(id, None)
            return False
        (job,) = await self._database.run_read(lambda connection: store.load_jobs(connection, [id]))
        held.job = self._complete(job)
        return True

    async def read_wishes(self) -> list[store.Wish]:
        """Returns what users asked of the jobs."""
        return await self._database.run_read(lambda connection: store.read_wishes(connection, self._holder))


def _save(before: Job, after: Job, holder: str, connection: Connection) -> bool:
    return store.save_job(connection, before, after, holder)


def monotonic() -> float:
    """The clock of timers; `clock` is the time of day."""
    return asyncio.get_running_loop().time()
