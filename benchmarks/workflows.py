"""CPU time per no-op shell task of a workflow, against other engines and GNU make, in one run.

    python -m benchmarks.workflows [--quick] [--only NAME...]

Every engine runs the same DAGs of `sh -c true`: a fan-out, a chain, and layers in which each task waits for two others.
What counts is the marginal cost: the difference between a large and a small DAG, divided by the tasks between them.
Muster runs each task in a sandboxed Pod and has committed its state before the next one starts; the others run a plain
process. Then Muster alone: how the cost grows up to 10,000 nodes, and how long a run takes that finds all of its 1,000
nodes memoized. Peers are installed into .environments/peer-* the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import math
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import uvloop
from benchmarks.meter import Cost, Meter, enter_group
from benchmarks.peers import PREFECT, ROOT, python_of
from benchmarks.shapes import tasks

from muster.kube.objects import Object, name_of, status_of
from muster.server.embedded_server import RunningServer, run_server
from muster.server.settings import Settings, read_settings
from muster.workflows.kinds import WORKFLOW

TARGET_MS = 12.0
MEMOIZED_SECONDS = 1.0
SHAPES = ("fan-out", "chain", "layers")
PATIENT = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600"}


class Peer(NamedTuple):
    name: str
    packages: tuple[str, ...]
    sizes: tuple[int, int]
    """Small and large sizes, depending on its speed."""


PEERS = (
    Peer("make", (), (100, 1000)),
    Peer("luigi", ("luigi",), (100, 500)),
    Peer("prefect", PREFECT, (100, 600)),
    Peer("snakemake", ("snakemake",), (50, 200)),
    Peer("kfp", ("kfp>=2,<3",), (2, 6)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no peers but make, and nothing larger than 1,000 nodes")
    parser.add_argument("--only", nargs="*", help="these peers only")
    parser.add_argument("--profile", choices=SHAPES, help="profile the server with 1,000 nodes of this shape instead")
    chosen = parser.parse_args()
    if chosen.profile:
        _profile(chosen.profile)
        return
    enter_group()
    with TemporaryDirectory(prefix="muster-bench-", dir=ROOT) as folder:
        home = Path(folder)
        print(f"{'CPU ms per task':<18}" + "".join(f"{shape:>10}" for shape in SHAPES))
        wanted = chosen.only if chosen.only is not None else ["make"] if chosen.quick else [p.name for p in PEERS]
        for peer in PEERS:
            if peer.name in wanted:
                _row(peer.name, partial(_peer, peer, home))
        muster = _row("muster", lambda shape: _marginal(shape, home))
        worst = max(muster)
        sizes = (100, 1000) if chosen.quick else (100, 1000, 10_000)
        print(f"\n{'muster, layers':<18}" + "".join(f"{size:>10,}" for size in sizes))
        growth = [uvloop.run(_muster(home / f"growth-{size}", "layers", size)) for size in sizes]
        print(
            f"{'CPU ms per node':<18}"
            + "".join(f"{c.cpu / n * 1000:>10.2f}" for c, n in zip(growth, sizes, strict=True))
        )
        print(f"{'wall s':<18}" + "".join(f"{cost.wall:>10.2f}" for cost in growth))
        first, again = uvloop.run(_memoized(home / "memoized", 1000))
        print(f"\n1,000 memoized nodes: first run {first:.2f} s, all found again in {again:.2f} s")
    missed = [f"{worst:.1f} ms per node, not {TARGET_MS:.0f}"] if worst > TARGET_MS else []
    missed += [f"the memoized run took {again:.2f} s, not {MEMOIZED_SECONDS}"] if again > MEMOIZED_SECONDS else []
    if missed:
        raise SystemExit("over the target: " + "; ".join(missed))


def _profile(shape: str) -> None:
    with TemporaryDirectory(prefix="muster-bench-", dir=ROOT) as folder:
        profiler = cProfile.Profile(time.thread_time)
        cost = uvloop.run(_muster(Path(folder), shape, 1000, profiler))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    print(f"{cost.own:.2f} ms of the server's process per node")


def _row(name: str, measure: Callable[[str], float]) -> list[float]:
    print(f"{name:<18}", end="", flush=True)
    found = []
    for shape in SHAPES:
        found.append(measure(shape))
        print(f"{found[-1]:>10.2f}", end="", flush=True)
    print()
    return found


def _peer(peer: Peer, home: Path, shape: str) -> float:
    """Marginal CPU milliseconds per task; NaN if the engine fails."""
    python = python_of(peer.name, peer.packages)
    costs = []
    for size in peer.sizes:
        with TemporaryDirectory(dir=home) as folder:
            program = ROOT / "benchmarks" / "programs" / f"peer_{peer.name}.py"
            env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": folder, **PATIENT, "PREFECT_HOME": folder}
            meter = Meter()
            done = subprocess.run([python, program, shape, str(size), folder], env=env, capture_output=True, text=True)
            costs.append(meter.stop().cpu)
            if done.returncode:
                print(f"\n{peer.name} failed: {done.stderr[-2000:]}", file=sys.stderr)
                return math.nan
    return (costs[1] - costs[0]) / (peer.sizes[1] - peer.sizes[0]) * 1000


def _marginal(shape: str, home: Path) -> float:
    small, large = (uvloop.run(_muster(home / f"{shape}-{size}", shape, size)) for size in (100, 1000))
    return (large.cpu - small.cpu) / 900 * 1000


async def _muster(home: Path, shape: str, count: int, profiler: cProfile.Profile | None = None) -> Cost:
    async with run_server(_settings(home, count)) as server:
        await _run(server, noop_workflow("warm-up", tasks("fan-out", 1)))
        workflow = noop_workflow("bench", tasks(shape, count))
        meter = Meter()
        if profiler is not None:
            profiler.enable()
        await _run(server, workflow)
        if profiler is not None:
            profiler.disable()
        return meter.stop()


async def _memoized(home: Path, count: int) -> tuple[float, float]:
    """Wall seconds of the run that fills the cache and of the one that uses it."""
    memoize = {"key": "{{inputs.parameters.task}}", "maxAge": "1h", "cache": {"configMap": {"name": "cache"}}}
    seconds = []
    async with run_server(_settings(home, count)) as server:
        for number in range(2):
            started = time.perf_counter()
            await _run(server, noop_workflow(f"memo-{number}", tasks("fan-out", count), memoize))
            seconds.append(time.perf_counter() - started)
    return seconds[0], seconds[1]


def _settings(home: Path, count: int) -> Settings:
    capacity = {"cpu": "100000", "memory": "1000Ti", "pods": str(count + 10)}
    return read_settings(home, {"node": {"name": "bench", "capacity": capacity}, "durability": "process"})


async def _run(server: RunningServer, workflow: Object) -> None:
    name = name_of(workflow)
    made = await server.cluster.create(workflow)
    async with asyncio.timeout(900):
        async for event in server.cluster.watch(
            WORKFLOW, "default", fields=f"metadata.name={name}", resource_version=made["metadata"]["resourceVersion"]
        ):
            phase = status_of(event.object).get("phase")
            if phase in ("Failed", "Error"):
                raise SystemExit(f"{name}: {phase}: {status_of(event.object).get('message')}")
            if phase == "Succeeded":
                return


def noop_workflow(name: str, dag: list[tuple[str, list[str]]], memoize: Object | None = None) -> Object:
    noop: Object = {"name": "noop", "container": {"image": "debian", "command": ["sh", "-c", "true"]}}
    if memoize is not None:
        noop |= {"inputs": {"parameters": [{"name": "task"}]}, "memoize": memoize}

    def task(name: str, needed: list[str]) -> Object:
        made: Object = {"name": name, "template": "noop"}
        if needed:
            made["depends"] = " && ".join(needed)
        if memoize is not None:
            made["arguments"] = {"parameters": [{"name": "task", "value": name}]}
        return made

    main: Object = {"name": "main", "dag": {"tasks": [task(*each) for each in dag]}}
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"entrypoint": "main", "templates": [main, noop]},
    }


if __name__ == "__main__":
    main()
