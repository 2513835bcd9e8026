"""Every client gets each event once, even if its connection breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from muster.server.http_server import serve_http
from muster.server.platform.app import include, platform_app
from muster.server.platform.event_feed import Event, EventFeed
from muster.server.platform.route_rules import own
from muster.server.platform.streams import encode, event_stream, last_event_id
from tests.server.platform.served import Served

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def _one_database(database_url: str) -> None:
    """These tests do not depend on the database."""


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event("1", {"a": 1}), 'id: 1\ndata: {"a":1}\n\n'),
        (Event("2", "two\nlines", "log"), 'id: 2\nevent: log\ndata: "two\\nlines"\n\n'),
        (Event("3", None, "reset"), "id: 3\nevent: reset\ndata: null\n\n"),
    ],
)
def test_the_format_of_an_event(event: Event, text: str) -> None:
    assert encode(event).decode() == text


async def take(events: AsyncIterator[Event], count: int) -> list[tuple[str, Any]]:
    return [(event.name, event.data) for event in [await anext(events) for _ in range(count)]]


async def test_a_returning_client_gets_what_it_missed_and_nothing_twice() -> None:
    feed = EventFeed()
    first = feed.publish("a")
    for data in "bcd":
        feed.publish(data)
    assert await take(feed.after(first.id), 3) == [("message", "b"), ("message", "c"), ("message", "d")]
    watching = feed.after("")
    coming = asyncio.ensure_future(take(watching, 1))
    await asyncio.sleep(0)
    feed.publish("e")
    assert await coming == [("message", "e")], "without an id, from now on"


@pytest.mark.parametrize("last", ["1", "nonsense", "999", "other-3", "-1"])
async def test_a_client_that_missed_too_much_has_to_start_over(last: str) -> None:
    feed = EventFeed(keep=2)
    for data in "abcd":
        feed.publish(data)
    events = feed.after(last)
    assert await take(events, 1) == [("reset", None)]
    feed.publish("e")
    assert await take(events, 1) == [("message", "e")]


async def test_ids_of_an_earlier_server_are_ignored() -> None:
    feed = EventFeed(epoch="b-")
    assert feed.publish(1).id == "b-1"
    assert await take(feed.after("a-1"), 1) == [("reset", None)]
    feed.publish(2)
    assert await take(feed.after("b-1"), 1) == [("message", 2)]


@asynccontextmanager
async def streaming(served: Served, feed: EventFeed, heartbeat: float) -> AsyncIterator[str]:
    """The platform with one more route, which streams the feed."""
    import socket

    router = APIRouter(tags=["test"])

    @router.get("/stream")
    async def stream(request: Request) -> StreamingResponse:
        return event_stream(request, feed.after(last_event_id(request)), heartbeat=heartbeat)

    app = platform_app(served.platform)
    include(app, router, rules={"GET /stream": own("for a test")})
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        async with serve_http(app, listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/stream"


async def read_events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    identifier = ""
    async for line in response.content:
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            identifier = text[4:]
        if text.startswith("data: "):
            found.append((identifier, orjson.loads(text[6:])))
        if len(found) == count:
            break
    return found


async def test_a_client_continues_where_it_was_disconnected(served: Served) -> None:
    feed = EventFeed()
    feed.publish("before")
    token = {"Authorization": f"Bearer {served.admin._headers['Authorization'].split()[1]}"}
    async with streaming(served, feed, 60) as url, aiohttp.ClientSession(headers=token) as session:
        async with session.get(url) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            assert await response.content.readline() == b"retry: 2000\n"
            feed.publish("one")
            last, data = (await read_events(response, 1))[0]
            assert data == "one"
        for missed in ("two", "three"):
            feed.publish(missed)
        async with session.get(url, headers={"Last-Event-ID": last}) as response:
            assert [data for _, data in await read_events(response, 2)] == ["two", "three"]


async def test_a_stream_ends_when_its_reader_loses_access(served: Served) -> None:
    ann = await served.user("ann")
    made = await ann.post("tokens", {"name": "t"})
    token = {"Authorization": f"Bearer {made['secret']}"}
    async with streaming(served, EventFeed(), 0.05) as url, aiohttp.ClientSession(headers=token) as session:
        async with session.get(url) as response:
            while await response.content.readline() != b": still here\n":
                pass
            (await ann("DELETE", f"tokens/{made['token']['id']}")).ok()
            async with asyncio.timeout(20):
                await response.content.read()
        async with session.get(url) as response:
            assert response.status == 401
