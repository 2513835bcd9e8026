"""A hostile member: how soon another member's requests are answered while 100 workflows try to freeze the server.

    python -m benchmarks.hostile [--workflows 100] [--seconds 15] [--flood]

The server is a process of its own with the whole platform. One member submits workflows of the freezing kinds, all at
once: recursion, chains, loops, slow expressions, long strings. With --flood, the member sends requests to the
Kubernetes API instead, over 60 connections of another process: lists and watches of large objects, and large writes.
Another member lists runs and workflows, reads one workflow and stores a small one, over and over. What counts is the
ratio of the 95th percentile to that on the idle server in the same run, and that it stays below the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop

from muster.platform.users.credentials import local_token, platform_folder
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings

GOAL = 0.200
PASSWORD = "correct horse battery"
_READERS = 4
_FLOOD_CONNECTIONS = 60
_SMALL = {"format": 1, "nodes": [{"name": "a", "image": "busybox", "command": "true"}]}

_TASK: dict[str, Any] = {"name": "task", "container": {"image": "busybox", "command": ["true"]}}
_TAKES_X = {"parameters": [{"name": "x", "value": ""}]}
_SORT = "len(sort(map(1..25000, string(#))))"
_SLOW = "all(1..1900, all(1..20, # > 0))"


def _steps(*groups: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"name": "main", "steps": [*groups], **more}


def _call(name: str = "a", template: str = "task", **more: Any) -> dict[str, Any]:
    return {"name": name, "template": template, **more}


def _given(value: str) -> dict[str, Any]:
    return {"parameters": [{"name": "x", "value": value}]}


KINDS: dict[str, list[dict[str, Any]]] = {
    "recursion": [_steps([_call("a", "main"), _call("b", "main")])],
    "wide recursion": [{"name": "main", "dag": {"tasks": [_call(name, "main") for name in "abcd"]}}],
    "chain": [_steps(*([_call(f"a{n}", when="1 == 2")] for n in range(2000))), _TASK],
    "loop": [_steps([_call(withSequence={"count": "19000"}, when="1 == 2")]), _TASK],
    "loop in a loop": [
        _steps([_call("a", "inner", withSequence={"count": "1000"})]),
        {"name": "inner", "steps": [[_call(withSequence={"count": "1000"}, when="1 == 2")]]},
        _TASK,
    ],
    "slow expressions": [
        _steps([_call(f"a{n}", arguments=_given(f"{{{{={_SLOW} ? {n} : 0}}}}")) for n in range(200)]),
        {**_TASK, "inputs": _TAKES_X},
    ],
    "slow conditions": [_steps([_call(f"a{n}", when=f"{{{{={_SLOW}}}}} == {n}") for n in range(200)]), _TASK],
    "long strings": [
        _steps([_call(withSequence={"count": "9000"}, arguments=_given("{{=sprig.repeat(900000, 'a')}}"))]),
        {**_TASK, "inputs": _TAKES_X},
    ],
    "sorting": [
        _steps([_call(f"a{n}", arguments=_given(f"{{{{={_SORT} + {n}}}}}")) for n in range(200)]),
        {**_TASK, "inputs": _TAKES_X},
    ],
    "doubling text": [
        _steps([_call("a", "main", arguments=_given(2 * "{{inputs.parameters.x}}" + "a"))], inputs=_TAKES_X)
    ],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workflows", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to measure, idle and under attack")
    parser.add_argument("--flood", action="store_true", help="flood the Kubernetes API instead")
    parser.add_argument("--attack", default="", help=argparse.SUPPRESS)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(Path(options.serve)))
        return
    if options.attack:
        uvloop.run(flood(options.attack, sys.stdin.readline().strip(), options.seconds))
        return
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        uvloop.run(measure(Path(folder), options))


async def serve(home: Path) -> None:
    settings = read_settings(home, {"durability": "process", "web": {"port": 0}, "listen": {"port": 0}})
    async with run_server(settings, web=True) as server:
        print(server.info.web, server.info.url, flush=True)
        await asyncio.Event().wait()


async def measure(home: Path, options: argparse.Namespace) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.hostile", "--serve", str(home), stdout=PIPE
    )
    try:
        assert server.stdout is not None
        url, api = (await server.stdout.readline()).decode().split()
        async with client(url, local_token(platform_folder(home))) as admin:
            tokens = [await add_member(admin, url, name) for name in ("mallory", "alice")]
        async with client(url, tokens[0]) as mallory, client(url, tokens[1]) as alice:
            await alice.post("workflows", {"name": "mine", "version": {"document": _SMALL}})
            await requests(alice, 1.0, "warm")
            idle = await requests(alice, options.seconds, "idle")
            if options.flood:
                command = (sys.executable, "-m", "benchmarks.hostile", "--attack", api, "--seconds")
                attack = await asyncio.create_subprocess_exec(*command, str(options.seconds + 5), stdin=PIPE)
                assert attack.stdin is not None
                attack.stdin.write(tokens[0].encode() + b"\n")
                busy = await requests(alice, options.seconds, "busy")
                await attack.communicate()
            else:
                busy = await run_workflows(mallory, alice, options)
        print(f"idle:         p50 {median(idle):6.1f} ms, p95 {p95(idle):6.1f} ms, most {max(idle) * 1000:6.0f} ms")
        print(f"under attack: p50 {median(busy):6.1f} ms, p95 {p95(busy):6.1f} ms, most {max(busy) * 1000:6.0f} ms")
        print(f"memory of the server: {memory_of(server.pid):.0f} MB; ratio of p95: {p95(busy) / p95(idle):.1f}")
        if p95(busy) > GOAL * 1000:
            raise SystemExit(f"over the target: p95 is {p95(busy):.0f} ms, not {GOAL * 1000:.0f}")
    finally:
        server.terminate()
        await server.wait()


async def run_workflows(mallory: Client, alice: Client, options: argparse.Namespace) -> list[float]:
    attack = asyncio.create_task(submit_all(mallory, options.workflows))
    busy = await requests(alice, options.seconds, "busy")
    while not attack.done():
        busy += await requests(alice, 1.0, f"busy{len(busy)}")
    submitted = await attack
    busy += await requests(alice, options.seconds, "after")
    states = Counter(run["state"] for run in (await mallory.get("runs?limit=200"))["items"])
    print(f"{submitted} hostile workflows accepted of {options.workflows}; their runs: {dict(states)}")
    return busy


async def flood(api: str, token: str, seconds: float) -> None:
    """Sends requests, and says which answers there were."""
    path = f"{api}/api/v1/namespaces/user-mallory/configmaps"
    large = {"metadata": {"generateName": "a-"}, "data": {f"k{n}": "x" * 900 for n in range(1000)}}
    wide = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{n}": "" for n in range(5000)}})
    apply = {"Content-Type": "application/apply-patch+yaml"}
    answers: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        for _ in range(40):
            async with session.post(path, json=large) as response:
                answers[f"create {response.status}"] += 1

        async def send_all(number: int) -> None:
            while True:
                for kind, method, url, body in (
                    ("list", "GET", path, None),
                    ("watch", "GET", f"{path}?watch=1&timeoutSeconds=1", None),
                    ("pods", "GET", path.replace("configmaps", "pods"), None),
                    ("apply", "PATCH", f"{path}/b{number}?fieldManager=x", wide),
                ):
                    async with session.request(method, url, data=body, headers=apply if body else None) as response:
                        async for _ in response.content.iter_chunked(1 << 16):
                            pass
                        answers[f"{kind} {response.status}"] += 1

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*map(send_all, range(_FLOOD_CONNECTIONS)))
    print(f"the flood: {dict(answers)}")


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str) -> Any:
        return await self._ask("GET", path, None)

    async def post(self, path: str, body: Any) -> Any:
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        async with self._session.request(method, f"{self._url}/api/v1/{path}", json=body) as response:
            answer = await response.read()
            if response.status >= 400:
                raise SystemExit(f"{method} {path}: {response.status} {answer[:500]!r}")
            return orjson.loads(answer) if answer else None


@asynccontextmanager
async def client(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield Client(session, url)


async def add_member(admin: Client, url: str, name: str) -> str:
    await admin.post("users", {"name": name, "password": PASSWORD})
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await Client(session, url).post("session", {"name": name, "password": PASSWORD})
        cookies = {cookie.key: cookie.value for cookie in session.cookie_jar}
        headers = {"x-csrf-token": cookies["muster_csrf"]}
        async with session.post(f"{url}/api/v1/tokens", json={"name": "bench"}, headers=headers) as response:
            return str((await response.json())["secret"])


async def submit_all(mallory: Client, count: int) -> int:
    kinds = list(KINDS.items())
    gate = asyncio.Semaphore(12)  # more are refused: budgets.userChecks

    async def submit(number: int) -> int:
        kind, templates = kinds[number % len(kinds)]
        manifest = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": "h-"},
            "spec": {"entrypoint": "main", "templates": templates},
        }
        name = f"hostile-{number}"
        async with gate:
            try:
                version = {"manifest": orjson.dumps(manifest).decode()}
                await mallory.post("workflows", {"name": name, "version": version})
                await mallory.post("runs", {"workflow": name})
            except SystemExit as refused:  # it is refused before it runs, which is as good
                print(f"{kind}: {str(refused)[:200]}")
                return 0
        return 1

    return sum(await asyncio.gather(*map(submit, range(count))))


async def requests(alice: Client, seconds: float, tag: str) -> list[float]:
    """Returns how long each request took."""
    until = time.perf_counter() + seconds

    async def reader(number: int) -> list[float]:
        taken = []
        while time.perf_counter() < until:
            for path in ("runs", "workflows", "workflows/mine"):
                begun = time.perf_counter()
                await alice.get(path)
                taken.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            name = f"{tag}-{number}-{len(taken)}"
            await alice.post("workflows", {"name": name, "version": {"document": _SMALL}})
            taken.append(time.perf_counter() - begun)
            await asyncio.sleep(0.1)
        return taken

    return [each for some in await asyncio.gather(*map(reader, range(_READERS))) for each in some]


def p95(taken: list[float]) -> float:
    """In milliseconds."""
    return statistics.quantiles(taken, n=20)[-1] * 1000


def median(taken: list[float]) -> float:
    return statistics.median(taken) * 1000


def memory_of(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


if __name__ == "__main__":
    main()
