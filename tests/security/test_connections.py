"""Attacks with connections: many of them, and clients that send or read slowly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from muster.kube.budgets import Budgets
from muster.server.http_server import ConnectionLimits, limits_from, open_web_listeners, serve_http
from muster.server.pidfile import ServerError

_HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body and answers with a lot, if it is asked for."""
    size = int(scope["query_string"] or b"0")
    while (message := await receive()).get("more_body"):
        assert message["type"] == "http.request"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (size + 2))]})
    await send({"type": "http.response.body", "body": b"ok" + b"x" * size})


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def _served(app: Any = _app, **limits: Any) -> AsyncIterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serve_http(app, listener, ConnectionLimits(**limits)):
            yield listener.getsockname()


@asynccontextmanager
async def _connected(address: tuple[str, int]) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of the connection, whatever is sent before."""
    try:
        async with asyncio.timeout(30):
            while await reader.read(65536):
                pass
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="A client connects and sends nothing"),
        pytest.param(b"GET / HT", id="A client sends a part of a request line"),
        pytest.param(_HEAD + b"X-A: ", id="A client sends headers that never end"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", id="A client sends a request, and then a part of another"
        ),
    ],
)
async def test_a_request_has_to_arrive_in_time(sent: bytes) -> None:
    async with _served(head_seconds=0.2) as address, _connected(address) as (reader, writer):
        writer.write(sent)
        if sent.startswith(b"GET / HTTP"):
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            writer.write(b"T")
        assert await _is_closed(reader)


async def test_a_head_that_arrives_byte_by_byte_is_not_waited_for() -> None:
    """A client sends a header byte by byte, each within the time limit (slowloris)"""
    async with _served(head_seconds=0.3) as address, _connected(address) as (reader, writer):
        closed = asyncio.create_task(_is_closed(reader))
        writer.write(_HEAD + b"X-A: ")
        while not closed.done():
            writer.write(b"a")
            await asyncio.wait((closed,), timeout=0.02)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"Content-Length: 100\r\n\r\nabc", id="A client sends a part of a body"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", id="A client sends a part of a chunk"),
    ],
)
async def test_a_body_has_to_arrive_in_time(sent: bytes) -> None:
    async with _served(body_seconds=0.2) as address, _connected(address) as (reader, writer):
        writer.write(_HEAD + sent)
        assert await _is_closed(reader)


async def test_a_body_that_arrives_byte_by_byte_is_not_waited_for() -> None:
    """A client sends a body byte by byte, each within the time limit"""
    async with _served(body_seconds=0.3) as address, _connected(address) as (reader, writer):
        closed = asyncio.create_task(_is_closed(reader))
        writer.write(_HEAD + b"Content-Length: 100000\r\n\r\n")
        while not closed.done():
            writer.write(b"a")
            await asyncio.wait((closed,), timeout=0.02)


async def test_a_refused_body_is_not_read_for_long() -> None:
    """A client goes on sending a body that was refused"""
    async with _served(_refuse, discard_seconds=0.2) as address, _connected(address) as (reader, writer):
        writer.write(_HEAD + b"Content-Length: 1000000000\r\n\r\n")
        closed = asyncio.create_task(_is_closed(reader))
        while not closed.done():
            writer.write(b"a" * 100)
            await asyncio.wait((closed,), timeout=0.02)


async def test_a_response_has_to_be_read() -> None:
    """A client asks for a large response and does not read it"""
    loop = asyncio.get_running_loop()
    closed = loop.create_future()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _app(scope, receive, send)
        await receive()  # returns when the client is gone
        closed.set_result(True)

    async with _served(app, read_seconds=0.3) as address:
        with socket.create_connection(address) as client:
            client.sendall(b"GET /?50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(30):
                assert await closed


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", id="A URL of 200 KB"),
        pytest.param(_HEAD + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n", id="A header of 200 KB"),
        pytest.param(_HEAD + b"X-A: 1\r\n" * 5000 + b"\r\n", id="Five thousand headers"),
        pytest.param(_HEAD + b"X-A: " + b"a" * 5_000_000, id="A header of megabytes that never ends"),
    ],
)
async def test_a_head_has_a_largest_size(head: bytes) -> None:
    async with _served() as address, _connected(address) as (reader, writer):
        writer.write(head)
        try:
            answer = await reader.readline()
        except ConnectionError:  # it was closed while we were still sending
            return
        assert answer.startswith((b"HTTP/1.1 4", b"")) and b" 200 " not in answer


async def _accept(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
    await send({"type": "websocket.send", "text": str(len(scope["query_string"]))})


_UPGRADE = (
    b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /?" + b"b" * 10_000 + b" HTTP/1.1\r\n" + _UPGRADE, id="the URL has 10 KB"),
        pytest.param(b"GET / HTTP/1.1\r\n" + _UPGRADE + b"X-A: " + b"b" * 10_000 + b"\r\n", id="a header has 10 KB"),
        pytest.param(b"GET / HTTP/1.1\r\n" + _UPGRADE + b"X-A: b\r\n" * 150, id="there are 150 headers"),
    ],
)
@pytest.mark.parametrize(
    "status",
    [
        pytest.param(b"101", id="A client opens a WebSocket"),
        pytest.param(b"4", id="A client opens a WebSocket that the library refuses"),
    ],
)
async def test_websocket_with_a_large_head(head: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    if status != b"101":
        monkeypatch.setattr("websockets.http11.MAX_LINE_LENGTH", 8_192)
        monkeypatch.setattr("websockets.http11.MAX_NUM_HEADERS", 128)
    async with _served(_accept) as address, _connected(address) as (reader, writer):
        writer.write(head + b"\r\n")
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 " + status)
        assert status == b"101" or await _is_closed(reader)


async def test_connections_are_counted_per_address_and_in_total() -> None:
    """One client opens all connections that there are"""
    async with _served(most=5, most_of_address=3) as address:
        held = [await asyncio.open_connection(*address) for _ in range(3)]
        for reader, writer in held:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        async with _connected(address) as (reader, _):
            assert await _is_closed(reader)
        held.pop()[1].transport.abort()
        async with asyncio.timeout(20):
            while True:  # the server has to notice that one was closed
                async with _connected(address) as (reader, writer):
                    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    if b"200" in await reader.readline():
                        break
        for _, writer in held:
            writer.transport.abort()


async def test_a_large_body_that_arrives_steadily_is_read() -> None:
    async with _served(head_seconds=0.5, body_seconds=0.5) as address, _connected(address) as (reader, writer):
        writer.write(_HEAD + b"Content-Length: 2000000\r\n\r\n")
        for _ in range(20):
            writer.write(b"a" * 100_000)
            await writer.drain()
            await asyncio.sleep(0.06)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


def test_the_limits_are_budgets() -> None:
    limits = limits_from(Budgets(connections=7, address_connections=3))
    assert (limits.most, limits.most_of_address) == (7, 3)


def _listen_on_ipv6_loopback(port: int) -> socket.socket:
    """What any program of the machine, and so any Pod, may do."""
    thief = socket.socket(socket.AF_INET6)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        thief.bind(("::1", port))
        thief.listen()
    except OSError:
        thief.close()
        raise
    return thief


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_pod_listens_where_browsers_look_for_localhost(host: str, tmp_path: Path) -> None:
    """A Pod listens at the port of the platform on ::1, where browsers open `localhost` and the hosts of workspaces"""
    with open_web_listeners(host, 0, tmp_path / "port") as listeners:
        port = listeners[0].getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            _listen_on_ipv6_loopback(port)
        with socket.create_connection(("::1", port), 10):
            pass


def test_a_pod_has_taken_the_port_before_the_server_starts(tmp_path: Path) -> None:
    """A Pod takes the port on ::1 while the server is down: it takes another port, or does not start"""
    with open_web_listeners("127.0.0.1", 0, tmp_path / "port") as listeners:
        port = listeners[0].getsockname()[1]
    with _listen_on_ipv6_loopback(port):
        with open_web_listeners("127.0.0.1", 0, tmp_path / "port") as listeners:
            assert listeners[0].getsockname()[1] != port
            assert len(listeners) == 2
        with pytest.raises(ServerError, match=r"on \[::1\]"), open_web_listeners("127.0.0.1", port, tmp_path / "port"):
            pass
