"""CPU and wall time per lightweight Kubeflow component, against kfp.local, in one run.

    python -m benchmarks.pipelines [--quick]

Both run the same pipeline: a ParallelFor over a component that doubles a number. What counts is the marginal cost: the
difference between a long and a short loop, divided by the iterations between them. kfp.local runs every task in a new
virtual environment with kfp installed, as it does by default, one after the other; and, for comparison, as plain
processes of the environment that kfp itself is in. Muster runs each task in a sandboxed Pod, in an environment that was
built once (the time for that is shown apart), and stores its log and its state. Then Muster alone: how the cost grows
up to 1,000 iterations. kfp is installed into .environments/peer-kfp the first time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop
from benchmarks.meter import Cost, Meter, enter_group
from benchmarks.peers import ROOT, python_of
from benchmarks.workflows import PEERS, _run, _settings

from muster.pipelines.compile import to_workflow
from muster.pipelines.spec import Pipeline, read_pipeline
from muster.server.embedded_server import RunningServer, run_server

TARGET_RATIO = 10.0
TARGET_GROWTH = 1.5
"""How much more one of 1,000 iterations may cost than one of 50."""
SIZES = (10, 50)
PEER_SIZES = {"venv": (1, 4), "process": (2, 12)}
PROGRAM = ROOT / "benchmarks" / "programs" / "pipeline_loop.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no loop of 1,000 iterations")
    chosen = parser.parse_args()
    python = python_of("kfp", next(peer.packages for peer in PEERS if peer.name == "kfp"))
    enter_group()
    with TemporaryDirectory(prefix="muster-bench-", dir=ROOT) as folder:
        home = Path(folder)
        sizes = SIZES if chosen.quick else (*SIZES, 1000)
        print(f"{'per task':<34}{'CPU ms':>10}{'wall ms':>10}")
        peers = {kind: _peer(python, kind, home) for kind in PEER_SIZES}
        build, costs = uvloop.run(_muster(python, home, sizes))
        ours = _marginal(costs[0], costs[1], SIZES)
        _row(f"muster, loop of {SIZES[1]}", ours)
        print(f"{'muster, to build the environment':<34}{build.cpu * 1000:>10.0f}{build.wall * 1000:>10.0f}  (once)")
        ratio = peers["venv"][0] / ours[0]
        print(f"\nkfp.local takes {ratio:.0f} times the CPU ({peers['process'][0] / ours[0]:.1f} without environments)")
        growth = 1.0
        if not chosen.quick:
            print(f"\n{'muster, iterations':<34}" + "".join(f"{size:>10,}" for size in sizes))
            each = [cost.cpu / size * 1000 for cost, size in zip(costs, sizes, strict=True)]
            print(f"{'CPU ms per iteration':<34}" + "".join(f"{value:>10.1f}" for value in each))
            print(f"{'wall s':<34}" + "".join(f"{cost.wall:>10.1f}" for cost in costs))
            growth = each[2] / each[1]
    missed = [f"kfp.local takes {ratio:.1f} times the CPU, not {TARGET_RATIO:.0f}"] if ratio < TARGET_RATIO else []
    missed += [f"1,000 iterations cost {growth:.1f} times as much each as 50"] if growth > TARGET_GROWTH else []
    if missed:
        raise SystemExit("over the target: " + "; ".join(missed))


def _peer(python: str, kind: str, home: Path) -> tuple[float, float]:
    """Returns marginal CPU and wall milliseconds per task of kfp.local."""
    costs = []
    for size in PEER_SIZES[kind]:
        with TemporaryDirectory(dir=home) as folder:
            meter = Meter()
            _program(python, kind, size, folder)
            costs.append(meter.stop())
    found = _marginal(costs[0], costs[1], PEER_SIZES[kind])
    _row(f"kfp.local, {kind}", found)
    return found


def _marginal(small: Cost, large: Cost, sizes: tuple[int, int]) -> tuple[float, float]:
    between = sizes[1] - sizes[0]
    return (large.cpu - small.cpu) / between * 1000, (large.wall - small.wall) / between * 1000


def _row(name: str, found: tuple[float, float]) -> None:
    print(f"{name:<34}{found[0]:>10.1f}{found[1]:>10.1f}", flush=True)


def _program(python: str, action: str, size: int, target: str) -> None:
    bin_folder = str(Path(python).parent)
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run([python, PROGRAM, action, str(size), target], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kfp failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")


async def _muster(python: str, home: Path, sizes: tuple[int, ...]) -> tuple[Cost, list[Cost]]:
    """Returns the cost of a first task, which builds the environment, and of a loop of each size."""
    pipelines = {}
    for size in (1, *sizes):
        _program(python, "compile", size, str(home / f"loop-{size}.yaml"))
        pipelines[size] = read_pipeline((home / f"loop-{size}.yaml").read_text())
    async with run_server(_settings(home / "muster", max(sizes))) as server:
        meter = Meter()
        await _loop(server, pipelines[1])
        build = meter.stop()
        costs = []
        for size in sizes:
            meter = Meter()
            await _loop(server, pipelines[size])
            costs.append(meter.stop())
    return build, costs


async def _loop(server: RunningServer, pipeline: Pipeline) -> None:
    run_id = str(uuid.uuid4())
    workflow = to_workflow(pipeline, run_id=run_id, display_name="bench", parameters={}, namespace="default")
    await _run(server, workflow)


if __name__ == "__main__":
    main()
