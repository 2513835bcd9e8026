"""Asks clusters about their jobs: one `Poller` per adapter, so that a broken cluster slows no other."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from muster.dispatch import lifecycle
from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.held_jobs import HeldJob, HeldJobs, LoopSettings, monotonic
from muster.dispatch.job_files import read_report
from muster.dispatch.model import Job, JobDescription

log = logging.getLogger(__name__)

_LONGEST_POLL = 30.0
_FAILURES_TO_TELL = 3
_GATHER = 0.02
_HOUR = 3600.0


class Poller:
    """Asks one cluster about all its jobs at once."""

    def __init__(
        self,
        adapter: DispatcherAdapter,
        jobs: HeldJobs,
        settings: LoopSettings,
        clock: Callable[[], datetime],
        *,
        kick: Callable[[HeldJob], None],
        fail: Callable[[HeldJob, JobDescription], None],
    ) -> None:
        """`kick` starts what is to be done about a job, `fail` ends one that the cluster calls failed."""
        self._adapter, self._jobs, self._settings, self._clock = adapter, jobs, settings, clock
        self._kick, self._fail = kick, fail
        self._due = asyncio.Event()

    async def watch(self) -> None:
        """Polls when the cluster says that something has changed. Runs until it is cancelled."""
        while True:
            await self._adapter.changed()
            for held in self._jobs.on(self._adapter.name):
                held.poll_at = 0.0
            self._due.set()
            await asyncio.sleep(_GATHER)  # one poll for changes that come together

    def poll_soon(self, held: HeldJob) -> None:
        held.poll_at = 0.0
        self._due.set()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        failures = 0
        while True:
            self._due.clear()
            try:
                await self.poll()
                failures = 0
            except Exception as error:
                failures += 1
                log.warning("%s: its jobs cannot be described: %s", self._adapter.name, error)
                if failures == _FAILURES_TO_TELL:
                    await self._tell(str(error) or type(error).__name__)
            if failures:
                await asyncio.sleep(lifecycle.backoff(failures, self._adapter.poll_every))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._next_poll()):
                    await self._due.wait()

    async def _tell(self, error: str) -> None:
        """Says on every job of a cluster that it cannot be asked. The next description replaces the reason."""
        reason = f"{self._adapter.name} cannot be asked about it: {error}"
        for held in self._polled():
            if held.job.state in {"preparing", "running"} and not held.is_busy:
                await self._jobs.apply(held, lambda job: replace(job, reason=reason))

    def _next_poll(self) -> float:
        now = monotonic()
        return max(_GATHER, min([self._adapter.poll_every, *(held.poll_at - now for held in self._polled())]))

    async def poll(self) -> None:
        """Asks the cluster about all jobs that are due."""
        now = monotonic()
        due = [held for held in self._polled() if held.poll_at <= now and not held.is_busy]
        if not due:
            return
        asked = {held.job.id: held.job.version for held in due}
        async with asyncio.timeout(self._settings.call_timeout):
            found = await self._adapter.describe([held.job for held in due])
        for held in due:
            held.poll_at = now + _poll_interval(held.job, self._clock(), self._adapter.poll_every)
        await asyncio.gather(*(self._described(held, asked[held.job.id], found.get(held.job.id)) for held in due))

    def _polled(self) -> list[HeldJob]:
        return [held for held in self._jobs.on(self._adapter.name) if _is_polled(held.job)]

    async def _described(self, held: HeldJob, version: int, description: JobDescription | None) -> None:
        if held.is_busy or held.job.version != version or held not in self._jobs:
            return  # something happened meanwhile: what was described may be older
        if description is not None and description.state == "failed" and held.job.state in {"preparing", "running"}:
            self._fail(held, description)
            return
        report = await asyncio.to_thread(read_report, held.job)

        def describe(job: Job) -> Job:
            if job.version != version:
                return job
            now, lost_after = self._clock(), self._settings.lost_after
            job = lifecycle.advance(job, lifecycle.Described(description), now, lost_after=lost_after)
            return job if report is None else lifecycle.advance(job, report, now)

        if not held.is_busy and await self._jobs.apply(held, describe):
            self._kick(held)


def _is_polled(job: Job) -> bool:
    if job.external_id is None:
        return False
    return job.state in {"preparing", "running"} or (
        job.state in {"stopping", "cancelling"} and not job.tracking.off_cluster
    )


def _poll_interval(job: Job, now: datetime, first: float) -> float:
    """Old jobs are looked at less often; jitter spreads jobs that started together."""
    age = (now - (job.started or job.changed or job.created)).total_seconds() if job.state == "running" else 0.0
    seconds = min(_LONGEST_POLL, first * (1 + 14 * min(1.0, max(0.0, age) / _HOUR)))
    return seconds * random.uniform(0.9, 1.0)  # noqa: S311 (it is no secret)
