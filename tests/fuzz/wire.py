"""A client that sends any bytes: the usual ones refuse to send what an attacker would."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Self

from tests.fuzz.mutation import FuzzRequest

ANSWER_SECONDS = 15.0
"""A server that takes longer to begin its response hangs."""
_LARGEST_PIECE = 1 << 20


class Hang(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    """0 if the server closed the connection instead."""
    body: bytes = b""


class Wire:
    """One connection at a time; a new one after every response that does not end by itself."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, headers: dict[str, str]) -> None:
        self._address = (host, port)
        self._tls = tls
        self._headers = headers
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def send(self, request: FuzzRequest, *, target: str = "") -> Answer:
        """Raises Hang if there is no answer in time. `target` is sent as it is, instead of the request's."""
        head = self._head(request, target or request.target)
        for attempt in (1, 2):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._exchange(head + request.content, request)
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await self._close()
                if attempt == 2:
                    return Answer(0)
            except TimeoutError:
                await self._close()
                raise Hang(f"no answer in {ANSWER_SECONDS:.0f} s: {request}") from None
        raise AssertionError

    def _head(self, request: FuzzRequest, target: str) -> bytes:
        headers = {**self._headers, **dict(request.headers)}
        if request.body is not None:
            headers.setdefault("Content-Type", "application/json")
            headers["Content-Length"] = str(len(request.content))
        lines = [f"{request.method} {target} HTTP/1.1", "Host: fuzz"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    async def _exchange(self, message: bytes, request: FuzzRequest) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, ssl=self._tls)
        reader, writer = self._streams
        writer.write(message)
        await writer.drain()
        status, headers = await _read_head(reader)
        if status == 100:
            status, headers = await _read_head(reader)
        body = b""
        if "content-length" in headers and request.method != "HEAD":
            body = await reader.readexactly(min(int(headers["content-length"]), _LARGEST_PIECE))
            if int(headers["content-length"]) > _LARGEST_PIECE:
                await self._close()
        elif request.method != "HEAD" and status not in (204, 304):
            # A stream, such as a watch: its start is enough.
            await self._close()
        if headers.get("connection", "").lower() == "close" or status == 101:
            await self._close()
        return Answer(status, body)

    async def _close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].transport.abort()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionError("the head of the response is too long") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return int(first.split(" ")[1]), headers
