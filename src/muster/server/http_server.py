"""Listens on a socket and serves an ASGI app on it, over TLS or plain HTTP, with limits on connections of clients: how
many there are, and how long a client may take to send a request or to read the answer.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from errno import EADDRNOTAVAIL
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster.embedded.auth.certificates import Certificates
from muster.kube.budgets import Budgets
from muster.server.pidfile import ServerError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of one server, and the connections it has."""

    most: int = 8_192
    most_of_address: int = 4_096
    head_seconds: float = 20.0
    """From the first byte of a request to the end of its headers."""
    body_seconds: float = 60.0
    """For a body that does not arrive. It gets a second more for every `body_bytes_per_second`."""
    body_bytes_per_second: int = 1024
    discard_seconds: float = 5.0
    """How long the rest of a body is read after the response, so that the client can read that."""
    read_seconds: float = 60.0
    """For a client that does not read the response."""
    head_bytes: int = 64 * 1024
    headers: int = 200
    _open: Counter[str] = field(default_factory=Counter)

    def admit(self, address: str) -> bool:
        """Counts a connection, unless there are too many."""
        if self._open.total() >= self.most or self._open[address] >= self.most_of_address:
            log.warning("a connection of %s is refused: there are too many (budgets.connections)", address)
            return False
        self._open[address] += 1
        return True

    def release(self, address: str) -> None:
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    def protocol(self, *args: Any, **more: Any) -> LimitedHttp:
        """The factory that uvicorn takes as its HTTP protocol."""
        return LimitedHttp(self, *args, **more)


def limits_from(budgets: Budgets) -> ConnectionLimits:
    return ConnectionLimits(budgets.connections, budgets.address_connections)


