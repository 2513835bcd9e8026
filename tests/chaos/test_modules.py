"""kill -9 of the server during a build and during a review: nothing is lost and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import running_server
from tests.chaos.real_server import RealServer, eventually
from tests.platform.fixtures import *  # noqa: F403 (fixtures are found by their names here)
from tests.platform.modules.git_repositories import GitRepository
from tests.server.platform.served import Client

pytestmark = [pytest.mark.slow, pytest.mark.smoke]

NewServer = Callable[..., RealServer]
CUT_OFF = (aiohttp.ClientError, ConnectionError, TimeoutError)
PASSWORD = "correct horse battery"


@pytest.fixture
async def server(
    new_server: NewServer, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RealServer]:
    """Its git records each fetch and waits at a gate before it."""
    real = shutil.which("git")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(
        f'#!/bin/sh\nif [ "$1" = fetch ]; then echo $$ >> {tmp_path}/fetches\n'
        f'while [ ! -e {tmp_path}/gate ]; do sleep 0.05; done; fi\nexec {real} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    started = new_server(durability="process", web={"port": 0}, database=database_url)
    await started.start()
    yield started
    (tmp_path / "gate").touch()  # ends every process that still waits
    started.end()


def client_of(server: RealServer) -> Client:
    info = running_server(server.home)
    assert info is not None
    return Client(info.web, local_token(platform_folder(server.home)))


async def made(client: Client, tmp_path: Path) -> str:
    """A module of a user without admin rights, whose build has started."""
    repository = GitRepository(tmp_path / "repository")
    await client.post("categories", {"name": "text"})
    body = {"name": "hash", "category": "text", "git_url": str(repository.path), "git_ref": "main"}
    await client.post("modules", body)
    return repository.git("rev-parse", "HEAD")


def fetches(tmp_path: Path) -> list[int]:
    path = tmp_path / "fetches"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def has_fetched(tmp_path: Path, times: int) -> bool:
    return len(fetches(tmp_path)) == times


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def over(client: Client) -> Any:
    while True:
        version = await client.get("modules/hash/versions/1")
        if version["state"] != "building":
            return version
        await asyncio.sleep(0.05)


async def actions(client: Client, kind: str) -> list[str]:
    return [entry["action"] for entry in (await client.get(f"audit?kind={kind}&sort=at&limit=500"))["items"]]


@pytest.mark.timeout(300)
async def test_a_kill_during_a_build(server: RealServer, tmp_path: Path) -> None:
    commit = await made(client_of(server), tmp_path)
    for kills in (1, 2):
        await eventually(partial(has_fetched, tmp_path, kills))
        server.kill()
        left = fetches(tmp_path)[-1]
        assert Path(f"/proc/{left}").exists(), "the build must outlive the server, or this test shows nothing"
        await server.start()
        await client_of(server).get("health")
        await eventually(partial(is_gone, left))
    await eventually(partial(has_fetched, tmp_path, 3))
    (tmp_path / "gate").touch()
    client = client_of(server)
    version = await over(client)
    assert (version["state"], version["git_commit"]) == ("private", commit), version["reason"]
    assert (await client.get("modules/hash"))["versions"] == 1
    assert await actions(client, "module") == ["create", "build", "built"]
    folder = platform_folder(server.home) / "modules" / version["module_id"] / "1"
    assert sorted(path.name for path in folder.iterdir()) == ["build.log", "code", "source.json.gz"]
    assert (await client.get("modules/hash/versions/1/log")).count("the build starts again") == 2
    assert "Traceback" not in server.log()


@pytest.mark.timeout(300)
async def test_a_build_fails_after_too_many_restarts(server: RealServer, tmp_path: Path) -> None:
    await made(client_of(server), tmp_path)
    for kills in range(1, 5):
        await eventually(partial(has_fetched, tmp_path, kills))
        server.kill()
        await server.start()
        await client_of(server).get("health")
    version = await over(client_of(server))
    assert (version["state"], version["steps"]) == ("build failed", ["retry"])
    assert "the server stopped 4 times during this build" in version["reason"]


@pytest.mark.timeout(300)
async def test_kills_during_a_review(server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    seed = int(os.environ.get("MUSTER_CHAOS_SEED", "1789"))
    print(f"MUSTER_CHAOS_SEED={seed}")
    random, client = Random(seed), client_of(server)
    await made(client, tmp_path)
    await over(client)
    await client.post("users", {"name": "boss", "password": PASSWORD, "role": "admin"})
    browser = Client(client.url)
    await browser.post("session", {"name": "boss", "password": PASSWORD})
    token = (await browser.post("tokens", {"name": "script", "scopes": ["read", "write", "admin"]}))["secret"]

    async def cut(who: Client, path: str, body: Any = None) -> None:
        """A request during which the server may be killed."""

        async def ask() -> None:
            try:
                await who("POST", path, body)
            except CUT_OFF:
                return

        asking = asyncio.create_task(ask())
        await asyncio.sleep(random.uniform(0, 0.03))
        server.kill()
        await asking
        await server.start()

    for _ in range(4):
        await cut(client, "modules/hash/versions/1/review")
        client = client_of(server)
        boss = Client(client.url, token)
        if not (await client.get("reviews?state=open"))["items"]:
            assert (await client.get("modules/hash/versions/1"))["state"] in ("private", "rejected")
            await client.post("modules/hash/versions/1/review")
        (review,) = (await client.get("reviews?state=open"))["items"]
        await cut(boss, f"reviews/{review['id']}/reject", {"reason": "not yet"})
        client = client_of(server)
        boss = Client(client.url, token)
        state = (await client.get(f"reviews/{review['id']}"))["state"]
        version = await client.get("modules/hash/versions/1")
        assert (state, version["state"]) in (("open", "in review"), ("rejected", "rejected"))
        if state == "open":
            await boss.post(f"reviews/{review['id']}/reject", {"reason": "not yet"})
        (await boss("POST", f"reviews/{review['id']}/approve")).refused(409)
    reviews = (await client.get("reviews"))["items"]
    assert [review["state"] for review in reviews] == ["rejected"] * 4
    assert await actions(client, "review") == ["ask", "reject"] * 4
