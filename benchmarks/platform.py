"""The platform's lists: how soon they answer with 10,000 runs and 1,000 workflows in the store and 50 readers.

    python -m benchmarks.platform [--runs 10000] [--workflows 1000] [--readers 50] [--seconds 4] [--database URL]

The server is a process of its own. For every list: the 95th percentile when each reader asks once a second (people with
the page open), the same when all ask again at once (the worst there is), the CPU time of the server per answer, and the
floor: SQLite alone, with the same statements. Numbers of a busy machine do not compare; the ratios do.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import random
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import orjson
import uvloop
from sqlalchemy import Connection, event, insert

from muster.embedded.agent.settings import AgentSettings
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import Settings
from muster.kube.builtin import new_catalogue
from muster.platform.database.columns import microseconds, now
from muster.platform.database.database import Database, sqlite_url
from muster.platform.database.ids import new_id
from muster.platform.graphs.document import canonical, content_hash
from muster.platform.rules import SYSTEM
from muster.platform.runs.tables import run_nodes, runs
from muster.platform.users.accounts import insert_user
from muster.platform.users.first import settle
from muster.platform.users.local_secrets import local_token, platform_folder, prepare_secrets
from muster.platform.users.tables import audit
from muster.platform.workflows.tables import versions, workflows
from muster.server.https import http
from muster.server.platform.app import platform_app
from muster.server.platform.starting import started

GOAL = 0.050
STATES = ("succeeded",) * 7 + ("failed", "stopped", "running")
_NODES = 3

LISTS = {
    "runs, the newest": "runs",
    "runs that failed": "runs?state=failed",
    "runs of a workflow": "runs?workflow=workflow-7",
    "runs of a version": "runs?workflow=workflow-7&version=1",
    "runs of a user": "runs?owner=user-3",
    "runs of an hour": "runs?since={since}&until={until}",
    "runs by text": "runs?q=nightly+77",
    "runs by name": "runs?sort=name",
    "runs by workflow": "runs?sort=workflow",
    "runs, page 100": "runs?cursor={cursor}",
    "runs per state": "runs/states",
    "one run": "runs/{run}",
    "workflows": "workflows",
    "workflows by text": "workflows?q=flow+77",
    "workflows by name": "workflows?sort=name",
    "versions": "workflows/workflow-7/versions",
    "users": "users",
    "audit": "audit",
    "virtual clusters": "clusters",
}


class Figures(NamedTuple):
    calm: float
    """The 95th percentile in seconds, everybody asking once a second."""
    stormy: float
    """The same, everybody asking again at once."""
    rate: float
    """Answers per second then."""
    cpu: float
    """Seconds of the server's processor per answer."""
    floor: float
    """Seconds of SQLite alone for the same statements; 0 where that cannot be had."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workflows", type=int, default=1_000)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--database", default="", help="PostgreSQL, by its URL; it has to be empty.")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(Path(options.serve), options.database))
        return
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        uvloop.run(measure(Path(folder), options))


async def measure(folder: Path, options: argparse.Namespace) -> None:
    url = options.database or sqlite_url(folder / "platform.db")
    prepare_secrets(platform_folder(folder))
    places = await filled(folder, url, options.runs, options.workflows)
    statements = await statements_of(folder, url, places) if not options.database else {}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.platform", "--serve", str(folder), "--database", url, stdout=PIPE
    )
    try:
        assert server.stdout is not None
        address = (await server.stdout.readline()).decode().strip()
        token = local_token(platform_folder(folder))
        kind = "PostgreSQL" if options.database else "SQLite"
        print(f"{options.runs} runs, {options.workflows} workflows, {options.readers} readers, {kind}")
        print(
            f"{'list':22} {'p95 calm':>9} {'p95 storm':>10} {'answers/s':>10} {'CPU':>8} {'floor':>8} {'CPU/floor':>10}"
        )
        worst = 0.0
        for name, path in places.items():
            found = await figures(address, token, server.pid, path, options)
            floor = floor_of(folder / "platform.db", statements[name]) if name in statements else 0.0
            found = found._replace(floor=floor)
            worst = max(worst, found.calm)
            print(row(name, found))
        verdict = "within" if worst <= GOAL else "OVER"
        print(f"worst calm p95: {worst * 1000:.1f} ms, {verdict} the goal of {GOAL * 1000:.0f} ms")
    finally:
        server.terminate()
        await server.wait()


def row(name: str, found: Figures) -> str:
    ratio = f"{found.cpu / found.floor:9.1f}x" if found.floor else f"{'':>10}"
    floor = f"{found.floor * 1000:5.2f} ms" if found.floor else f"{'':>8}"
    return (
        f"{name:22} {found.calm * 1000:6.1f} ms {found.stormy * 1000:7.1f} ms {found.rate:10.0f} "
        f"{found.cpu * 1000:5.2f} ms {floor} {ratio}"
    )


async def figures(address: str, token: str, pid: int, path: str, options: argparse.Namespace) -> Figures:
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=options.readers)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def ask() -> float:
            begun = time.perf_counter()
            async with session.get(f"{address}/api/v1/{path}") as response:
                body = await response.read()
                assert response.status == 200, body
            return time.perf_counter() - begun

        await asyncio.gather(*(ask() for _ in range(options.readers)))
        calm = await _reading(ask, options.readers, options.seconds, pause=1.0)
        before, begun = cpu_of(pid), time.perf_counter()
        storm = await _reading(ask, options.readers, options.seconds, pause=0.0)
        lasted, cpu = time.perf_counter() - begun, cpu_of(pid) - before
    return Figures(p95(calm), p95(storm), len(storm) / lasted, cpu / len(storm), 0.0)


async def _reading(ask: Callable[[], Any], readers: int, seconds: float, pause: float) -> list[float]:
    until = time.perf_counter() + seconds

    async def reader(number: int) -> list[float]:
        taken = []
        await asyncio.sleep(pause * number / readers)
        while time.perf_counter() < until:
            taken.append(await ask())
            await asyncio.sleep(max(0.0, pause - taken[-1]))
        return taken

    return [each for some in await asyncio.gather(*(reader(n) for n in range(readers))) for each in some]


def p95(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=20)[-1]


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def floor_of(path: Path, statements: list[tuple[str, Any]], times: int = 30) -> float:
    connection = sqlite3.connect(path)
    try:
        begun = time.thread_time()
        for _ in range(times):
            for text, values in statements:
                connection.execute(text, values).fetchall()
        return (time.thread_time() - begun) / times
    finally:
        connection.close()


async def statements_of(folder: Path, url: str, places: dict[str, str]) -> dict[str, list[tuple[str, Any]]]:
    """What each list asks the database."""
    database = await Database.open(url)
    seen: list[tuple[str, Any]] = []

    def remember(_: Any, __: Any, text: str, values: Any, ___: Any, ____: Any) -> None:
        if text.startswith("SELECT"):
            seen.append((text, values))

    event.listen(database._readers, "before_cursor_execute", remember)
    found = {}
    try:
        async with served(folder, database) as address:
            headers = {"Authorization": f"Bearer {local_token(platform_folder(folder))}"}
            async with aiohttp.ClientSession(headers=headers) as session:
                for name, path in places.items():
                    for _ in range(2):  # the second time it is known who asks
                        seen.clear()
                        async with session.get(f"{address}/api/v1/{path}") as response:
                            assert response.status == 200, await response.text()
                    found[name] = list(seen)
    finally:
        database.close()
    return {name: statements for name, statements in found.items() if statements}


async def serve(folder: Path, url: str) -> None:
    database = await Database.open(url)
    async with served(folder, database) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def served(folder: Path, database: Database) -> AsyncIterator[str]:
    """The platform's API on a socket."""
    with socket.socket() as listener, tempfile.TemporaryDirectory(prefix="muster-bench-store-") as store:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with EmbeddedCluster(Path(store), new_catalogue(), durability="process") as cluster:
            platform = await started(database, cluster, Settings(folder, AgentSettings(folder)), address)
            async with http(platform_app(platform), listener):
                yield address


