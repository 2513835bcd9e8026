"""The proxy to workspaces, beside a direct connection to the same server: latency, throughput, and open WebSockets.

    python -m benchmarks.proxy [--requests 2000] [--megabytes 512] [--sockets 100]

It starts a server in a folder of its own, and in a Pod a small HTTP and WebSocket server (aiohttp). Each number is
measured twice in the same run, directly at the Pod's address and through the proxy; the ratio is what the proxy costs.
Everything shares this machine, so the client, the proxy and the Pod compete for its cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import uvloop

_SERVER = """
import asyncio
from aiohttp import WSMsgType, web
BLOCK = b"x" * 262144

async def small(request):
    return web.Response(body=b"y" * 1024)

async def large(request):
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(int(request.query["blocks"])):
        await response.write(BLOCK)
    return response

async def take(request):
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
    return web.Response(text=str(size))

async def echo(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data)
    return socket

app = web.Application(client_max_size=0)
app.add_routes([web.get("/small", small), web.get("/large", large), web.post("/take", take), web.get("/echo", echo)])
web.run_app(app, host="0.0.0.0", port=PORT, print=None, access_log=None)
"""
_BLOCK = 262144


class Target(NamedTuple):
    name: str
    url: str
    headers: Mapping[str, str]


class Result(NamedTuple):
    milliseconds: float
    requests: float
    down: float
    up: float
    sockets: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--sockets", type=int, default=100)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        home = Path(folder)
        # One user sends all requests here, more than a person would.
        (home / "config.yaml").write_text("budgets: {userRequestsPerSecond: 100000}\n")
        try:
            direct, proxied = start(home)
            results = uvloop.run(measure(direct, wanted)), uvloop.run(measure(proxied, wanted))
        finally:
            muster(home, "delete", "pod", "lab", "--grace-period=0")
            muster(home, "down")
    report(results[0], results[1], wanted.sockets)
    return 0


def start(home: Path) -> tuple[Target, Target]:
    """Starts the server and the Pod."""
    muster(home, "up", "-d")
    port = 20000 + os.getpid() % 10000
    script = _SERVER.replace("PORT", str(port))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lab", "annotations": {"workspaces.muster.dev/port": str(port)}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "python", "command": [sys.executable, "-c", script]}],
        },
    }
    (home / "pod.json").write_text(json.dumps(pod))
    muster(home, "apply", "-f", str(home / "pod.json"))
    muster(home, "wait", "pod/lab", "--for=condition=Ready", "--timeout=60s")
    made = json.loads(muster(home, "get", "pod", "lab", "-o", "json"))
    web = (home / "web-port").read_text().strip()
    token = (home / "platform" / "local-token").read_text().strip()
    headers = {"Host": f"{made['metadata']['uid']}.localhost:{web}", "Authorization": f"Bearer {token}"}
    return (
        Target("direct", f"http://{made['status']['podIP']}:{port}", {}),
        Target("proxy", f"http://127.0.0.1:{web}", headers),
    )


def muster(home: Path, *words: str) -> str:
    command = [str(Path(sys.executable).parent / "muster"), *words]
    done = subprocess.run(command, env={**os.environ, "MUSTER_HOME": str(home)}, capture_output=True, text=True)
    return done.stdout


async def measure(target: Target, wanted: argparse.Namespace) -> Result:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=target.headers, connector=connector) as session:
        await until_ready(session, target.url)
        milliseconds, requests = await small_requests(session, target.url, wanted.requests)
        blocks = wanted.megabytes * 1024 * 1024 // _BLOCK
        return Result(
            milliseconds,
            requests,
            await download(session, target.url, blocks),
            await upload(session, target.url, blocks),
            await talk(session, target.url, wanted.sockets, 20),
        )


async def until_ready(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.get(f"{url}/small") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def small_requests(session: aiohttp.ClientSession, url: str, count: int) -> tuple[float, float]:
    """The median of requests one after the other, and how many are answered per second with 16 at once."""

    async def ask() -> float:
        begun = time.perf_counter()
        async with session.get(f"{url}/small") as response:
            assert len(await response.read()) == 1024
        return time.perf_counter() - begun

    async def ask_many(number: int) -> None:
        for _ in range(number):
            await ask()

    taken = [await ask() for _ in range(count // 4)]
    begun = time.perf_counter()
    await asyncio.gather(*(ask_many(count // 16) for _ in range(16)))
    return statistics.median(taken) * 1000, count / (time.perf_counter() - begun)


async def download(session: aiohttp.ClientSession, url: str, blocks: int) -> float:
    """Megabytes per second."""
    begun, size = time.perf_counter(), 0
    async with session.get(f"{url}/large?blocks={blocks}") as response:
        async for piece in response.content.iter_any():
            size += len(piece)
    assert size == blocks * _BLOCK
    return size / 1e6 / (time.perf_counter() - begun)


async def upload(session: aiohttp.ClientSession, url: str, blocks: int) -> float:
    block = b"x" * _BLOCK

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield block

    begun = time.perf_counter()
    async with session.post(f"{url}/take", data=pieces()) as response:
        assert int(await response.text()) == blocks * _BLOCK
    return blocks * _BLOCK / 1e6 / (time.perf_counter() - begun)


async def talk(session: aiohttp.ClientSession, url: str, sockets: int, rounds: int) -> float:
    """Messages per second there and back, with all sockets open at once."""
    opened = [await session.ws_connect(f"{url}/echo") for _ in range(sockets)]

    async def speak(socket: aiohttp.ClientWebSocketResponse) -> None:
        for number in range(rounds):
            await socket.send_str(f"{number} " + "z" * 200)
            assert (await socket.receive_str()).startswith(f"{number} ")

    begun = time.perf_counter()
    await asyncio.gather(*map(speak, opened))
    taken = time.perf_counter() - begun
    for socket in opened:
        await socket.close()
    return sockets * rounds / taken


def report(direct: Result, proxied: Result, sockets: int) -> None:
    rows = [
        ("small request, median", "ms", direct.milliseconds, proxied.milliseconds),
        ("small requests, 16 at once", "1/s", direct.requests, proxied.requests),
        ("download", "MB/s", direct.down, proxied.down),
        ("upload", "MB/s", direct.up, proxied.up),
        (f"messages on {sockets} WebSockets", "1/s", direct.sockets, proxied.sockets),
    ]
    print(f"{'':32}{'direct':>12}{'proxy':>12}{'ratio':>8}")
    for name, unit, one, other in rows:
        print(f"{name + ' (' + unit + ')':32}{one:12.1f}{other:12.1f}{other / one:8.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
