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
from muster.kube.quantity import Amounts, sum_amounts

Kept: TypeAlias = dict[str, Amounts]
"""Capacity that is kept for one item, by node."""


def find_room(cache: NodeCache, wanted: Amounts) -> Kept | None:
    """Returns where this much is free now, or None."""
    vector = _to_vector(cache, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    shapes = [s for s in cache.shapes if usable(s.node_class)]
    shapes.sort(key=lambda s: tuple(-s.free[axis] for axis in order))
    rooms = ((node.name, shape.free) for shape in shapes for node in shape.nodes)
    kept, missing = _take(rooms, vector)
    return None if any(missing) else _to_amounts(cache, kept)


def find_room_in_time(
    cache: NodeCache, wanted: Amounts, *, ignore_kept: bool = False, except_owner: Hashable = None
) -> Kept | None:
    """Returns where this much will be free when running Pods have ended: first what is free now, then as little else as
    possible. Returns None if the nodes are too small. `ignore_kept` ignores what is kept for others, except for
    `except_owner`."""
    vector = _to_vector(cache, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    nodes = [n for n in cache.nodes.values() if usable(n.shape.node_class)]
    nodes.sort(key=lambda n: tuple(-n.free[axis] for axis in order))
    now, missing = _take(((n.name, n.free) for n in nodes), vector)

    def later() -> Iterable[tuple[str, Vector]]:
        nothing = (0,) * len(vector)
        for node in nodes:
            blocks = [cache.vector(k) for owner, k in node.blocks.items() if not ignore_kept or owner == except_owner]
            taken = map(sum, zip(now.get(node.name, nothing), *blocks, strict=True))
            yield node.name, tuple(a - t for a, t in zip(node.shape.node_class.allocatable, taken, strict=True))

    rest, missing = _take(later(), missing)
    if any(missing):
        return None
    for name, more in rest.items():
        now[name] = tuple(map(sum, zip(more, now[name], strict=True))) if name in now else more
    return _to_amounts(cache, now)


def shortfall(cache: NodeCache, wanted: Amounts) -> str:
    """Returns a message about what is missing."""
    free = cache.free_total()
    for name, amount in sorted(wanted.items()):
        if amount > free.get(name, 0):
            return reasons.resource_gap(name, amount, free.get(name, 0))
    return reasons.NO_NODES if not cache.nodes else "minResources not met by nodes that accept Pods now"


def usable(node_class: NodeClass) -> bool:
    return not node_class.unschedulable and not any(t.key.startswith("node.kubernetes.io/") for t in node_class.taints)


def _to_vector(cache: NodeCache, wanted: Amounts) -> Vector | None:
    if any(amount and name not in cache.axes for name, amount in wanted.items()):
        return None
    return cache.vector(wanted)


def _priority_axes(wanted: Vector) -> list[int]:
    """Returns the wanted axes: extended resources, which are the scarcest, then cpu and memory."""
    return [axis for axis in (*range(len(AXES), len(wanted)), 1, 2, 3, 0) if wanted[axis]]


def _take(rooms: Iterable[tuple[str, Vector]], wanted: Vector) -> tuple[dict[str, Vector], Vector]:
    taken_by_node: dict[str, Vector] = {}
    missing = wanted
    for name, room in rooms:
        if not any(missing):
            break
        taken = tuple(max(0, min(m, r)) for m, r in zip(missing, room, strict=True))
        if any(taken):
            taken_by_node[name] = taken
            missing = tuple(m - t for m, t in zip(missing, taken, strict=True))
    return taken_by_node, missing


def _to_amounts(cache: NodeCache, kept: dict[str, Vector]) -> Kept:
    return {
        name: {axis: amount for axis, amount in zip(cache.axes, vector, strict=True) if amount}
        for name, vector in kept.items()
    }


_SCORE_SCALE = 1_000_000
_PLANNING = "planned"


@dataclass(slots=True)
class Reservation:
    kept: Kept
    assignments: list[tuple[Profile, str]]
    """The node of each member. Empty for a PodGroup without Pods."""
    planned_at: float

    def assignments_for(self, pods: Sequence[Pod]) -> Assignments | None:
        """Returns the plan for these Pods, or None if it was made for others."""
        left: dict[Profile, list[str]] = {}
        for profile, node in self.assignments:
            left.setdefault(profile, []).append(node)
        if len(pods) != len(self.assignments) or any(not left.get(pod.profile) for pod in pods):
            return None
        try:
            return [(pod, left[pod.profile].pop()) for pod in pods]
        except IndexError:
            return None

    def is_valid(self, cache: NodeCache) -> bool:
        """Whether its nodes still exist and are schedulable."""
        return all(
            (node := cache.nodes.get(name)) is not None and not node.shape.node_class.unschedulable
            for name in self.kept
        )


def plan_assignments(cache: NodeCache, pods: Sequence[Pod], *, ignore_kept: bool = False) -> Assignments | None:
    """Returns nodes for all these Pods, as if all running Pods had ended; None if the nodes are too small.

    It prefers nodes that will be free soonest. If the Pods do not fit that way, it plans as for empty nodes."""
    assignments = _Plan(cache, ignore_kept).assignments(pods)
    if assignments is not None or len({pod.profile for pod in pods}) == 1:
        return assignments
    empty = NodeCache()
    for node in cache.nodes.values():
        empty.put_node(node.spec)
        if not ignore_kept:
            for owner, kept in node.blocks.items():
                empty.block(owner, {node.name: kept})
    for pod in pods:
        empty.topology.learn(pod.profile)
    found = Placer(empty).place(pods, explain=False)
    return None if isinstance(found, Unplaced) else found


def reserve(
    cache: NodeCache, assignments: Assignments, at_least: Amounts, now: float, *, ignore_kept: bool = False
) -> Reservation | None:
    """Keeps what these assignments need, and what is missing to `at_least` (minResources) wherever it will be free."""
    kept: Kept = {}
    for pod, node in assignments:
        _add(kept, node, pod.profile.requests)
    total = sum_amounts(kept.values())
    extra_demand = {
        name: amount - total.get(name, 0) for name, amount in at_least.items() if amount > total.get(name, 0)
    }
    if extra_demand:
        cache.block(_PLANNING, kept)
        more = find_room_in_time(cache, extra_demand, ignore_kept=ignore_kept, except_owner=_PLANNING)
        cache.unblock(_PLANNING, kept)
        if more is None:
            return None
        for node, amounts in more.items():
            _add(kept, node, amounts)
    return Reservation(kept, [(pod.profile, node) for pod, node in assignments], now)


def missing_capacity(cache: NodeCache, kept: Kept) -> int:
    """Returns how much has to end before all of this is free. Comparable between plans of one gang."""
    total = 0
    for name, amounts in kept.items():
        node = cache.nodes.get(name)
        if node is not None:
            total += _short_of(cache.vector(amounts), node.free, node.shape.node_class.allocatable)
    return total


class _Plan:
    """Puts the Pods into the node cache while planning, so that affinity rules see them."""

    def __init__(self, cache: NodeCache, ignore_kept: bool) -> None:
        self._cache = cache
        self._ignore_kept = ignore_kept
        self._room: dict[NodeInfo, Vector] = {}
        self._ports: dict[NodeInfo, set[HostPort]] = {}

    def assignments(self, pods: Sequence[Pod]) -> Assignments | None:
        cache = self._cache
        whole = [max(cache.total.get(axis, 0), 1) for axis in cache.axes]
        profiles = {pod.profile for pod in pods}
        for profile in profiles:
            cache.learn(profile)
        size = {p: max(n / w for n, w in zip(cache.demand(p), whole, strict=True)) for p in profiles}
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
                    a - b for a, b in zip(self._room_on(node), cache.demand(pod.profile), strict=True)
                )
                self._ports.setdefault(node, set()).update(pod.profile.host_ports)
                cache.assign(pod, node.name)
                done.append((pod, node.name))
            return done
        finally:
            for pod, name in reversed(done):
                cache.release(pod, name)

    def _chooser(self, profile: Profile) -> Callable[[Pod], NodeInfo | None]:
        cache = self._cache
        if cache.unknown_resources(profile):
            return lambda pod: None
        nodes = [n for n in cache.nodes.values() if not n.shape.node_class.verdict(profile).reason]
        heap = [(self._key(profile, node), number, node) for number, node in enumerate(nodes)]
        heapify(heap)
        changed: list[tuple[int, NodeInfo]] = []

        def choose(pod: Pod) -> NodeInfo | None:
            while changed:
                number, node = changed.pop()
                heappush(heap, (self._key(profile, node), number, node))
            check = cache.topology.check_for(pod, cache.all_specs)
            while heap:
                _, number, node = heappop(heap)
                if self._fits(profile, node):
                    changed.append((number, node))
                    if check is None or not check(node.spec):
                        return node
            return None

        return choose

    def _fits(self, profile: Profile, node: NodeInfo) -> bool:
        if profile.host_ports and ports_clash(profile.host_ports, self._ports.get(node, ())):
            return False
        return fits(self._cache.demand(profile), self._room_on(node))

    def _room_on(self, node: NodeInfo) -> Vector:
        room = self._room.get(node)
        if room is None:
            room = node.shape.node_class.allocatable
            if node.blocks and not self._ignore_kept:
                kept = [self._cache.vector(amounts) for amounts in node.blocks.values()]
                room = tuple(a - sum(taken) for a, *taken in zip(room, *kept, strict=True))
            self._room[node] = room
        return room

    def _key(self, profile: Profile, node: NodeInfo) -> tuple[int, ...]:
        demand, node_class = self._cache.demand(profile), node.shape.node_class
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
