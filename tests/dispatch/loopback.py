"""The frame of the loopback clusters: an HTTP server in a thread, a clock that can be turned, and faults.

A server of this kind stands for a cloud that cannot be reached from a test. It is strict where the real one is: it
verifies signatures, headers, fields, units and states. As a program, it serves until it is stopped:

    python -m tests.dispatch.aihc_server --port 8080 --execute
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import orjson
from aiohttp import web

Fault: TypeAlias = Literal["500", "reset", "500 after", "reset after", "lost", "slow"]
"""`500`, `reset`: the call is not carried out. `500 after`, `reset after`: it is, and the client cannot know.
`lost`: it is, and no answer comes until the client or the connection gives up. `slow`: it is, and the answer comes
late."""
FAULTS: tuple[Fault, ...] = get_args(Fault)


class Problem(Exception):
    """A refusal: the HTTP status, the error code and the message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message = status, code, message


class Clock:
    """The server's time: the real one, and as much as it was turned."""

    def __init__(self) -> None:
        self.offset = 0.0

    def time(self) -> float:
        return time.time() + self.offset

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def advance(self, seconds: float) -> None:
        self.offset += seconds


@dataclass
class Call:
    """A request as it arrived."""

    action: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes

    def json(self) -> dict[str, Any]:
        try:
            body = orjson.loads(self.raw or b"{}")
        except orjson.JSONDecodeError:
            raise Problem(400, "MalformedJSON", "the body is not JSON") from None
        if not isinstance(body, dict):
            raise Problem(400, "MalformedJSON", "the body is not an object")
        return body


@dataclass
class Processes:
    """The real processes of one job, if the server executes commands."""

    command: str
    environments: list[dict[str, str]]
    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for index, environment in enumerate(self.environments):
            with (self.folder / f"{index}.log").open("wb") as log:
                self.running.append(
                    subprocess.Popen(
                        ["bash", "-c", self.command],
                        cwd=self.folder,
                        env=os.environ | environment,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )

    def codes(self) -> list[int | None]:
        return [process.poll() for process in self.running]

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self, index: int) -> list[str]:
        path = self.folder / f"{index}.log"
        return path.read_text(errors="replace").splitlines() if path.exists() else []


class Loopback:
    """Derive from it: `answer` returns the body of a successful call, or raises Problem."""

    slow_seconds = 0.3
    lost_seconds = math.inf
    """Seconds after which the connection of a lost answer breaks."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        fault_rate: float = 0.0,
        seed: int = 0,
        execute: bool = False,
        run_seconds: float = 0.2,
    ) -> None:
        self.clock = Clock()
        self.calls: Counter[str] = Counter()
        self.history: list[Call] = []
        self.creations: Counter[str] = Counter()
        self.fault_rate = fault_rate
        self.faults_given: Counter[str] = Counter()
        self.execute = execute
        self.run_seconds = run_seconds
        self.fault_actions: frozenset[str] | None = None
        """Only these actions fail at random; None: all."""
        self._planned: dict[str, deque[Fault]] = {}
        self._random = random.Random(seed)
        self._host, self._port = host, port
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name=type(self).__name__, daemon=True)
        self._scratch = tempfile.TemporaryDirectory(prefix="loopback-")
        self.scratch = Path(self._scratch.name)

    # What a subclass says

    def action_of(self, request: web.Request) -> str:
        raise NotImplementedError

    def answer(self, call: Call) -> dict[str, Any]:
        raise NotImplementedError

    def refusal(self, problem: Problem) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError

    async def respond(self, request: web.Request, call: Call) -> web.StreamResponse:
        """Carries the call out."""
        try:
            status, body = 200, self.answer(call)
        except Problem as problem:
            status, body = self.refusal(problem)
        return web.json_response(body, status=status, dumps=lambda value: orjson.dumps(value).decode())

    def stop_processes(self) -> None:
        """Ends what the server executes."""

    # What a test says

    def fail(self, action: str, *faults: Fault) -> None:
        """The next calls of this action fail in these ways."""
        self._planned.setdefault(action, deque()).extend(faults)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the loopback server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._done is not None
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        self.stop_processes()
        self._scratch.cleanup()

    def _serve(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_route("POST", "/_loopback/{what}", self._control)
        app.router.add_route("GET", "/_loopback/{what}", self._control)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port)
        await site.start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    async def _control(self, request: web.Request) -> web.Response:
        """For tests in another process: POST /_loopback/advance?seconds=60, POST /_loopback/faults?rate=0.1, GET
        /_loopback/counts."""
        what = request.match_info["what"]
        if what == "advance":
            self.clock.advance(float(request.query["seconds"]))
        elif what == "faults":
            self.fault_rate = float(request.query["rate"])
        found = {"creations": dict(self.creations), "calls": dict(self.calls), "faults": dict(self.faults_given)}
        return web.json_response(found)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        action = self.action_of(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(action, request.method, request.path, dict(request.query), headers, await request.read())
        self.calls[action] += 1
        self.history.append(call)
        fault = self._next_fault(action)
        if fault is not None:
            self.faults_given[fault] += 1
        if fault == "500":
            status, body = self._broken()
            return web.json_response(body, status=status)
        if fault == "reset":
            return self._reset(request)
        response = await self.respond(request, call)
        if fault == "500 after":
            status, body = self._broken()
            return web.json_response(body, status=status)
        if fault == "reset after":
            return self._reset(request)
        if fault == "lost":
            await self._until_the_client_gives_up(request)
            return self._reset(request)
        if fault == "slow":
            await asyncio.sleep(self.slow_seconds)
        return response

    def _broken(self) -> tuple[int, dict[str, Any]]:
        return self.refusal(Problem(500, "InternalError", "an injected fault"))

    def _next_fault(self, action: str) -> Fault | None:
        planned = self._planned.get(action)
        if planned:
            return planned.popleft()
        if self.fault_actions is not None and action not in self.fault_actions:
            return None
        return self._random.choice(FAULTS) if self._random.random() < self.fault_rate else None

    def _reset(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        if transport is not None and not transport.is_closing():
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        return web.Response()

    async def _until_the_client_gives_up(self, request: web.Request) -> None:
        assert self._done is not None
        deadline = time.monotonic() + self.lost_seconds
        while request.transport is not None and not request.transport.is_closing() and not self._done.is_set():
            if time.monotonic() > deadline:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), 0.02)


def run_program(server: Loopback, about: str) -> None:
    """Serves until the process is asked to stop."""
    with server:
        print(f"{about} at {server.url}", flush=True)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        stop.wait()
    print(f"created {sum(server.creations.values())} jobs", file=sys.stderr)


def program_arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--execute", action="store_true", help="run the commands of jobs as processes of this machine")
    parser.add_argument("--run-seconds", type=float, default=0.2, help="how long a job runs that is not executed")
    parser.add_argument("--fault-rate", type=float, default=0.0, help="which part of the calls fails")
    parser.add_argument("--seed", type=int, default=0)
    return parser
