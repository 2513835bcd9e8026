"""The platform's lists: response times with 10,000 runs, 1,000 workflows and 50 readers.

    python -m benchmarks.platform_lists [--runs 10000] [--workflows 1000] [--readers 50] [--seconds 4] [--database URL]

The server runs in its own process, and every reader is another user. For every list: the 95th percentile with one
request per reader and second (users with the page open), the same with each reader requesting again at once, the same
while runs change all the time (so that no response stays cached), the CPU time of the server per uncached response, and
the floor: SQLite alone with the same statements. Times of a busy machine do not compare; the ratios do.
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
from benchmarks.prefect_lists import prefect
from sqlalchemy import Connection, event, insert

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import new_catalogue
from muster.platform.database.database import Database, sqlite_url
from muster.platform.database.queries import new_id
from muster.platform.database.tables import audit, now, run_nodes, runs, to_microseconds, versions, workflows
from muster.platform.graphs.document import content_hash, to_canonical
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.users.accounts import insert_user
from muster.platform.users.credentials import local_token, platform_folder, prepare_secrets
from muster.platform.users.links import ensure_local_admin
from muster.platform.users.tokens import create_token
from muster.server.http_server import serve_http
from muster.server.platform.app import platform_app
from muster.server.platform.services import create_services
from muster.server.settings import Settings

GOAL = 0.050
STATES = ("succeeded",) * 7 + ("failed", "stopped", "running")
_NODES = 3
_CHANGES = 5
"""Runs that change per second."""
_UNKNOWN = 200

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


NO_LISTS = ("one run",)
"""Shown for comparison."""


class Figures(NamedTuple):
    calm: float
    """The 95th percentile in seconds, with one request per reader and second."""
    stormy: float
    """The same, with each reader requesting again at once."""
    rate: float
    """Responses per second in that case."""
    changing: float
    """The 95th percentile with one request per reader and second, while runs change."""
    cpu: float
    """CPU seconds of the server for a response that is not cached."""
    floor: float
    """Seconds of SQLite alone for the same statements; 0 if not available."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workflows", type=int, default=1_000)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--database", default="", help="PostgreSQL, by its URL; it has to be empty.")
    parser.add_argument("--no-peer", action="store_true", help="without Prefect's list of flow runs for comparison")
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
    places, run, others = await filled(folder, url, options)
    statements = await statements_of(folder, url, places) if not options.database else {}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.platform_lists", "--serve", str(folder), "--database", url, stdout=PIPE
    )
    try:
        assert server.stdout is not None
        address = (await server.stdout.readline()).decode().strip()
        tokens = [local_token(platform_folder(folder)), *others]
        kind = "PostgreSQL" if options.database else "SQLite"
        print(f"{options.runs} runs, {options.workflows} workflows, {options.readers} readers, {kind}")
        print(
            f"{'list':22} {'p95 calm':>9} {'p95 storm':>10} {'answers/s':>10} {'p95 changing':>13} "
            f"{'CPU':>8} {'floor':>8} {'CPU/floor':>10}"
        )
        worst = 0.0
        for name, path in places.items():
            found = await figures(address, tokens, server.pid, path, run, options)
            floor = floor_of(folder / "platform.db", statements[name]) if name in statements else 0.0
            found = found._replace(floor=floor)
            if name not in NO_LISTS:
                worst = max(worst, found.calm, found.stormy, found.changing)
            print(row(name, found))
        if not options.no_peer:
            print(row("Prefect: flow runs", await peer(folder, options)))
        verdict = "within" if worst <= GOAL else "OVER"
        print(f"worst p95: {worst * 1000:.1f} ms, {verdict} the goal of {GOAL * 1000:.0f} ms")
    finally:
        server.terminate()
        await server.wait()


def row(name: str, found: Figures) -> str:
    ratio = f"{found.cpu / found.floor:9.1f}x" if found.floor else f"{'':>10}"
    floor = f"{found.floor * 1000:5.2f} ms" if found.floor else f"{'':>8}"
    return (
        f"{name:22} {found.calm * 1000:6.1f} ms {found.stormy * 1000:7.1f} ms {found.rate:10.0f} "
        f"{found.changing * 1000:10.1f} ms {found.cpu * 1000:5.2f} ms {floor} {ratio}"
    )


