"""A complete Muster with the platform, on which runs really run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.platform.graphs.model import Document
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.server.platform.served import Client

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Whole:
    url: str
    home: Path
    cluster: EmbeddedCluster

    @property
    def admin(self) -> Client:
        return Client(self.url, local_token(platform_folder(self.home)))

    async def member(self, name: str, team: str = "", role: str = "member") -> Client:
        """A client of a new account, in a team if one is given."""
        await self.admin.post("users", {"name": name, "password": "correct horse battery"})
        if team:
            (await self.admin("PUT", f"teams/{team}/members/{name}", {"role": role})).ok()
        browser = Client(self.url)
        await browser.post("session", {"name": name, "password": "correct horse battery"})
        made = await browser.post("tokens", {"name": "script"})
        return Client(self.url, made["secret"])


@asynccontextmanager
async def whole_muster(home: Path, database_url: str, **config: Any) -> AsyncIterator[Whole]:
    settings = read_settings(home, {"durability": "process", "web": {"port": 0}, "database": database_url, **config})
    async with run_server(settings, web=True) as server:
        yield Whole(server.info.web, home, server.cluster)


async def stored(client: Client, name: str, document: Document, **more: Any) -> dict[str, Any]:
    """A workflow with its first version."""
    made: dict[str, Any] = await client.post("workflows", {"name": name, "version": {"document": document}, **more})
    return made


async def built(client: Client, module: str) -> Any:
    while True:
        version = await client.get(f"modules/{module}/versions/latest")
        if version["state"] != "building":
            return version
        await asyncio.sleep(0.05)


async def ended(client: Client, run_id: str) -> dict[str, Any]:
    return await until(client, run_id, lambda run: run["state"] in ("succeeded", "failed", "stopped"))


async def until(client: Client, run_id: str, holds: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            run: dict[str, Any] = await client.get(f"runs/{run_id}")
            if holds(run):
                return run
            await asyncio.sleep(0.05)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


def states(run: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["state"] for node in run["node_states"]}


async def events(client: Client, path: str, last: str = "", *, most: int = 10_000) -> AsyncIterator[dict[str, Any]]:
    """Server-sent events, each with id, event and data."""
    headers = {**client._headers, **({"Last-Event-ID": last} if last else {})}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session,
        session.get(f"{client.url}/api/v1/{path}", headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        event: dict[str, Any] = {}
        async for raw in response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith((":", "retry")):
                continue
            if line:
                name, _, value = line.partition(": ")
                event[name] = orjson.loads(value) if name == "data" else value
            elif event:
                yield event
                most -= 1
                event = {}
                if not most:
                    return
