"""The dispatcher at work: it holds jobs by lease, and makes them go on.

    round      takes over jobs without a dispatcher, reads users' wishes, decides which waiting jobs start
    poll       asks each cluster about its jobs, all at once; one task per adapter, so that a broken one slows no other
    act        does what `lifecycle.next_act` says about one job: start, stop, finish, clean

Decisions are in `lifecycle` and `admission`. What a job becomes is stored before anything is done about it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection

from muster.dispatch import lifecycle, store
from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.admission import Limits, admit
from muster.dispatch.codec import fault_from_json, spec_from_json
from muster.dispatch.context import ERROR, RESULT, read_json
from muster.dispatch.database import Database
from muster.dispatch.errors import DispatchError, JobError, Transient, Unclear
from muster.dispatch.hooks import HookError, HookRunner
from muster.dispatch.job_files import log_path, read_report, read_tail, write_log
from muster.dispatch.model import Capacity, Job, JobDescription, JobFault, Resources, Retry, Spec, with_env
from muster.dispatch.secrets import Secret

log = logging.getLogger(__name__)

_LOG_BYTES = 32 << 20
_LONGEST_POLL = 30.0
_GATHER = 0.01
_FAILURES_TO_TELL = 3
_RELEASE_PAUSES = (0.2, 1.0, 3.0)
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class JobType:
    """A registered type of jobs."""

    name: str
    kind: Literal["function", "container"]
    target: str
    image: str = ""
    resources: Resources = field(default_factory=Resources)
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    hooks: frozenset[str] = frozenset()
    """The hooks that the container class defines."""
    check_every: float = 60.0
    hook_timeout: float = 600.0


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


class _Held:
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
        self._settings, self._clock, self._spec_of, self._on_change = settings, clock, spec_of, on_change
        self._env_of, self._hooks = env_of, HookRunner(errors)
        self._held: dict[str, _Held] = {}
        self._capacities: dict[str, tuple[float, datetime, Capacity | None]] = {}
        self._wake = asyncio.Event()
        self._polls = {name: asyncio.Event() for name in adapters}
        self._starts = {name: asyncio.Semaphore(adapter.starts_at_once) for name, adapter in adapters.items()}
        self._renewed = 0.0
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    def wake(self) -> None:
        """Makes the next round happen now. Call it on the loop's thread."""
        self._wake.set()

    async def run(self) -> None:
        """Runs until it is cancelled. Jobs go on meanwhile, and the next dispatcher takes them over."""
        self._renewed = _monotonic()
        tasks = [
            asyncio.create_task(_forever("database", partial(self._database.changes, self.wake))),
            asyncio.create_task(_forever("leases", self._renew)),
            asyncio.create_task(_forever("rounds", self._rounds)),
        ]
        for name, adapter in self._adapters.items():
            tasks.append(asyncio.create_task(_forever(f"poll {name}", partial(self._poll_adapter, adapter))))
            tasks.append(asyncio.create_task(_forever(f"watch {name}", partial(self._watch_adapter, adapter))))
        try:
            await asyncio.gather(*tasks)
        finally:
            await self._end(tasks)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        running = [task for held in self._held.values() for task in (held.task, held.check) if task is not None]
        for task in (*tasks, *running):
            task.cancel()
        await asyncio.gather(*tasks, *running, return_exceptions=True)
        await self._hooks.close()
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
            held = self._hold(job)
            await self._apply(held, self._after_takeover)
        await self._obey()
        if some_wait:
            capacities, asked = await self._ask_capacities()
            for job in await self._database.run(partial(self._admit, capacities, asked)):
                self._hold(job)
        for held in list(self._held.values()):
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
        if kept is not None and _monotonic() - kept[0] < self._settings.interval:
            return kept[1], kept[2]
        asked = self._clock()
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                capacity = await adapter.capacity()
        except Exception as error:
            log.warning("%s: its capacity cannot be read: %s", adapter.name, error)
            return None
        self._capacities[adapter.name] = (_monotonic(), asked, capacity)
        return asked, capacity

    async def _obey(self) -> None:
        """Cancels, and reloads jobs that a user has changed."""
        if not self._held:
            return
        for wish in await self._database.run_read(lambda connection: store.read_wishes(connection, self.holder)):
            held = self._held.get(wish.id)
            if held is None:
                continue
            if wish.cancel_requested is not None and held.job.cancel_requested is None:
                held.job = replace(held.job, cancel_requested=wish.cancel_requested, grace=wish.grace)
                await self._cancel(held)
            elif wish.version > held.job.version and not held.is_busy:
                await self._reload(held)

    async def _cancel(self, held: _Held) -> None:
        """Hooks of a job that is about to start are killed. Anything else under way is finished first; then `_kick`
        sees that the job is to be cancelled."""
        if held.task is not None and held.is_busy and held.job.state == "starting" and not held.sending:
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
        self._kick(held)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 3)
            began, until = _monotonic(), self._clock() + timedelta(seconds=self._settings.lease)
            await self._database.run(partial(store.renew_leases, holder=self.holder, until=until))
            self._renewed = began

    # Jobs that are held

    def _hold(self, job: Job) -> _Held:
        held = self._held[job.id] = _Held(self._complete(job))
        held.check_at = _monotonic() + self._types[job.type].check_every
        return held

    def _complete(self, job: Job) -> Job:
        """Adds what is not stored."""
        type = self._types[job.type]
        retry = replace(job.retry, on=type.retry.on)
        return replace(job, folder=str(self._settings.folder / job.id), retry=retry)

    def _after_takeover(self, job: Job) -> Job:
        error = Unclear("the dispatcher that started it ended before the answer came")
        return lifecycle.taken_over(job, _start_failed(error, self._adapters[job.on]), self._clock())

    def _kick(self, held: _Held) -> None:
        """Starts what is to be done about the job now, if anything."""
        if held.is_busy or self._held.get(held.job.id) is not held:
            return
        if held.job.cancel_requested is not None and held.job.state in {"starting", "preparing", "running", "stopping"}:
            held.task = asyncio.create_task(self._act(held, self._cancelled))
            return
        act = lifecycle.next_act(held.job, self._clock())
        if act is not None:
            work = {
                "start": self._start,
                "find": self._find,
                "stop": self._stop,
                "finish": self._finish,
                "clean": self._clean,
            }[act]
            held.task = asyncio.create_task(self._act(held, work))
        elif held.job.state in {"preparing", "running"} and self._is_check_due(held):
            held.check = asyncio.create_task(self._check(held))

    async def _act(self, held: _Held, work: Callable[[_Held], Awaitable[None]]) -> None:
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

    async def _cancelled(self, held: _Held) -> None:
        await self._observe(held, lifecycle.CancelRequested())

    async def _observe(self, held: _Held, observed: lifecycle.Observation) -> bool:
        """Stores what follows from an observation. False: this dispatcher does not hold the job any more."""
        lost_after = self._settings.lost_after
        return await self._apply(
            held, lambda job: lifecycle.advance(job, observed, self._clock(), lost_after=lost_after)
        )

    async def _apply(self, held: _Held, change: Callable[[Job], Job], *, always: bool = False) -> bool:
        """Stores a change. If a user has changed the job meanwhile, the change is made to what the user left. False:
        this dispatcher does not hold the job any more. `always`: finds that out even if nothing changes."""
        async with held.writing:
            while True:
                before = held.job
                after = change(before)
                if after == before and not always:
                    return True
                if await self._database.run(partial(_save, before, after, self.holder)):
                    break
                if not await self._reload(held):
                    return False
            noted, held.job = held.job, replace(after, version=before.version + 1)
            if noted.cancel_requested is not None and before.cancel_requested is None:
                # A user cancelled it during the write. `_obey` noted that, and reads it only once.
                held.job = replace(held.job, cancel_requested=noted.cancel_requested, grace=noted.grace)
        if after.state in {"preparing", "stopping", "cancelling"}:
            self._poll_soon(held)
        if after.has_ended or after.state in store.QUEUED:
            self._held.pop(after.id, None)
            self._capacities.pop(after.on, None)
            self._wake.set()  # there is room now, and others may have waited for it
        self._on_change(held.job)
        return True

    async def _reload(self, held: _Held) -> bool:
        """Someone else has changed the job: a user, or the dispatcher that took it over."""
        id = held.job.id
        wishes = await self._database.run_read(lambda connection: store.read_wishes(connection, self.holder))
        if id not in {wish.id for wish in wishes}:
            log.warning("job %s: another dispatcher holds it now", id)
            self._held.pop(id, None)
            return False
        (job,) = await self._database.run_read(lambda connection: store.load_jobs(connection, [id]))
        held.job = self._complete(job)
        return True

    # Acts

    async def _start(self, held: _Held) -> None:
        type, adapter = self._types[held.job.type], self._adapters[held.job.on]
        if held.job.tracking.sent and not held.job.tracking.unclear:
            error = Unclear("an earlier start was sent, and its result could not be stored")
            await self._observe(held, _start_failed(error, adapter))
            return
        try:
            spec = with_env(await self._prepare(held, type), self._env_of(held.job))
            adapter.request(held.job, spec, held.job.external_name)
        except HookError as error:
            await self._observe(held, lifecycle.StartFailed(error.error, error.fault))
            return
        except DispatchError as error:
            fault = JobFault(error.code, error.message, "dispatch")
            await self._observe(held, lifecycle.StartFailed(error, fault))
            return
        async with self._starts[adapter.name]:
            if self._is_lease_doubtful():
                return
            held.sending = True
            sending = partial(lifecycle.advance, observed=lifecycle.Sending(), now=self._clock())
            if not await self._apply(held, sending, always=True) or held.job.state != "starting":
                return
            if self._is_lease_doubtful():
                return
            observed = await self._call_start(held, adapter, spec)
            held.sending = False
            await self._observe(held, observed)

    def _is_lease_doubtful(self) -> bool:
        """Whether another dispatcher may have taken over this one's jobs, and be starting them."""
        return _monotonic() - self._renewed > self._settings.lease * 0.7

    async def _call_start(self, held: _Held, adapter: DispatcherAdapter, spec: Spec) -> lifecycle.Observation:
        job = held.job
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                return lifecycle.Started(await adapter.start(job, spec, job.external_name))
        except DispatchError as error:
            found = error
        except TimeoutError:
            found = Unclear(f"{adapter.name} did not answer within {self._settings.call_timeout:g} seconds")
        except Exception as error:
            log.exception("job %s: %s raised an unknown error", job.id, adapter.name)
            found = Unclear(f"{type(error).__name__}: {error}")
        return _start_failed(found, adapter)

    async def _prepare(self, held: _Held, type: JobType) -> Spec:
        folder = Path(held.job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        if type.kind == "function":
            if not self._adapters[held.job.on].functions and not type.image:
                raise JobError(
                    "Dispatch.NoFunctions",
                    f"{held.job.on} runs programs of images only: give the function an image, or use a Container",
                    retryable=False,
                )
            return self._spec_of(held.job, type)
        await self._initialize(held, type)
        return spec_from_json(await self._hook(held, type, "prepare"))

    async def _initialize(self, held: _Held, type: JobType) -> None:
        first, held.initialized = not held.initialized, True
        if first and "initialize" in type.hooks:
            await self._hook(held, type, "initialize")

    async def _hook(self, held: _Held, type: JobType, hook: str) -> Any:
        done = await self._hooks.run(type.target, hook, held.job, type.hook_timeout)
        if done.keep != dict(held.job.tracking.kept):

            def keep(job: Job) -> Job:
                return replace(job, tracking=replace(job.tracking, kept=done.keep))

            await self._apply(held, keep)
        return done.value

    async def _find(self, held: _Held) -> None:
        adapter = self._adapters[held.job.on]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                found = await adapter.find(held.job, held.job.external_name) if adapter.finds else None
        except Exception as error:
            await self._observe(held, lifecycle.StopSent(_transient(error, adapter)))
            return
        await self._observe(held, lifecycle.Found(found))

    async def _stop(self, held: _Held) -> None:
        adapter = self._adapters[held.job.on]
        if not await asyncio.to_thread(log_path(held.job).exists):
            await self._save_log(held.job)  # a stopped job may take its log with it
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                await adapter.stop(held.job, held.job.grace)
        except Exception as error:
            await self._observe(held, lifecycle.StopSent(_transient(error, adapter)))
            return
        await self._observe(held, lifecycle.StopSent())
        self._poll_soon(held)

    async def _finish(self, held: _Held) -> None:
        type = self._types[held.job.type]
        await self._save_log(held.job)
        await self._read_report(held)
        result, fault = None, None
        try:
            if type.kind == "function":
                result = await self._function_result(held.job)
            elif "submit" in type.hooks:
                await self._initialize(held, type)
                result = await self._hook(held, type, "submit")
        except HookError as error:
            fault = error.fault
        except JobError as error:
            fault = JobFault(error.code, error.message, retryable=error.retryable)
        note = await self._run_clean(held, type)
        await self._observe(held, lifecycle.Finished(result, fault, note))

    async def _clean(self, held: _Held) -> None:
        await self._save_log(held.job)
        await self._read_report(held)
        await self._observe(held, lifecycle.Cleaned(await self._run_clean(held, self._types[held.job.type])))

    async def _run_clean(self, held: _Held, type: JobType) -> str:
        """Returns a note if `clean` failed; that does not change how the job ended."""
        note = ""
        if "clean" in type.hooks:
            try:
                with suppress(HookError):  # there may be something to clean all the same
                    await self._initialize(held, type)
                await self._hook(held, type, "clean")
            except HookError as error:
                note = f"clean failed: {error.fault.message}"
        if held.job.external_id is not None:
            await self._release(held.job)
        return note

    async def _release(self, job: Job) -> None:
        """Removes what an attempt left on its cluster, keys among it. A cluster that cannot be reached for long must
        not keep the job from ending."""
        adapter = self._adapters[job.on]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                for pause in _RELEASE_PAUSES:
                    with suppress(Exception):
                        await adapter.release(job)
                        return
                    await asyncio.sleep(pause)
                await adapter.release(job)
        except Exception as error:
            log.warning("job %s: what it left on %s could not be removed: %s", job.id, adapter.name, error)

    async def _function_result(self, job: Job) -> Any:
        found = await asyncio.to_thread(read_json, Path(job.folder) / RESULT, job.attempt)
        if found is None:
            raise JobError("Job.NoResult", "the function ended without a result: did it call sys.exit or os._exit?")
        return found.get("result")

    # Polling

    async def _watch_adapter(self, adapter: DispatcherAdapter) -> None:
        while True:
            await adapter.changed()
            for held in self._held.values():
                if held.job.on == adapter.name:
                    held.poll_at = 0.0
            self._polls[adapter.name].set()
            await asyncio.sleep(0.02)  # one poll for changes that come together

    def _poll_soon(self, held: _Held) -> None:
        held.poll_at = 0.0
        self._polls[held.job.on].set()

    async def _poll_adapter(self, adapter: DispatcherAdapter) -> None:
        failures = 0
        while True:
            self._polls[adapter.name].clear()
            try:
                await self.poll(adapter)
                failures = 0
            except Exception as error:
                failures += 1
                log.warning("%s: its jobs cannot be described: %s", adapter.name, error)
                if failures == _FAILURES_TO_TELL:
                    await self._tell(adapter, str(error) or type(error).__name__)
            if failures:
                await asyncio.sleep(lifecycle.backoff(failures, adapter.poll_every))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._next_poll(adapter)):
                    await self._polls[adapter.name].wait()

    async def _tell(self, adapter: DispatcherAdapter, error: str) -> None:
        """Says on every job of a cluster that it cannot be asked. The next description replaces the reason."""
        reason = f"{adapter.name} cannot be asked about it: {error}"
        for held in [h for h in self._held.values() if h.job.on == adapter.name and _is_polled(h.job)]:
            if held.job.state in {"preparing", "running"} and not held.is_busy:
                await self._apply(held, lambda job: replace(job, reason=reason))

    def _next_poll(self, adapter: DispatcherAdapter) -> float:
        now = _monotonic()
        times = [h.poll_at for h in self._held.values() if h.job.on == adapter.name and _is_polled(h.job)]
        return max(0.02, min([adapter.poll_every, *(time - now for time in times)]))

    async def poll(self, adapter: DispatcherAdapter) -> None:
        """Asks the cluster about all jobs that are due."""
        now = _monotonic()
        due = [
            held
            for held in self._held.values()
            if held.job.on == adapter.name and held.poll_at <= now and _is_polled(held.job) and not held.is_busy
        ]
        if not due:
            return
        asked = {held.job.id: held.job.version for held in due}
        async with asyncio.timeout(self._settings.call_timeout):
            found = await adapter.describe([held.job for held in due])
        for held in due:
            held.poll_at = now + _poll_interval(held.job, self._clock(), adapter.poll_every)
        await asyncio.gather(*(self._described(held, asked[held.job.id], found.get(held.job.id)) for held in due))

    async def _described(self, held: _Held, version: int, description: JobDescription | None) -> None:
        if held.is_busy or held.job.version != version or self._held.get(held.job.id) is not held:
            return  # something happened meanwhile: what was described may be older
        if description is not None and description.state == "failed" and held.job.state in {"preparing", "running"}:
            held.task = asyncio.create_task(self._act(held, partial(self._failed, description)))
            return
        report = await asyncio.to_thread(read_report, held.job)

        def describe(job: Job) -> Job:
            if job.version != version:
                return job
            now, lost_after = self._clock(), self._settings.lost_after
            job = lifecycle.advance(job, lifecycle.Described(description), now, lost_after=lost_after)
            return job if report is None else lifecycle.advance(job, report, now)

        if not held.is_busy and await self._apply(held, describe):
            self._kick(held)

    async def _failed(self, description: JobDescription, held: _Held) -> None:
        """Adds what the job said about its failure: `error.json` and the end of its log."""
        fault = description.fault or JobFault("Job.Failed", description.reason or "it failed", retryable=True)
        await self._save_log(held.job)
        said = await asyncio.to_thread(read_json, Path(held.job.folder) / ERROR, held.job.attempt)
        if said is not None and isinstance(said.get("fault"), dict):
            with suppress(DispatchError):
                fault = replace(fault_from_json(said["fault"]), exit_code=fault.exit_code)
        tail = await asyncio.to_thread(read_tail, log_path(held.job))
        described = replace(description, fault=replace(fault, log_tail=tail or fault.log_tail))
        await self._observe(held, lifecycle.Described(described))

    async def _read_report(self, held: _Held) -> None:
        report = await asyncio.to_thread(read_report, held.job)
        if report is not None:
            await self._observe(held, report)

    def _is_check_due(self, held: _Held) -> bool:
        type = self._types[held.job.type]
        idle = held.check is None or held.check.done()
        return idle and "check" in type.hooks and held.job.state == "running" and held.check_at <= _monotonic()

    async def _check(self, held: _Held) -> None:
        type = self._types[held.job.type]
        held.check_at = _monotonic() + type.check_every
        try:
            await self._initialize(held, type)
            await self._hook(held, type, "check")
        except HookError as error:
            if not isinstance(error.error, Transient):
                await self._observe(held, lifecycle.HookFailed(error.fault))
                self._kick(held)
        except Exception:
            log.exception("job %s: check failed", held.job.id)

    async def _save_log(self, job: Job) -> None:
        """Copies the attempt's log into its folder, before the cluster forgets it."""
        if job.external_id is None:
            return
        path = log_path(job)
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                lines, size = [], 0
                async for line in self._adapters[job.on].logs(job):
                    text = f"{line.source} | {line.text}" if line.source and job.resources.nodes > 1 else line.text
                    lines.append(text)
                    size += len(text) + 1
                    if size > _LOG_BYTES:
                        lines.append("... the rest of the log was not kept")
                        break
        except Exception as error:
            if not path.exists():
                log.info("job %s: its log cannot be read: %s", job.id, error)
            return
        if lines:
            await asyncio.to_thread(write_log, path, lines)


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


def _start_failed(error: DispatchError, adapter: DispatcherAdapter) -> lifecycle.StartFailed:
    fault = JobFault(error.code, error.message, "job" if isinstance(error, JobError) else "dispatch")
    return lifecycle.StartFailed(error, fault, adapter.finds, adapter.on_unclear, adapter.settle)


def _save(before: Job, after: Job, holder: str, connection: Connection) -> bool:
    return store.save_job(connection, before, after, holder)


def _transient(error: Exception, adapter: DispatcherAdapter) -> DispatchError:
    if isinstance(error, DispatchError):
        return error
    return Transient(f"{adapter.name}: {type(error).__name__} {error}".strip())


def _monotonic() -> float:
    return asyncio.get_running_loop().time()


async def _forever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Runs a part of the dispatcher again if it fails: a database that is restarted, or a bug."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("dispatcher: %s failed; it is restarted in a second", name)
            await asyncio.sleep(1.0)
