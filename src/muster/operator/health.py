"""Where an operator is asked how it is: /healthz, /readyz and /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Check = Callable[[], str]
"""Answers what is wrong; "" if nothing is."""


@asynccontextmanager
async def serving(
    host: str, port: int, *, alive: Check, ready: Check, metrics: Callable[[], str]
) -> AsyncIterator[int]:
    """Answers the port, which is of interest where any free one was asked for."""
    app = web.Application()
    app.router.add_get("/healthz", _probe(alive))
    app.router.add_get("/readyz", _probe(ready))

    async def counted(_: web.Request) -> web.Response:
        return web.Response(text=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app.router.add_get("/metrics", counted)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _probe(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def probe(_: web.Request) -> web.Response:
        wrong = check()
        return web.Response(status=503, text=f"{wrong}\n") if wrong else web.Response(text="ok\n")

    return probe
