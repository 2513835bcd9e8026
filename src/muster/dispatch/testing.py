"""A cluster in memory and a clock that you turn, to test a shop's jobs without a cluster and without waiting.

clock = FakeClock()
fake = FakeAdapter()
dispatcher = Dispatcher(url, adapters=[fake], folder=tmp_path, clock=clock, interval=0.01)

with dispatcher:
    job = dispatcher.submit("thumbnails", {"folder": "/pictures"})
    assert job.result(timeout=10) == 3       # the function has run, in this process

    job = dispatcher.submit("train", {"dataset": "moons"})
    fake.wait_for(job.id)                    # prepare has run; fake.specs[job.id] is what it returned
    fake.finish(job.id)                      # or fail it, and look at what becomes of it
    assert job.result(timeout=10)["accuracy"] > 0.9
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.codec import job_from_json
from muster.dispatch.context import ERROR, RESULT, Context, encode_result, marshal, write_json
from muster.dispatch.errors import DispatchError
from muster.dispatch.model import Capacity, ClusterState, Job, JobDescription, JobFault, Line, OnUnclear, Spec
from muster.dispatch.run import JOB_VARIABLE
from muster.dispatch.targets import load_target

Call: TypeAlias = Literal["capacity", "start", "find", "describe", "stop", "set_priority"]
_WAIT_SECONDS = 30.0


class FakeClock:
    """A clock that stands still until it is turned. Pass it to a Dispatcher as `clock`."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2030, 1, 1, tzinfo=UTC)
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        return self._now

    def turn(self, seconds: float) -> datetime:
        with self._lock:
            self._now += timedelta(seconds=seconds)
            return self._now


@dataclass
class FakeJob:
    """A job on the fake cluster."""

    name: str
    job: Job
    spec: Spec
    state: ClusterState = "running"
    fault: JobFault | None = None
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    grace: float | None = None
    """The grace of the last stop."""
    priority: int = 0
    """What the cluster knows."""


@dataclass
class _Fault:
    error: DispatchError
    after: bool


class FakeAdapter(DispatcherAdapter):
    """A cluster in memory. Function jobs run at once, in this process; container jobs run until `finish` or `fail`."""

    functions = True
    poll_every = 0.02
    settle = 0.0

    def __init__(
        self,
        name: str = "fake",
        *,
        finds: bool = True,
        on_unclear: OnUnclear = "hold",
        capacity: Capacity | None = None,
        run_functions: bool = True,
        obeys_stop: bool = True,
    ) -> None:
        """With `obeys_stop=False`, a stopped job goes on until `finish`, `fail` or `forget`."""
        self.name, self.finds, self.on_unclear = name, finds, on_unclear
        self.room = capacity
        self.jobs: dict[str, FakeJob] = {}
        """By external id."""
        self.started: list[str] = []
        """Every name that was created, in order; a name twice is a job twice."""
        self._run_functions, self._obeys_stop = run_functions, obeys_stop
        self._faults: dict[Call, list[_Fault]] = {}
        self._lock = threading.RLock()

    # What a test does

    def fail_next(self, call: Call, error: DispatchError, *, after: bool = False) -> None:
        """Makes the next such call raise. With `after`, it is carried out first: the answer is lost."""
        self._faults.setdefault(call, []).append(_Fault(error, after))

    def wait_for(self, job_id: str) -> FakeJob:
        """Waits until the cluster has the job."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.find_job(job_id)
            if found is not None:
                return found
            time.sleep(0.005)
        raise TimeoutError(f"job {job_id} was not started within {_WAIT_SECONDS:.0f} seconds")

    def find_job(self, job_id: str) -> FakeJob | None:
        """Returns the last attempt of a job."""
        with self._lock:
            return next((found for found in reversed(self.jobs.values()) if found.job.id == job_id), None)

    @property
    def specs(self) -> dict[str, Spec]:
        """What each job was started with, by the job's id."""
        with self._lock:
            return {found.job.id: found.spec for found in self.jobs.values()}

    def set_state(self, job_id: str, state: ClusterState, reason: str = "") -> None:
        found = self.wait_for(job_id)
        found.state, found.reason = state, reason

    def finish(self, job_id: str) -> None:
        self.set_state(job_id, "succeeded")

    def fail(self, job_id: str, message: str = "it failed", *, exit_code: int = 1, retryable: bool = True) -> None:
        found = self.wait_for(job_id)
        found.fault = JobFault("Job.ExitCode", message, retryable=retryable, exit_code=exit_code)
        found.state = "failed"

    def forget(self, job_id: str) -> None:
        """The cluster does not know the job any more, as after someone has deleted it."""
        with self._lock:
            for external_id in [id for id, found in self.jobs.items() if found.job.id == job_id]:
                del self.jobs[external_id]

    # What a dispatcher does

    async def capacity(self) -> Capacity | None:
        self._fault("capacity")
        return self.room

    async def start(self, job: Job, spec: Spec, name: str) -> str:
        self._fault("start")
        external_id = f"fake/{name}"
        with self._lock:
            if external_id not in self.jobs:
                self.started.append(name)
                self.jobs[external_id] = FakeJob(name, job, spec, priority=job.priority)
        found = self.jobs[external_id]
        if self._run_functions and JOB_VARIABLE in spec.env:
            await asyncio.to_thread(self._run, found)
        self._fault("start", after=True)
        return external_id

    async def find(self, job: Job, name: str) -> str | None:
        self._fault("find")
        with self._lock:
            return f"fake/{name}" if self.finds and f"fake/{name}" in self.jobs else None

    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        self._fault("describe")
        with self._lock:
            known = [(job, self.jobs[job.external_id or ""]) for job in jobs if job.external_id in self.jobs]
            return {
                job.id: JobDescription(found.state, found.reason, found.state.capitalize(), found.fault)
                for job, found in known
            }

    async def stop(self, job: Job, grace: float) -> None:
        self._fault("stop")
        found = self.jobs.get(job.external_id or "")
        if found is not None:
            found.grace = grace
            if self._obeys_stop and found.state not in {"succeeded", "failed"}:
                found.state = "cancelled"

    async def set_priority(self, job: Job) -> None:
        self._fault("set_priority")
        self.jobs[job.external_id or ""].priority = job.priority

    async def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        found = self.jobs.get(job.external_id or "")
        lines = found.lines if found is not None else []
        for text in lines[-tail:] if tail else lines:
            yield Line(text, "fake")

    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        return {"name": name, "image": spec.image, "command": list(spec.command), "env": dict(spec.env)}

    def _fault(self, call: Call, *, after: bool = False) -> None:
        with self._lock:
            waiting = self._faults.get(call, [])
            if waiting and waiting[0].after == after:
                raise waiting.pop(0).error

    def _run(self, found: FakeJob) -> None:
        job = job_from_json(orjson.loads(str(found.spec.env[JOB_VARIABLE])))
        folder = Path(job.folder)
        try:
            result = load_target(found.spec.command[-1])(Context(job, folder), **job.args)
            write_json(folder / RESULT, {"attempt": job.attempt, "result": orjson.loads(encode_result(result))})
            found.state = "succeeded"
        except Exception as error:
            fault = marshal(error, "run", job)
            write_json(folder / ERROR, {"attempt": job.attempt, "fault": asdict(fault)})
            found.fault, found.state = fault, "failed"
