"""exec over WebSocket: the channel protocol, and a command running in a container of a remote cluster.

Every message begins with the number of its channel. Our client uses the protocol to reach any API server, and our API
server to serve any client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from muster.kube.cluster import Process
from muster.kube.errors import ApiError, Unavailable, from_status

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

MOST_CELLS = 2000
"""Rows or columns of a terminal."""

V5 = "v5.channel.k8s.io"
"""Can close a single channel, such as stdin."""

V4 = "v4.channel.k8s.io"
"""Ends with a Status on the error channel."""


def encode_frame(channel: int, data: bytes) -> bytes:
    return bytes((channel,)) + data


def resize_message(rows: int, columns: int) -> bytes:
    return encode_frame(RESIZE, orjson.dumps({"Width": columns, "Height": rows}))


def parse_resize(data: bytes) -> tuple[int, int] | None:
    """Returns (rows, columns) of a resize message; None if it is invalid."""
    try:
        size = orjson.loads(data)
        rows, columns = int(size["Height"]), int(size["Width"])
    except (ValueError, KeyError, TypeError):
        return None
    return (rows, columns) if 0 < rows <= MOST_CELLS and 0 < columns <= MOST_CELLS else None


async def pass_input(message: bytes, process: Process) -> None:
    """Passes a message of a client on to a process: input, the end of the input, or the size of the terminal."""
    channel, data = message[:1], message[1:]
    if channel == bytes((STDIN,)) and data:
        await process.write(data)
    elif channel == bytes((CLOSE,)) and data[:1] == bytes((STDIN,)):
        await process.write(b"")
    elif channel == bytes((RESIZE,)) and (size := parse_resize(data)) is not None:
        await process.resize(*size)


def exit_status_of(code: int) -> dict[str, Any]:
    """Returns the Status that reports how a command ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def exit_code_of(status: bytes) -> int:
    """Returns the exit code in such a Status. Raises ApiError if the command could not be run."""
    try:
        told = orjson.loads(status)
    except orjson.JSONDecodeError:
        raise ApiError(f"exec failed: {status.decode(errors='replace').strip()}") from None
    if told.get("status") == "Success":
        return 0
    if told.get("reason") == "NonZeroExitCode":
        for cause in (told.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
                return int(cause["message"])
    raise from_status(told)


class RemoteProcess:
    """A `muster.kube.cluster.Process`. As with any pipe, `output` must be read for the command to proceed."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._waiting: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(64)
        self._told = b""
        self._reader = asyncio.create_task(self._read(), name="exec reader")

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while (piece := await self._waiting.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        if self._socket.closed:
            return
        if data:
            await self._socket.send_bytes(encode_frame(STDIN, data))
        elif self._socket.protocol == V5:
            await self._socket.send_bytes(encode_frame(CLOSE, bytes((STDIN,))))
        else:
            raise ApiError(
                f"the API server speaks only {self._socket.protocol or 'the oldest protocol'}, which cannot close "
                "stdin; Kubernetes 1.30 and newer can"
            )

    async def resize(self, rows: int, columns: int) -> None:
        if not self._socket.closed:
            await self._socket.send_bytes(resize_message(rows, columns))

    async def wait(self) -> int:
        await asyncio.shield(self._reader)
        if not self._told:
            raise Unavailable("the connection was lost before the command ended; the command may still be running")
        return exit_code_of(self._told)

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == ERROR:
                self._told += data
            elif channel in (STDOUT, STDERR) and data:
                await self._waiting.put((channel, data))
        await self._waiting.put(None)
