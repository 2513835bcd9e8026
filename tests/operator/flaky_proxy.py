"""A proxy in front of an API server whose connections the test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

from muster.kube.remote.kubeconfig import Access


class FlakyProxy:
    """`access` connects through it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.cuts = 0
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Cuts all open connections, watches and responses alike. New connections are accepted."""
        for end in self._open:
            end.transport.abort()
        self.cuts += len(self._open) // 2

    async def carry(self, here: asyncio.StreamReader, back: asyncio.StreamWriter, host: str, port: int) -> None:
        ends = {back}
        try:
            there, on = await asyncio.open_connection(host, port)
            ends.add(on)
            self._open |= ends
            async with asyncio.TaskGroup() as group:
                group.create_task(_hand_on(here, on))
                group.create_task(_hand_on(there, back))
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()


@asynccontextmanager
async def line_to(access: Access) -> AsyncIterator[FlakyProxy]:
    server = urlsplit(access.server)
    host, port = server.hostname or "", server.port or 443
    carrying: set[asyncio.Task[None]] = set()
    line = FlakyProxy(access)

    async def carry(here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        carrying.add(task)
        try:
            with suppress(OSError):
                await line.carry(here, back, host, port)
        finally:
            carrying.discard(task)

    listener = await asyncio.start_server(carry, "127.0.0.1", 0)
    own_port = listener.sockets[0].getsockname()[1]
    line.access = replace(access, server=f"https://127.0.0.1:{own_port}", tls_name=access.tls_name or host)
    try:
        yield line
    finally:
        listener.close()
        for task in list(carrying):
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)


async def _hand_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.transport.abort()