class LimitedHttp(HttpToolsProtocol):
    def __init__(self, limits: ConnectionLimits, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._address: str | None = None
        """None if the connection is not counted."""
        self._request_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """uvloop's transports have the methods of asyncio.Transport, but are not instances of it."""
        super().connection_made(cast(asyncio.Transport, transport))
        address = self.client[0] if self.client else ""
        if self._limits.admit(address):
            self._address = address
            self._start_head()
        else:
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_body:
            self._body_bytes += len(data)
        elif not self._in_head:
            self._start_head()
        if self._in_head:
            self._head_bytes += len(data)
            # One piece of data may have the end of the head and a part of the body.
            if self._head_bytes > self._limits.head_bytes + len(data):
                self._refuse_head()
                return
        super().data_received(data)

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(self._limits.read_seconds, self._abort, "does not read")

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        _cancel(self._read_timer)
        self._read_timer = None

    # Callbacks of the parser.

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.head_bytes:
            raise ValueError("the URL is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self._limits.headers:
            raise ValueError("there are too many headers")

    def on_headers_complete(self) -> None:
        self._in_head, self._in_body, self._body_bytes = False, True, 0
        self._set_request_timer(self._limits.body_seconds, self._check_body)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        _cancel(self._request_timer)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and not self.transport.is_closing():
            self._set_request_timer(self._limits.discard_seconds, lambda: self._abort("sends what was refused"))

    def handle_websocket_upgrade(self) -> None:
        self._stop_timers()
        if self.scope["method"] != "GET" or any(name in _OF_A_BODY for name, _ in self.headers):
            # The WebSocket library would neither answer nor close the connection.
            self.send_400_response("A WebSocket is opened with GET, without a body.")
            return
        self._in_head = self._in_body = False
        address, self._address = self._address, None
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if address is not None:
            _call_when_lost(protocol, lambda: self._limits.release(address))

    def _start_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._set_request_timer(self._limits.head_seconds, lambda: self._abort("does not send a request"))

    def _check_body(self) -> None:
        """Runs after some seconds: closes the connection, unless the body arrives, or we do not read it."""
        expected = self._body_bytes / self._limits.body_bytes_per_second
        if self.flow.read_paused or expected > self._limits.body_seconds:
            self._body_bytes = 0
            self._set_request_timer(self._limits.body_seconds, self._check_body)
        else:
            self._abort("does not send the body of its request")

    def _refuse_head(self) -> None:
        self._stop_timers()
        self.send_400_response(f"The head of the request is larger than {self._limits.head_bytes} bytes.")

    def _set_request_timer(self, seconds: float, action: Callable[[], None]) -> None:
        _cancel(self._request_timer)
        self._request_timer = self.loop.call_later(seconds, action)

    def _stop_timers(self) -> None:
        _cancel(self._request_timer)
        _cancel(self._read_timer)

    def _release(self) -> None:
        if self._address is not None:
            self._limits.release(self._address)
            self._address = None

    def _abort(self, why: str) -> None:
        log.info("closing the connection of %s, which %s", self._address, why)
        self.transport.abort()


_OF_A_BODY = (b"content-length", b"transfer-encoding")


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _call_when_lost(protocol: Any, action: Callable[[], None]) -> None:
    """Calls `action` when the connection of a protocol is lost, after the protocol itself was told."""
    told = protocol.connection_lost

    def connection_lost(error: Exception | None) -> None:
        told(error)
        action()

    protocol.connection_lost = connection_lost


@contextmanager
def open_listener(host: str, port: int, remembered: Path, *, usual: int = 0) -> Iterator[socket.socket]:
    """Listens on the configured port; else on the port of the last time, so that known addresses stay valid; else on
    the usual one; else on any."""
    with _open(_listen, host, port, remembered, usual) as (listener,):
        yield listener


@contextmanager
def open_web_listeners(host: str, port: int, remembered: Path, *, usual: int = 0) -> Iterator[list[socket.socket]]:
    """The same for what browsers open: where it is reached as `localhost`, it listens on ::1 with the same port, too.
    Browsers try that address first for `localhost` and every name below it. Every program of this machine may listen
    there, and would get the cookies."""
    with _open(_listen_for_browsers, host, port, remembered, usual) as listeners:
        yield listeners


@contextmanager
def _open(
    listen: Callable[[str, int], list[socket.socket]], host: str, port: int, remembered: Path, usual: int
) -> Iterator[list[socket.socket]]:
    wanted = [port] if port else [*_last(remembered), *([usual] if usual else []), *[0] * _TRIES]
    listeners = _first_free(listen, host, wanted)
    try:
        remembered.write_text(str(listeners[0].getsockname()[1]))
        yield listeners
    finally:
        for listener in listeners:
            listener.close()


def _first_free(listen: Callable[[str, int], list[socket.socket]], host: str, ports: list[int]) -> list[socket.socket]:
    for number, port in enumerate(ports, start=1):
        try:
            return listen(host, port)
        except OSError as error:
            if number == len(ports):
                hint = "; choose another port, or 0 for any free one" if error.errno == errno.EADDRINUSE else ""
                raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}{hint}") from None
    raise ValueError("no port to try")


def _listen(host: str, port: int) -> list[socket.socket]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Two sockets can be bound to the same address until one of them listens.
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        raise
    return [listener]


def _listen_for_browsers(host: str, port: int) -> list[socket.socket]:
    listeners = _listen(host, port)
    if host not in _REACHED_AS_LOCALHOST:
        return listeners
    try:
        twin = socket.socket(socket.AF_INET6)
    except OSError:  # a kernel without IPv6
        return listeners
    twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    twin.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        twin.bind(("::1", listeners[0].getsockname()[1]))
        twin.listen(socket.SOMAXCONN)
    except OSError as error:
        twin.close()
        if error.errno == EADDRNOTAVAIL:  # the machine has no such address, so browsers cannot use it either
            return listeners
        listeners[0].close()
        raise OSError(error.errno, f"{error.strerror} (on [::1], which is where browsers look for localhost)") from None
    return [*listeners, twin]


def _last(remembered: Path) -> list[int]:
    try:
        return [int(remembered.read_text())]
    except (FileNotFoundError, ValueError):
        return []


_REACHED_AS_LOCALHOST = {"127.0.0.1", "localhost", "0.0.0.0"}  # noqa: S104 (it is compared)
_TRIES = 5
"""A free port need not be free on both addresses."""
_ANSWER_SECONDS = 0.3
"""How long a running request may take when the server stops."""
_LEAVE_SECONDS = 1.0
"""What a client gets to take note."""


@asynccontextmanager
async def serve_https(
    app: ASGIApp, listener: socket.socket, certificates: Certificates, limits: ConnectionLimits | None = None
) -> AsyncIterator[None]:
    files = {"ssl_certfile": certificates.certificate, "ssl_keyfile": str(certificates.key)}
    async with _served(app, listener, limits, **files):
        yield


@asynccontextmanager
async def serve_http(
    app: ASGIApp, listener: socket.socket, limits: ConnectionLimits | None = None
) -> AsyncIterator[None]:
    async with _served(app, listener, limits):
        yield


@asynccontextmanager
async def _served(
    app: ASGIApp, listener: socket.socket, limits: ConnectionLimits | None, **more: Any
) -> AsyncIterator[None]:
    protocol: Any = (limits or ConnectionLimits()).protocol
    server = _Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws=_WebSocket,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            # The app decides which proxies to trust.
            proxy_headers=False,
            server_header=False,
            # Longer than clients keep connections: closing one just when it is used again fails a request.
            timeout_keep_alive=120,
            **more,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]), name="https")
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        ready.cancel()
        task.result()
        raise ServerError("the HTTP server did not start")
    try:
        yield
    finally:
        server.over.set()
        await task


class _WebSocket(asyncio.Protocol):
    """Imported when the first client needs it, to keep the start of the server fast."""

    def __new__(cls, *args: Any, **more: Any) -> Any:
        from muster.server.proxy.tunnel import TunnelWebSocket

        return TunnelWebSocket(*args, **more)


class _Server(uvicorn.Server):
    """Reports when it is ready, stops when `over` is set, and leaves signals to the caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Runs once a second, for the Date header; the original polls ten times a second."""
        while not self.over.is_set():
            await self.on_tick(0)
            try:
                async with asyncio.timeout(1.0):
                    await self.over.wait()
            except TimeoutError:
                continue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes running requests and closes endless ones, such as watches."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._tasks_end(_ANSWER_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await self._tasks_end(_LEAVE_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self._tasks_end(_LEAVE_SECONDS)
        for task in self.server_state.tasks:
            task.cancel()

    async def _tasks_end(self, seconds: float) -> None:
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=seconds)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
