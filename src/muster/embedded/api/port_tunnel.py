"""`kubectl port-forward`: SPDY streams inside a WebSocket, two for every TCP connection: data and errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field

from muster.embedded.api import spdy
from muster.embedded.api.sockets import Closed, Socket

PROTOCOL = "SPDY/3.1+portforward.k8s.io"

_PIECE = 32 * 1024
_MOST_CONNECTIONS = 256


@dataclass(slots=True)
class Connection:
    """One connection to a port, from the moment the client announces it."""

    errors: int = 0
    data: int = 0
    port: int = 0
    inbox: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(256))
    """What the client sends; b'' is its end."""


class Tunnel:
    def __init__(self, socket: Socket, address: str) -> None:
        self._socket = socket
        self._address = address
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._announced: dict[str, Connection] = {}
        self._by_stream: dict[int, Connection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the client hangs up."""
        try:
            while True:
                for frame in self._reader.feed(await self._socket.receive()):
                    await self._handle(frame)
        except Closed:
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
            case spdy.Opened(stream, headers, _):
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
                raise Closed

    def _open(self, stream: int, headers: dict[str, str]) -> None:
        """The two streams of a connection share a request id and come one after the other."""
        request, port = headers.get("requestid", ""), headers.get("port", "")
        if not port.isdigit() or not 0 < int(port) < 65536 or len(self._tasks) >= _MOST_CONNECTIONS:
            raise spdy.SpdyError("a stream has no port, or there are too many of them")
        connection = self._announced.setdefault(request, Connection(port=int(port)))
        if headers.get("streamtype") == "error":
            connection.errors = stream
        else:
            connection.data = stream
            self._by_stream[stream] = connection
        if connection.errors and connection.data:
            del self._announced[request]
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
            problem = refusal(connection.port, error)
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


def refusal(port: int, error: OSError) -> bytes:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"an error occurred forwarding port {port}: {reason}".encode()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """b'' at the end, however it came."""
    with contextlib.suppress(OSError):
        return await reader.read(_PIECE)
    return b""


async def _send(inbox: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await inbox.get():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
