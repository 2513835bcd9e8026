"""Reservations: for a gang that has waited long, nodes are chosen and what it needs there is kept from all behind it.

The nodes are those where least has still to end. Capacity there can then only grow, so the gang starts at the latest
when everything that runs on them now has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from muster.embedded.scheduling.admission import Kept, find_room_in_time
from muster.embedded.scheduling.fit import Vector, fits, gladness, ports_clash
from muster.embedded.scheduling.machine import Machine, Node
from muster.embedded.scheduling.model import Pod
from muster.embedded.scheduling.placement import Placer, Seats, Stuck
from muster.embedded.scheduling.profile import HostPort, Profile
from muster.kube.requests import Amounts, total_of

_SCALE = 1_000_000
_PLANNED = "planned"


@dataclass(slots=True)
class Reservation:
    kept: Kept
    seats: list[tuple[Profile, str]]
    """Which node each member is to get; empty for a PodGroup without Pods."""
    planned_at: float

    def seats_for(self, pods: Sequence[Pod]) -> Seats | None:
        """The plan for these Pods, or None when they are others than it was made for."""
        left: dict[Profile, list[str]] = {}
        for profile, node in self.seats:
            left.setdefault(profile, []).append(node)
        if len(pods) != len(self.seats) or any(not left.get(pod.profile) for pod in pods):
            return None
        try:
            return [(pod, left[pod.profile].pop()) for pod in pods]
        except IndexError:
            return None

    def is_sound(self, machine: Machine) -> bool:
        """Whether its nodes are still there and take Pods."""
        return all(
            (node := machine.nodes.get(name)) is not None and not node.shape.node_class.unschedulable
            for name in self.kept
        )


def plan_seats(machine: Machine, pods: Sequence[Pod], *, ignore_kept: bool = False) -> Seats | None:
    """Seats for all these Pods on a machine from which everything that runs has gone; None if it is too small. First
    those that will be free soonest; should the Pods not fit that way, as they would on an empty machine."""
    seats = _Plan(machine, ignore_kept).seats(pods)
    if seats is not None or len({pod.profile for pod in pods}) == 1:
        return seats
    empty = Machine()
    for node in machine.nodes.values():
        empty.put_node(node.facts)
        if not ignore_kept:
            for owner, kept in node.blocks.items():
                empty.block(owner, {node.name: kept})
    for pod in pods:
        empty.topology.learn(pod.profile)
    found = Placer(empty).seat(pods, explain=False)
    return None if isinstance(found, Stuck) else found


def reserve(
    machine: Machine, seats: Seats, at_least: Amounts, now: float, *, ignore_kept: bool = False
) -> Reservation | None:
    """Keeps what these seats need, and wherever it will be free what is missing to `at_least` (minResources)."""
    kept: Kept = {}
    for pod, node in seats:
        _add(kept, node, pod.profile.requests)
    total = total_of(kept.values())
    beyond = {name: amount - total.get(name, 0) for name, amount in at_least.items() if amount > total.get(name, 0)}
    if beyond:
        machine.block(_PLANNED, kept)
        more = find_room_in_time(machine, beyond, ignore_kept=ignore_kept, but=_PLANNED)
        machine.unblock(_PLANNED, kept)
        if more is None:
            return None
        for node, amounts in more.items():
            _add(kept, node, amounts)
    return Reservation(kept, [(pod.profile, node) for pod, node in seats], now)


def still_missing(machine: Machine, kept: Kept) -> int:
    """How much has to end before all of this is free; comparable between plans of one gang."""
    total = 0
    for name, amounts in kept.items():
        node = machine.nodes.get(name)
        if node is not None:
            total += _short_of(machine.vector(amounts), node.free, node.shape.node_class.allocatable)
    return total


class _Plan:
    """Puts the Pods on the machine for the time of planning, so that rules about neighbours see them."""

    def __init__(self, machine: Machine, ignore_kept: bool) -> None:
        self._machine = machine
        self._ignore_kept = ignore_kept
        self._room: dict[Node, Vector] = {}
        self._ports: dict[Node, set[HostPort]] = {}

    def seats(self, pods: Sequence[Pod]) -> Seats | None:
        machine = self._machine
        whole = [max(machine.total.get(axis, 0), 1) for axis in machine.axes]
        profiles = {pod.profile for pod in pods}
        for profile in profiles:
            machine.learn(profile)
        size = {p: max(n / w for n, w in zip(machine.demand(p), whole, strict=True)) for p in profiles}
        done: Seats = []
        choose: Callable[[Pod], Node | None] | None = None
        before: Profile | None = None
        try:
            for pod in sorted(pods, key=lambda pod: (-size[pod.profile], pod.profile.number)):
                if choose is None or pod.profile is not before:
                    choose, before = self._chooser(pod.profile), pod.profile
                node = choose(pod)
                if node is None:
                    return None
                self._room[node] = tuple(
                    a - b for a, b in zip(self._room_on(node), machine.demand(pod.profile), strict=True)
                )
                self._ports.setdefault(node, set()).update(pod.profile.host_ports)
                machine.assign(pod, node.name)
                done.append((pod, node.name))
            return done
        finally:
            for pod, name in reversed(done):
                machine.release(pod, name)

    def _chooser(self, profile: Profile) -> Callable[[Pod], Node | None]:
        machine = self._machine
        if machine.unknown_resources(profile):
            return lambda pod: None
        nodes = [n for n in machine.nodes.values() if not n.shape.node_class.verdict(profile).reason]
        heap = [(self._key(profile, node), number, node) for number, node in enumerate(nodes)]
        heapify(heap)
        changed: list[tuple[int, Node]] = []

        def choose(pod: Pod) -> Node | None:
            while changed:
                number, node = changed.pop()
                heappush(heap, (self._key(profile, node), number, node))
            check = machine.topology.check_for(pod, machine.all_facts)
            while heap:
                _, number, node = heappop(heap)
                if self._fits(profile, node):
                    changed.append((number, node))
                    if check is None or not check(node.facts):
                        return node
            return None

        return choose

    def _fits(self, profile: Profile, node: Node) -> bool:
        if profile.host_ports and ports_clash(profile.host_ports, self._ports.get(node, ())):
            return False
        return fits(self._machine.demand(profile), self._room_on(node))

    def _room_on(self, node: Node) -> Vector:
        room = self._room.get(node)
        if room is None:
            room = node.shape.node_class.allocatable
            if node.blocks and not self._ignore_kept:
                kept = [self._machine.vector(amounts) for amounts in node.blocks.values()]
                room = tuple(a - sum(taken) for a, *taken in zip(room, *kept, strict=True))
            self._room[node] = room
        return room

    def _key(self, profile: Profile, node: Node) -> tuple[int, ...]:
        demand, node_class = self._machine.demand(profile), node.shape.node_class
        short = _short_of(demand, node.free, node_class.allocatable)
        return (short, *gladness(node_class.verdict(profile), demand, node.free, node_class.allocatable))


def _add(kept: Kept, node: str, more: Amounts) -> None:
    there = kept.setdefault(node, {})
    for name, amount in more.items():
        there[name] = there.get(name, 0) + amount


def _short_of(demand: Vector, free: Vector, allocatable: Vector) -> int:
    return sum(
        (wanted - left) * _SCALE // max(size, 1)
        for wanted, left, size in zip(demand, free, allocatable, strict=True)
        if wanted > left and wanted
    )
