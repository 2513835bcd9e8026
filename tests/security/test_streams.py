"""Attacks with streams: those that outlive the rights they began with, and too many of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from fastapi import APIRouter, Request, Response

from muster.kube.budgets import Budgets
from muster.platform.database.database import Database
from muster.platform.database.tables import sessions
from muster.server.http_server import serve_http
from muster.server.platform.app import include, platform_app
from muster.server.platform.event_feed import EventFeed, OpenStreams
from muster.server.platform.route_rules import own
from muster.server.platform.streams import download
from tests.server.platform.served import PASSWORD, Client, Served, serving

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(database, tmp_path / "home") as running:
        yield running


@dataclass(slots=True)
class Stream:
    response: aiohttp.ClientResponse

    async def last_event(self) -> dict[str, Any]:
        """The last event before the server closes the stream."""
        async with asyncio.timeout(4):  # less than the time after which rights are looked up again anyway
            text = (await self.response.content.read()).decode()
        name, _, data = text.strip().rpartition("\n\n")[2].partition("\n")
        assert name == "event: closed", text
        said: dict[str, Any] = orjson.loads(data.removeprefix("data: "))
        return said


@asynccontextmanager
async def watching(client: Client, path: str = "runs/events") -> AsyncIterator[Stream]:
    async with (
        aiohttp.ClientSession(cookie_jar=client.jar, headers=client._headers) as session,
        session.get(f"{client.url}/api/v1/{path}") as response,
    ):
        assert response.status == 200, await response.text()
        assert await response.content.readline() == b"retry: 2000\n"
        yield Stream(response)


@dataclass(slots=True)
class Scene:
    served: Served
    ann: Client
    """A browser."""
    script: Client
    """With a token of Ann's."""
    token: str
    team: str

    async def admin(self, method: str, path: str, body: Any = None) -> None:
        (await self.served.admin(method, path, body)).ok()


@pytest.fixture
async def scene(served: Served) -> Scene:
    ann = await served.user("ann")
    team = (await served.admin.post("teams", {"name": "ml"}))["id"]
    (await served.admin("PUT", "teams/ml/members/ann", {"role": "leader"})).ok()
    made = await ann.post("tokens", {"name": "script"})
    return Scene(served, ann, served.client(made["secret"]), made["token"]["id"], team)


Act = Callable[[Scene], Awaitable[None]]


async def _revoke(scene: Scene) -> None:
    (await scene.ann("DELETE", f"tokens/{scene.token}")).ok()


async def _leave(scene: Scene) -> None:
    await scene.admin("DELETE", "teams/ml/members/ann")


async def _demote(scene: Scene) -> None:
    await scene.admin("PUT", "teams/ml/members/ann", {"role": "member"})


async def _delete_team(scene: Scene) -> None:
    await scene.admin("DELETE", f"teams/{scene.team}")


async def _disable(scene: Scene) -> None:
    await scene.admin("PATCH", "users/ann", {"disabled": True})


@pytest.mark.parametrize(
    ("act", "status"),
    [
        pytest.param(_revoke, 401, id="A stream goes on after its token is revoked"),
        pytest.param(_leave, 403, id="A stream goes on after its reader is removed from a team"),
        pytest.param(_demote, 403, id="A stream goes on after its reader is no longer a leader"),
        pytest.param(_delete_team, 403, id="A stream goes on after the team of its reader is deleted"),
        pytest.param(_disable, 401, id="A stream goes on after the account is disabled"),
    ],
)
async def test_streams_of_tokens_end_with_the_rights(scene: Scene, act: Act, status: int) -> None:
    async with watching(scene.script) as stream:
        await act(scene)
        assert (await stream.last_event())["status"] == status


async def _log_out(scene: Scene) -> None:
    (await scene.ann("DELETE", "session")).ok()


async def _end_elsewhere(scene: Scene) -> None:
    other = await scene.served.log_in("ann")
    listed = (await other.get("sessions?sort=created"))["items"]
    (await other("DELETE", f"sessions/{listed[0]['id']}")).ok()


