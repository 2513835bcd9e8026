"""The scheduler's core on a large simulated cluster: Pods per second, memory, and how both grow.

    python -m benchmarks.scheduler [--nodes 10000] [--pods 1000 10000 100000] [--kinds 14 500] [--floor N] [--repeat N]

Pods come in gangs of 8, of `--kinds` different sizes, to an empty cluster. The floor, in the same run: a plain
first-fit loop over the same nodes for the same Pods. It checks nothing but free amounts, knows no gangs, no queues and
no reasons, and does not look for a good node. It is quadratic, so runs of more than `--floor` Pods have none. All times
are CPU time, of the best of `--repeat` runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from muster.embedded.scheduler.cycle import run_cycle
from muster.embedded.scheduler.model import SchedulerSettings
from muster.embedded.scheduler.state import SchedulerState
from muster.kube.objects import Object
from muster.kube.quantity import pod_requests

GANG = 8
CREATED = "2024-01-01T00:00:00Z"
NOW = 1_704_067_201.0


@dataclass(frozen=True)
class Measured:
    pods: int
    feed: float
    """CPU seconds to read all objects into the scheduler's state."""
    place: float
    """CPU seconds of the cycle that places all of them."""
    placed: int
    shapes: int
    churn: float
    """CPU milliseconds of a cycle after one gang has ended and another has been added."""
    stuck: float
    """CPU milliseconds of a cycle after a node has changed, with as many unschedulable Pods waiting."""
    megabytes: float
    """Growth by nodes, Pods and plan together, objects included."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--kinds", type=int, nargs="+", default=[14, 500], help="how many different Pods there are")
    parser.add_argument("--floor", type=int, default=10_000, help="the most Pods for the first-fit loop")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=3, type=int, metavar=("NODES", "PODS", "KINDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(*options.one))))
        return
    print(f"{options.nodes} nodes of 128 cores and 16 GPUs; Pods in gangs of {GANG}; CPU time")
    for kinds in options.kinds:
        floors = {pods: first_fit(options.nodes, pods, kinds) for pods in options.pods if pods <= options.floor}
        runs = [best_of(options.repeat, options.nodes, pods, kinds) for pods in options.pods]
        report(runs, kinds, floors)


def report(runs: list[Measured], kinds: int, floors: dict[int, float]) -> None:
    print(f"\n{kinds} kinds of Pods; " + ", ".join(
        f"first fit places {pods} in {seconds:.2f} s ({pods / seconds:,.0f} Pods/s)" for pods, seconds in floors.items()
    ))  # fmt: skip
    print(f"{'Pods':>8} {'feed s':>8} {'place s':>8} {'Pods/s':>9} {'x floor':>8} {'churn ms':>9} {'stuck ms':>9} "
          f"{'MB':>6} {'KB/Pod':>7} {'shapes':>7}  growth")  # fmt: skip
    before: Measured | None = None
    for run in runs:
        rate = run.placed / run.place
        growth = ""
        if before is not None:
            factor = run.place / before.place
            allowed = run.pods * math.log(run.pods) / (before.pods * math.log(before.pods))
            growth = f"x{factor:.1f} for x{run.pods / before.pods:.0f} (n log n: x{allowed:.1f})"
        ratio = f"{floors[run.pods] / run.place:.1f}" if run.pods in floors else "-"
        each = 1024 * run.megabytes / run.pods
        print(f"{run.pods:>8} {run.feed:>8.2f} {run.place:>8.2f} {rate:>9,.0f} {ratio:>8} {run.churn:>9.2f} "
              f"{run.stuck:>9.2f} {run.megabytes:>6.0f} {each:>7.1f} {run.shapes:>7}  {growth}")  # fmt: skip
        assert run.placed == run.pods, "the machine is large enough for all of them"
        before = run


def best_of(repeat: int, nodes: int, pods: int, kinds: int) -> Measured:
    return min((apart(nodes, pods, kinds) for _ in range(repeat)), key=lambda run: run.place)


def apart(nodes: int, pods: int, kinds: int) -> Measured:
    """Runs in its own process, so that memory is that of this run."""
    command = [sys.executable, "-m", "benchmarks.scheduler", "--one", str(nodes), str(pods), str(kinds)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return Measured(**json.loads(found.stdout))


def measure(nodes: int, pods: int, kinds: int) -> Measured:
    before = resident()
    state = SchedulerState(SchedulerSettings())
    state.put_queue({"metadata": {"name": "default"}, "spec": {"weight": 1}})
    for number in range(nodes):
        state.put_node(a_node(number))
    objects = list(gangs(pods, kinds))
    gc.collect()
    gc.freeze()

    start = time.process_time()
    feed(state, objects)
    fed = time.process_time() - start

    start = time.process_time()
    result = run_cycle(state, NOW)
    place = time.process_time() - start
    placed = sum(len(p.assignments) for p in result.placements)
    shapes = len(state.node_cache.shapes)
    megabytes = resident() - before
    bound = {pod.key.name: node for p in result.placements for pod, node in p.assignments}
    return Measured(pods, fed, place, placed, shapes, churn(state, objects, bound), stuck(state, pods), megabytes)


def churn(state: SchedulerState, objects: list[Object], bound: dict[str, str], rounds: int = 100) -> float:
    fresh = list(gangs(GANG * rounds, 14, prefix="new"))
    taken = 0.0
    for number in range(rounds):
        ended = objects[number * (GANG + 1) : (number + 1) * (GANG + 1)]
        for obj in ended[1:]:
            obj["spec"]["nodeName"] = bound[obj["metadata"]["name"]]
            obj["status"] = {"phase": "Succeeded"}
        start = time.process_time()
        feed(state, ended[1:])
        feed(state, fresh[number * (GANG + 1) : (number + 1) * (GANG + 1)])
        run_cycle(state, NOW)
        taken += time.process_time() - start
    return 1000 * taken / rounds


def stuck(state: SchedulerState, pods: int, rounds: int = 20) -> float:
    for number in range(pods):
        state.put_pod(a_pod(f"stuck-{number}", {"cpu": "1000"}))
    run_cycle(state, NOW)
    taken = 0.0
    for number in range(rounds):
        node = a_node(0)
        node["metadata"]["labels"] = {"round": str(number)}
        start = time.process_time()
        state.put_node(node)
        run_cycle(state, NOW + number)
        taken += time.process_time() - start
    return 1000 * taken / rounds


def first_fit(nodes: int, pods: int, kinds: int) -> float:
    """CPU seconds of a naive loop."""
    rooms = [{"cpu": 128_000, "memory": 2**40, "nvidia.com/gpu": 16, "pods": 110} for _ in range(nodes)]
    wanted = [pod_requests(obj["spec"]) for obj in gangs(pods, kinds) if "containers" in obj["spec"]]
    start = time.process_time()
    for requests in wanted:
        for room in rooms:
            if all(amount <= room.get(name, 0) for name, amount in requests.items()):
                for name, amount in requests.items():
                    room[name] -= amount
                break
    return time.process_time() - start


def feed(state: SchedulerState, objects: list[Object]) -> None:
    for obj in objects:
        if "minMember" in obj["spec"]:
            state.put_group("volcano", obj)
        else:
            state.put_pod(obj)


def gangs(pods: int, kinds: int, prefix: str = "gang") -> Iterator[Object]:
    for gang in range(pods // GANG):
        name = f"{prefix}-{gang}"
        meta = {"namespace": "default", "name": name, "uid": name, "creationTimestamp": CREATED}
        yield {"metadata": meta, "spec": {"minMember": GANG}}
        kind = gang % kinds
        requests = {"cpu": f"{1000 + kind * 7}m", "memory": f"{4 + kind % 5}Gi", "nvidia.com/gpu": str(1 + kind % 2)}
        for member in range(GANG):
            yield a_pod(f"{name}-{member}", requests, name)


def a_pod(name: str, requests: dict[str, str], group: str = "") -> Object:
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": name,
            "creationTimestamp": CREATED,
            "labels": {"job": group},
            "annotations": {"scheduling.k8s.io/group-name": group} if group else {},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


def a_node(number: int) -> Object:
    name = f"node-{number}"
    room = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "16", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": room},
    }


def resident() -> float:
    """The peak, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
