"""The list of flow runs of a Prefect server with as many runs and readers, for comparison with our lists."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
from benchmarks.peers import PREFECT, python_of

_PATIENCE = 120.0


@asynccontextmanager
async def prefect(folder: Path, run_count: int) -> AsyncIterator[tuple[str, int]]:
    """Its address and its process. Its other services are off, and no login is needed."""
    python = await asyncio.to_thread(python_of, "prefect", PREFECT)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "HOME": str(folder), "PREFECT_HOME": str(folder), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    words = ["-m", "prefect", "server", "start", "--host=127.0.0.1", f"--port={port}", "--no-services", "--no-ui"]
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(python, *words, env=env, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}/api"
        await _up(address)
        await _one_run(address)
        await asyncio.to_thread(_many, folder / "prefect.db", run_count)
        yield address, server.pid
    finally:
        server.terminate()
        await server.wait()


async def _up(address: str) -> None:
    until = time.monotonic() + _PATIENCE
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until:
            try:
                async with session.get(f"{address}/health") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)
    raise TimeoutError("Prefect's server does not come up")


async def _one_run(address: str) -> None:
    async with aiohttp.ClientSession() as session:

        async def post(path: str, body: Any) -> Any:
            async with session.post(f"{address}/{path}", json=body) as response:
                assert response.status < 300, await response.text()
                return await response.json()

        flow = await post("flows/", {"name": "nightly"})
        await post("flow_runs/", {"flow_id": flow["id"], "name": "nightly", "state": {"type": "COMPLETED"}})


def _many(database: Path, count: int) -> None:
    """Copies a run that it created itself: ten thousand over its API would take longer than the whole measurement."""
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM flow_run").fetchone())
        names = [column[1] for column in connection.execute("PRAGMA table_info(flow_run)")]
        places = ", ".join("?" for _ in names)
        rows = [[{**row, "id": str(uuid4()), "name": f"nightly {n}"}[name] for name in names] for n in range(count - 1)]
        connection.executemany(f"INSERT INTO flow_run ({', '.join(names)}) VALUES ({places})", rows)
    connection.close()
