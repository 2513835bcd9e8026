"""The object store: committed writes per second, CPU per write, delivery to watchers, memory.

    python -m benchmarks.store [--pods 5000] [--writers 50] [--watchers 100] [--directory DIR]

Everything is measured beside its floor in the same run: SQLite alone, writing the same bytes in the same batches, and
one commit per write. Numbers of two machines, or of a busy one, do not compare; the ratios do.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson
import uvloop

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.database import Durability
from muster.kube.builtin import POD, new_catalogue
from muster.kube.objects import Object, name_of


@dataclass
class Measured:
    """Seconds of wall time, of this process, and of the event loop's thread."""

    wall: float = 0.0
    process: float = 0.0
    loop: float = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    taken = Measured()
    wall, process, loop = time.perf_counter(), time.process_time(), time.thread_time()
    yield taken
    taken.wall = time.perf_counter() - wall
    taken.process = time.process_time() - process
    taken.loop = time.thread_time() - loop


def pod(number: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"worker-{number}", "namespace": "default", "labels": {"job": f"train-{number // 8}"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "python:3.11",
                    "command": ["python", "train.py"],
                    "env": [{"name": f"SETTING_{n}", "value": str(number)} for n in range(6)],
                    "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
                }
            ],
        },
    }


def status(phase: str) -> Object:
    now = "2026-01-01T00:00:00Z"
    conditions = [{"type": t, "status": "True", "lastTransitionTime": now} for t in ("Initialized", "Ready")]
    state = {"name": "main", "image": "python:3.11", "imageID": "", "ready": True, "restartCount": 0}
    containers = [{**state, "state": {"running": {"startedAt": now}}}]
    return {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}


async def shared_out(work: Callable[[int], Awaitable[object]], count: int, writers: int) -> None:
    async def some(numbers: range) -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(some(range(start, count, writers)) for start in range(writers)))


async def writes(directory: Path, durability: Durability, count: int, writers: int) -> None:
    print(f"\n{count} Pods, {writers} writers at once, durability={durability}")
    async with EmbeddedCluster(directory, new_catalogue(), durability=durability) as cluster:

        async def create(number: int) -> None:
            await cluster.create(pod(number))

        async def run(number: int) -> None:
            await cluster.patch(POD, f"worker-{number}", "default", status("Running"), subresource="status")

        async def delete(number: int) -> None:
            await cluster.delete(POD, f"worker-{number}", "default")

        for name, work in (("create", create), ("patch status", run), ("delete", delete)):
            with measured() as taken:
                await shared_out(work, count, writers)
            micros = 1e6 / count
            print(
                f"  {name:14} {count / taken.wall:8,.0f} committed/s   CPU per write: {taken.process * micros:4.0f} us"
                f" in all, {taken.loop * micros:4.0f} us on the event loop"
            )


def floor(directory: Path, synchronous: Literal["FULL", "NORMAL"], count: int, batch: int) -> None:
    """SQLite alone: the same bytes with executemany, one transaction per batch."""
    blob = orjson.dumps({**pod(0), **status("Running")})
    directory.mkdir()
    connection = sqlite3.connect(directory / "floor.db", isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE objects (version INTEGER PRIMARY KEY, name TEXT, object BLOB)")
    with measured() as taken:
        for start in range(0, count, batch):
            rows = [(start + n + 1, f"worker-{start + n}", blob) for n in range(batch)]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO objects VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
    connection.close()
    made = -(-count // batch) * batch
    print(
        f"  floor: sqlite3 alone, {batch:3} rows a commit, {synchronous:6}  {made / taken.wall:9,.0f} rows/s"
        f"   {taken.wall * 1e6 / made:6.1f} us each"
    )


async def delivery(directory: Path, count: int, watchers: int, selector: str) -> None:
    async with EmbeddedCluster(directory, new_catalogue(), durability="process", history=2 * count) as cluster:
        version = (await cluster.list(POD)).resource_version
        seen = 0

        async def watch() -> None:
            nonlocal seen
            async for event in cluster.watch(POD, "default", labels=selector, resource_version=version):
                seen += 1
                if name_of(event.object) == "worker-last":
                    return

        tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
        await asyncio.sleep(0)
        with measured() as alone:
            await shared_out(lambda number: cluster.create(pod(number), dry_run=True), count, 50)
        last = {**pod(0), "metadata": {**pod(0)["metadata"], "name": "worker-last"}}
        with measured() as taken:
            await shared_out(lambda number: cluster.create(pod(number)), count, 50)
            await cluster.create(last)
            await asyncio.gather(*tasks)
        through = f"through the selector {selector!r}" if selector else "of everything"
        print(
            f"  {watchers} watchers {through:32} {seen / taken.wall:10,.0f} events/s"
            f"   {(taken.loop - alone.loop) / seen * 1e6:5.2f} us of CPU each (writing included)"
        )


async def memory(directory: Path, count: int) -> None:
    """Needs its own process: memory that earlier measurements freed would hide the growth."""

    def resident() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with EmbeddedCluster(directory, new_catalogue(), durability="process") as cluster:
        await cluster.create(pod(-1), dry_run=True)
        gc.collect()
        before = resident()
        await shared_out(lambda number: cluster.create(pod(number)), count, 50)
        gc.collect()
        grown = resident() - before
    with measured() as taken:
        async with EmbeddedCluster(directory, new_catalogue(), durability="process") as cluster:
            found = len((await cluster.list(POD)).items)
    size = (directory / "cluster.db").stat().st_size
    print(
        f"\n{found} Pods: {grown / 1024:.0f} MiB of memory, {size / 2**20:.0f} MiB on disk, read in {taken.wall:.2f} s"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--directory", type=Path, help="where to write; the disk it is on is what is measured")
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        await memory(given.memory, 10_000)
        return
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        home = Path(folder)
        await writes(home / "power", "power", given.pods, given.writers)
        await writes(home / "alone", "power", min(given.pods, 1000), 1)
        floor(home / "power-floor", "FULL", given.pods, given.writers)
        floor(home / "power-single", "FULL", min(given.pods, 1000), 1)
        await writes(home / "process", "process", given.pods, given.writers)
        floor(home / "process-floor", "NORMAL", given.pods, given.writers)
        floor(home / "process-single", "NORMAL", given.pods, 1)
        print(f"\n{given.pods} Pods created while they are watched")
        await delivery(home / "watch", given.pods, given.watchers, "")
        await delivery(home / "select", given.pods, given.watchers, "job")
        await delivery(home / "nothing", given.pods, 1, "")
        sys.stdout.flush()
        alone = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.store", "--memory", home / "memory"
        )
        await alone.wait()


if __name__ == "__main__":
    uvloop.run(main())
