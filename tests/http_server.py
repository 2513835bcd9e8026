"""HTTP servers on free ports of this machine: one whose answers a test writes, and one for git repositories.
`reserve_port` is for servers that cannot say which port they got."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
_RESERVABLE = 10_000


@asynccontextmanager
async def serve_http(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Passes every request on 127.0.0.1 to the handler. Yields the port."""
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def serve_git(request: web.Request, folder: Path) -> web.Response:
    """Answers a request of a git client about the repositories in a folder, with git's own server."""
    env = {
        "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": request.path, "QUERY_STRING": request.query_string, "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""), "REMOTE_ADDR": "127.0.0.1",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "1",
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        "git", "http-backend", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=env
    )
    output, _ = await process.communicate(await request.content.read())
    head, _, body = output.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=headers, body=body)


def reserve_port() -> int:
    """Returns a port for a server that must be told its port before it listens. No other test on this machine gets it
    while this process lives, and no connection by chance: it is below the ports that Linux hands out itself (32,768 and
    up) and below the port leases of embedded clusters (20,000 and up)."""
    first = secrets.randbelow(_RESERVABLE)
    for number in range(_RESERVABLE):
        port = 10_000 + (first + number) % _RESERVABLE
        with socket.socket(socket.AF_UNIX) as claim, socket.socket() as probe, suppress(OSError):
            claim.bind(f"\0muster-test-port-{port}")  # an abstract name: it is free again when this process ends
            probe.bind(("127.0.0.1", port))
            claim.detach()
            return port
    raise OSError("no port between 10,000 and 19,999 is free")
