"""PostgreSQL stops or restarts while the platform is used: clients learn when to try again, and nothing that was
acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import aiohttp
import pytest

from muster.platform.settings import WebSettings
from muster.server.platform import streams
from tests.platform.databases import PostgresServer, postgres_server
from tests.server.platform.served import Client
from tests.server.platform.test_host import hosted


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """A server that tests may stop."""
    with postgres_server() as server:
        yield server


REQUESTS = [
    ("GET", "health", None),
    ("GET", "session", None),
    ("GET", "runs", None),
    ("GET", "runs/unknown", None),
    ("GET", "runs/events", None),
    ("POST", "teams", {"name": "crew"}),
    ("POST", "session", {"name": "ada", "password": "correct horse battery"}),
    ("GET", "/apis/v2beta1/experiments", None),
]


async def test_a_stopped_database_is_a_503(
    own_postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = WebSettings(database=own_postgres.url(own_postgres.new_database()))
    async with hosted(tmp_path, web) as client:
        assert (await client.get("health"))["status"] == "ok"
        await asyncio.to_thread(own_postgres.stop)
        try:
            refused = {path: await client(method, path, body) for method, path, body in REQUESTS}
        finally:
            await asyncio.to_thread(own_postgres.start)
        assert {path: (reply.status, reply.headers.get("Retry-After")) for path, reply in refused.items()} == {
            path: (503, "2") for _, path, _ in REQUESTS
        }
        assert refused["runs"].refused(503)["code"] == "database"
        assert (await client.get("runs"))["total"] == 0
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_an_open_stream_ends_with_a_reason(
    own_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser opens it again, and gets what it missed."""
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.05)
    web = WebSettings(database=own_postgres.url(own_postgres.new_database()))
    async with hosted(tmp_path, web) as client:
        assert (await client.get("health"))["status"] == "ok"
        async with (
            aiohttp.ClientSession(headers=client._headers) as session,
            session.get(f"{client.url}/api/v1/runs/events") as stream,
        ):
            assert (await stream.content.readline()).startswith(b"retry")
            await asyncio.to_thread(own_postgres.stop)
            try:
                said = (await stream.content.read()).decode()
            finally:
                await asyncio.to_thread(own_postgres.start)
    assert said.split()[:3] == ["event:", "closed", "data:"]
    assert '"status":503,"code":"database"' in said


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_loses_nothing_that_was_acknowledged(
    own_postgres: PostgresServer, mode: Literal["fast", "immediate"], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = WebSettings(database=own_postgres.url(own_postgres.new_database()))
    async with hosted(tmp_path, web) as client:
        assert (await client.get("health"))["status"] == "ok"
        made, statuses, ended = set[str](), Counter[int](), asyncio.Event()

        async def work(worker: int) -> None:
            number = 0
            while not ended.is_set():
                number += 1
                name = f"crew-{worker}-{number}"
                reply = await client("POST", "teams", {"name": name})
                statuses[reply.status] += 1
                if reply.status == 201:
                    made.add(name)
                statuses[(await client("GET", "teams?limit=1")).status] += 1

        working = [asyncio.create_task(work(number)) for number in range(4)]
        for _ in range(3):
            before = len(made)
            await asyncio.to_thread(own_postgres.restart, mode)
            while len(made) == before:  # noqa: ASYNC110 (requests of the workers change it)
                await asyncio.sleep(0.05)
        ended.set()
        await asyncio.gather(*working)
        assert statuses.keys() <= {200, 201, 429, 503}, statuses
        assert statuses[503], "some requests met the restart"
        assert made <= await names_of_teams(client)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def names_of_teams(client: Client) -> set[str]:
    found, cursor = set[str](), ""
    while True:
        page = await client.get(f"teams?limit=500{cursor}")
        found |= {team["name"] for team in page["items"]}
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"
