"""Capacity that is kept for gangs.

A gang that has waited long gets a reservation: nodes are chosen for it, and what it needs there is kept from everything
behind it. A PodGroup without Pods is admitted if its minResources would fit now, and that room is held for its Pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import HostPort, Pod, Profile
from muster.embedded.scheduler.node_cache import (
    AXES,
    NodeCache,
    NodeClass,
    NodeInfo,
    Vector,
    fits,
    ports_clash,
    score_node,
)
from muster.embedded.scheduler.placement import Assignments, Placer, Unplaced
from muster.kube.pod_resources import Amounts, sum_amounts

Kept: TypeAlias = dict[str, Amounts]
"""Capacity kept from others, by node."""


def find_room(machine: NodeCache, wanted: Amounts) -> Kept | None:
    """Where so much is free now, or None."""
    vector = _along(machine, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    shapes = [s for s in machine.shapes if usable(s.node_class)]
    shapes.sort(key=lambda s: tuple(-s.free[axis] for axis in order))
    rooms = ((node.name, shape.free) for shape in shapes for node in shape.nodes)
    kept, missing = _pour(rooms, vector)
    return None if any(missing) else _named(machine, kept)


def find_room_in_time(
    machine: NodeCache, wanted: Amounts, *, ignore_kept: bool = False, but: Hashable = None
) -> Kept | None:
    """Where so much will be free when what runs there has ended: what is free now first, then as little else as
    possible. None if the machine is too small. `ignore_kept` looks past what is kept for others, `but` for one."""
    vector = _along(machine, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    nodes = [n for n in machine.nodes.values() if usable(n.shape.node_class)]
    nodes.sort(key=lambda n: tuple(-n.free[axis] for axis in order))
    now, missing = _pour(((n.name, n.free) for n in nodes), vector)

    def later() -> Iterable[tuple[str, Vector]]:
        nothing = (0,) * len(vector)
        for node in nodes:
            blocks = [machine.vector(k) for owner, k in node.blocks.items() if not ignore_kept or owner == but]
            taken = map(sum, zip(now.get(node.name, nothing), *blocks, strict=True))
            yield node.name, tuple(a - t for a, t in zip(node.shape.node_class.allocatable, taken, strict=True))

    rest, missing = _pour(later(), missing)
    if any(missing):
        return None
    for name, more in rest.items():
        now[name] = tuple(map(sum, zip(more, now[name], strict=True))) if name in now else more
    return _named(machine, now)


def shortfall(machine: NodeCache, wanted: Amounts) -> str:
    """What is missing, for the group to be told."""
    free = machine.free_total()
    for name, amount in sorted(wanted.items()):
        if amount > free.get(name, 0):
            return reasons.resource_gap(name, amount, free.get(name, 0))
    return reasons.NO_NODES if not machine.nodes else "minResources not met by nodes that take Pods now"


def usable(node_class: NodeClass) -> bool:
    return not node_class.unschedulable and not any(t.key.startswith("node.kubernetes.io/") for t in node_class.taints)


def _along(machine: NodeCache, wanted: Amounts) -> Vector | None:
    if any(amount and name not in machine.axes for name, amount in wanted.items()):
        return None
    return machine.vector(wanted)


def _priority_axes(wanted: Vector) -> list[int]:
    """Extended resources are scarcest, then cpu and memory."""
    return [axis for axis in (*range(len(AXES), len(wanted)), 1, 2, 3, 0) if wanted[axis]]


def _pour(rooms: Iterable[tuple[str, Vector]], wanted: Vector) -> tuple[dict[str, Vector], Vector]:
    poured: dict[str, Vector] = {}
    missing = wanted
    for name, room in rooms:
        if not any(missing):
            break
        taken = tuple(max(0, min(m, r)) for m, r in zip(missing, room, strict=True))
        if any(taken):
            poured[name] = taken
            missing = tuple(m - t for m, t in zip(missing, taken, strict=True))
    return poured, missing


def _named(machine: NodeCache, kept: dict[str, Vector]) -> Kept:
    return {
        name: {axis: amount for axis, amount in zip(machine.axes, vector, strict=True) if amount}
        for name, vector in kept.items()
    }


_SCORE_SCALE = 1_000_000
_PLANNED = "planned"


@dataclass(slots=True)
class Reservation:
    kept: Kept
    seats: list[tuple[Profile, str]]
    """Which node each member is to get; empty for a PodGroup without Pods."""
    planned_at: float

    def seats_for(self, pods: Sequence[Pod]) -> Assignments | None:
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

    def is_sound(self, machine: NodeCache) -> bool:
        """Whether its nodes are still there and take Pods."""
        return all(
            (node := machine.nodes.get(name)) is not None and not node.shape.node_class.unschedulable
            for name in self.kept
        )


def plan_assignments(machine: NodeCache, pods: Sequence[Pod], *, ignore_kept: bool = False) -> Assignments | None:
    """Seats for all these Pods on a machine from which everything that runs has gone; None if it is too small. First
    those that will be free soonest; should the Pods not fit that way, as they would on an empty machine."""
    seats = _Plan(machine, ignore_kept).seats(pods)
    if seats is not None or len({pod.profile for pod in pods}) == 1:
        return seats
    empty = NodeCache()
    for node in machine.nodes.values():
        empty.put_node(node.facts)
        if not ignore_kept:
            for owner, kept in node.blocks.items():
                empty.block(owner, {node.name: kept})
    for pod in pods:
        empty.topology.learn(pod.profile)
    found = Placer(empty).seat(pods, explain=False)
    return None if isinstance(found, Unplaced) else found


def reserve(
    machine: NodeCache, seats: Assignments, at_least: Amounts, now: float, *, ignore_kept: bool = False
) -> Reservation | None:
    """Keeps what these seats need, and wherever it will be free what is missing to `at_least` (minResources)."""
    kept: Kept = {}
    for pod, node in seats:
        _add(kept, node, pod.profile.requests)
    total = sum_amounts(kept.values())
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


def still_missing(machine: NodeCache, kept: Kept) -> int:
    """How much has to end before all of this is free; comparable between plans of one gang."""
    total = 0
    for name, amounts in kept.items():
        node = machine.nodes.get(name)
        if node is not None:
            total += _short_of(machine.vector(amounts), node.free, node.shape.node_class.allocatable)
    return total


class _Plan:
    """Puts the Pods on the machine for the time of planning, so that rules about neighbours see them."""

    def __init__(self, machine: NodeCache, ignore_kept: bool) -> None:
        self._machine = machine
        self._ignore_kept = ignore_kept
        self._room: dict[NodeInfo, Vector] = {}
        self._ports: dict[NodeInfo, set[HostPort]] = {}

    def seats(self, pods: Sequence[Pod]) -> Assignments | None:
        machine = self._machine
        whole = [max(machine.total.get(axis, 0), 1) for axis in machine.axes]
        profiles = {pod.profile for pod in pods}
        for profile in profiles:
            machine.learn(profile)
        size = {p: max(n / w for n, w in zip(machine.demand(p), whole, strict=True)) for p in profiles}
        done: Assignments = []
        choose: Callable[[Pod], NodeInfo | None] | None = None
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

    def _chooser(self, profile: Profile) -> Callable[[Pod], NodeInfo | None]:
        machine = self._machine
        if machine.unknown_resources(profile):
            return lambda pod: None
        nodes = [n for n in machine.nodes.values() if not n.shape.node_class.verdict(profile).reason]
        heap = [(self._key(profile, node), number, node) for number, node in enumerate(nodes)]
        heapify(heap)
        changed: list[tuple[int, NodeInfo]] = []

        def choose(pod: Pod) -> NodeInfo | None:
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

    def _fits(self, profile: Profile, node: NodeInfo) -> bool:
        if profile.host_ports and ports_clash(profile.host_ports, self._ports.get(node, ())):
            return False
        return fits(self._machine.demand(profile), self._room_on(node))

    def _room_on(self, node: NodeInfo) -> Vector:
        room = self._room.get(node)
        if room is None:
            room = node.shape.node_class.allocatable
            if node.blocks and not self._ignore_kept:
                kept = [self._machine.vector(amounts) for amounts in node.blocks.values()]
                room = tuple(a - sum(taken) for a, *taken in zip(room, *kept, strict=True))
            self._room[node] = room
        return room

    def _key(self, profile: Profile, node: NodeInfo) -> tuple[int, ...]:
        demand, node_class = self._machine.demand(profile), node.shape.node_class
        short = _short_of(demand, node.free, node_class.allocatable)
        return (short, *score_node(node_class.verdict(profile), demand, node.free, node_class.allocatable))


def _add(kept: Kept, node: str, more: Amounts) -> None:
    there = kept.setdefault(node, {})
    for name, amount in more.items():
        there[name] = there.get(name, 0) + amount


def _short_of(demand: Vector, free: Vector, allocatable: Vector) -> int:
    return sum(
        (wanted - left) * _SCORE_SCALE // max(size, 1)
        for wanted, left, size in zip(demand, free, allocatable, strict=True)
        if wanted > left and wanted
    )
