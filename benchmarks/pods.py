"""CPU time per no-op Pod, from create to Succeeded, against bare `subprocess` in the same run.

    python -m benchmarks.pods [PODS...]          (default: 200 1000)

Everything counts: the server (API, store, scheduler, agent, events), the zygote, the supervisors and /bin/true itself.
The server and all below it are put into a control group of their own where that is possible, which counts what no
parent waits for; elsewhere the sum of user and system time of the whole machine (/proc/stat) is all there is. Both are
shown: on a quiet machine they agree.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time

import uvloop
from benchmarks.meter import Cost, Meter, enter_group

from muster.embedded.box import Box
from muster.kube.builtin import EVENT, POD, new_catalogue
from muster.kube.objects import Object, name_of, status_of
from muster.server.settings import Settings, read_settings

TARGET_MS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pods", nargs="*", type=int, default=[200, 1000])
    parser.add_argument(
        "--home", type=Path, default=Path.cwd(), help="where to put the data (default: the current folder)"
    )
    parser.add_argument("--profile", action="store_true", help="profile the server instead of measuring")
    chosen = parser.parse_args()
    enter_group()
    rows = []
    # Everything is removed at the end: for some seconds, ext4 avoids the inodes of deleted files, which makes each new
    # file several times as expensive.
    with TemporaryDirectory(prefix="muster-bench-", dir=chosen.home) as home:
        for count in chosen.pods or [200, 1000]:
            bare = _bare(count)
            rows.append((count, bare, uvloop.run(_pods(Path(home) / str(count), count, chosen.profile))))
    _print(rows)
    worst = max(pods.cpu / count * 1000 for count, _, pods in rows)
    if worst > TARGET_MS and not chosen.profile:
        print(f"\nover the target of {TARGET_MS:.0f} ms per Pod", file=sys.stderr)
        raise SystemExit(1)


def _bare(count: int) -> Cost:
    meter = Meter()
    for _ in range(count):
        subprocess.run(["true"], check=True)
    return meter.stop()


async def _pods(home: Path, count: int, profile: bool) -> Cost:
    settings = _settings(home, count)
    async with Box(settings, new_catalogue()) as box:
        box.start()
        await _finish(box, ["warm-up"])
        names = [f"noop-{number}" for number in range(count)]
        profiler = cProfile.Profile(thread_time) if profile else None
        meter = Meter()
        if profiler is not None:
            profiler.enable()
        await _finish(box, names)
        if profiler is not None:
            profiler.disable()
        await _all_events(box)
        cost = meter.stop()
        found = (await box.cluster.list(POD, "default")).items
        failed = [name_of(pod) for pod in found if status_of(pod).get("phase") != "Succeeded"]
        assert not failed, f"not Succeeded: {failed[:5]}"
        if profiler is not None:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        return cost


def _settings(home: Path, count: int) -> Settings:
    """One node with room for all of them, so that the machine is never idle."""
    return read_settings(
        home,
        {"node": {"name": "bench", "capacity": {"cpu": "100000", "pods": str(count + 10)}}, "durability": "process"},
    )


async def _finish(box: Box, names: list[str]) -> None:
    """Creates the Pods and waits until all of them have Succeeded."""
    waiting = set(names)
    listing = await box.cluster.list(POD, "default")

    async def watch() -> None:
        async for event in box.cluster.watch(POD, "default", resource_version=listing.resource_version):
            if status_of(event.object).get("phase") in ("Succeeded", "Failed"):
                waiting.discard(name_of(event.object))
                if not waiting:
                    return

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(box.cluster.create(_pod(name)) for name in names))
    async with asyncio.timeout(300):
        await watcher


async def _all_events(box: Box) -> None:
    """Events are part of the cost."""
    before = -1
    while (found := len((await box.cluster.list(EVENT, "default")).items)) != before:
        before = found
        await asyncio.sleep(0.05)


def _pod(name: str) -> Object:
    container = {"name": "main", "image": "busybox:1.36", "command": ["/bin/true"]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _print(rows: list[tuple[int, Cost, Cost]]) -> None:
    print(f"{'':>6} {'bare':>8} {'Pod':>8} {'ratio':>7} {'server':>8} {'outside':>8} {'machine':>9} {'wall':>8}")
    print(f"{'Pods':>6} {'ms':>8} {'ms':>8} {'':>7} {'ms':>8} {'ms':>8} {'ms':>9} {'ms':>8}")
    for count, bare, pods in rows:
        each = [
            cost / count * 1000 for cost in (bare.cpu, pods.cpu, pods.own, pods.cpu - pods.own, pods.machine, pods.wall)
        ]
        print(
            f"{count:>6} {each[0]:>8.2f} {each[1]:>8.2f} {each[1] / each[0]:>7.1f} {each[2]:>8.2f} {each[3]:>8.2f} "
            f"{each[4]:>9.2f} {each[5]:>8.2f}"
        )
    counted = "by control group" if rows[0][2].group is not None else "by the whole machine's clock (no control group)"
    print(f"\nCPU per Pod, counted {counted}; server: this process, outside: zygote, supervisors and /bin/true")


if __name__ == "__main__":
    main()
