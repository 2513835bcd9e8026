"""How the API has to be served: what uvicorn is told so that Kubernetes clients are at home."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from muster.embedded.identity.certificates import Certificates

LARGEST_MESSAGE = 4 * 1024 * 1024
SHUTDOWN_SECONDS = 2


@asynccontextmanager
async def serve(
    app: ASGIApp, host: str = "127.0.0.1", port: int = 0, certificates: Certificates | None = None, **more: Any
) -> AsyncIterator[str]:
    """Serves beside whatever else runs in this loop, leaving signals alone. Gives the URL; port 0 takes a free one."""
    config = server_config(app, host, port, certificates, **more)
    config.load()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=512)
    server = _Server(config)
    task = asyncio.create_task(server.serve([listener]), name="API server")
    name = f"[{host}]" if ":" in host else host
    try:
        # Whoever connects from here on waits at most until the task has begun.
        yield f"{'https' if certificates else 'http'}://{name}:{listener.getsockname()[1]}"
    finally:
        server.stop()
        await task


def server_config(
    app: ASGIApp, host: str, port: int, certificates: Certificates | None = None, **more: Any
) -> uvicorn.Config:
    """For `uvicorn.Server`. Without certificates it speaks plain HTTP, over which kubectl sends no token."""
    options: dict[str, Any] = {
        "http": "httptools",
        "ws": KubernetesWebSocket,
        "ws_max_size": LARGEST_MESSAGE,
        "lifespan": "off",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "log_level": "warning",
        "log_config": None,
        # Clients keep their connections; closing them too early makes requests fail that were just being sent.
        "timeout_keep_alive": 120,
        # Watches never end by themselves.
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    }
    if certificates is not None:
        options |= {"ssl_certfile": certificates.certificate, "ssl_keyfile": certificates.key}
    return uvicorn.Config(app, host, port, **{**options, **more})


class _Server(uvicorn.Server):
    """Waits to be told to stop, where uvicorn looks ten times a second, and leaves signals to whoever started it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        await self._told.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class KubernetesWebSocket(WebSocketsSansIOProtocol):
    """kubectl offers protocols such as `SPDY/3.1+portforward.k8s.io`. That slash is against the standard, and the
    library would refuse the connection, although choosing a protocol is the application's business here."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn: ServerProtocol = _AnyProtocol(
            max_size=self.config.ws_max_size, logger=logging.getLogger("uvicorn.error")
        )

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal is an answer, too; without this the log has an error about every one of them.
            self.handshake_complete = True


class _AnyProtocol(ServerProtocol):
    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        return None
