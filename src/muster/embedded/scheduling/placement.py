"""Finds nodes for Pods: one by one, or a set that is placed whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.fit import Gladness, fits, gladness, lacking, ports_clash
from muster.embedded.scheduling.machine import Machine, Node, Shape
from muster.embedded.scheduling.model import Pod
from muster.embedded.scheduling.profile import Profile
from muster.embedded.scheduling.topology import Check

Seats: TypeAlias = list[tuple[Pod, str]]
"""Which Pod goes to which node."""

_REMEMBERED = 512
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Stuck:
    """The Pod for which no node was left, with everything before it in place."""

    pod: Pod
    causes: dict[str, int]
    nodes: int

    def __str__(self) -> str:
        return reasons.unavailable(self.nodes, self.causes)


class Placer:
    """Places Pods on a machine. What it learns about a profile it keeps: a heap of the shapes that fit, best first,
    to which the machine's log adds. A profile that fits nowhere costs next to nothing the second time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._choices: dict[Profile, _Choices] = {}

    def seat(self, pods: Sequence[Pod], *, explain: bool = True) -> Seats | Stuck:
        """Nodes for all of these Pods, which are accounted for on the machine at once; or for none of them. Larger
        Pods go first, and equal ones onto as few nodes as possible. Should Pods of several kinds not fit that way,
        they are tried one by one in several orders: none is always right."""
        first, *others = self._orders(pods)
        found = self._seat_in(first, together=True, explain=explain)
        if isinstance(found, Stuck) and others:
            for order in (first, *others):
                again = self._seat_in(order, together=False, explain=False)
                if not isinstance(again, Stuck):
                    return again
        return found

    def seat_as_planned(self, plan: Seats) -> bool:
        """Exactly there, if all of it fits by now."""
        machine = self._machine
        done: Seats = []
        for pod, name in plan:
            node = machine.nodes.get(name)
            if node is None or self._refusal(pod, node):
                self.unseat(done)
                return False
            machine.assign(pod, name)
            done.append((pod, name))
        return True

    def unseat(self, seats: Seats) -> None:
        for pod, node in reversed(seats):
            self._machine.release(pod, node)

    def explain(self, pod: Pod) -> Stuck:
        """Why no node takes this Pod now, counted in nodes."""
        machine, profile = self._machine, pod.profile
        machine.learn(profile)
        check = machine.topology.check_for(pod, machine.all_facts)
        causes: Counter[str] = Counter()
        apart = machine.blocked if check is None else machine.nodes.values()
        for node in apart:
            causes.update(self._causes_on(profile, node, check))
        if check is None:
            skipped = Counter(node.shape for node in apart)
            for shape in machine.live_shapes():
                for cause in self._causes(profile, shape):
                    causes[cause] += len(shape.nodes) - skipped[shape]
        return Stuck(pod, dict(causes), len(machine.nodes))

    def _seat_in(self, order: Sequence[Pod], *, together: bool, explain: bool) -> Seats | Stuck:
        machine = self._machine
        seats: Seats = []
        for profile, run in groupby(order, key=attrgetter("profile")):
            left = list(run)
            while left:
                node, count = self._best_node(left[0]), 1
                if node is not None and together and len(left) > 1 and machine.topology.is_idle:
                    node, count = self.choices(profile).roomiest(len(left)) or (node, 1)
                if node is None:
                    stuck = self.explain(left[0]) if explain else Stuck(left[0], {}, len(machine.nodes))
                    self.unseat(seats)
                    return stuck
                for pod in left[:count]:
                    machine.assign(pod, node.name)
                    seats.append((pod, node.name))
                left = left[count:]
        return seats

    def _orders(self, pods: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
        first = pods[0].profile
        if all(pod.profile is first for pod in pods):
            yield pods
            return
        machine = self._machine
        sizes = {p: machine.demand(p) for p in {pod.profile for pod in pods}}
        whole = [max(machine.total.get(axis, 0), 1) for axis in machine.axes]
        shares = {p: [n / w for n, w in zip(v, whole, strict=True)] for p, v in sizes.items()}
        yield sorted(pods, key=lambda pod: (-max(shares[pod.profile]), -sum(shares[pod.profile])))
        for axis in range(len(whole) - 1, 0, -1):
            if len({v[axis] for v in sizes.values()}) > 1:
                yield sorted(pods, key=lambda pod: (-shares[pod.profile][axis], -max(shares[pod.profile])))

    def _best_node(self, pod: Pod) -> Node | None:
        choices = self.choices(pod.profile)
        machine = self._machine
        check = machine.topology.check_for(pod, machine.all_facts)
        if check is None:
            shape = choices.best()
            return next(reversed(shape.nodes)) if shape is not None else None
        for shape in choices.ranked():
            for node in shape.nodes:
                if not check(node.facts):
                    return node
        return None

    def choices(self, profile: Profile) -> _Choices:
        found = self._choices.get(profile)
        if found is None:
            if len(self._choices) >= _REMEMBERED:
                self._choices.clear()
            self._machine.learn(profile)
            found = self._choices[profile] = _Choices(self._machine, profile)
        return found

    def _refusal(self, pod: Pod, node: Node) -> bool:
        self._machine.learn(pod.profile)
        check = self._machine.topology.check_for(pod, self._machine.all_facts)
        return bool(self._causes(pod.profile, node.shape)) or (check is not None and bool(check(node.facts)))

    def _causes(self, profile: Profile, shape: Shape) -> list[str]:
        reason = shape.node_class.verdict(profile).reason
        if reason:
            return [reason]
        if profile.host_ports and ports_clash(profile.host_ports, shape.ports):
            return [reasons.PORTS]
        machine = self._machine
        short = lacking(machine.demand(profile), shape.free, machine.axes) + machine.unknown_resources(profile)
        return [reasons.insufficient(resource) for resource in short]

    def _causes_on(self, profile: Profile, node: Node, check: Check | None) -> list[str]:
        causes = self._causes(profile, node.shape)
        if causes and node.blocks:
            kept = [self._machine.vector(amounts) for amounts in node.blocks.values()]
            unkept = tuple(map(sum, zip(node.free, *kept, strict=True)))
            demand = self._machine.demand(profile)
            if not fits(demand, node.free) and fits(demand, unkept):
                return [reasons.kept_for(str(next(iter(node.blocks))))]
        if causes or check is None:
            return causes
        refused = check(node.facts)
        return [refused] if refused else []


class _Entry(NamedTuple):
    glad: Gladness
    number: int
    shape: Shape
    capacity: int
    """How many Pods of the profile a node of this shape takes."""


class _Choices:
    """The shapes that fit one profile, best first."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
        self._machine = machine
        self._profile = profile
        self._epoch = -1
        self._read = 0
        self._heap: list[_Entry] = []
        self._known: set[Shape] = set()

    def best(self) -> Shape | None:
        self._catch_up()
        heap = self._heap
        while heap:
            shape = heap[0].shape
            if shape.nodes:
                return shape
            heappop(heap)
            self._known.discard(shape)
        return None

    def ranked(self) -> list[Shape]:
        self._catch_up()
        return [entry.shape for entry in sorted(self._heap) if entry.shape.nodes]

    def roomiest(self, wanted: int) -> tuple[Node, int] | None:
        """The tightest node that takes so many at once, or else the one that takes most of them, and how many. Among
        very many shapes only some are looked at."""
        self._catch_up()
        found = [entry for entry in self._heap[:_SAMPLE] if entry.shape.nodes]
        if not found:
            return None
        best = min(found, key=lambda e: (e.glad[:2], max(0, wanted - e.capacity), e.glad, e.number))
        return next(reversed(best.shape.nodes)), min(wanted, best.capacity)

    def _catch_up(self) -> None:
        machine = self._machine
        if self._epoch != machine.epoch:
            self._epoch = machine.epoch
            self._read = len(machine.log)
            self._heap = [entry for shape in machine.live_shapes() if (entry := self._entry(shape)) is not None]
            self._known = {entry.shape for entry in self._heap}
            heapify(self._heap)
            return
        log = machine.log
        if self._read == len(log):
            return
        for number in range(self._read, len(log)):
            shape = log[number]
            if shape.nodes and shape not in self._known:
                entry = self._entry(shape)
                if entry is not None:
                    self._known.add(shape)
                    heappush(self._heap, entry)
        self._read = len(log)

    def _entry(self, shape: Shape) -> _Entry | None:
        machine, profile = self._machine, self._profile
        demand = machine.demand(profile)
        if not fits(demand, shape.free) or machine.unknown_resources(profile):
            return None
        verdict = shape.node_class.verdict(profile)
        if verdict.reason or (profile.host_ports and ports_clash(profile.host_ports, shape.ports)):
            return None
        capacity = min((left // wanted for wanted, left in zip(demand, shape.free, strict=True) if wanted), default=1)
        return _Entry(
            gladness(verdict, demand, shape.free, shape.node_class.allocatable),
            shape.number,
            shape,
            1 if profile.host_ports else capacity,
        )
