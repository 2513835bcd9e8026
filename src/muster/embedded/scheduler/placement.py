"""Finds nodes for Pods: one by one, or a set that is placed whole or not at all.

`NodeRanking` keeps the nodes that are open to a profile, best first, from decision to decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter, le
from typing import NamedTuple, TypeAlias

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import Pod, Profile
from muster.embedded.scheduler.node_cache import (
    NodeCache,
    NodeInfo,
    Score,
    Shape,
    Vector,
    axes_of,
    fits,
    lacking_resources,
    ports_clash,
    score_node,
)
from muster.embedded.scheduler.topology import NodeCheck

_SAMPLE = 128
_LOOKS = 3 * _SAMPLE
_OLDEST = 16


class _Entry(NamedTuple):
    glad: Score
    number: int
    shape: Shape
    capacity: int
    """How many Pods of the profile a node of this shape takes."""


class NodeRanking:
    """The shapes that fit one profile, best first. All of them where there are few; of very many, only so many are
    judged that a good choice is likely: the oldest few, which are the empty nodes, then the newest, which are those
    that are being filled."""

    def __init__(self, machine: NodeCache, profile: Profile) -> None:
        self._machine = machine
        self._profile = profile
        self._epoch = -1
        self._read = 0
        self._heap: list[_Entry] = []
        self._unseen: list[Shape] = []
        """Shapes that may not have been judged yet."""
        self._known: set[Shape] = set()
        """Shapes that are in the heap, or do not fit, which never changes."""
        self._demand: Vector = ()
        self._needs: list[tuple[int, int]] = []
        """What is not zero of the demand, by axis, scarce resources first."""
        self._needed = 0
        self._hopeless = False
        """Whether it asks for something no node has."""

    def best(self) -> Shape | None:
        self._catch_up()
        heap = self._heap
        while heap:
            shape = heap[0].shape
            if shape.nodes:
                return shape
            heappop(heap)
            self._known.discard(shape)
            if not heap:
                self._judge(_SAMPLE)
        return None

    def ranked(self) -> list[Shape]:
        self._catch_up()
        self._judge(len(self._unseen), len(self._unseen))
        return [entry.shape for entry in sorted(self._heap) if entry.shape.nodes]

    def roomiest(self, wanted: int) -> tuple[NodeInfo, int] | None:
        """The tightest node that takes so many at once, or else the one that takes most of them, and how many."""
        self._catch_up()
        found = [entry for entry in self._heap[:_SAMPLE] if entry.shape.nodes]
        if not found:
            return None
        best = min(found, key=lambda e: (e.glad[:2], max(0, wanted - e.capacity), e.glad, e.number))
        return next(reversed(best.shape.nodes)), min(wanted, best.capacity)

    def _catch_up(self) -> None:
        machine = self._machine
        unread = len(machine.log) - self._read
        if self._epoch != machine.epoch:
            self._epoch = machine.epoch
            self._heap, self._known = [], set()
            self._demand = machine.demand(self._profile)
            self._needs = [(axis, n) for axis, n in enumerate(self._demand) if n][::-1]
            self._needed = axes_of(self._demand)
            self._hopeless = bool(machine.unknown_resources(self._profile))
            self._unseen = self._all_shapes()
        elif unread >= len(machine.shapes):
            self._unseen = self._all_shapes()
        elif unread and not self._hopeless:
            self._unseen += machine.log[self._read :]
        self._read = len(machine.log)
        if self._unseen:
            self._judge(max(_SAMPLE - len(self._heap), _SAMPLE // 8))

    def _all_shapes(self) -> list[Shape]:
        if self._hopeless:
            return []
        needed, found = self._needed, self._machine.shapes_by_left
        shapes = [shape for left, some in found.items() if left & needed == needed for shape in some]
        return shapes[_OLDEST:] + shapes[:_OLDEST]

    def _judge(self, enough: int, looks: int = _LOOKS) -> None:
        """Looks at unseen shapes until `enough` more have been found that fit, or, if there are any, it has looked at
        so many."""
        unseen, known, heap, needed = self._unseen, self._known, self._heap, self._needed
        while unseen and enough > 0 and (looks > 0 or not heap):
            shape = unseen.pop()
            looks -= 1
            if shape.left & needed != needed or shape in known or not shape.nodes:
                continue
            known.add(shape)
            entry = self._entry(shape)
            if entry is not None:
                heappush(heap, entry)
                enough -= 1

    def _entry(self, shape: Shape) -> _Entry | None:
        free, profile = shape.free, self._profile
        for axis, wanted in self._needs:
            if wanted > free[axis]:
                return None
        verdict = shape.node_class.verdict(profile)
        if verdict.reason or (profile.host_ports and ports_clash(profile.host_ports, shape.ports)):
            return None
        capacity = min((free[axis] // wanted for axis, wanted in self._needs), default=1)
        return _Entry(
            score_node(verdict, self._demand, free, shape.node_class.allocatable),
            shape.number,
            shape,
            1 if profile.host_ports else capacity,
        )


Assignments: TypeAlias = list[tuple[Pod, str]]
"""Which Pod goes to which node."""

_REMEMBERED = 256
_FAILURES = 32


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The Pod for which no node was left, with everything before it in place."""

    pod: Pod
    causes: dict[str, int]
    nodes: int

    def __str__(self) -> str:
        return reasons.unavailable(self.nodes, self.causes)


