"""The dispatcher at work.

    rounds     takes over jobs without a dispatcher, reads users' wishes, decides which waiting jobs start
    `polling`  asks each cluster about its jobs
    `acts`     does what `lifecycle.next_act` says about one job: start, stop, finish, clean

Decisions are in `lifecycle` and `admission`. What a job becomes is stored before anything is done about it
(`held_jobs`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from muster.dispatch import lifecycle, store
from muster.dispatch.acts import JobActs, start_failed
from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.admission import admit
from muster.dispatch.database import Database
from muster.dispatch.errors import Unclear
from muster.dispatch.held_jobs import HeldJob, HeldJobs, LoopSettings, monotonic
from muster.dispatch.model import Capacity, Job, JobDescription, JobType, Spec
from muster.dispatch.poller import Poller
from muster.dispatch.secrets import Secret

log = logging.getLogger(__name__)

_GATHER = 0.01


class DispatchLoop:
    def __init__(
        self,
        database: Database,
        adapters: Mapping[str, DispatcherAdapter],
        types: Mapping[str, JobType],
        settings: LoopSettings,
        *,
        errors: str = "",
        clock: Callable[[], datetime],
        spec_of: Callable[[Job, JobType], Spec],
        env_of: Callable[[Job], Mapping[str, str | Secret]] = lambda job: {},
        on_change: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """`spec_of` returns the Spec of a function job, `env_of` variables for any job's program. `on_change` is
        called after every stored change."""
        self._database, self._adapters, self._types = database, adapters, types
        self._settings, self._clock, self._on_change = settings, clock, on_change
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._jobs = HeldJobs(database, types, settings, self.holder, clock, self._stored)
        self._acts = JobActs(
            self._jobs, adapters, types, settings, errors=errors, clock=clock, spec_of=spec_of, env_of=env_of,
            is_lease_doubtful=self._is_lease_doubtful, kick=self._kick,
        )  # fmt: skip
        self._pollers = {
            name: Poller(adapter, self._jobs, settings, clock, kick=self._kick, fail=self._fail)
            for name, adapter in adapters.items()
        }
        self._capacities: dict[str, tuple[float, datetime, Capacity | None]] = {}
        self._wake = asyncio.Event()
        self._renewed = 0.0

    def wake(self) -> None:
        """Makes the next round happen now. Call it on the loop's thread."""
        self._wake.set()

    async def run(self) -> None:
        """Runs until it is cancelled. Jobs go on meanwhile, and the next dispatcher takes them over."""
        self._renewed = monotonic()
        tasks = [
            asyncio.create_task(_forever("database", partial(self._database.changes, self.wake))),
            asyncio.create_task(_forever("leases", self._renew)),
            asyncio.create_task(_forever("rounds", self._rounds)),
        ]
        for name, poller in self._pollers.items():
            tasks.append(asyncio.create_task(_forever(f"poll {name}", poller.run)))
            tasks.append(asyncio.create_task(_forever(f"watch {name}", poller.watch)))
        try:
            await asyncio.gather(*tasks)
        finally:
            await self._end(tasks)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        running = [task for held in self._jobs.all() for task in (held.task, held.check) if task is not None]
        for task in (*tasks, *running):
            task.cancel()
        await asyncio.gather(*tasks, *running, return_exceptions=True)
        await self._acts.close()
        with suppress(Exception):  # the leases expire, too
            await self._database.run(lambda connection: store.release_leases(connection, self.holder))
        for adapter in self._adapters.values():
            with suppress(Exception):
                await adapter.close()

    # Rounds

    async def _rounds(self) -> None:
        while True:
            self._wake.clear()
            await self.round()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.interval):
                    await self._wake.wait()
                    await asyncio.sleep(_GATHER)  # one round for wishes that come together

    async def round(self) -> None:
        """Takes over, obeys, admits."""
        claimed, some_wait = await self._database.run(self._claim)
        for job in claimed:
            held = self._jobs.hold(job)
            await self._jobs.apply(held, self._after_takeover)
        await self._obey()
        if some_wait:
            capacities, asked = await self._ask_capacities()
            for job in await self._database.run(partial(self._admit, capacities, asked)):
                self._jobs.hold(job)
        for held in self._jobs.all():
            self._kick(held)

    def _claim(self, connection: Connection) -> tuple[list[Job], bool]:
        now, settings = self._clock(), self._settings
        until, most = now + timedelta(seconds=settings.lease), settings.starts_per_round
        jobs = store.claim_jobs(connection, self._adapters, self._types, self.holder, now, until, most)
        return jobs, store.is_any_queued(connection)

    def _admit(self, capacities: Mapping[str, Capacity | None], asked: datetime, connection: Connection) -> list[Job]:
        if not store.lock_round(connection):
            return []
        now = self._clock()
        queue = store.read_queue(connection, self._adapters, asked)
        if not queue.waiting and not queue.cancelled:
            return []
        known = [job for job in queue.waiting if job.type in self._types]
        admission = admit(
            known,
            now=now,
            capacity=capacities,
            limits=self._settings.limits,
            active=queue.active,
            held=queue.held,
            dependencies=queue.dependencies,
            at_most=self._settings.starts_per_round,
        )
        for job in queue.waiting:
            if job.type not in self._types and job.on in self._adapters:
                admission.reasons[job.id] = f'waits: no running dispatcher has the type "{job.type}"'
        until = now + timedelta(seconds=self._settings.lease)
        return store.apply_admission(connection, queue, admission, self.holder, until, now)

    async def _ask_capacities(self) -> tuple[dict[str, Capacity | None], datetime]:
        """Asks all adapters at once. One that cannot be asked is left out: its jobs wait."""
        found = await asyncio.gather(*(self._capacity_of(adapter) for adapter in self._adapters.values()))
        known = {name: entry for name, entry in zip(self._adapters, found, strict=True) if entry is not None}
        oldest = min((asked for asked, _ in known.values()), default=self._clock())
        return {name: capacity for name, (_, capacity) in known.items()}, oldest

    async def _capacity_of(self, adapter: DispatcherAdapter) -> tuple[datetime, Capacity | None] | None:
        kept = self._capacities.get(adapter.name)
        if kept is not None and monotonic() - kept[0] < self._settings.interval:
            return kept[1], kept[2]
        asked = self._clock()
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                capacity = await adapter.capacity()
        except Exception as error:
            log.warning("%s: its capacity cannot be read: %s", adapter.name, error)
            return None
        self._capacities[adapter.name] = (monotonic(), asked, capacity)
        return asked, capacity

    async def _obey(self) -> None:
        """Cancels, notes priorities, and reloads jobs that a user has changed."""
        if not self._jobs:
            return
        for wish in await self._jobs.read_wishes():
            held = self._jobs.find(wish.id)
            if held is None:
                continue
            if wish.priority != held.job.priority:
                held.job = replace(held.job, priority=wish.priority)
            if wish.cancel_requested is not None and held.job.cancel_requested is None:
                held.job = replace(held.job, cancel_requested=wish.cancel_requested, grace=wish.grace)
                await self._cancel(held)
            elif wish.version > held.job.version and not held.is_busy:
                await self._jobs.reload(held)

    async def _cancel(self, held: HeldJob) -> None:
        """Hooks of a job that is about to start are killed. Anything else under way is finished first; then `_kick`
        sees that the job is to be cancelled."""
        if held.task is not None and held.is_busy and held.job.state == "starting" and not held.sending:
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
        self._kick(held)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 3)
            began, until = monotonic(), self._clock() + timedelta(seconds=self._settings.lease)
            await self._database.run(partial(store.renew_leases, holder=self.holder, until=until))
            self._renewed = began

    def _is_lease_doubtful(self) -> bool:
        return monotonic() - self._renewed > self._settings.lease * 0.7

    # Jobs that are held

    def _stored(self, held: HeldJob) -> None:
        """Follows every stored change of a job."""
        job = held.job
        if job.state in {"preparing", "stopping", "cancelling"}:
            self._pollers[job.on].poll_soon(held)
        if held not in self._jobs:
            self._capacities.pop(job.on, None)
            self._wake.set()  # there is room now, and others may have waited for it
        self._on_change(job)

    def _fail(self, held: HeldJob, description: JobDescription) -> None:
        held.task = asyncio.create_task(self._act(held, partial(self._acts.fail, description)))

    def _after_takeover(self, job: Job) -> Job:
        error = Unclear("the dispatcher that started it ended before the answer came")
        return lifecycle.taken_over(job, start_failed(error, self._adapters[job.on]), self._clock())

    def _kick(self, held: HeldJob) -> None:
        """Starts what is to be done about the job now, if anything."""
        if held.is_busy or held not in self._jobs:
            return
        if held.job.cancel_requested is not None and held.job.state in {"starting", "preparing", "running", "stopping"}:
            held.task = asyncio.create_task(self._act(held, self._cancelled))
            return
        act = lifecycle.next_act(held.job, self._clock())
        if act is not None:
            work = {
                "start": self._acts.start,
                "prioritize": self._acts.prioritize,
                "find": self._acts.find,
                "stop": self._acts.stop,
                "finish": self._acts.finish,
                "clean": self._acts.clean,
            }[act]
            held.task = asyncio.create_task(self._act(held, work))
        elif held.job.state in {"preparing", "running"} and self._acts.is_check_due(held):
            held.check = asyncio.create_task(self._acts.check(held))

    async def _act(self, held: HeldJob, work: Callable[[HeldJob], Awaitable[None]]) -> None:
        try:
            await work(held)
        except Exception:
            # A bug, or the database cannot be reached. The job is unchanged, so the next round does it again.
            log.exception("job %s: the dispatcher failed to act on it in state %s", held.job.id, held.job.state)
            await asyncio.sleep(1.0)
            return
        finally:
            held.sending = False
        held.task = None
        self._kick(held)

    async def _cancelled(self, held: HeldJob) -> None:
        await self._jobs.observe(held, lifecycle.CancelRequested())


async def _forever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Runs a part of the dispatcher again if it fails: a database that is restarted, or a bug."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("dispatcher: %s failed; it is restarted in a second", name)
            await asyncio.sleep(1.0)
