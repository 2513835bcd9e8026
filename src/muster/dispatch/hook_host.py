"""The process that forks a child for every hook: `python -m muster.dispatch.hook_host`.

It imports the shop's module once. A child that raises, hangs or calls `os._exit` takes neither this process nor the
dispatcher down. Requests and responses are lines of JSON on stdin and stdout:

    {"id": 7, "target": "shop.jobs:Train", "hook": "prepare", "job": {...}, "errors": "shop.jobs:errors"}
    {"started": 7}
    {"id": 7, "value": {...}, "keep": {...}}    {"id": 7, "error": {"kind": "JobError", ...}}    {"id": 7, "exit": -9}
    {"kill": 7}
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import selectors
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import orjson

from muster.dispatch.codec import job_from_json, spec_to_json
from muster.dispatch.context import Context, default_errors, encode_result, marshal
from muster.dispatch.errors import DispatchError, JobError, NoCapacity, Refused, Transient
from muster.dispatch.model import Job, Spec
from muster.dispatch.targets import load_target

HOOK_LOG = "hooks.log"
_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


class _Child:
    def __init__(self, id: int, pid: int, pipe: int) -> None:
        self.id, self.pid, self.pipe = id, pid, pipe
        self.read = bytearray()


class HookHost:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._requests = bytearray()
        self._out = os.dup(1)
        os.dup2(2, 1)  # what a module prints while it is imported is not an answer

    def run(self) -> None:
        self._selector.register(0, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    if not self._read_requests():
                        return
                else:
                    self._read_child(key.data)

    def end_children(self) -> None:
        """The dispatcher has ended: the one that takes over runs the hooks again."""
        for child in self._children.values():
            _kill(child.pid)

    def _read_requests(self) -> bool:
        data = os.read(0, 1 << 20)
        self._requests += data
        *lines, rest = bytes(self._requests).split(b"\n")
        self._requests = bytearray(rest)
        for line in lines:
            request = orjson.loads(line)
            if "kill" in request:
                child = self._children.get(request["kill"])
                if child is not None:
                    _kill(child.pid)
            else:
                self._start(request)
        return bool(data)

    def _start(self, request: dict[str, Any]) -> None:
        with suppress(Exception):  # it is reported by the child, which tries again
            load_target(request["target"])
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._selector.close()
            os.close(read)
            os.close(self._out)
            _run_hook(request, write)
        os.close(write)
        child = _Child(request["id"], pid, read)
        self._children[child.id] = child
        _write_all(self._out, b'{"started":%d}\n' % child.id)
        self._selector.register(read, selectors.EVENT_READ, child)

    def _read_child(self, child: _Child) -> None:
        data = os.read(child.pipe, 1 << 20)
        if data:
            child.read += data
            return
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        _, status = os.waitpid(child.pid, 0)
        del self._children[child.id]
        answer = bytes(child.read)
        if not answer:
            answer = orjson.dumps({"exit": os.waitstatus_to_exitcode(status)})
        _write_all(self._out, b'{"id":%d,%s\n' % (child.id, answer[1:]))


def _run_hook(request: dict[str, Any], pipe: int) -> NoReturn:
    """In the child. It ends with `os._exit`, so that nothing of the host is cleaned up twice."""
    code = 0
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
        job = job_from_json(request["job"])
        folder = Path(job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        log = os.open(folder / HOOK_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in ((0, nothing), (1, log), (2, log)):
            os.dup2(file, number)
        _write_all(pipe, orjson.dumps(_call(request, job, folder)))
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _call(request: dict[str, Any], job: Job, folder: Path) -> dict[str, Any]:
    hook: str = request["hook"]
    cancelled = Event()
    signal.signal(signal.SIGTERM, lambda *_: cancelled.set())
    context = Context(job, folder, cancelled, dict(job.tracking.kept))
    try:
        value = getattr(load_target(request["target"])(), hook)(context)
        if inspect.isawaitable(value):
            value = asyncio.run(_wait(value))
        if hook == "prepare":
            if not isinstance(value, Spec):
                raise JobError(
                    "Job.Prepare", f"prepare must return a Spec, not {type(value).__name__}", retryable=False
                )
            value = spec_to_json(value)
        return {"value": orjson.loads(encode_result(value)), "keep": orjson.loads(encode_result(dict(context.keep)))}
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        errors = load_target(request["errors"]) if request.get("errors") else default_errors
        fault = marshal(error, hook, job, errors)
        return {"error": {"kind": _kind(error), "fault": asdict(fault), "retry_after": _retry_after(error)}}


async def _wait(awaitable: Any) -> Any:
    return await awaitable


def _kind(error: BaseException) -> str:
    kinds = (NoCapacity, Transient, Refused)
    return next((kind.__name__ for kind in kinds if isinstance(error, kind)), "JobError")


def _retry_after(error: BaseException) -> float | None:
    return error.retry_after if isinstance(error, DispatchError) else None


def _kill(pid: int) -> None:
    for number in (pid, -pid):  # the group exists once the child has called setsid
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def main() -> None:
    sys.path[:] = orjson.loads(sys.argv[1])
    host = HookHost()
    try:
        with suppress(BrokenPipeError):  # the dispatcher was killed
            host.run()
    finally:
        host.end_children()


if __name__ == "__main__":
    main()
