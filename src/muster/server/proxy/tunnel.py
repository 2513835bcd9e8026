"""WebSockets through the proxy: the workspace's server and the browser agree on the protocol, its extensions and keys
themselves; the proxy checks the handshake and then copies bytes, with back-pressure in both directions.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import httptools

from muster.server.kubernetes.websocket import KubernetesWebSocket
from muster.server.proxy.headers import RawHeaders, response_headers

TUNNEL: Final = "muster.tunnel"
"""An extension of ASGI: an application that sends a message of this type hands the connection over to an `Upstream`."""
_LARGEST_HEAD = 64 * 1024


class UpstreamError(Exception):
    """The workspace's server does not speak WebSocket at this path. `status` is its answer; 0 if it gave none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Upstream(asyncio.Protocol):
    """The connection to the workspace. It is not read between the head of the answer and `join`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[RawHeaders] = loop.create_future()
        """The headers of the answer, for the browser."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: RawHeaders = []
        self._head_bytes = 0
        self._rest = b""
        self._client: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not instances of it

    def connection_lost(self, error: Exception | None) -> None:
        self._refuse("the connection was closed before the answer")
        if not self.closed.done():
            self.closed.set_result(None)
        if self._client is not None:
            self._client.close()

    def data_received(self, data: bytes) -> None:
        if self._client is not None:
            self._client.write(data)
            return
        self._head_bytes += len(data)
        if self.accepted.done():
            self._rest += data
            return
        if self._head_bytes > _LARGEST_HEAD:
            self._refuse("the head of the answer is too large")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._rest = data[upgrade.args[0] :]
            self._check_answer()
        except httptools.HttpParserError as error:
            self._refuse(f"the answer is not HTTP: {error}")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 101:
            self._refuse("the server refused the WebSocket", status)

    def join(self, client: asyncio.Transport) -> None:
        """From now on, bytes are copied."""
        assert self.transport is not None
        self._client = client
        if self._rest:
            client.write(self._rest)
        self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.pause_reading()

    def resume_writing(self) -> None:
        if self._client is not None and not self._client.is_closing():
            self._client.resume_reading()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _check_answer(self) -> None:
        assert self.transport is not None
        self.transport.pause_reading()
        if self.accepted.done():
            return
        upgrades = [value.lower() for name, value in self._headers if name == b"upgrade"]
        if self._parser.get_status_code() != 101 or upgrades != [b"websocket"]:
            self._refuse("the server changed to another protocol")
            return
        self.accepted.set_result(response_headers(self._headers, status=101))

    def _refuse(self, message: str, status: int = 0) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(UpstreamError(message, status))


async def connect(host: str, port: int, target: bytes, headers: RawHeaders, seconds: float) -> Upstream:
    """Opens a WebSocket of the workspace's server. Raises OSError, TimeoutError or UpstreamError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        _, upstream = await loop.create_connection(Upstream, host, port)
        try:
            assert upstream.transport is not None
            upstream.transport.write(request_head(target, headers))
            await upstream.accepted
        except BaseException:
            upstream.close()
            raise
    return upstream


def request_head(target: bytes, headers: RawHeaders) -> bytes:
    lines = [b"GET " + target + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"connection: Upgrade", b"upgrade: websocket", b"", b""])


def answer_head(headers: RawHeaders) -> bytes:
    lines = [b"HTTP/1.1 101 Switching Protocols", *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"connection: Upgrade", b"upgrade: websocket", b"", b""])


class TunnelWebSocket(KubernetesWebSocket):
    """The WebSocket implementation for uvicorn: an application may send a message of the type TUNNEL, with `upstream`
    and `headers`, instead of accepting the WebSocket."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._upstream: Upstream | None = None
        self._has_head = False
        self._is_early = False
        """A client must not send anything before the answer."""

    def data_received(self, data: bytes) -> None:
        if self._upstream is not None:
            assert self._upstream.transport is not None
            self._upstream.transport.write(data)
            return
        self._is_early, self._has_head = self._has_head, True
        super().data_received(data)

    async def send(self, message: Any) -> None:
        if message["type"] != TUNNEL:
            await super().send(message)
            return
        upstream: Upstream = message["upstream"]
        self.handshake_complete = True
        if self._is_early or self.transport.is_closing():
            upstream.close()
            self.transport.close()
            return
        self._upstream = upstream
        self.transport.write(answer_head(message["headers"]))
        upstream.join(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._upstream is not None:
            self._upstream.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._upstream is not None and self._upstream.transport is not None:
            self._upstream.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        upstream = self._upstream.transport if self._upstream is not None else None
        if upstream is not None and not upstream.is_closing():
            upstream.resume_reading()

    def shutdown(self) -> None:
        if self._upstream is None:
            super().shutdown()
        else:
            self.transport.close()
