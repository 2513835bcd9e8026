"""WebSockets of the API: opened by a request that may still be refused, then messages of bytes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import http11
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from muster.kube.errors import BadRequest
from muster.server.kubernetes.request import ApiRequest, ApiResponse, counted_stream, wait_for_loss_of_rights

BEARER = "base64url.bearer.authorization.k8s.io."
"""A browser cannot set headers on a WebSocket, so it sends its token as one of the offered protocols."""


class WebSocketClosed(Exception):
    """The client has disconnected."""


class Socket:
    """Messages are bytes. In a base64 protocol they are sent as text, after the plain channel number."""

    def __init__(self, request: ApiRequest, *, base64_text: bool = False) -> None:
        self._request = request
        self._base64 = base64_text

    async def accept(self, protocol: str) -> None:
        self._request.started = True
        await self._request.send({"type": "websocket.accept", "subprotocol": protocol or None, "headers": []})

    async def receive(self) -> bytes:
        while True:
            message = await self._request.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketClosed
            if message["type"] != "websocket.receive":
                continue
            content = message.get("bytes")
            if content is not None:
                return bytes(content)
            text = str(message.get("text") or "")
            if not self._base64:
                return text.encode()
            return _from_base64(text)

    async def send(self, data: bytes) -> None:
        if self._base64:
            text = chr(ord("0") + data[0]) + base64.b64encode(data[1:]).decode()
            await self._request.send({"type": "websocket.send", "text": text})
        else:
            await self._request.send({"type": "websocket.send", "bytes": data})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._request.send({"type": "websocket.close", "code": code, "reason": reason})


async def while_allowed(request: ApiRequest, work: Coroutine[Any, Any, None]) -> None:
    """Runs until the work is done, or until the user loses the right to it. Raises TooManyRequests."""
    try:
        with counted_stream(request):
            await _run_while_allowed(request, work)
    finally:
        work.close()  # if it was not started


async def _run_while_allowed(request: ApiRequest, work: Coroutine[Any, Any, None]) -> None:
    running = asyncio.create_task(work, name=f"serve {request.path}")
    guard = asyncio.create_task(wait_for_loss_of_rights(request), name=f"guard {request.path}")
    try:
        await asyncio.wait((running, guard), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = running.done()
        for task in (running, guard):
            task.cancel()
        await asyncio.gather(running, guard, return_exceptions=True)
    if ended:
        running.result()
    elif request.started:
        await Socket(request).close(_POLICY_VIOLATION, "you may no longer do this")


_POLICY_VIOLATION = 1008


def offered_protocols(request: ApiRequest) -> list[str]:
    return [protocol for protocol in request.scope.get("subprotocols") or () if not protocol.startswith(BEARER)]


def choose_protocol(request: ApiRequest, supported: Sequence[str]) -> str:
    """Returns the first of ours that the client offers, or '' if it offers none."""
    wanted = offered_protocols(request)
    if not wanted:
        return ""
    found = next((protocol for protocol in supported if protocol in wanted), None)
    if found is None:
        raise BadRequest(f"none of the offered protocols is supported: {', '.join(wanted)}; use {', '.join(supported)}")
    return found


def offered_token(request: ApiRequest) -> str:
    """Returns the bearer token among the protocols, or ''."""
    for protocol in request.scope.get("subprotocols") or ():
        if protocol.startswith(BEARER):
            encoded = protocol[len(BEARER) :]
            try:
                return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            except (binascii.Error, ValueError):
                return ""
    return ""


async def reject(request: ApiRequest, response: ApiResponse) -> None:
    """Responds to a request to open a WebSocket with plain HTTP."""
    headers = [
        (b"content-type", response.media.encode()),
        (b"content-length", str(len(response.body)).encode()),
        *response.headers,
    ]
    await request.send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await request.send({"type": "websocket.http.response.body", "body": response.body})


def _from_base64(text: str) -> bytes:
    try:
        return bytes((ord(text[0]) - ord("0"),)) + base64.b64decode(text[1:])
    except (IndexError, ValueError, binascii.Error):
        raise BadRequest("a message on a base64 channel must be a digit and base64 text") from None


LARGEST_MESSAGE = 4 * 1024 * 1024

# `LimitedHttp` has parsed the head before, with limits of its own. Those of the library are too low: a command of
# `kubectl exec` is a part of the URL.
http11.MAX_LINE_LENGTH = 1 << 20
http11.MAX_NUM_HEADERS = 1_000


class KubernetesWebSocket(WebSocketsSansIOProtocol):
    """The WebSocket implementation for uvicorn.

    kubectl offers protocols such as `SPDY/3.1+portforward.k8s.io`. The slash violates the standard, and the library
    would refuse the connection. Here, the application chooses the protocol."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        log = logging.getLogger("uvicorn.error")
        self.conn: ServerProtocol = _AnyProtocol(max_size=LARGEST_MESSAGE, logger=log)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.close_sent:
            self._send_refusal()

    def _send_refusal(self) -> None:
        """Uvicorn neither sends what the library answers to a head that it cannot read, nor closes the connection."""
        self.close_sent = self.handshake_complete = True
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal completes the handshake, too. Without this, every refusal logs an error.
            self.handshake_complete = True


class _AnyProtocol(ServerProtocol):
    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        return None