async def _new_password(scene: Scene) -> None:
    other = await scene.served.log_in("ann")
    await other.post("password", {"old": PASSWORD, "new": "another good passphrase"})


async def _promote(scene: Scene) -> None:
    await scene.admin("PATCH", "users/ann", {"role": "admin"})


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(_log_out, id="A stream goes on after its session is logged out"),
        pytest.param(_end_elsewhere, id="A stream goes on after its session is ended from another browser"),
        pytest.param(_new_password, id="A stolen session goes on after the password is changed"),
        pytest.param(_promote, id="A session goes on with the role that it began with"),
    ],
)
async def test_streams_of_sessions_end_with_the_session(scene: Scene, act: Act) -> None:
    async with watching(scene.ann) as stream:
        await act(scene)
        assert (await stream.last_event())["status"] == 401
    (await scene.ann("GET", "session")).refused(401)


async def test_busy_stream(scene: Scene) -> None:
    """A stream with events all the time is never idle, so that its token is never checked again"""
    feed = scene.served.platform.run_feed
    job_feed = scene.served.platform.job_feed

    async def publish() -> None:
        while True:
            for each in (feed, job_feed):
                each.publish(None, "reset")
            await asyncio.sleep(0.001)

    publishing = asyncio.create_task(publish())
    try:
        async with watching(scene.script) as stream:
            await _revoke(scene)
            assert (await stream.last_event())["status"] == 401
    finally:
        publishing.cancel()


async def test_changes_of_another_server(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is ended by another server on the same database, which sends this one no message"""
    monkeypatch.setattr("muster.server.platform.streams.RECHECK_SECONDS", 0.05)
    monkeypatch.setattr("muster.platform.users.sessions._SECONDS", 0.05)
    monkeypatch.setattr("muster.platform.database.database.ACCESS_TABLES", frozenset())
    async with watching(scene.ann) as stream:
        await scene.served.platform.database.write(lambda connection: connection.execute(sessions.delete()))
        assert (await stream.last_event())["status"] == 401


async def test_download(scene: Scene) -> None:
    """A long download goes on after its token is revoked"""
    router = APIRouter(tags=["test"])
    go_on = asyncio.Event()

    @router.get("/file", operation_id="test_file")
    async def file(request: Request) -> Response:
        async def content() -> AsyncIterator[bytes]:
            yield b"first"
            await go_on.wait()
            yield b"secret"

        return download(request, content(), media_type="application/gzip")

    app = platform_app(scene.served.platform)
    include(app, router, rules={"GET /file": own("for a test")})
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/file"
        async with (
            serve_http(app, listener),
            aiohttp.ClientSession(headers=scene.script._headers) as session,
            session.get(url) as response,
        ):
            assert await response.content.read(5) == b"first"
            await _revoke(scene)
            go_on.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()


async def test_too_many_streams(scene: Scene) -> None:
    """A member opens streams until the server has no connections left for others"""
    services = scene.served.platform
    services.streams = OpenStreams(replace(Budgets(), user_streams=2, streams=3))
    bob = await scene.served.user("bob")
    async with watching(scene.script), watching(scene.ann):
        refused = (await scene.ann("GET", "runs/events")).refused(429)
        assert "budgets.userStreams" in refused["detail"]
        async with watching(bob):
            refused = (await (await scene.served.user("eve"))("GET", "runs/events")).refused(429)
            assert "budgets.streams" in refused["detail"]
    async with asyncio.timeout(20):
        while services.streams._open:
            await scene.ann.get("session")
    async with watching(scene.ann):
        pass


@pytest.mark.usefixtures("database_url")
async def test_slow_reader() -> None:
    """A member reads a stream so slowly that the server keeps events for them without end"""
    feed = EventFeed(keep=3)
    events = feed.after("")
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    for number in range(10_000):
        feed.publish(number)
    assert (await first).name == "reset"
    feed.publish("after")
    assert (await anext(events)).data == "after"
    assert len(feed._kept) == 3
