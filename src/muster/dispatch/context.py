"""What users write, and what it is given: `Container`, `Context`, `ErrorMarshaler`.

This module does not import the dispatcher: it also runs inside jobs and hooks.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeAlias

import orjson

from muster.dispatch.errors import DispatchError, InvalidJob, JobError, Refused
from muster.dispatch.model import Job, JobFault, Resources, Spec

REPORTS = "local_reporter.txt"
RESULT, ERROR = "result.json", "error.json"
_LONGEST_MESSAGE = 2000

JSON: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Context:
    """What a hook or a function is given."""

    job: Job
    folder: Path
    """The job's folder. It is the same for all attempts and, on shared storage, for all machines."""
    cancelled: Event = field(default_factory=Event)
    """Set when the job is to stop. After `grace` seconds it is killed."""
    keep: MutableMapping[str, JSON] = field(default_factory=dict)
    """Small facts that survive a restart of the dispatcher. Only hooks can change it."""

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def resources(self) -> Resources:
        return self.job.resources

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.job.hosts

    @property
    def log(self) -> Path:
        """The log of the current attempt; complete once the attempt has ended."""
        return self.folder / f"log.{self.job.attempt}"

    def report(self, progress: float | None = None, message: str = "", **metrics: float) -> None:
        """Reports progress, from 0 to 1. It is a line of JSON in `local_reporter.txt`; other languages can write it,
        too: `{"progress": 0.5, "message": "epoch 5 of 10", "metrics": {"loss": 0.1}}`."""
        line: dict[str, Any] = {"progress": progress, "message": message, "metrics": metrics}
        text = orjson.dumps({name: value for name, value in line.items() if value}) + b"\n"
        # One write, so that lines of several processes do not mix.
        file = os.open(self.folder / REPORTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, text)
        finally:
            os.close(file)


class Container:
    """A job that runs a program on a cluster. Every hook is optional, and may be `async`.

    A hook runs in a process of its own. It may run again after a crash: write it so that twice is as good as once.
    """

    def initialize(self, ctx: Context) -> Awaitable[None] | None:
        """Runs first, and again whenever a dispatcher takes the job over."""

    def prepare(self, ctx: Context) -> Spec | Awaitable[Spec]:
        """Returns what to run. Raise NoCapacity to wait, JobError to fail."""
        raise NotImplementedError

    def check(self, ctx: Context) -> Awaitable[None] | None:
        """Runs every `check_every` seconds while the job runs. Raise JobError to stop it."""

    def submit(self, ctx: Context) -> Any:
        """Runs after success: reads results. What it returns becomes `job.result`; it must be JSON."""

    def clean(self, ctx: Context) -> Awaitable[None] | None:
        """Runs after every attempt, also after a failed or cancelled one."""


HOOKS = ("initialize", "prepare", "check", "submit", "clean")


class ErrorMarshaler(Protocol):
    """Turns an error of a hook or a function into what callers see. `hook` is `run` for a function."""

    def __call__(self, error: BaseException, hook: str, job: Job) -> JobFault: ...


def default_errors(error: BaseException, hook: str, job: Job) -> JobFault:
    """A JobError keeps its code. Any other error gets the code of its hook: `Job.Prepare`, `Job.Run`."""
    if isinstance(error, JobError):
        return JobFault(error.code, error.message, hook=hook, retryable=error.retryable)
    if isinstance(error, DispatchError):
        return JobFault(error.code, error.message, hook=hook, retryable=not isinstance(error, Refused | InvalidJob))
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return JobFault(f"Job.{hook.capitalize()}", message[:_LONGEST_MESSAGE], hook=hook, retryable=True)


def marshal(error: BaseException, hook: str, job: Job, errors: Callable[..., JobFault] = default_errors) -> JobFault:
    """Calls a marshaler; one that fails itself hides nothing."""
    try:
        return errors(error, hook, job)
    except Exception as second:
        fault = default_errors(error, hook, job)
        note = f"{fault.message} (and the ErrorMarshaler raised {type(second).__name__}: {second})"
        return JobFault(fault.code, note, hook=hook, retryable=fault.retryable)


def encode_result(value: Any) -> bytes:
    """Returns a result as JSON. Raises JobError if it is not JSON."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        message = f"the result is not JSON ({error}); return numbers, texts, lists and dictionaries, or write a file"
        raise JobError("Job.BadResult", message, retryable=False) from None


def read_json(path: Path, attempt: int) -> Mapping[str, Any] | None:
    """Returns `result.json` or `error.json` of an attempt; None if it is missing, broken or of an older attempt."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) and found.get("attempt", attempt) == attempt else None


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replaces a file atomically."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(orjson.dumps(data))
    new.replace(path)
