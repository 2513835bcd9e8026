"""Sends mutated requests to a server for some seconds, and says what went wrong."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import orjson

from muster.embedded.auth.certificates import ensure_certificates
from tests.fuzz.mutation import FuzzRequest, Mutator
from tests.fuzz.wire import Hang, Wire

CONNECTIONS = 6
MEMBER_SHARE = 0.3


@dataclass(slots=True)
class Outcome:
    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    """Requests that got a 500, or no answer."""
    slowest: tuple[float, str] = (0.0, "")
    grown_mb: float = 0.0
    log: str = ""

    def explain(self) -> str:
        traces = Counter(last_frame(trace) for trace in tracebacks(self.log))
        causes = "\n".join(f"{count:6} {where}" for where, count in traces.most_common(60))
        return (
            f"{len(self.failures)} failures, such as:\n" + "\n".join(self.failures[:20]) + f"\n\nIn the log:\n{causes}"
        )


@dataclass(frozen=True, slots=True)
class FuzzedServer:
    url: str
    tokens: tuple[str, str]
    """Of an admin and of a member."""
    pid: int
    home: Path
    tls: ssl.SSLContext | None
    health: tuple[str, ...] = ("api", "v1", "namespaces")
    """What answers as long as the server is well."""

    def wire(self, token: str) -> Wire:
        parts = urlsplit(self.url)
        return Wire(parts.hostname or "", parts.port or 0, self.tls, {"Authorization": f"Bearer {token}"})

    @property
    def resident_mb(self) -> float:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    @property
    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")


@asynccontextmanager
async def fuzzed_server(home: Path, module: str = "tests.fuzz.server") -> AsyncIterator[FuzzedServer]:
    process = _start(home, module)
    assert process.stdout is not None and process.stdin is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line, (home / "stderr").read_text()
        told = orjson.loads(line)
        tokens = (told["admin"], told["member"])
        if told["url"].startswith("https:"):
            tls = ensure_certificates(home / "identity").client_context()
            yield FuzzedServer(told["url"], tokens, told["pid"], home, tls)
        else:
            yield FuzzedServer(told["url"], tokens, told["pid"], home, None, ("api", "v1", "health"))
        assert process.poll() is None, f"the server ended with {process.returncode}"
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(home: Path, module: str) -> subprocess.Popen[bytes]:
    with (home / "stderr").open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", module, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[2],
        )


async def run_campaign(
    server: FuzzedServer, new_request: Callable[[Random], FuzzRequest], mutator: Mutator, seconds: float
) -> Outcome:
    """Every connection takes requests from one generator, so that a seed gives the same requests in the same order."""
    outcome = Outcome()
    before = server.resident_mb
    deadline = time.monotonic() + seconds

    async def send_all(wires: tuple[Wire, Wire]) -> None:
        while time.monotonic() < deadline:
            request = mutator.mutate(new_request(mutator.random))
            wire = wires[mutator.random.random() < MEMBER_SHARE]
            started = time.monotonic()
            try:
                answer = await wire.send(request)
            except Hang as hang:
                outcome.failures.append(str(hang))
                continue
            took = time.monotonic() - started
            if took > outcome.slowest[0]:
                outcome.slowest = (took, str(request))
            outcome.requests += 1
            # MLP Cooker's API answers 200 and says the status in the body.
            status = 500 if b'"code":"bug"' in answer.body else answer.status
            outcome.statuses[status] += 1
            if status == 500:
                outcome.failures.append(f"500: {request}")

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_with_wires(server, send_all))
    async with server.wire(server.tokens[0]) as wire:
        alive = await wire.send(FuzzRequest("GET", server.health))
    if alive.status != 200:
        outcome.failures.append(f"the server answers {alive.status} at the end")
    outcome.grown_mb = server.resident_mb - before
    outcome.log = server.log
    return outcome


async def _with_wires(server: FuzzedServer, send_all: Callable[[tuple[Wire, Wire]], Awaitable[None]]) -> None:
    async with server.wire(server.tokens[0]) as admin, server.wire(server.tokens[1]) as member:
        await send_all((admin, member))


def tracebacks(log: str) -> list[str]:
    return re.findall(r"Traceback \(most recent call last\):\n(?:(?!Traceback).*\n)+?[\w.]+(?::.*)?\n", log)


def last_frame(trace: str) -> str:
    """Where an exception was raised, and what it says."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', trace)
    ours = [frame for frame in frames if "/muster/" in frame[0]] or frames or [("?", "0", "?")]
    path, line, function = ours[-1]
    last = trace.strip().splitlines()[-1]
    return f"{path.partition('/src/')[2] or path}:{line} {function}: {last[:160]}"
