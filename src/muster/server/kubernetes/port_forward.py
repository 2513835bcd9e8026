"""`port-forward`: TCP connections to a Pod's ports, over WebSocket channels, or over SPDY streams in a WebSocket
as kubectl does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from muster.embedded.cluster import EmbeddedCluster, NodeOperations
from muster.kube import builtin
from muster.kube.errors import BadRequest, Conflict, is_count
from muster.kube.objects import status_of
from muster.kube.remote.exec_stream import V4, encode_frame
from muster.server.kubernetes.request import ApiRequest, Target
from muster.server.kubernetes.websocket import Socket, WebSocketClosed, choose_protocol

# SPDY/3.1 frames, as far as kubectl uses them inside a WebSocket for port-forward: streams, data
# and pings.
#
# There is no flow control: kubectl's own implementation has none.


_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _REST
"""The dictionary for compressing headers. It is part of the protocol."""

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LARGEST_FRAME = 4 * 1024 * 1024
_LARGEST_HEADERS = 64 * 1024


class StreamOpened(NamedTuple):
    stream: int
    headers: dict[str, str]
    last: bool


class Data(NamedTuple):
    stream: int
    data: bytes
    last: bool


class Reset(NamedTuple):
    stream: int


class Ping(NamedTuple):
    id: int


class GoAway(NamedTuple):
    pass


Frame: TypeAlias = StreamOpened | Data | Reset | Ping | GoAway


class SpdyError(ValueError):
    """The peer does not speak SPDY/3.1."""


class FrameReader:
    """Reads frames from bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= 8:
            first, rest = struct.unpack_from(">II", self._buffer)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if length > _LARGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes is too large")
            if len(self._buffer) < 8 + length:
                return
            content = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if not first >> 31:
                yield Data(first, content, bool(flags & _FIN))
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise SpdyError("only version 3 of SPDY is supported")
            frame = self._control(first & 0xFFFF, flags, content)
            if frame is not None:
                yield frame

    def _control(self, type_: int, flags: int, content: bytes) -> Frame | None:
        try:
            match type_:
                case 1:
                    (stream,) = struct.unpack_from(">I", content)
                    return StreamOpened(stream & 0x7FFFFFFF, self._headers(content[10:]), bool(flags & _FIN))
                case 3:
                    return Reset(struct.unpack_from(">I", content)[0] & 0x7FFFFFFF)
                case 6:
                    return Ping(struct.unpack_from(">I", content)[0])
                case 7:
                    return GoAway()
                case 2 | 8:
                    # These headers are not used, but the compression of later ones depends on them.
                    self._headers(content[4:])
        except (struct.error, zlib.error, UnicodeDecodeError):
            raise SpdyError("a frame is damaged") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, _LARGEST_HEADERS)
        if self._inflate.unconsumed_tail:
            raise SpdyError("the headers of a stream are too large")
        (count,) = struct.unpack_from(">I", plain)
        position = 4
        texts = []
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", plain, position)
            texts.append(plain[position + 4 : position + 4 + length].decode())
            position += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))


class FrameWriter:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accepts a stream that the peer has opened."""
        return _control(_SYN_REPLY, struct.pack(">I", stream) + self._no_headers())

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        texts = [text.encode() for pair in headers.items() for text in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_STREAM, struct.pack(">IIBB", stream, 0, 0, 0) + packed)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(data)) + data

    def reset(self, stream: int) -> bytes:
        cancelled = 5
        return _control(_RST_STREAM, struct.pack(">II", stream, cancelled))

    def ping(self, id_: int) -> bytes:
        return _control(_PING, struct.pack(">I", id_))

    def _no_headers(self) -> bytes:
        return self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(type_: int, content: bytes) -> bytes:
    return struct.pack(">HHI", 1 << 15 | _VERSION, type_, len(content)) + content


TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"

_CHUNK_BYTES = 32 * 1024
_MOST_CONNECTIONS = 256

_BASE64 = "v4.base64.channel.k8s.io"
_PROTOCOLS = (TUNNEL_PROTOCOL, V4, _BASE64)


Connect: TypeAlias = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a port of the Pod. Raises OSError."""


async def forward_ports(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    phase = status_of(pod).get("phase") or "Pending"
    if phase != "Running" or cluster.node is None:
        raise Conflict(f'the Pod "{target.name}" is {phase}, not Running: it has no open ports')
    protocol = choose_protocol(request, _PROTOCOLS)
    # The address comes from the node: the status of a Pod must not choose what the server connects to.
    with cluster.node.forward(target.name, target.namespace) as address:
        connect = partial(_connect, cluster.node, target, address)
        if protocol != TUNNEL_PROTOCOL:
            return await _forward_channels(request, protocol, connect)
        socket = Socket(request)
        await socket.accept(protocol)
        return await Tunnel(socket, connect).run()


async def _connect(
    node: NodeOperations, target: Target, address: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        node.check_listener(target.name, target.namespace, port)
    except Conflict as error:
        raise ConnectionRefusedError(error.message) from None
    return await asyncio.open_connection(address, port)


async def _forward_channels(request: ApiRequest, protocol: str, connect: Connect) -> None:
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
                reader, writers[2 * number] = await connect(port)
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

    def __init__(self, socket: Socket, connect: Connect) -> None:
        self._socket = socket
        self._connect = connect
        self._reader = FrameReader()
        self._writer = FrameWriter()
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
        except SpdyError as error:
            await self._socket.close(1002, str(error))
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, frame: Frame) -> None:
        match frame:
            case StreamOpened(stream, headers, _):
                await self._socket.send(self._writer.reply(stream))
                self._open(stream, headers)
            case Data(stream, data, last):
                connection = self._by_stream.get(stream)
                if connection is not None and data:
                    await connection.inbox.put(data)
                if connection is not None and last:
                    await connection.inbox.put(b"")
            case Reset(stream):
                if (task := self._tasks.get(stream)) is not None:
                    task.cancel()
            case Ping(id_):
                await self._socket.send(self._writer.ping(id_))
            case GoAway():
                raise WebSocketClosed

    def _open(self, stream: int, headers: dict[str, str]) -> None:
        """Opens a stream. The two streams of a connection have the same request id."""
        request_id, port = headers.get("requestid", ""), headers.get("port", "")
        if not is_count(port) or not 0 < int(port) < 65536 or len(self._tasks) >= _MOST_CONNECTIONS:
            raise SpdyError("a stream has no valid port, or there are too many connections")
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
            reader, writer = await self._connect(connection.port)
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
