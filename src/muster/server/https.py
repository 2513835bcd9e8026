"""Listens on a socket and serves an ASGI app on it, over TLS or plain HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from muster.embedded.auth.certificates import Certificates
from muster.server.connections import ConnectionLimits
from muster.server.pidfile import ServerError


@contextmanager
def open_listener(host: str, port: int, remembered: Path, *, usual: int = 0) -> Iterator[socket.socket]:
    """Listens on the configured port; else on the port of the last time, so that known addresses stay valid; else on
    the usual one; else on any."""
    wanted = [port] if port else [*_last(remembered), *([usual] if usual else []), 0]
    listener = _first_free(host, wanted)
    with listener:
        remembered.write_text(str(listener.getsockname()[1]))
        yield listener


def _first_free(host: str, ports: list[int]) -> socket.socket:
    for number, port in enumerate(ports, start=1):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            # Two sockets can be bound to the same address until one of them listens.
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            if number == len(ports):
                raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        else:
            return listener
    raise ValueError("no port to try")


def _last(remembered: Path) -> list[int]:
    try:
        return [int(remembered.read_text())]
    except (FileNotFoundError, ValueError):
        return []


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
        from muster.server.kubernetes.websocket import KubernetesWebSocket

        return KubernetesWebSocket(*args, **more)


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