async def figures(
    address: str, tokens: list[str], pid: int, path: str, run: str, options: argparse.Namespace
) -> Figures:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=options.readers + 1)) as session:

        async def ask(reader: int, where: str = path) -> float:
            headers = {"Authorization": f"Bearer {tokens[reader]}"}
            begun = time.perf_counter()
            async with session.get(f"{address}/api/v1/{where}", headers=headers) as response:
                body = await response.read()
                assert response.status == 200, body
            return time.perf_counter() - begun

        async def change() -> None:
            headers = {"Authorization": f"Bearer {tokens[0]}"}
            for number in range(1_000_000):
                body = {"name": f"renamed {number}"}
                async with session.patch(f"{address}/api/v1/runs/{run}", json=body, headers=headers) as response:
                    assert response.status == 200, await response.read()
                await asyncio.sleep(1 / _CHANGES)

        await asyncio.gather(*(ask(reader) for reader in range(options.readers)))
        calm = await _reading(ask, options.readers, options.seconds, pause=1.0)
        begun = time.perf_counter()
        storm = await _reading(ask, options.readers, options.seconds, pause=0.0)
        lasted = time.perf_counter() - begun
        changes = asyncio.create_task(change())
        changing = await _reading(ask, options.readers, options.seconds, pause=1.0)
        changes.cancel()
        await asyncio.gather(changes, return_exceptions=True)
        before = cpu_of(pid)
        # Each request has another limit that was not used before.
        sign = "&" if "?" in path else "?"
        lengths = [50 + n % 10 for n in range(_UNKNOWN)]
        places = [path if path.endswith("states") or "runs/" in path else f"{path}{sign}limit={n}" for n in lengths]
        for number, place in enumerate(places):
            await ask(number // 10 % options.readers, place)
        cpu = cpu_of(pid) - before
    return Figures(p95(calm), p95(storm), len(storm) / lasted, p95(changing), cpu / _UNKNOWN, 0.0)


async def peer(folder: Path, options: argparse.Namespace) -> Figures:
    """The same for 50 flow runs of a Prefect server, where every user may see all of them."""
    place = folder / "prefect"
    place.mkdir()
    async with (
        prefect(place, options.runs) as (address, pid),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=options.readers)) as session,
    ):

        async def ask(_: int) -> float:
            begun = time.perf_counter()
            body = {"limit": 50, "sort": "START_TIME_DESC"}
            async with session.post(f"{address}/flow_runs/filter", json=body) as response:
                assert len(await response.json()) == 50
            return time.perf_counter() - begun

        await asyncio.gather(*(ask(reader) for reader in range(options.readers)))
        calm = await _reading(ask, options.readers, options.seconds, pause=1.0)
        before, begun = cpu_of(pid), time.perf_counter()
        storm = await _reading(ask, options.readers, options.seconds, pause=0.0)
        lasted, cpu = time.perf_counter() - begun, cpu_of(pid) - before
    return Figures(p95(calm), p95(storm), len(storm) / lasted, p95(calm), cpu / len(storm), 0.0)


async def _reading(ask: Callable[[int], Any], readers: int, seconds: float, pause: float) -> list[float]:
    until = time.perf_counter() + seconds

    async def reader(number: int) -> list[float]:
        taken = []
        await asyncio.sleep(pause * number / readers)
        while time.perf_counter() < until:
            taken.append(await ask(number))
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
    """The statements of each list."""
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
                    for _ in range(2):  # the second time the user is cached, but no response is
                        database.writes += 1
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
            platform = await create_services(database, cluster, Settings(folder, AgentSettings(folder)), address)
            async with serve_http(platform_app(platform), listener):
                yield address


async def filled(folder: Path, url: str, options: argparse.Namespace) -> tuple[dict[str, str], str, list[str]]:
    """The lists, with ids from the database filled in; the id of a run; and the tokens of all readers except the
    first."""
    database = await Database.open(url, survives_power_cut=False)
    try:
        await database.write(lambda connection: ensure_local_admin(connection, platform_folder(folder)))
        words = await database.write(lambda connection: fill(connection, options.runs, options.workflows))
        tokens = await database.write(lambda connection: readers(connection, options.readers - 1))
    finally:
        database.close()
    return {name: path.format(**words) for name, path in LISTS.items()}, words["run"], tokens


def readers(connection: Connection, count: int) -> list[str]:
    """Admins, because one of the lists is for admins only."""
    tokens = []
    for number in range(count):
        user = insert_user(connection, SYSTEM, f"reader-{number}", admin=True)
        actor = Actor(user.id, user.name, admin=True)
        tokens.append(create_token(connection, actor, "bench", scopes=("read", "admin"))[1])
    return tokens


def fill(connection: Connection, run_count: int, workflow_count: int) -> dict[str, str]:
    chance, begun = random.Random(1), now() - timedelta(days=30)
    people = [insert_user(connection, SYSTEM, f"user-{n}").id for n in range(20)]
    nodes = [{"name": f"n{n}", "image": "busybox", "command": "true"} for n in range(_NODES)]
    document = to_canonical({"format": 1, "nodes": nodes})
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
    said = orjson.dumps([sort, {"at": to_microseconds(moment)}, key])
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


if __name__ == "__main__":
    main()
