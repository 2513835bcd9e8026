"""`port-forward`: TCP connections to a Pod's ports over a WebSocket, in channels or (kubectl) in SPDY streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from muster.embedded.cluster import EmbeddedCluster
from muster.kube import builtin
from muster.kube.errors import BadRequest, Conflict
from muster.kube.objects import status_of
from muster.kube.remote.exec_stream import V4, encode_frame
from muster.server.kubernetes import spdy
from muster.server.kubernetes.request import ApiRequest, Target
from muster.server.kubernetes.websocket import Socket, WebSocketClosed, choose_protocol

TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"

_CHUNK_BYTES = 32 * 1024
_MOST_CONNECTIONS = 256

_BASE64 = "v4.base64.channel.k8s.io"
_PROTOCOLS = (TUNNEL_PROTOCOL, V4, _BASE64)


async def forward_ports(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    status = status_of(pod)
    address = str(status.get("podIP") or "")
    if status.get("phase") != "Running" or not address:
        phase = status.get("phase") or "Pending"
        raise Conflict(f'the Pod "{target.name}" is {phase}, not Running: it has no open ports')
    protocol = choose_protocol(request, _PROTOCOLS)
    if protocol != TUNNEL_PROTOCOL:
        return await _forward_channels(request, protocol, address)
    socket = Socket(request)
    await socket.accept(protocol)
    return await Tunnel(socket, address).run()


async def _forward_channels(request: ApiRequest, protocol: str, address: str) -> None:
    """Uses two channels per port, data and errors. Each starts with the port number."""
    ports = _ports(request)
    socket = Socket(request, base64_text=protocol == _BASE64)
    await socket.accept(protocol)
    writers: dict[int, asyncio.StreamWriter] = {}
    readers: list[asyncio.Task[None]] = []
    try:
        for number, port in enumerate(ports):
            for channel in (2 * number, 2 * number + 1):
                await socket.send(encode_frame(channel, port.to_bytes(2, "little")))
        for number, port in enumerate(ports):
            try:
                reader, writers[2 * number] = await asyncio.open_connection(address, port)
            except OSError as error:
                await socket.send(encode_frame(2 * number + 1, connection_error(port, error)))
                continue
            readers.append(asyncio.create_task(_copy(reader, socket, 2 * number), name=f"port-forward {port}"))
        while True:
            message = await socket.receive()
            writer = writers.get(message[0]) if message else None
            if writer is not None:
                with contextlib.suppress(OSError):
                    writer.write(message[1:])
                    await writer.drain()
    except WebSocketClosed:
        return
    finally:
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for writer in writers.values():
            writer.close()


async def _copy(reader: asyncio.StreamReader, socket: Socket, channel: int) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await socket.send(encode_frame(channel, data))


def _ports(request: ApiRequest) -> list[int]:
    texts = [
        text
        for name, value in parse_qsl(request.scope["query_string"].decode("latin-1"))
        if name == "ports"
        for text in value.split(",")
    ]
    if not texts:
        raise BadRequest("the query parameter ports is required: ?ports=8080")
    try:
        ports = [int(text) for text in texts]
    except ValueError:
        raise BadRequest(f"ports must be numbers, not {','.join(texts)}") from None
    if not all(0 < port < 65536 for port in ports) or len(ports) > 100:
        raise BadRequest("ports must be numbers from 1 to 65535, at most 100 of them")
    return ports


@dataclass(slots=True)
class Connection:
    """One connection to a port, from its announcement by the client."""

    errors: int = 0
    data: int = 0
    port: int = 0
    inbox: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(256))
    """Data from the client; b'' marks the end."""


class Tunnel:
    """`kubectl port-forward`: SPDY streams in a WebSocket, two per TCP connection: data and errors."""

    def __init__(self, socket: Socket, address: str) -> None:
        self._socket = socket
        self._address = address
        self._reader = spdy.FrameReader()
        self._writer = spdy.FrameWriter()
        self._announced: dict[str, Connection] = {}
        self._by_stream: dict[int, Connection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Runs until the client disconnects."""
        try:
            while True:
                for frame in self._reader.feed(await self._socket.receive()):
                    await self._handle(frame)
        except WebSocketClosed:
            return
        except spdy.SpdyError as error:
            await self._socket.close(1002, str(error))
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.StreamOpened(stream, headers, _):
                await self._socket.send(self._writer.reply(stream))
                self._open(stream, headers)
            case spdy.Data(stream, data, last):
                connection = self._by_stream.get(stream)
                if connection is not None and data:
                    await connection.inbox.put(data)
                if connection is not None and last:
                    await connection.inbox.put(b"")
            case spdy.Reset(stream):
                if (task := self._tasks.get(stream)) is not None:
                    task.cancel()
            case spdy.Ping(id_):
                await self._socket.send(self._writer.ping(id_))
            case spdy.GoAway():
                raise WebSocketClosed

    def _open(self, stream: int, headers: dict[str, str]) -> None:
        """Opens a stream. The two streams of a connection have the same request id."""
        request_id, port = headers.get("requestid", ""), headers.get("port", "")
        if not port.isdigit() or not 0 < int(port) < 65536 or len(self._tasks) >= _MOST_CONNECTIONS:
            raise spdy.SpdyError("a stream has no valid port, or there are too many connections")
        connection = self._announced.setdefault(request_id, Connection(port=int(port)))
        if headers.get("streamtype") == "error":
            connection.errors = stream
        else:
            connection.data = stream
            self._by_stream[stream] = connection
        if connection.errors and connection.data:
            del self._announced[request_id]
            task = asyncio.create_task(self._serve(connection), name=f"port-forward {port}")
            self._tasks[connection.data] = task
            task.add_done_callback(lambda _: self._forget(connection))

    def _forget(self, connection: Connection) -> None:
        self._tasks.pop(connection.data, None)
        self._by_stream.pop(connection.data, None)

    async def _serve(self, connection: Connection) -> None:
        problem = b""
        try:
            reader, writer = await asyncio.open_connection(self._address, connection.port)
        except OSError as error:
            problem = connection_error(connection.port, error)
        else:
            sending = asyncio.create_task(_send(connection.inbox, writer))
            try:
                while piece := await _read(reader):
                    await self._socket.send(self._writer.data(connection.data, piece))
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                writer.close()
        await self._socket.send(self._writer.data(connection.errors, problem, last=True))
        await self._socket.send(self._writer.data(connection.data, b"", last=True))


def connection_error(port: int, error: OSError) -> bytes:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"an error occurred forwarding port {port}: {reason}".encode()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Returns b'' at the end or after an error."""
    with contextlib.suppress(OSError):
        return await reader.read(_CHUNK_BYTES)
    return b""


async def _send(inbox: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await inbox.get():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
