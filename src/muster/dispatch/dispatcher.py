"""`Dispatcher`: what a shop's code uses. Submitting is one row; dispatcher processes do the rest."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import difflib
import inspect
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

import orjson
from sqlalchemy import Connection, Engine

from muster.dispatch import lifecycle, store
from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.admission import Candidate, Limits, admit, demand_of
from muster.dispatch.codec import job_to_json, spec_from_json
from muster.dispatch.context import HOOKS, Container, ErrorMarshaler, default_errors
from muster.dispatch.database import Database
from muster.dispatch.errors import DispatchError, InvalidJob
from muster.dispatch.handle import LONGEST_LOOK, JobHandle
from muster.dispatch.held_jobs import LoopSettings
from muster.dispatch.hooks import HookError, HookRunner
from muster.dispatch.job_files import follow_file, log_path
from muster.dispatch.loop import DispatchLoop
from muster.dispatch.model import Job, JobType, Line, Resources, Retry, Spec, State, with_env
from muster.dispatch.run import ERRORS_VARIABLE, FILE_VARIABLE, JOB_VARIABLE
from muster.dispatch.secrets import Secret, mask
from muster.dispatch.store import Event, Page
from muster.dispatch.targets import target_of

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Container])
Route = Mapping[str, str] | Callable[[Job], str]

_LARGEST_ARGS = 1 << 20
_LARGEST_VARIABLE = 96 << 10
JOB_FILE = "job.json"


class JobOptions(TypedDict, total=False):
    """What `submit` and `plan` take besides the type and its arguments."""

    on: str | None
    """The adapter; by default what `route` says."""
    key: str | None
    name: str
    """For people; by default the type."""
    priority: int
    project: str
    creator: str
    after: Iterable[str | JobHandle]
    """Jobs that must have succeeded before it starts."""
    at: datetime | None
    """The earliest time."""
    labels: Mapping[str, str] | None
    resources: Resources | None
    retry: Retry | None
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What `submit` with the same arguments would do."""

    job: Job
    on: str
    request: Mapping[str, Any]
    """What would be sent to the cluster; secrets are ***."""
    problems: tuple[str, ...] = ()
    """Why it would wait or fail."""


