"""Finds nodes for Pods: one by one, or a set that is placed whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, le
from typing import TypeAlias

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.choices import Choices
from muster.embedded.scheduling.fit import Vector, fits, lacking, ports_clash
from muster.embedded.scheduling.machine import Machine, Node, Shape
from muster.embedded.scheduling.model import Pod
from muster.embedded.scheduling.profile import Profile
from muster.embedded.scheduling.topology import Check

Seats: TypeAlias = list[tuple[Pod, str]]
"""Which Pod goes to which node."""

_REMEMBERED = 256
_FAILURES = 32


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
        self._choices: dict[Profile, Choices] = {}
        self._failed: dict[bytes, list[Vector]] = {}
        """By what else they ask for, the smallest demands for which there was no node."""

    def begin(self) -> None:
        """There may be more room than before: what has failed may be tried again."""
        self._failed.clear()

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
            for shape in machine.shapes:
                for cause in self._causes(profile, shape):
                    causes[cause] += len(shape.nodes) - skipped[shape]
        return Stuck(pod, dict(causes), len(machine.nodes))

    def _seat_in(self, order: Sequence[Pod], *, together: bool, explain: bool) -> Seats | Stuck:
        machine = self._machine
        seats: Seats = []
        for profile, run in groupby(order, key=attrgetter("profile")):
            left = list(run)
            while left:
                node, count = None if self._is_hopeless(profile) else self._best_node(left[0]), 1
                if node is not None and together and len(left) > 1 and machine.topology.is_idle:
                    node, count = self.choices(profile).roomiest(len(left)) or (node, 1)
                if node is None:
                    if not seats:
                        self._note_failure(profile)
                    stuck = self.explain(left[0]) if explain else Stuck(left[0], {}, len(machine.nodes))
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

    def choices(self, profile: Profile) -> Choices:
        found = self._choices.get(profile)
        if found is None:
            if len(self._choices) >= _REMEMBERED:
                self._choices.clear()
            self._machine.learn(profile)
            found = self._choices[profile] = Choices(self._machine, profile)
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
