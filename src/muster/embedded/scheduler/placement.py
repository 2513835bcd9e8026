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
from muster.embedded.scheduler.pod_affinity import NodeCheck

_SAMPLE = 128
_LOOKS = 3 * _SAMPLE
_OLDEST = 16


class _Entry(NamedTuple):
    score: Score
    number: int
    shape: Shape
    capacity: int
    """How many Pods of the profile fit on a node of this shape."""


class NodeRanking:
    """The shapes that fit one profile, best first.

    If there are few shapes, all are scored. If there are very many, only enough for a good choice: the oldest few,
    which are empty nodes, then the newest, which are nodes that are being filled."""

    def __init__(self, cache: NodeCache, profile: Profile) -> None:
        self._cache = cache
        self._profile = profile
        self._epoch = -1
        self._read = 0
        self._heap: list[_Entry] = []
        self._unseen: list[Shape] = []
        """Shapes that may not have been scored yet."""
        self._known: set[Shape] = set()
        """Shapes that are in the heap, and shapes that do not fit, which never changes."""
        self._demand: Vector = ()
        self._needs: list[tuple[int, int]] = []
        """The non-zero part of the demand, by axis, scarce resources first."""
        self._needed = 0
        self._impossible = False
        """Whether it requests a resource that no node has."""

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

    def ranked_shapes(self) -> list[Shape]:
        self._catch_up()
        self._judge(len(self._unseen), len(self._unseen))
        return [entry.shape for entry in sorted(self._heap) if entry.shape.nodes]

    def node_with_room(self, wanted: int) -> tuple[NodeInfo, int] | None:
        """Returns the fullest node with room for all `wanted`, or else the node with room for most of them, and how
        many."""
        self._catch_up()
        found = [entry for entry in self._heap[:_SAMPLE] if entry.shape.nodes]
        if not found:
            return None
        best = min(found, key=lambda e: (e.score[:2], max(0, wanted - e.capacity), e.score, e.number))
        return next(reversed(best.shape.nodes)), min(wanted, best.capacity)

    def _catch_up(self) -> None:
        cache = self._cache
        unread = len(cache.log) - self._read
        if self._epoch != cache.epoch:
            self._epoch = cache.epoch
            self._heap, self._known = [], set()
            self._demand = cache.demand(self._profile)
            self._needs = [(axis, n) for axis, n in enumerate(self._demand) if n][::-1]
            self._needed = axes_of(self._demand)
            self._impossible = bool(cache.unknown_resources(self._profile))
            self._unseen = self._all_shapes()
        elif unread >= len(cache.shapes):
            self._unseen = self._all_shapes()
        elif unread and not self._impossible:
            self._unseen += cache.log[self._read :]
        self._read = len(cache.log)
        if self._unseen:
            self._judge(max(_SAMPLE - len(self._heap), _SAMPLE // 8))

    def _all_shapes(self) -> list[Shape]:
        if self._impossible:
            return []
        needed, found = self._needed, self._cache.shapes_by_left
        shapes = [shape for left, some in found.items() if left & needed == needed for shape in some]
        return shapes[_OLDEST:] + shapes[:_OLDEST]

    def _judge(self, enough: int, looks: int = _LOOKS) -> None:
        """Scores unseen shapes until `enough` more fit, or, if at least one fits, until it has looked at `looks`
        shapes."""
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
"""Pods and the names of the nodes they go to."""

_CACHE_SIZE = 256
_FAILURES = 32


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The Pod for which no node was left, after all Pods before it were placed."""

    pod: Pod
    causes: dict[str, int]
    nodes: int

    def __str__(self) -> str:
        return reasons.unavailable(self.nodes, self.causes)


class Placer:
    """Places Pods on nodes. It keeps a ranking of shapes per profile, which the log of the node cache updates. A
    profile that fits nowhere costs almost nothing the second time."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache
        self._rankings: dict[Profile, NodeRanking] = {}
        self._failed: dict[bytes, list[Vector]] = {}
        """By constraints, the smallest demands for which there was no node."""

    def begin(self) -> None:
        """Starts a cycle: there may be more room than before, so what has failed may be tried again."""
        self._failed.clear()

    def place(self, pods: Sequence[Pod], *, explain: bool = True) -> Assignments | Unplaced:
        """Places all of these Pods, and counts them in the node cache; or none of them.

        Larger Pods go first, and equal Pods go to as few nodes as possible. If Pods of several profiles do not fit that
        way, they are tried one by one in several orders, because no order is always right."""
        first, *others = self._orders(pods)
        found = self._place_in_order(first, together=True, explain=explain)
        if isinstance(found, Unplaced) and others:
            for order in (first, *others):
                again = self._place_in_order(order, together=False, explain=False)
                if not isinstance(again, Unplaced):
                    return again
        return found

    def place_as_planned(self, plan: Assignments) -> bool:
        """Places Pods exactly as planned, if everything fits now."""
        cache = self._cache
        done: Assignments = []
        for pod, name in plan:
            node = cache.nodes.get(name)
            if node is None or self._refusal(pod, node):
                self.undo(done)
                return False
            cache.assign(pod, name)
            done.append((pod, name))
        return True

    def undo(self, assignments: Assignments) -> None:
        for pod, node in reversed(assignments):
            self._cache.release(pod, node)

    def explain(self, pod: Pod) -> Unplaced:
        """Returns why no node fits this Pod now, as counts of nodes per reason."""
        cache, profile = self._cache, pod.profile
        cache.learn(profile)
        check = cache.topology.check_for(pod, cache.all_specs)
        causes: Counter[str] = Counter()
        apart = cache.blocked if check is None else cache.nodes.values()
        for node in apart:
            causes.update(self._causes_on(profile, node, check))
        if check is None:
            skipped = Counter(node.shape for node in apart)
            for shape in cache.shapes:
                for cause in self._causes(profile, shape):
                    causes[cause] += len(shape.nodes) - skipped[shape]
        return Unplaced(pod, dict(causes), len(cache.nodes))

    def _place_in_order(self, order: Sequence[Pod], *, together: bool, explain: bool) -> Assignments | Unplaced:
        cache = self._cache
        assignments: Assignments = []
        for profile, run in groupby(order, key=attrgetter("profile")):
            left = list(run)
            while left:
                node, count = None if self._is_impossible(profile) else self._best_node(left[0]), 1
                if node is not None and together and len(left) > 1 and cache.topology.is_idle:
                    node, count = self.ranking(profile).node_with_room(len(left)) or (node, 1)
                if node is None:
                    if not assignments:
                        self._note_failure(profile)
                    stuck = self.explain(left[0]) if explain else Unplaced(left[0], {}, len(cache.nodes))
                    self.undo(assignments)
                    return stuck
                for pod in left[:count]:
                    cache.assign(pod, node.name)
                    assignments.append((pod, node.name))
                left = left[count:]
        return assignments

    def _is_impossible(self, profile: Profile) -> bool:
        """Whether a Pod with the same constraints and no larger demand has already failed."""
        failed = self._failed.get(profile.constraints)
        if not failed or not self._cache.topology.is_idle:
            return False
        demand = self._cache.demand(profile)
        return any(all(map(le, smaller, demand)) for smaller in failed)

    def _note_failure(self, profile: Profile) -> None:
        demand = self._cache.demand(profile)
        known = self._failed.setdefault(profile.constraints, [])
        if len(known) < _FAILURES and not self._cache.unknown_resources(profile):
            known.append(demand)

    def _orders(self, pods: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
        first = pods[0].profile
        if all(pod.profile is first for pod in pods):
            yield pods
            return
        cache = self._cache
        sizes = {p: cache.demand(p) for p in {pod.profile for pod in pods}}
        whole = [max(cache.total.get(axis, 0), 1) for axis in cache.axes]
        shares = {p: [n / w for n, w in zip(v, whole, strict=True)] for p, v in sizes.items()}
        yield sorted(pods, key=lambda pod: (-max(shares[pod.profile]), -sum(shares[pod.profile])))
        for axis in range(len(whole) - 1, 0, -1):
            if len({v[axis] for v in sizes.values()}) > 1:
                yield sorted(pods, key=lambda pod: (-shares[pod.profile][axis], -max(shares[pod.profile])))

    def _best_node(self, pod: Pod) -> NodeInfo | None:
        ranking = self.ranking(pod.profile)
        cache = self._cache
        check = cache.topology.check_for(pod, cache.all_specs)
        if check is None:
            shape = ranking.best()
            return next(reversed(shape.nodes)) if shape is not None else None
        for shape in ranking.ranked_shapes():
            for node in shape.nodes:
                if not check(node.spec):
                    return node
        return None

    def ranking(self, profile: Profile) -> NodeRanking:
        found = self._rankings.get(profile)
        if found is None:
            if len(self._rankings) >= _CACHE_SIZE:
                self._rankings.clear()
            self._cache.learn(profile)
            found = self._rankings[profile] = NodeRanking(self._cache, profile)
        return found

    def _refusal(self, pod: Pod, node: NodeInfo) -> bool:
        self._cache.learn(pod.profile)
        check = self._cache.topology.check_for(pod, self._cache.all_specs)
        return bool(self._causes(pod.profile, node.shape)) or (check is not None and bool(check(node.spec)))

    def _causes(self, profile: Profile, shape: Shape) -> list[str]:
        reason = shape.node_class.verdict(profile).reason
        if reason:
            return [reason]
        if profile.host_ports and ports_clash(profile.host_ports, shape.ports):
            return [reasons.PORTS]
        cache = self._cache
        short = lacking_resources(cache.demand(profile), shape.free, cache.axes) + cache.unknown_resources(profile)
        return [reasons.insufficient(resource) for resource in short]

    def _causes_on(self, profile: Profile, node: NodeInfo, check: NodeCheck | None) -> list[str]:
        causes = self._causes(profile, node.shape)
        if causes and node.blocks:
            kept = [self._cache.vector(amounts) for amounts in node.blocks.values()]
            unkept = tuple(map(sum, zip(node.free, *kept, strict=True)))
            demand = self._cache.demand(profile)
            if not fits(demand, node.free) and fits(demand, unkept):
                return [reasons.kept_for(str(next(iter(node.blocks))))]
        if causes or check is None:
            return causes
        refused = check(node.spec)
        return [refused] if refused else []
