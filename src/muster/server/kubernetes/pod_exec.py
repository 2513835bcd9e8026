"""`exec` and `attach`: a command in a container, or the container itself, with its streams on the channels of a
WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.cluster import Process
from muster.kube.errors import ApiError, BadRequest
from muster.kube.remote.exec_stream import ERROR, STDERR, STDOUT, V4, V5, encode_frame, exit_status_of, pass_input
from muster.server.kubernetes.handlers import log_query
from muster.server.kubernetes.request import ApiRequest, Target, is_true
from muster.server.kubernetes.websocket import Socket, WebSocketClosed, choose_protocol

_BASE64 = ("v4.base64.channel.k8s.io", "base64.channel.k8s.io")
_PLAIN_ERRORS = ("", "channel.k8s.io", "base64.channel.k8s.io")
"""The oldest protocols send text on the error channel, and nothing on success."""

_FIRST_OUTPUT_SECONDS = 0.1

PROTOCOLS = (V5, V4, "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io")


async def exec_in_pod(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    protocol = choose_protocol(request, PROTOCOLS)
    pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    command = [value for name, value in pairs if name == "command"]
    if not command:
        raise BadRequest("exec requires a command: ?command=ls&command=-l")
    # The process is started before the socket is accepted, so that a failure can be a proper error response.
    process = await cluster.exec(
        target.name,
        target.namespace,
        command,
        container=request.query.get("container", ""),
        stdin=request.flag("stdin"),
        tty=request.flag("tty"),
    )
    await _serve(request, process, protocol)


async def attach_to_pod(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    """Connects the client to the container itself, which keeps running when the client disconnects."""
    protocol = choose_protocol(request, PROTOCOLS)
    container = request.query.get("container", "")
    process = await cluster.attach(target.name, target.namespace, container=container, stdin=request.flag("stdin"))
    await _serve(request, process, protocol)


async def send_log(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    """Sends a log as messages, for clients that read it over a WebSocket."""
    protocol = choose_protocol(request, ("binary.k8s.io",))
    output = cluster.logs(target.name, target.namespace, log_query(request, datetime.now(UTC)))
    first = asyncio.ensure_future(anext(output, b""))
    # A Pod or container that does not exist is an error response. Otherwise there may be nothing to read for long.
    await asyncio.wait((first,), timeout=_FIRST_OUTPUT_SECONDS)
    if first.done():
        first.result()
    log = _Log(first, output)
    socket = Socket(request)
    try:
        await socket.accept(protocol)
        sending = asyncio.create_task(_send_log(socket, log), name="log output")
        leaving = asyncio.create_task(_receive_input(socket, log), name="log input")
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                await socket.close()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
    finally:
        await log.close()


async def _send_log(socket: Socket, log: _Log) -> None:
    async for _, piece in log.output():
        if piece:
            await socket.send(piece)


class _Log:
    """The log of a container as if it were that of a command."""

    def __init__(self, first: asyncio.Future[bytes], rest: AsyncIterator[bytes]) -> None:
        self._first = first
        self._rest = rest

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        yield 1, await self._first
        async for chunk in self._rest:
            yield 1, chunk

    async def write(self, data: bytes) -> None:
        return

    async def resize(self, rows: int, columns: int) -> None:
        return

    async def wait(self) -> int:
        return 0

    async def close(self) -> None:
        self._first.cancel()
        with contextlib.suppress(asyncio.CancelledError, ApiError):
            await self._first
        if isinstance(self._rest, AsyncGenerator):
            await self._rest.aclose()


async def _serve(request: ApiRequest, process: Process, protocol: str) -> None:
    try:
        socket = Socket(request, base64_text=protocol in _BASE64)
        await socket.accept(protocol)
        # Tells the client that the connection is open.
        await socket.send(encode_frame(STDOUT, b""))
        channels = {
            number
            for number, name in ((STDOUT, "stdout"), (STDERR, "stderr"))
            if is_true(request.query.get(name, "true"))
        }
        await _connect(socket, process, channels, protocol)
    finally:
        await process.close()


async def _connect(socket: Socket, process: Process, channels: set[int], protocol: str) -> None:
    output = asyncio.create_task(_send_output(socket, process, channels), name="exec output")
    input_ = asyncio.create_task(_receive_input(socket, process), name="exec input")
    try:
        await asyncio.wait((output, input_), return_when=asyncio.FIRST_COMPLETED)
        if not output.done():
            # The client has disconnected, so the command is stopped.
            return
        output.result()
        status = await _status(process)
        await socket.send(encode_frame(ERROR, _error_message(status, protocol)))
        await socket.close()
    finally:
        for task in (output, input_):
            task.cancel()
        await asyncio.gather(output, input_, return_exceptions=True)


async def _send_output(socket: Socket, process: Process, channels: set[int]) -> None:
    async for channel, data in process.output():
        if channel in channels and data:
            await socket.send(encode_frame(channel, data))


async def _receive_input(socket: Socket, process: Process) -> None:
    """Runs until the client disconnects."""
    while True:
        try:
            message = await socket.receive()
        except WebSocketClosed:
            return
        # A command does not have to read its input.
        with contextlib.suppress(ApiError, OSError):
            await pass_input(message, process)


async def _status(process: Process) -> dict[str, object]:
    try:
        return exit_status_of(await process.wait())
    except ApiError as error:
        return error.to_status()


def _error_message(status: dict[str, object], protocol: str) -> bytes:
    if protocol not in _PLAIN_ERRORS:
        return orjson.dumps(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()