async def filled(folder: Path, url: str, run_count: int, workflow_count: int) -> dict[str, str]:
    """The lists, with what is in the store filled in."""
    database = await Database.open(url, survives_power_cut=False)
    try:
        await database.write(lambda connection: settle(connection, platform_folder(folder)))
        words = await database.write(lambda connection: fill(connection, run_count, workflow_count))
    finally:
        database.close()
    return {name: path.format(**words) for name, path in LISTS.items()}


def fill(connection: Connection, run_count: int, workflow_count: int) -> dict[str, str]:
    chance, begun = random.Random(1), now() - timedelta(days=30)
    people = [insert_user(connection, SYSTEM, f"user-{n}").id for n in range(20)]
    nodes = [{"name": f"n{n}", "image": "busybox", "command": "true"} for n in range(_NODES)]
    document = canonical({"format": 1, "nodes": nodes})
    flows: list[dict[str, Any]] = [
        {
            "id": new_id(), "name": f"workflow-{n}", "description": f"flow {n} of many", "created": begun,
            "owner_id": chance.choice(people), "updated": begun + timedelta(seconds=n), "versions": 1, "revision": 1,
        }
        for n in range(workflow_count)
    ]  # fmt: skip
    connection.execute(insert(workflows), flows)
    firsts: list[dict[str, Any]] = [
        {
            "id": new_id(), "workflow_id": flow["id"], "number": 1, "name": "v1", "description": "", "type": "graph",
            "document": document, "hash": content_hash(document), "nodes": _NODES, "author_id": flow["owner_id"],
            "copied_from": "", "created": begun,
        }
        for flow in flows
    ]  # fmt: skip
    connection.execute(insert(versions), firsts)
    made: list[dict[str, Any]] = []
    for n in range(run_count):
        version, at = chance.choice(firsts), begun + timedelta(seconds=n * 200)
        made.append({
            "id": new_id(), "name": f"nightly {n}", "workflow_id": version["workflow_id"],
            "version_id": version["id"], "owner_id": chance.choice(people), "parameters": {"lr": "0.1"},
            "copied_from": "", "state": chance.choice(STATES), "message": "", "nodes": _NODES, "done": _NODES,
            "retries": 0, "created": at, "started": at, "finished": at, "seen": "1", "revision": 1,
        })  # fmt: skip
    connection.execute(insert(runs), made)
    states = [
        {
            "run_id": run["id"], "name": f"n{n}", "position": n, "kind": "plain", "state": "succeeded", "message": "",
            "attempts": 1, "started": run["started"], "finished": run["finished"], "cluster": "", "skus": 0,
        }
        for run in made
        for n in range(_NODES)
    ]  # fmt: skip
    connection.execute(insert(run_nodes), states)
    entries = [
        {
            "id": new_id(), "at": run["created"], "actor_id": run["owner_id"], "actor_name": "user", "via": "token",
            "address": "127.0.0.1", "action": "create", "kind": "run", "subject_id": run["id"],
            "subject_name": run["name"], "details": {},
        }
        for run in made
    ]  # fmt: skip
    connection.execute(insert(audit), entries)
    middle = made[run_count // 2]
    later = middle["created"] + timedelta(hours=1)
    return {
        "since": quote(middle["created"].isoformat()),
        "until": quote(later.isoformat()),
        "run": middle["id"],
        "cursor": cursor_after("-created", middle["created"], middle["id"]),
    }


def cursor_after(sort: str, moment: datetime, key: str) -> str:
    said = orjson.dumps([sort, {"at": microseconds(moment)}, key])
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


if __name__ == "__main__":
    main()
