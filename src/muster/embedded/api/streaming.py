"""Answers that go on until they end by themselves, time is up, or the client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from muster.embedded.api.calls import Call


async def stream(
    call: Call,
    pieces: AsyncGenerator[bytes, None],
    *,
    media: str,
    seconds: float | None = None,
    patience: float | None = 0.0,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Sends `pieces` as they come. With `patience`, the first piece is waited for that many seconds before the answer
    begins (None: however long it takes), so that an error until then can still be the answer; it is raised."""
    pump = asyncio.create_task(_pump(call, pieces, media, patience, headers), name=f"stream {call.path}")
    listener = asyncio.create_task(_hang_up(call), name=f"listen {call.path}")
    try:
        await asyncio.wait((pump, listener), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finished, left = pump.done(), listener.done()
    finally:
        pump.cancel()
        listener.cancel()
        await asyncio.gather(pump, listener, return_exceptions=True)
        await pieces.aclose()
    if finished:
        pump.result()
    if not left:
        await call.send({"type": "http.response.body", "body": b""})


async def _pump(
    call: Call,
    pieces: AsyncGenerator[bytes, None],
    media: str,
    patience: float | None,
    more: Sequence[tuple[bytes, bytes]],
) -> None:
    first = asyncio.create_task(_next(pieces))
    try:
        if patience != 0.0:
            await asyncio.wait((first,), timeout=patience)
            if first.done():
                first.result()
        headers = [(b"content-type", media.encode()), (b"cache-control", b"no-cache, private"), *more]
        call.started = True
        await call.send({"type": "http.response.start", "status": 200, "headers": headers})
        piece = await first
    finally:
        first.cancel()
    while piece is not None:
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        piece = await _next(pieces)


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def _hang_up(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
