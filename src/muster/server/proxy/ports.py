"""Ports of workspaces: origins for browsers that open the platform by an address.

A browser may keep something of an origin (a page that is still open, what its scripts stored), so a port that belonged
to one workspace goes to another as late as possible: when all others have been used since. If all are in use, that of
a deleted workspace is given up, else that of the workspace that was opened longest ago, so that nobody can take all
ports for good. Which port belongs to which is kept in a file, so that pages reconnect after a restart.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.server.http_server import ConnectionLimits, serve_http

log = logging.getLogger(__name__)


def choose_ports(ports: Sequence[int], given: Mapping[str, int], open_: Mapping[str, int]) -> list[int]:
    """The ports to try for a new workspace, the best first: those that no workspace ever had, then those that were
    given longest ago. `given` has the ports of all workspaces, the oldest first; `open_` those that are in use."""
    old = [port for port in given.values() if port in ports]
    used = set(open_.values())
    return [p for p in [*(p for p in ports if p not in old), *dict.fromkeys(old)] if p not in used]


class PortListeners:
    """Serves workspaces at ports of their own, from the first time that one is opened so."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        ports: range,
        file: Path,
        limits: ConnectionLimits,
        exists: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`exists` says whether there still is a workspace with a uid."""
        self._app, self._host, self._ports, self._file, self._limits = app, host, ports, file, limits
        self._exists = exists
        self._given = _read(file)
        self._open: dict[str, int] = {}
        self._listeners: dict[str, AsyncExitStack] = {}
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Opens the ports of the last time again."""
        for uid, port in list(self._given.items())[-len(self._ports) :] if self._ports else []:
            if port in self._ports and port not in self._open.values():
                await self._listen(uid, port)

    async def close(self) -> None:
        await asyncio.gather(*(listener.aclose() for listener in self._listeners.values()))
        self._listeners.clear()

    async def port_of(self, uid: str) -> int | None:
        """The port of a workspace; None if there is none left."""
        async with self._lock:
            port = self._open.get(uid) or await self._open_port(uid)
            if port is None and await self._give_up_one():
                port = await self._open_port(uid)
            if port is not None and next(reversed(self._given), "") != uid:
                others = {each: its for each, its in self._given.items() if each != uid and its != port}
                self._given = {**others, uid: port}
                await asyncio.to_thread(_write, self._file, dict(self._given))
            return port

    async def _open_port(self, uid: str) -> int | None:
        own = self._given.get(uid)
        choices = choose_ports(self._ports, self._given, self._open)
        for port in [*([own] if own in choices else []), *choices]:
            if port is not None and await self._listen(uid, port):
                return port
        return None

    async def _give_up_one(self) -> bool:
        """Frees a port. Returns whether there was one."""
        oldest = [uid for uid in self._given if uid in self._open]
        for uid in oldest:
            if not await self._exists(uid):
                break
        else:
            uid = oldest[0] if oldest else ""
        if not uid:
            return False
        del self._open[uid]
        await self._listeners.pop(uid).aclose()
        return True

    async def _listen(self, uid: str, port: int) -> bool:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, port))
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            log.info("port %d cannot be used for a workspace: %s", port, error)
            return False

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await self._app({**scope, "workspace": uid, "workspace_port": port}, receive, send)

        stack = AsyncExitStack()
        stack.enter_context(listener)
        await stack.enter_async_context(serve_http(serve, listener, self._limits))
        self._open[uid], self._listeners[uid] = port, stack
        return True


def _read(file: Path) -> dict[str, int]:
    try:
        found = orjson.loads(file.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return {str(uid): port for uid, port in found.items() if isinstance(port, int)} if isinstance(found, dict) else {}


def _write(file: Path, given: Mapping[str, int]) -> None:
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_bytes(orjson.dumps(given))
    fresh.replace(file)
