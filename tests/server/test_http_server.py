""""""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from muster.embedded.auth.certificates import Certificates, ensure_certificates
from muster.server.http_server import open_listener, serve_https
from muster.server.pidfile import ServerError
from tests.http_server import reserve_port


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_the_last_port_is_tried_before_the_default(tmp_path: Path) -> None:
    usual, remembered = reserve_port(), tmp_path / "port"
    with open_listener("127.0.0.1", 0, remembered, usual=usual) as first:
        assert port_of(first) == usual
        with open_listener("127.0.0.1", 0, tmp_path / "other", usual=usual) as second:
            assert port_of(second) not in {0, usual}, "another server has it"
            other = port_of(second)
    with open_listener("127.0.0.1", 0, tmp_path / "other", usual=usual) as again:
        assert port_of(again) == other
    remembered.write_text("not a number")
    with open_listener("127.0.0.1", 0, remembered, usual=usual) as fresh:
        assert port_of(fresh) == usual


def test_a_configured_port_is_used_or_an_error(tmp_path: Path) -> None:
    with open_listener("127.0.0.1", 0, tmp_path / "a") as taken:
        port = port_of(taken)
        told = rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use; choose another port"
        with pytest.raises(ServerError, match=told), open_listener("127.0.0.1", port, tmp_path / "b"):
            pass
    with open_listener("127.0.0.1", port, tmp_path / "b") as got:
        assert port_of(got) == port


def test_a_foreign_address_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot listen on 203"), open_listener("203.0.113.1", 0, tmp_path / "a"):
        pass


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return ensure_certificates(tmp_path_factory.mktemp("identity"))


class Service:
    """Responds, responds late, streams forever, and echoes over a WebSocket."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.streams_ended = 0
        self.app = Starlette(
            routes=[
                Route("/hello", self.hello),
                Route("/late", self.late),
                Route("/stream", self.stream),
                WebSocketRoute("/echo", self.echo),
            ]
        )

    async def hello(self, request: Request) -> Response:
        return PlainTextResponse("hello")

    async def late(self, request: Request) -> Response:
        self.asked.set()
        await self.answer.wait()
        return PlainTextResponse("late")

    async def stream(self, request: Request) -> Response:
        async def forever() -> AsyncIterator[bytes]:
            try:
                yield b"begun"
                await asyncio.Event().wait()
            finally:
                self.streams_ended += 1

        return StreamingResponse(forever())

    async def echo(self, websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())


@asynccontextmanager
async def serving(service: Service, certificates: Certificates) -> AsyncIterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        async with serve_https(service.app, listener, certificates):
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def client(certificates: Certificates) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=certificates.client_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


async def test_requests_and_web_sockets_are_served(certificates: Certificates) -> None:
    async with serving(Service(), certificates) as url, client(certificates) as session:
        async with session.get(f"{url}/hello") as response:
            assert await response.text() == "hello"
            assert "date" in response.headers
            assert "server" not in response.headers
        async with session.ws_connect(f"{url}/echo") as talk:
            await talk.send_str("hi")
            assert await talk.receive_str() == "hi"


async def test_open_requests_are_finished_at_shutdown(certificates: Certificates) -> None:
    service = Service()
    async with client(certificates) as session:
        async with serving(service, certificates) as url:
            asking = asyncio.create_task(session.get(f"{url}/late"))
            await service.asked.wait()
            asyncio.get_running_loop().call_later(0.05, service.answer.set)
        async with await asking as response:
            assert await response.text() == "late"


async def test_an_endless_stream_does_not_delay_shutdown(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with client(certificates) as session:
        async with serving(service, certificates) as url:
            answers = [await session.get(f"{url}/stream") for _ in range(3)]
            for answer in answers:
                assert await answer.content.readany() == b"begun"
        assert service.streams_ended == 3
    assert caplog.messages == []
