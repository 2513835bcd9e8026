"""WebSockets as kubectl wants them, for uvicorn."""

from __future__ import annotations

import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

LARGEST_MESSAGE = 4 * 1024 * 1024


class KubernetesWebSocket(WebSocketsSansIOProtocol):
    """kubectl offers protocols such as `SPDY/3.1+portforward.k8s.io`. That slash is against the standard, and the
    library would refuse the connection, although choosing a protocol is the application's business here."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        log = logging.getLogger("uvicorn.error")
        self.conn: ServerProtocol = _AnyProtocol(max_size=LARGEST_MESSAGE, logger=log)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal is an answer, too; without this the log has an error about every one of them.
            self.handshake_complete = True


class _AnyProtocol(ServerProtocol):
    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        return None
