"""Properties that hold for all inputs and orders: a simulation with a clock that runs until nothing is left to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.kube.objects import Object
from tests.embedded.scheduler.objects import Bench, a_group, a_node, a_pod, a_queue

RESERVE_AFTER = 10.0


@dataclass(frozen=True)
class Job:
    """A gang of Pods (given by requested cpu), of which `minimum` start together, or a single Pod without a group."""

    arrives: float
    lasts: float
    sizes: tuple[int, ...]
    minimum: int = 1
    queue: str = "default"
    grouped: bool = True
    after_admission: float | None = None
    """The delay between the admission of its PodGroup (with minResources) and its Pods."""


@dataclass
class World:
    """Runs jobs on nodes (given by cpu). Time jumps from event to event. All nodes are checked after every cycle."""

    nodes: dict[str, int]
    jobs: dict[str, Job]
    bench: Bench = field(init=False)
    started: dict[str, float] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.bench = Bench(
            *(a_node(name, cpu=cpu, pods=1000) for name, cpu in self.nodes.items()),
            *(a_queue(name, weight) for name, weight in (("heavy", 3), ("light", 1))),
            reserve_after_seconds=RESERVE_AFTER,
        )
        self._where: dict[str, tuple[str, int]] = {}
        self._called: set[str] = set()

    def run(self, until: float = 1e5, restarts: Sequence[float] = ()) -> None:
        agenda: list[tuple[float, int, str, str]] = [(at, -1, "restart", "") for at in set(restarts)]
        heapify(agenda)
        for number, (name, job) in enumerate(self.jobs.items()):
            heappush(agenda, (job.arrives, number, "arrive", name))
        number = len(self.jobs)
        while agenda and agenda[0][0] <= until:
            self.now = agenda[0][0]
            while agenda and agenda[0][0] == self.now:
                _, _, what, name = heappop(agenda)
                if what == "arrive":
                    self._arrive(name, self.jobs[name])
                elif what == "create":
                    self._create_pods(name, self.jobs[name])
                elif what == "restart":
                    self.bench.restart()
                elif what == "end":
                    self._end(name)
            for pod in self._pass():
                number += 1
                lasts = self.jobs[pod.split("-")[0]].lasts
                heappush(agenda, (self.now + lasts, number, "end", pod))
            for name, after in self._newly_admitted():
                number += 1
                heappush(agenda, (self.now + after, number, "create", name))
            wake = self.bench.result.wake_at
            if wake is not None:
                number += 1
                heappush(agenda, (max(wake, self.now + 0.001), number, "wake", ""))

    def _arrive(self, name: str, job: Job) -> None:
        if job.grouped:
            least = {"cpu": str(sum(sorted(job.sizes)[: job.minimum]))} if job.after_admission is not None else None
            self.bench.put(a_group(name, job.minimum, created=self.now, queue=job.queue, minResources=least))
        if job.after_admission is None:
            self._create_pods(name, job)

    def _create_pods(self, name: str, job: Job) -> None:
        where: dict[str, Any] = {"group": name} if job.grouped else {"queue": job.queue}
        pods: list[Object] = []
        for number, cpu in enumerate(job.sizes):
            pods.append(a_pod(f"{name}-{number}", cpu=cpu, created=self.now, **where))
        self.bench.put(*pods)

    def _end(self, pod: str) -> None:
        self.bench.remove(pod)
        del self._where[pod]
        job = pod.split("-")[0]
        if not any(name.split("-")[0] == job for name in self.bench.objects):
            self.bench.remove_group(job)

    def _newly_admitted(self) -> list[tuple[str, float]]:
        found = []
        for group in self.bench.state.groups.values():
            after = self.jobs[group.key.name].after_admission
            if group.admitted and after is not None and group.key.name not in self._called:
                self._called.add(group.key.name)
                found.append((group.key.name, after))
        return found

    def _pass(self) -> list[str]:
        placed = self.bench.run(self.now)
        for pod, node in placed.items():
            name, number = pod.split("-")
            self._where[pod] = (node, self.jobs[name].sizes[int(number)])
            self.started.setdefault(name, self.now)
        self._no_partial_gang(placed)
        self._within_capacity()
        return list(placed)

    def _no_partial_gang(self, placed: dict[str, str]) -> None:
        by_job: dict[str, int] = defaultdict(int)
        for pod in placed:
            by_job[pod.split("-")[0]] += 1
        for name, count in by_job.items():
            if self.started[name] == self.now:
                assert count >= self.jobs[name].minimum, f"{name} was placed in part"

    def _within_capacity(self) -> None:
        used: dict[str, int] = defaultdict(int)
        for where, cpu in self._where.values():
            used[where] += cpu
        for name, cpu in self.nodes.items():
            assert used[name] <= cpu, f"{name} is overcommitted"
            node = self.bench.state.node_cache.nodes[name]
            kept = sum(block.get("cpu", 0) for block in node.blocks.values())
            assert node.free[1] == 1000 * (cpu - used[name]) - kept, f"{name} is not accounted for"


def fits_alone(nodes: dict[str, int], job: Job) -> bool:
    world = World(nodes, {"job": replace(job, arrives=0.0, lasts=1.0, after_admission=None)})
    world.run()
    return "job" in world.started


machines = st.lists(st.integers(1, 8), min_size=1, max_size=4).map(lambda s: {f"n{i}": cpu for i, cpu in enumerate(s)})
times = st.integers(0, 40).map(float)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    sizes = tuple(draw(st.lists(st.integers(0, 8), min_size=1, max_size=6)))
    if draw(st.booleans()):
        sizes = sizes[:1] * len(sizes)
    grouped = draw(st.sampled_from([True, True, False]))
    return Job(
        arrives=draw(times),
        lasts=float(draw(st.integers(1, 30))),
        sizes=sizes,
        minimum=draw(st.integers(1, len(sizes))) if grouped else 1,
        queue=draw(st.sampled_from(["default", "heavy", "light"])),
        grouped=grouped,
        after_admission=draw(st.sampled_from([None, None, 0.0, 3.0, 50.0])) if grouped else None,
    )


@settings(max_examples=150, deadline=None)
@given(machines, st.lists(jobs(), min_size=1, max_size=8))
def test_everything_that_fits_the_machine_alone_runs_in_the_end(nodes: dict[str, int], found: list[Job]) -> None:
    world = World(nodes, {f"job{n}": job for n, job in enumerate(found)})
    world.run()
    for name, job in world.jobs.items():
        if fits_alone(nodes, job):
            assert name in world.started, f"{name} never ran"


@settings(max_examples=60, deadline=None)
@given(machines, st.lists(jobs(), min_size=1, max_size=8), st.lists(times, max_size=5))
def test_a_restart_changes_nothing_of_that(nodes: dict[str, int], found: list[Job], restarts: list[float]) -> None:
    world = World(nodes, {f"job{n}": job for n, job in enumerate(found)})
    world.run(restarts=restarts)
    for name, job in world.jobs.items():
        if fits_alone(nodes, job):
            assert name in world.started, f"{name} never ran"


@settings(max_examples=60, deadline=None)
@given(machines, jobs(), st.integers(1, 5), st.integers(1, 4), st.sampled_from(["default", "heavy", "light"]))
def test_a_stream_of_small_pods_starves_nobody(
    nodes: dict[str, int], job: Job, lasts: int, size: int, queue: str
) -> None:
    """All nodes are full when the job arrives, and every second enough small Pods arrive to fill them again."""
    if not fits_alone(nodes, job):
        return
    many = (size,) * (1 + sum(nodes.values()) // size)
    times = [0.0, *(float(second) for second in range(2, 25))]
    stream = {f"s{at:.0f}": Job(at, float(lasts), many, queue=queue, grouped=False) for at in times}
    arrives = 1.0
    world = World(nodes, {**stream, "job": replace(job, arrives=arrives, after_admission=None)})
    world.run(until=times[-1])
    # Once overdue, it waits for the running Pods, which takes `lasts`. Earlier items may still be ahead of it.
    assert world.started.get("job", float("inf")) <= arrives + RESERVE_AFTER + 2 * lasts


@settings(max_examples=40, deadline=None)
@given(st.booleans(), times, st.integers(1, 20), st.integers(1, 20))
def test_two_gangs_of_sixty_percent_both_finish(first: bool, gap: float, lasts_a: int, lasts_b: int) -> None:
    a = Job(0.0 if first else gap, float(lasts_a), (1,) * 6, 6)
    b = Job(gap if first else 0.0, float(lasts_b), (1,) * 6, 6)
    world = World({"n0": 5, "n1": 5}, {"a": a, "b": b})
    world.run()
    assert set(world.started) == {"a", "b"}
