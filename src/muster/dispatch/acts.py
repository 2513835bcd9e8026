"""What a dispatcher does about one job, as `lifecycle.next_act` says: start, stop, finish, clean, check.

An act calls the job's hooks and its cluster, and stores what it observed. It decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from muster.dispatch import lifecycle
from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.codec import fault_from_json, spec_from_json
from muster.dispatch.context import ERROR, RESULT, read_json
from muster.dispatch.errors import DispatchError, JobError, Transient, Unclear
from muster.dispatch.held_jobs import HeldJob, HeldJobs, LoopSettings, monotonic
from muster.dispatch.hooks import HookError, HookRunner
from muster.dispatch.job_files import log_path, read_report, read_tail, write_log
from muster.dispatch.model import Job, JobDescription, JobFault, JobType, Spec, with_env
from muster.dispatch.secrets import Secret

log = logging.getLogger(__name__)

_LOG_BYTES = 32 << 20
_RELEASE_PAUSES = (0.2, 1.0, 3.0)


class JobActs:
    def __init__(
        self,
        jobs: HeldJobs,
        adapters: Mapping[str, DispatcherAdapter],
        types: Mapping[str, JobType],
        settings: LoopSettings,
        *,
        errors: str,
        clock: Callable[[], datetime],
        spec_of: Callable[[Job, JobType], Spec],
        env_of: Callable[[Job], Mapping[str, str | Secret]],
        is_lease_doubtful: Callable[[], bool],
        kick: Callable[[HeldJob], None],
    ) -> None:
        """`spec_of` returns the Spec of a function job, `env_of` variables for any job's program. `is_lease_doubtful`:
        another dispatcher may have taken over this one's jobs, and be starting them. `kick` starts the next act."""
        self._jobs, self._adapters, self._types, self._settings = jobs, adapters, types, settings
        self._clock, self._spec_of, self._env_of = clock, spec_of, env_of
        self._is_lease_doubtful, self._kick = is_lease_doubtful, kick
        self._hooks = HookRunner(errors)
        self._starts = {name: asyncio.Semaphore(adapter.starts_at_once) for name, adapter in adapters.items()}

    async def close(self) -> None:
        """Ends the processes of hooks."""
        await self._hooks.close()

    async def start(self, held: HeldJob) -> None:
        type, adapter = self._types[held.job.type], self._adapters[held.job.on]
        if held.job.tracking.sent and not held.job.tracking.unclear:
            error = Unclear("an earlier start was sent, and its result could not be stored")
            await self._jobs.observe(held, start_failed(error, adapter))
            return
        try:
            spec = with_env(await self._prepare(held, type), self._env_of(held.job))
            adapter.request(held.job, spec, held.job.external_name)
        except HookError as error:
            await self._jobs.observe(held, lifecycle.StartFailed(error.error, error.fault))
            return
        except DispatchError as error:
            fault = JobFault(error.code, error.message, "dispatch")
            await self._jobs.observe(held, lifecycle.StartFailed(error, fault))
            return
        async with self._starts[adapter.name]:
            if self._is_lease_doubtful():
                await asyncio.sleep(self._settings.interval)  # by then it is renewed, or the database still hangs
                return
            held.sending = True
            sending = partial(lifecycle.advance, observed=lifecycle.Sending(), now=self._clock())
            if not await self._jobs.apply(held, sending, always=True) or held.job.state != "starting":
                return
            if self._is_lease_doubtful():
                return
            observed = await self._call_start(held, adapter, spec)
            held.sending = False
            await self._jobs.observe(held, observed)

    async def _call_start(self, held: HeldJob, adapter: DispatcherAdapter, spec: Spec) -> lifecycle.Observation:
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
        return start_failed(found, adapter)

    async def _prepare(self, held: HeldJob, type: JobType) -> Spec:
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

    async def _initialize(self, held: HeldJob, type: JobType) -> None:
        first, held.initialized = not held.initialized, True
        if first and "initialize" in type.hooks:
            await self._hook(held, type, "initialize")

    async def _hook(self, held: HeldJob, type: JobType, hook: str) -> Any:
        done = await self._hooks.run(type.target, hook, held.job, type.hook_timeout)
        if done.keep != dict(held.job.tracking.kept):

            def keep(job: Job) -> Job:
                return replace(job, tracking=replace(job.tracking, kept=done.keep))

            await self._jobs.apply(held, keep)
        return done.value

    async def prioritize(self, held: HeldJob) -> None:
        adapter, job = self._adapters[held.job.on], held.job
        error: DispatchError | None = None
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                await adapter.set_priority(job)
        except Exception as raised:
            error = _transient(raised, adapter)
            log.info("job %s: %s was not told its priority %d: %s", job.id, adapter.name, job.priority, error.message)
        await self._jobs.observe(held, lifecycle.PrioritySent(job.priority, error))

    async def find(self, held: HeldJob) -> None:
        adapter = self._adapters[held.job.on]
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                found = await adapter.find(held.job, held.job.external_name) if adapter.finds else None
        except Exception as error:
            await self._jobs.observe(held, lifecycle.StopSent(_transient(error, adapter)))
            return
        await self._jobs.observe(held, lifecycle.Found(found))

    async def stop(self, held: HeldJob) -> None:
        adapter = self._adapters[held.job.on]
        if not await asyncio.to_thread(log_path(held.job).exists):
            await self._save_log(held.job)  # a stopped job may take its log with it
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                await adapter.stop(held.job, held.job.grace)
        except Exception as error:
            await self._jobs.observe(held, lifecycle.StopSent(_transient(error, adapter)))
            return
        await self._jobs.observe(held, lifecycle.StopSent())

    async def finish(self, held: HeldJob) -> None:
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
        await self._jobs.observe(held, lifecycle.Finished(result, fault, note))

    async def clean(self, held: HeldJob) -> None:
        await self._save_log(held.job)
        await self._read_report(held)
        await self._jobs.observe(held, lifecycle.Cleaned(await self._run_clean(held, self._types[held.job.type])))

    async def _run_clean(self, held: HeldJob, type: JobType) -> str:
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

    async def fail(self, description: JobDescription, held: HeldJob) -> None:
        """Adds what the job said about its failure: `error.json` and the end of its log."""
        fault = description.fault or JobFault("Job.Failed", description.reason or "it failed", retryable=True)
        await self._save_log(held.job)
        said = await asyncio.to_thread(read_json, Path(held.job.folder) / ERROR, held.job.attempt)
        if said is not None and isinstance(said.get("fault"), dict):
            with suppress(DispatchError):
                fault = replace(fault_from_json(said["fault"]), exit_code=fault.exit_code)
        tail = await asyncio.to_thread(read_tail, log_path(held.job))
        described = replace(description, fault=replace(fault, log_tail=tail or fault.log_tail))
        await self._jobs.observe(held, lifecycle.Described(described))

    async def _read_report(self, held: HeldJob) -> None:
        report = await asyncio.to_thread(read_report, held.job)
        if report is not None:
            await self._jobs.observe(held, report)

    def is_check_due(self, held: HeldJob) -> bool:
        type = self._types[held.job.type]
        idle = held.check is None or held.check.done()
        return idle and "check" in type.hooks and held.job.state == "running" and held.check_at <= monotonic()

    async def check(self, held: HeldJob) -> None:
        type = self._types[held.job.type]
        held.check_at = monotonic() + type.check_every
        try:
            await self._initialize(held, type)
            await self._hook(held, type, "check")
        except HookError as error:
            if not isinstance(error.error, Transient):
                await self._jobs.observe(held, lifecycle.HookFailed(error.fault))
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


def start_failed(error: DispatchError, adapter: DispatcherAdapter) -> lifecycle.StartFailed:
    fault = JobFault(error.code, error.message, "job" if isinstance(error, JobError) else "dispatch")
    return lifecycle.StartFailed(error, fault, adapter.finds, adapter.on_unclear, adapter.settle)


def _transient(error: Exception, adapter: DispatcherAdapter) -> DispatchError:
    if isinstance(error, DispatchError):
        return error
    return Transient(f"{adapter.name}: {type(error).__name__} {error}".strip())
