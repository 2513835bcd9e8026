"""What a restart costs after a load of workflows: wall time, memory and disk, in one table.

    python -m benchmarks.restart [--quick] [--home DIR]

A real server runs fan-outs of 1,000 and 5,000 nodes and a chain of 10,000, one after the other (with --quick 100, 500
and 500). Then it is killed with kill -9, so that nothing is tidied up, and started again. The floor is the restart of a
server that has run nothing, measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))  # the server in a process of its own is shared with the tests

from benchmarks.shapes import tasks
from benchmarks.workflows import noop_workflow

from muster.kube.objects import Object, name_of, status_of
from muster.workflows.kinds import WORKFLOW
from tests.chaos.real_server import RealServer

LOAD = (("fan-out", 1000), ("fan-out", 5000), ("chain", 10_000))
QUICK_LOAD = (("fan-out", 100), ("fan-out", 500), ("chain", 500))
RESTART_SECONDS, RESTART_MEGABYTES = 3.0, 300
COMPLETED = "workflows.argoproj.io/completed=true"
POD_KILOBYTES, NODE_KILOBYTES = 10.0, 5.0


class State(NamedTuple):
    """Of the data directory and the server's process, in bytes."""

    resident: int
    database: int
    other_files: int

    @property
    def disk(self) -> int:
        return self.database + self.other_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a load of 1,100 nodes, not 16,000")
    parser.add_argument("--home", type=Path, help="where to put the data (default: the folder for temporary files)")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-", dir=chosen.home))
    try:
        missed = asyncio.run(_measure(folder, QUICK_LOAD if chosen.quick else LOAD, is_whole=not chosen.quick))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if missed:
        raise SystemExit("over the target: " + "; ".join(missed))


async def _measure(folder: Path, load: tuple[tuple[str, int], ...], *, is_whole: bool) -> list[str]:
    nodes = sum(size for _, size in load)
    capacity = {"cpu": "100000", "memory": "1000Ti", "pods": str(max(size for _, size in load) + 10)}
    server = RealServer(folder / "home", node={"name": "bench", "capacity": capacity}, durability="process")
    try:
        await server.start()
        server.kill()
        floor_seconds = await _restart(server)
        empty = _state(server)
        print(f"{'':<24}{'wall s':>10}{'memory MB':>12}{'database MB':>13}{'files MB':>10}", flush=True)
        _row("restart, nothing run", floor_seconds, empty)
        for number, (shape, size) in enumerate(load):
            began = time.perf_counter()
            await _run(server, noop_workflow(f"load-{number}", tasks(shape, size)))
            _row(f"{shape} of {size:,}", time.perf_counter() - began, _state(server))
        server.kill()
        seconds = await _restart(server)
        after = _state(server)
        _row("restart after kill -9", seconds, after)
    finally:
        server.end()
    per_pod = (after.disk - empty.disk) / nodes / 1e3
    per_node = (after.resident - empty.resident) / nodes / 1e3
    print(f"\nper finished node: {per_pod:.1f} KB of disk, {per_node:.1f} KB of memory after the restart")
    print(f"the restart took {seconds / floor_seconds:.1f} times that of a server that has run nothing")
    if not is_whole:
        return []  # what is kept whatever the load, such as the last changes and Pods, weighs too much here
    goals = (
        (seconds, RESTART_SECONDS, "seconds to restart"),
        (after.resident / 1e6, RESTART_MEGABYTES, "MB of memory after the restart"),
        (per_pod, POD_KILOBYTES, "KB of disk per Pod"),
        (per_node, NODE_KILOBYTES, "KB of memory per node"),
    )
    return [f"{value:.1f} {what}, not {goal}" for value, goal, what in goals if value > goal]


async def _restart(server: RealServer) -> float:
    """Seconds until the server answers a request for its workflows."""
    began = time.perf_counter()
    await server.start()
    async with server.client() as cluster:
        await cluster.list(WORKFLOW, "default", limit=1)
    return time.perf_counter() - began


async def _run(server: RealServer, workflow: Object) -> None:
    name = name_of(workflow)
    async with server.client() as cluster:
        await cluster.create(workflow)
        while True:
            found = await cluster.list(WORKFLOW, "default", labels=COMPLETED, fields=f"metadata.name={name}")
            if found.items:
                break
            await asyncio.sleep(0.2)
    status = status_of(found.items[0])
    if status.get("phase") != "Succeeded":
        raise SystemExit(f"{name}: {status.get('phase')}: {status.get('message')}")


def _state(server: RealServer) -> State:
    assert server.process is not None
    fields = Path(f"/proc/{server.process.pid}/status").read_text().split("VmRSS:")[1].split()
    sizes = {
        os.path.join(folder, name): _allocated(os.path.join(folder, name))
        for folder, folders, files in os.walk(server.home)
        for name in (*folders, *files)
    }
    database = sum(size for path, size in sizes.items() if os.path.basename(path).startswith("cluster.db"))
    return State(int(fields[0]) * 1024, database, sum(sizes.values()) - database)


def _allocated(path: str) -> int:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0
    return found.st_blocks * 512


def _row(name: str, seconds: float, state: State) -> None:
    columns = state.resident / 1e6, state.database / 1e6, state.other_files / 1e6
    print(f"{name:<24}{seconds:>10.2f}{columns[0]:>12.0f}{columns[1]:>13.1f}{columns[2]:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
