"""kill -9 of the server while runs are created, stopped, retried and deleted: nothing is lost and nothing is done
twice."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import POD, SECRET
from muster.kube.objects import name_of
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import running_server
from muster.workflows.kinds import WORKFLOW
from tests.chaos.real_server import RealServer
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client
from tests.server.platform.whole import ended, eventually, states, stored

NewServer = Callable[..., RealServer]
CUT_OFF = (aiohttp.ClientError, ConnectionError, TimeoutError)


@pytest.fixture
async def server(new_server: NewServer) -> AsyncIterator[RealServer]:
    started = new_server(durability="process", web={"port": 0})
    await started.start()
    yield started
    started.end()


def client_of(server: RealServer) -> Client:
    info = running_server(server.home)
    assert info is not None
    return Client(info.web, local_token(platform_folder(server.home)))


def random_of() -> Random:
    seed = int(os.environ.get("MUSTER_CHAOS_SEED", "1789"))
    print(f"MUSTER_CHAOS_SEED={seed}")
    return Random(seed)


async def with_book(client: Client, folder: Path) -> Path:
    """A storage root. Each node appends to a file in it."""
    folder.mkdir()
    await client.post("storage", {"name": "book", "path": str(folder)})
    return folder / "ran"


def writing(name: str, book: Path, more: str = "") -> dict[str, Any]:
    command = f'echo "$AI_HUB_WORKFLOW_RUN_ID {name}" >> {book}\n{more}'
    return node(name, command=command, storage=[{"root": "book"}])


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.timeout(300)
async def test_kills_while_runs_are_made(server: RealServer, tmp_path: Path) -> None:
    random, client = random_of(), client_of(server)
    book = await with_book(client, tmp_path / "book")
    await stored(client, "three", graph(*(writing(n, book) for n in "abc"), edges="a>b b>c"))
    told: set[str] = set()

    async def make() -> None:
        try:
            told.add((await client.post("runs", {"workflow": "three"}))["id"])
        except CUT_OFF:
            return

    for _ in range(4):
        await make()  # the first start is slow: it loads all modules
        begun = time.monotonic()
        await make()
        usual = time.monotonic() - begun
        making = [asyncio.create_task(make()) for _ in range(4)]
        await asyncio.sleep(random.uniform(0.2, 5) * usual)
        server.kill()
        await asyncio.gather(*making)
        await server.start()
        client = client_of(server)
    runs = (await client.get("runs?limit=100"))["items"]
    assert told <= {run["id"] for run in runs}, "every run that was acknowledged exists"
    for run in runs:
        done = await ended(client, run["id"])
        assert (done["state"], done["done"]) == ("succeeded", 3), done["message"]
        assert [n["attempts"] for n in done["node_states"]] == [1, 1, 1]
    lines = Counter(book.read_text().split("\n")[:-1])
    assert set(lines) == {f"{run['id']} {name}" for run in runs for name in "abc"}
    assert set(lines.values()) == {1}, "no node ran twice"
    async with server.client() as cluster:
        assert sorted(map(name_of, (await cluster.list(WORKFLOW)).items)) == sorted(f"run-{r['id']}" for r in runs)
    assert "Traceback" not in server.log()


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.timeout(300)
async def test_kills_while_a_run_is_stopped_retried_and_deleted(server: RealServer, tmp_path: Path) -> None:
    random, client = random_of(), client_of(server)
    book = await with_book(client, tmp_path / "book")
    gate = f"until test -e {book}.go; do sleep 0.05; done"
    await stored(client, "gate", graph(writing("a", book), writing("b", book, gate), edges="a>b"))
    run = (await client.post("runs", {"workflow": "gate"}))["id"]

    async def is_in_b() -> bool:
        return book.exists() and f"{run} b\n" in book.read_text()

    await eventually(is_in_b)
    await _killed_while(server, random, "POST", f"runs/{run}/stop")
    client = client_of(server)
    stopping = await client.get(f"runs/{run}")
    if not stopping["stopping"]:
        await client("POST", f"runs/{run}/stop")
    stopped = await ended(client, run)
    assert (stopped["state"], states(stopped)) == ("stopped", {"a": "succeeded", "b": "stopped"})

    Path(f"{book}.go").touch()
    for _ in range(2):
        await _killed_while(server, random, "POST", f"runs/{run}/retry")
        client = client_of(server)
        await client("POST", f"runs/{run}/retry")
    done = await ended(client, run)
    assert done["state"] == "succeeded"
    lines = Counter(book.read_text().split("\n")[:-1])
    assert lines[f"{run} a"] == 1, "a succeeded node does not run again"
    assert lines[f"{run} b"] == 2, "once before the stop and once after it"

    await _killed_while(server, random, "POST", "runs", {"workflow": "gate"})
    client = client_of(server)
    for each in (await client.get("runs?limit=100"))["items"]:
        await _killed_while(server, random, "DELETE", f"runs/{each['id']}")
        client = client_of(server)
        await client("DELETE", f"runs/{each['id']}")
    assert (await client.get("runs"))["total"] == 0

    async def nothing_left() -> bool:
        async with server.client() as cluster:
            left = [*(await cluster.list(WORKFLOW)).items, *(await cluster.list(POD)).items]
            secrets = [s for s in (await cluster.list(SECRET, "default")).items if name_of(s).startswith("run-")]
            return not left and not secrets

    await eventually(nothing_left)
    assert "Traceback" not in server.log()


async def _killed_while(server: RealServer, random: Random, method: str, path: str, body: Any = None) -> None:
    """Kills the server at some moment of the request, then starts it again."""

    async def ask() -> None:
        try:
            await client(method, path, body)
        except CUT_OFF:
            return

    client = client_of(server)
    begun = time.monotonic()
    await client.get("runs")
    usual = time.monotonic() - begun
    asking = asyncio.create_task(ask())
    await asyncio.sleep(random.uniform(0.1, 4) * usual)
    server.kill()
    await asking
    await server.start()
