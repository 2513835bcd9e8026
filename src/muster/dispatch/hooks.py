"""Runs hooks in processes of their own, from the dispatcher's side."""

from __future__ import annotations

import asyncio
import itertools
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from muster.dispatch.codec import fault_from_json, job_to_json
from muster.dispatch.errors import DispatchError, JobError, NoCapacity, Refused, Transient
from muster.dispatch.model import Job, JobFault
from muster.dispatch.targets import module_of

_KINDS: dict[str, type[DispatchError]] = {kind.__name__: kind for kind in (NoCapacity, Transient, Refused)}
_LONGEST_ANSWER = 64 << 20
_OBEY_SECONDS = 3.0
_IMPORT_SECONDS = 120.0


class HookError(Exception):
    """A hook did not succeed. `error` says what the dispatcher does, `fault` what the job fails with."""

    def __init__(self, error: DispatchError, fault: JobFault) -> None:
        super().__init__(fault.message)
        self.error, self.fault = error, fault


class HookResult(NamedTuple):
    value: Any
    keep: dict[str, Any]


class HookRunner:
    """Keeps one host process for each module that hooks come from."""

    def __init__(self, errors: str = "") -> None:
        self._errors = errors
        self._hosts: dict[str, _Host] = {}
        self._numbers = itertools.count(1)

    async def run(self, target: str, hook: str, job: Job, timeout: float) -> HookResult:
        """Raises HookError if the hook raises, takes longer than `timeout`, or ends its process."""
        host = await self._host(module_of(target))
        number = next(self._numbers)
        request = {"id": number, "target": target, "hook": hook, "job": job_to_json(job), "errors": self._errors}
        try:
            answer = await host.ask(number, request, timeout)
        except TimeoutError:
            await host.end(number)
            raise _failed(hook, f"{hook} took longer than {timeout:g} seconds and was killed", "Timeout") from None
        except asyncio.CancelledError:
            host.kill(number)
            raise
        if "exit" in answer:
            code = answer["exit"]
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            raise _failed(hook, f"the process of {hook} ended with {how}; see hooks.log in its folder", "Exited")
        if "error" in answer:
            found = answer["error"]
            fault = fault_from_json(found["fault"])
            kind = _KINDS.get(found["kind"])
            if kind is None:
                raise HookError(JobError(fault.code, fault.message, retryable=fault.retryable), fault)
            raise HookError(kind(fault.message, retry_after=found["retry_after"]), fault)
        return HookResult(answer["value"], answer["keep"])

    async def close(self) -> None:
        hosts, self._hosts = list(self._hosts.values()), {}
        await asyncio.gather(*(host.close() for host in hosts))

    async def _host(self, module: str) -> _Host:
        host = self._hosts.get(module)
        if host is None or host.has_ended:
            if host is not None:
                await host.close()
            host = self._hosts[module] = _Host()
        await host.start()
        return host


class _Host:
    def __init__(self) -> None:
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._limits: dict[int, tuple[asyncio.Timeout, float]] = {}

    @property
    def has_ended(self) -> bool:
        return self._reader is not None and self._reader.done()

    async def start(self) -> None:
        async with self._starting:
            if self._process is None:
                path = orjson.dumps([entry or "." for entry in sys.path]).decode()
                command = [sys.executable, "-m", "muster.dispatch.hook_host", path]
                self._process = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_ANSWER, start_new_session=True
                )
                self._reader = asyncio.create_task(self._read())

    async def ask(self, number: int, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The time counts from when the hook starts, not from when its module is being imported."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await self._send(request)
            async with asyncio.timeout(timeout + _IMPORT_SECONDS) as limit:
                self._limits[number] = (limit, timeout)
                return await future
        finally:
            self._limits.pop(number, None)
            self._waiting.pop(number, None)

    async def end(self, number: int) -> None:
        """Kills a hook, and the whole host if it does not obey: then it hangs while it imports the hook's module."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self.kill(number)
        try:
            async with asyncio.timeout(_OBEY_SECONDS):
                await future
        except TimeoutError:
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.kill()
        finally:
            self._waiting.pop(number, None)

    def kill(self, number: int) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(orjson.dumps({"kill": number}) + b"\n")

    async def close(self) -> None:
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        if process.stdin is not None:
            process.stdin.close()
            with suppress(OSError):
                await process.stdin.wait_closed()
        try:
            async with asyncio.timeout(5):
                await reader
        except TimeoutError:  # a module that hangs while it is imported
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()

    async def _send(self, request: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended: the reader says so
            self._process.stdin.write(orjson.dumps(request) + b"\n")
            await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = orjson.loads(line)
            if "started" in answer:
                limit, seconds = self._limits.get(answer["started"], (None, 0.0))
                if limit is not None:
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
                continue
            future = self._waiting.get(answer["id"])
            if future is not None and not future.done():
                future.set_result(answer)
        code = await self._process.wait()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_result({"exit": code})


def _failed(hook: str, message: str, code: str) -> HookError:
    fault = JobFault(f"Job.{hook.capitalize()}.{code}", message, hook=hook, retryable=True)
    return HookError(JobError(fault.code, fault.message), fault)