class Dispatcher:
    """Create one at the top level of a module, and register the types of jobs with its decorators:

    dispatcher = Dispatcher("sqlite:///shop.db", adapters=[LocalAdapter()], folder=Path("jobs"))

    @dispatcher.function("resize")
    def resize(ctx: Context, folder: str) -> int: ...
    """

    def __init__(
        self,
        database: str | Engine,
        *,
        adapters: Iterable[DispatcherAdapter],
        folder: str | Path,
        route: Route | None = None,
        errors: ErrorMarshaler | type[ErrorMarshaler] = default_errors,
        limits: Limits | None = None,
        env: Callable[[Job], Mapping[str, str | Secret]] = lambda job: {},
        on_change: Callable[[Job], None] | None = None,
        lease: float = 30.0,
        interval: float = 1.0,
        lost_after: float = lifecycle.LOST_AFTER,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`route` says which adapter a type of jobs runs on; without it, the first. `limits` are the most jobs under
        way, by type or by (project, type). `env` returns variables for a job's program, besides those of its spec; it
        is called for every attempt, and nothing of it is stored. `on_change` is called in a thread after every stored
        change of a job."""
        self.adapters = {adapter.name: adapter for adapter in adapters}
        if not self.adapters:
            raise InvalidJob("a dispatcher needs at least one adapter")
        self.types: dict[str, JobType] = {}
        self.database = Database(database)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._route: Route = route or {}
        self._settings = LoopSettings(Path(folder).absolute(), limits or {}, lease, interval, lost_after=lost_after)
        self._errors = "" if errors is default_errors else _errors_target(errors)
        self._env, self._on_change, self._clock = env, on_change, clock
        self._thread: _LoopThread | None = None
        self._serving: tuple[asyncio.AbstractEventLoop, DispatchLoop] | None = None
        if not callable(self._route):
            for name in self._route.values():
                self._check_adapter(name)

    @property
    def folder(self) -> Path:
        return self._settings.folder

    # Types

    def function(
        self,
        type: str,
        *,
        image: str = "",
        resources: Resources | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """Registers a function `(ctx, **args)`. It runs in a process of its own, where its adapter says; with an
        `image`, in that image, which must contain Muster and the function's module."""

        def register(function: F) -> F:
            target = target_of(function)
            self._register(
                JobType(type, "function", target, image, resources or Resources(), retry or Retry(), timeout)
            )
            self._functions[type] = function
            return function

        return register

    def container(
        self,
        type: str,
        *,
        resources: Resources | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        check_every: float = 60.0,
        hook_timeout: float = 600.0,
    ) -> Callable[[C], C]:
        """Registers a Container class."""

        def register(cls: C) -> C:
            hooks = frozenset(hook for hook in HOOKS if getattr(cls, hook) is not getattr(Container, hook))
            if "prepare" not in hooks:
                raise InvalidJob(f"{cls.__qualname__} needs the hook prepare, which returns what to run")
            self._register(
                JobType(type, "container", target_of(cls), "", resources or Resources(), retry or Retry(), timeout,
                        hooks, check_every, hook_timeout)
            )  # fmt: skip
            return cls

        return register

    def _register(self, type: JobType) -> None:
        if not type.name or len(type.name) > 200:
            raise InvalidJob("the type of a job is a name of 1 to 200 characters")
        self.types[type.name] = type

    # Jobs

    def submit(
        self,
        type: str,
        args: Mapping[str, Any] | None = None,
        *,
        connection: Connection | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle:
        """Stores a job, and returns at once. The same `key` is the same job: submitting it again returns the first one.
        With `connection`, the row belongs to the caller's transaction: the job exists if, and only if, that is
        committed."""
        job = self._new_job(type, args, options)
        if connection is not None:
            self.database.ensure()
            return JobHandle(self, store.insert_job(connection, job))
        id = self.database.write(lambda own: store.insert_job(own, job))
        self._wake()
        return JobHandle(self, id)

    def plan(self, type: str, args: Mapping[str, Any] | None = None, **options: Unpack[JobOptions]) -> Plan:
        """Returns what `submit` would do, without doing it. `prepare` of a Container runs, in a temporary folder."""
        job = lifecycle.admitted(self._new_job(type, args, options), self._clock())
        return asyncio.run(self._plan(job))

    def get(self, id: str) -> JobHandle:
        """Raises JobNotFound."""
        self.job(id)
        return JobHandle(self, id)

    def job(self, id: str) -> Job:
        """Returns a job as it is stored. Raises JobNotFound."""
        return self._complete(self.database.read(lambda connection: store.get_job(connection, id)))

    def list(
        self,
        *,
        state: State | Iterable[State] | None = None,
        type: str | None = None,
        project: str | None = None,
        on: str | None = None,
        creator: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Returns jobs, the newest first. `Page.cursor` requests the next page."""
        wanted = dict(labels or {})
        page = self.database.read(
            lambda connection: store.list_jobs(
                connection, state=state, type=type, project=project, on=on, creator=creator, labels=wanted,
                limit=limit, cursor=cursor,
            )
        )  # fmt: skip
        return Page(tuple(self._complete(job) for job in page.items), page.cursor)

    def events(self, id: str, after: int = 0) -> builtins.list[Event]:
        """Returns what happened to a job, after the event of that number."""
        return self.database.read(lambda connection: store.list_events(connection, id, after))

    def cancel(self, id: str, grace: float = 30.0) -> Job:
        """Cancels a job in any state; again is harmless. Returns at once, also while no dispatcher runs."""
        now = self._clock()
        job = self.database.write(lambda connection: store.request_cancel(connection, id, grace, now))
        self._wake()
        return self._complete(job)

    def restart(self, id: str) -> JobHandle:
        """Starts an ended job again, as a new attempt of the same job."""

        def restart(job: Job) -> Job:
            if not job.has_ended:
                raise InvalidJob(f"job {id} is {job.state}; only an ended job can be restarted")
            return lifecycle.restarted(job, self._clock())

        self._change(id, restart)
        return JobHandle(self, id)

    def delete(self, id: str) -> None:
        """Deletes an ended job with its history and its folder."""
        self.database.write(lambda connection: store.delete_job(connection, id))
        shutil.rmtree(self.folder / id, ignore_errors=True)

    def set_priority(self, id: str, priority: int) -> None:
        self.database.write(lambda connection: store.set_priority(connection, id, priority))
        self._wake()

    def resolve(self, id: str, how: Literal["again", "fail", "adopt"], external_id: str = "") -> Job:
        """Decides about a job whose start is unclear, after a look at its cluster. `adopt` needs the id that the
        cluster gave it."""
        if how not in ("again", "fail", "adopt"):
            raise InvalidJob(f'"{how}" is not a decision; use again, fail or adopt')
        if how == "adopt" and not external_id:
            raise InvalidJob("adopt needs the id of the job on its cluster")

        def resolve(job: Job) -> Job:
            if not job.tracking.on_hold:
                raise InvalidJob(f"the start of job {id} is not unclear; it is {job.state}")
            return lifecycle.resolved(job, how, external_id, self._clock())

        return self._change(id, resolve)

    def _change(self, id: str, change: Callable[[Job], Job]) -> Job:
        job = self.database.write(lambda connection: store.change_job(connection, id, change))
        self._wake()
        return self._complete(job)

    async def logs(self, id: str, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        """Yields the log of a job's last attempt: from its cluster, and once it has ended, from its folder. Run it on
        the loop that runs `serve`, or in a process that does not serve; `JobHandle.logs` does that."""
        while True:
            job = await asyncio.to_thread(self.job, id)
            if job.has_ended or job.state == "restarting" or (job.external_id is None and not follow):
                async for text in follow_file(log_path(job), tail=tail):
                    yield Line(text)
                return
            if job.external_id is not None:
                async for line in self._adapter(job.on).logs(job, follow=follow, tail=tail):
                    yield line
                return
            await asyncio.sleep(LONGEST_LOOK)

    # At work

    async def serve(self) -> None:
        """Runs the dispatcher on the running event loop, until it is cancelled. Several processes may do so: they share
        the work."""
        loop = DispatchLoop(
            self.database,
            self.adapters,
            self.types,
            self._settings,
            errors=self._errors,
            clock=self._clock,
            spec_of=self._function_spec,
            env_of=self._env,
            on_change=self._announce,
        )
        await asyncio.to_thread(self.database.ensure)
        self._serving = (asyncio.get_running_loop(), loop)
        try:
            await loop.run()
        finally:
            self._serving = None

    def run(self) -> None:
        """Runs the dispatcher until SIGTERM or SIGINT. `muster dispatch run shop.jobs:dispatcher` calls it."""

        async def until_signal() -> None:
            work = asyncio.create_task(self.serve())
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, work.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await work

        asyncio.run(until_signal())
        self.close()

    def __enter__(self) -> Self:
        """Runs the dispatcher in a thread, for scripts and tests."""
        self._thread = _LoopThread(self.serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
        self.close()

    def close(self) -> None:
        """Closes the connections to the database. They open again when they are used."""
        self.database.close()

    # Inside

    def _new_job(self, type: str, args: Mapping[str, Any] | None, options: JobOptions) -> Job:
        unknown = options.keys() - JobOptions.__annotations__
        if unknown:
            raise TypeError(f"there is no option {', '.join(sorted(unknown))} of a job")
        registered = self.types.get(type)
        if registered is None:
            near = difflib.get_close_matches(type, self.types, n=1)
            hint = f'; did you mean "{near[0]}"?' if near else "."
            raise InvalidJob(
                f'there is no type "{type}"{hint} The types are: {", ".join(sorted(self.types)) or "none"}'
            )
        at, timeout = options.get("at"), options.get("timeout")
        if at is not None and at.tzinfo is None:
            raise InvalidJob("at needs a time zone: datetime.now(UTC) + timedelta(hours=1)")
        now = self._clock()
        job = Job(
            id=store.new_id(now),
            type=type,
            args=self._check_args(type, dict(args or {})),
            on="",
            state="waiting",
            created=now,
            reason="waits for a dispatcher",
            name=options.get("name") or type,
            key=options.get("key"),
            project=options.get("project", ""),
            creator=options.get("creator", ""),
            priority=options.get("priority", 0),
            resources=options.get("resources") or registered.resources,
            retry=options.get("retry") or registered.retry,
            timeout=timeout if timeout is not None else registered.timeout,
            after=tuple(item.id if isinstance(item, JobHandle) else item for item in options.get("after", ())),
            at=at,
            labels=dict(options.get("labels") or {}),
        )
        return self._complete(replace(job, on=self._check_adapter(options.get("on") or self._route_of(job))))

    def _check_args(self, type: str, args: dict[str, Any]) -> dict[str, Any]:
        try:
            text = orjson.dumps(args)
        except TypeError as error:
            raise InvalidJob(f"the arguments of {type} must be JSON: {error}") from None
        if len(text) > _LARGEST_ARGS:
            raise InvalidJob(
                f"the arguments of {type} have {len(text)} bytes; write large data to a file, and pass its path"
            )
        function = self._functions.get(type)
        if function is not None:
            try:
                inspect.signature(function).bind(None, **args)
            except TypeError as error:
                raise InvalidJob(f"the arguments do not fit {function.__name__}: {error}") from None
        return args

    def _route_of(self, job: Job) -> str:
        if callable(self._route):
            return self._route(job)
        return self._route.get(job.type) or next(iter(self.adapters))

    def _check_adapter(self, name: str) -> str:
        if name not in self.adapters:
            raise InvalidJob(f'there is no adapter "{name}"; the dispatcher has: {", ".join(self.adapters)}')
        return name

    def _adapter(self, name: str) -> DispatcherAdapter:
        return self.adapters[self._check_adapter(name)]

    def _complete(self, job: Job) -> Job:
        return replace(job, folder=str(self.folder / job.id))

    def _function_spec(self, job: Job, type: JobType) -> Spec:
        """Returns how a function runs: a Python that finds it by name. Without an image it is this Python."""
        folder = self._adapter(job.on).job_folder(job)
        described = orjson.dumps(job_to_json(replace(job, folder=folder))).decode()
        env: dict[str, str] = {}
        if folder and len(described) > _LARGEST_VARIABLE:
            (Path(job.folder) / JOB_FILE).write_text(described)
            env[FILE_VARIABLE] = f"{folder}/{JOB_FILE}"
        else:
            env[JOB_VARIABLE] = described
        if self._errors:
            env[ERRORS_VARIABLE] = self._errors
        if type.image:
            return Spec(image=type.image, command=("python", "-m", "muster.dispatch.run", type.target), env=env)
        env["PYTHONPATH"] = os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path)
        env["PYTHONUNBUFFERED"] = "1"
        command = (sys.executable, "-m", "muster.dispatch.run", type.target)
        return Spec(command=command, env=env, working_dir=str(Path.cwd()))

    async def _plan(self, job: Job) -> Plan:
        adapter, type = self._adapter(job.on), self.types[job.type]
        problems: builtins.list[str] = []
        with tempfile.TemporaryDirectory(prefix="muster-plan-") as folder:
            job = replace(job, folder=folder)
            try:
                spec = with_env(await self._planned_spec(job, type), self._env(job))
                request = adapter.request(job, spec, job.external_name)
            except HookError as error:
                request, problems = {}, [f"{error.fault.hook}: {error.fault.message}"]
            except DispatchError as error:
                request, problems = {}, [error.message]
        try:
            capacity = await adapter.capacity()
            now = self._clock()
            candidate = Candidate(job.id, job.type, job.project, job.on, 0, now, demand_of(job.resources), at=job.at)
            problems += admit([candidate], now=now, capacity={job.on: capacity}).reasons.values()
        except Exception as error:
            problems.append(f"{job.on} cannot be asked for its capacity: {error}")
        finally:
            await adapter.close()
        return Plan(replace(job, folder=""), job.on, mask(dict(request)), tuple(problems))

    async def _planned_spec(self, job: Job, type: JobType) -> Spec:
        if type.kind == "function":
            return self._function_spec(job, type)
        hooks = HookRunner(self._errors)
        try:
            if "initialize" in type.hooks:
                await hooks.run(type.target, "initialize", job, type.hook_timeout)
            return spec_from_json((await hooks.run(type.target, "prepare", job, type.hook_timeout)).value)
        finally:
            await hooks.close()

    def _announce(self, job: Job) -> None:
        if self._on_change is not None:
            asyncio.get_running_loop().run_in_executor(None, self._call_on_change, job)

    def _call_on_change(self, job: Job) -> None:
        assert self._on_change is not None
        try:
            self._on_change(job)
        except Exception:
            log.exception("on_change failed for job %s", job.id)

    def _wake(self) -> None:
        serving = self._serving
        if serving is not None:
            with contextlib.suppress(RuntimeError):  # that loop has just ended
                serving[0].call_soon_threadsafe(serving[1].wake)

    def stream(self, make: Callable[[], AsyncIterator[Line]]) -> Iterator[Line]:
        """Iterates on the loop that serves, whose connections the adapters use, or else on a loop for this call."""
        serving = self._serving
        if serving is not None:
            iterator = make()
            while True:
                try:
                    yield asyncio.run_coroutine_threadsafe(_next(iterator), serving[0]).result()
                except StopAsyncIteration:
                    return
        with asyncio.Runner() as runner:
            iterator = make()
            try:
                while True:
                    try:
                        yield runner.run(_next(iterator))
                    except StopAsyncIteration:
                        return
            finally:
                for adapter in self.adapters.values():
                    runner.run(adapter.close())


class _LoopThread:
    """Runs a coroutine in a thread until it is stopped."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="dispatcher", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.ensure_future(self._work())
        self._ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def _next(iterator: AsyncIterator[Line]) -> Line:
    return await anext(iterator)


def _errors_target(errors: Any) -> str:
    """A marshaler runs where the error is, so it is found by name: a function, or a class without arguments."""
    if inspect.isfunction(errors) or inspect.isclass(errors):
        return target_of(errors)
    return target_of(type(errors))
