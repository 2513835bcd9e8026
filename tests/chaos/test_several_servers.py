"""Two servers of the platform on one PostgreSQL and one cluster. Either may be killed or paused at any moment: nothing
is lost, nothing is done twice, and clients go on with the other one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from muster.kube.builtin import SECRET
from muster.kube.objects import name_of
from muster.platform.users.credentials import local_token, platform_folder
from muster.workflows.kinds import WORKFLOW
from tests.chaos.real_server import RealServer
from tests.chaos.test_platform_runs import CUT_OFF, random_of, with_book, writing
from tests.platform.databases import PostgresServer, postgres_server
from tests.platform.graphs.samples import graph
from tests.server.platform.served import Client
from tests.server.platform.whole import ended, eventually, stored, until

PASSWORD = "correct horse battery"


class PlatformServer:
    """A server of the platform in a process of its own."""

    def __init__(self, home: Path, kubeconfig: Path, database: str, key: str) -> None:
        self.home, self._words = home, [str(home), str(kubeconfig), database]
        self._key = key
        self.process: subprocess.Popen[bytes] | None = None
        home.mkdir()

    async def start(self) -> None:
        (self.home / "url").unlink(missing_ok=True)
        self._launch()

        async def serves() -> bool:
            assert self.process is not None and self.process.poll() is None, self.log()
            if not (self.home / "url").exists():
                return False
            return (await Client(self.url)("GET", "health")).status == 200

        await eventually(serves)

    def _launch(self) -> None:
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.platform_server", *self._words],
                env={**os.environ, "MUSTER_ENCRYPTION_KEY": self._key},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def url(self) -> str:
        return (self.home / "url").read_text()

    @property
    def admin(self) -> Client:
        return Client(self.url, local_token(platform_folder(self.home)))

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log(self) -> str:
        return (self.home / "server.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


Pair = tuple[PlatformServer, PlatformServer]


@pytest.fixture
async def pair(
    new_server: Callable[..., RealServer], postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[tuple[RealServer, Pair]]:
    """A cluster, and two servers of the platform."""
    box = new_server(durability="process", web={"port": 0})
    await box.start()
    database, key = postgres.url(postgres.new_database()), b64encode(os.urandom(32)).decode()
    servers = [PlatformServer(tmp_path / name, box.home / "kubeconfig", database, key) for name in ("one", "two")]
    try:
        for server in servers:
            await server.start()
        yield box, (servers[0], servers[1])
    finally:
        for server in servers:
            server.kill()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("faults", [pytest.param(2, marks=pytest.mark.smoke), 10])
async def test_servers_are_killed_and_paused_at_random(
    pair: tuple[RealServer, Pair], faults: int, tmp_path: Path
) -> None:
    box, servers = pair
    random = random_of()
    book = await with_book(servers[0].admin, tmp_path / "book")
    await stored(servers[0].admin, "three", graph(*(writing(n, book) for n in "abc"), edges="a>b b>c"))
    told: set[str] = set()
    stopped: set[str] = set()

    async def make(server: PlatformServer, *, stop: bool) -> None:
        try:
            reply = await server.admin("POST", "runs", {"workflow": "three"})
            if reply.status == 503:
                return  # it was paused, and another server has taken over
            assert reply.status == 201, f"{reply.body}\n{server.log()}"
            run = reply.body["id"]
            told.add(run)
            if stop:
                stopped.add(run)
                await server.admin("POST", f"runs/{run}/stop")
        except CUT_OFF:
            return

    for number in range(faults):
        making = [asyncio.create_task(make(server, stop=random.random() < 0.2)) for server in servers for _ in range(3)]
        await asyncio.sleep(random.uniform(0.0, 1.0))
        victim = random.choice(servers)
        if number % 5 == 4:
            # It comes back after another server has taken its leases, and knows nothing of that.
            victim.signal(signal.SIGSTOP)
            await asyncio.sleep(12)
            victim.signal(signal.SIGCONT)
        else:
            victim.kill()
            await victim.start()
        await asyncio.gather(*making)

    client = random.choice(servers).admin
    runs = (await client.get("runs?limit=500"))["items"]
    assert told <= {run["id"] for run in runs}, "every run that was acknowledged exists"
    for run in runs:
        done = await ended(client, run["id"])
        if run["id"] in stopped and done["state"] == "stopped":
            continue
        assert (done["state"], done["done"]) == ("succeeded", 3), done["message"]
        assert [n["attempts"] for n in done["node_states"]] == [1, 1, 1]
    lines = Counter(book.read_text().split("\n")[:-1])
    complete = {f"{run['id']} {name}" for run in runs if run["id"] not in stopped for name in "abc"}
    assert complete <= set(lines)
    assert set(lines.values()) == {1}, "no node ran twice"
    names = sorted(f"run-{run['id']}" for run in runs)
    async with box.client() as cluster:
        workflows = set(map(name_of, (await cluster.list(WORKFLOW)).items))
        assert workflows <= set(names)
        assert set(names) - workflows <= {f"run-{run}" for run in stopped}, "all others have their Workflow"
        secrets = {name_of(each) for each in (await cluster.list(SECRET, "default")).items}
        assert {each for each in secrets if each.startswith("run-")} <= set(names)
    for server in servers:
        assert "Traceback" not in server.log(), server.log()


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.timeout(300)
async def test_clients_may_use_any_server(pair: tuple[RealServer, Pair], tmp_path: Path) -> None:
    """Sessions, lists, events and rights are the same on both."""
    _, (one, two) = pair
    await one.admin.post("users", {"name": "ada", "password": PASSWORD})
    browser = Client(one.url)
    await browser.post("session", {"name": "ada", "password": PASSWORD})
    same = Client(two.url)
    same.jar.update_cookies(browser.cookies)
    assert (await same.get("session"))["user"]["name"] == "ada"

    book = await with_book(one.admin, tmp_path / "book")
    await stored(one.admin, "wait", graph(writing("a", book, f"until test -e {book}.go; do sleep 0.05; done")))
    assert [each["name"] for each in (await two.admin.get("workflows"))["items"]] == ["wait"], "no outdated list"
    run = (await one.admin.post("runs", {"workflow": "wait"}))["id"]
    seen: list[asyncio.Task[list[str]]] = [
        asyncio.create_task(follow(server.admin, f"runs/{run}/events")) for server in (one, two)
    ]
    await until(two.admin, run, lambda each: each["state"] == "running")
    gate = Path(f"{book}.go")
    gate.touch()
    async with asyncio.timeout(30):
        for task in seen:
            assert (await task)[-1] == "succeeded", "the change was stored by one server and seen at both"

    # A session that ends at one server ends at the other, at once.
    stream = asyncio.create_task(closed(same, "runs/events"))
    await asyncio.sleep(0.5)
    begun = time.monotonic()
    await browser("DELETE", "session")
    async with asyncio.timeout(30):
        await stream
    print(f"the stream at the other server ended after {time.monotonic() - begun:.2f} s")
    assert (await same("GET", "session")).status == 401


async def follow(client: Client, path: str) -> list[str]:
    """The states of a run, until it has ended."""
    found: list[str] = []
    async for event in events(client, path):
        found.append(event["state"])
        if found[-1] in ("succeeded", "failed", "stopped"):
            break
    return found


async def closed(client: Client, path: str) -> None:
    async for _ in events(client, path):
        pass


async def events(client: Client, path: str) -> AsyncIterator[Any]:
    async with (
        aiohttp.ClientSession(cookie_jar=client.jar, headers=client._headers) as session,
        session.get(f"{client.url}/api/v1/{path}") as response,
    ):
        assert response.status == 200
        async for line in response.content:
            if line.startswith(b"data: ") and line.strip() != b"data: null":
                yield orjson.loads(line.removeprefix(b"data: "))
