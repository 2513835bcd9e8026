"""A command in a container of a real cluster, over WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp

from muster.kube.errors import ApiError, Unavailable
from muster.kube.remote.channels import (
    CLOSE,
    ERROR,
    STDERR,
    STDIN,
    STDOUT,
    V5,
    exit_code,
    frame,
    resize_message,
)


class RemoteProcess:
    """`muster.kube.cluster.Process`. As with any pipe, somebody has to read `output` for the command to get on."""

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
            await self._socket.send_bytes(frame(STDIN, data))
        elif self._socket.protocol == V5:
            await self._socket.send_bytes(frame(CLOSE, bytes((STDIN,))))
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
            raise Unavailable("the connection ended before the command did; it may still be running")
        return exit_code(self._told)

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