class Placer:
    """Places Pods on a machine. What it learns about a profile it keeps: a heap of the shapes that fit, best first,
    to which the machine's log adds. A profile that fits nowhere costs next to nothing the second time."""

    def __init__(self, machine: NodeCache) -> None:
        self._machine = machine
        self._choices: dict[Profile, NodeRanking] = {}
        self._failed: dict[bytes, list[Vector]] = {}
        """By what else they ask for, the smallest demands for which there was no node."""

    def begin(self) -> None:
        """There may be more room than before: what has failed may be tried again."""
        self._failed.clear()

    def seat(self, pods: Sequence[Pod], *, explain: bool = True) -> Assignments | Unplaced:
        """Nodes for all of these Pods, which are accounted for on the machine at once; or for none of them. Larger
        Pods go first, and equal ones onto as few nodes as possible. Should Pods of several kinds not fit that way,
        they are tried one by one in several orders: none is always right."""
        first, *others = self._orders(pods)
        found = self._seat_in(first, together=True, explain=explain)
        if isinstance(found, Unplaced) and others:
            for order in (first, *others):
                again = self._seat_in(order, together=False, explain=False)
                if not isinstance(again, Unplaced):
                    return again
        return found

    def seat_as_planned(self, plan: Assignments) -> bool:
        """Exactly there, if all of it fits by now."""
        machine = self._machine
        done: Assignments = []
        for pod, name in plan:
            node = machine.nodes.get(name)
            if node is None or self._refusal(pod, node):
                self.unseat(done)
                return False
            machine.assign(pod, name)
            done.append((pod, name))
        return True

    def unseat(self, seats: Assignments) -> None:
        for pod, node in reversed(seats):
            self._machine.release(pod, node)

    def explain(self, pod: Pod) -> Unplaced:
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
            for shape in machine.shapes:
                for cause in self._causes(profile, shape):
                    causes[cause] += len(shape.nodes) - skipped[shape]
        return Unplaced(pod, dict(causes), len(machine.nodes))

    def _seat_in(self, order: Sequence[Pod], *, together: bool, explain: bool) -> Assignments | Unplaced:
        machine = self._machine
        seats: Assignments = []
        for profile, run in groupby(order, key=attrgetter("profile")):
            left = list(run)
            while left:
                node, count = None if self._is_hopeless(profile) else self._best_node(left[0]), 1
                if node is not None and together and len(left) > 1 and machine.topology.is_idle:
                    node, count = self.choices(profile).roomiest(len(left)) or (node, 1)
                if node is None:
                    if not seats:
                        self._note_failure(profile)
                    stuck = self.explain(left[0]) if explain else Unplaced(left[0], {}, len(machine.nodes))
                    self.unseat(seats)
                    return stuck
                for pod in left[:count]:
                    machine.assign(pod, node.name)
                    seats.append((pod, node.name))
                left = left[count:]
        return seats

    def _is_hopeless(self, profile: Profile) -> bool:
        """Whether somebody who asks for no more has failed already."""
        failed = self._failed.get(profile.constraints)
        if not failed or not self._machine.topology.is_idle:
            return False
        demand = self._machine.demand(profile)
        return any(all(map(le, smaller, demand)) for smaller in failed)

    def _note_failure(self, profile: Profile) -> None:
        demand = self._machine.demand(profile)
        known = self._failed.setdefault(profile.constraints, [])
        if len(known) < _FAILURES and not self._machine.unknown_resources(profile):
            known.append(demand)

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

    def _best_node(self, pod: Pod) -> NodeInfo | None:
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

    def choices(self, profile: Profile) -> NodeRanking:
        found = self._choices.get(profile)
        if found is None:
            if len(self._choices) >= _REMEMBERED:
                self._choices.clear()
            self._machine.learn(profile)
            found = self._choices[profile] = NodeRanking(self._machine, profile)
        return found

    def _refusal(self, pod: Pod, node: NodeInfo) -> bool:
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
        short = lacking_resources(machine.demand(profile), shape.free, machine.axes) + machine.unknown_resources(
            profile
        )
        return [reasons.insufficient(resource) for resource in short]

    def _causes_on(self, profile: Profile, node: NodeInfo, check: NodeCheck | None) -> list[str]:
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
