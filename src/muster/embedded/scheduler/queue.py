"""Queues: what a queue may use (weight, capability, state), and what waits in it in order of priority and age.

Waiting items that are alike share a bucket. They get the same answer: once one of a bucket has failed, none of the
others is tried in that cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Literal, TypeAlias

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import DEFAULT_QUEUE, GroupKey, Pod, Priorities
from muster.embedded.scheduler.pod_groups import GroupMembers, PodGroupSpec
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.pod_resources import Amounts, parse_amounts, sum_amounts

_UNSUPPORTED_FIELDS = ("deserved", "guarantee", "parent", "type", "affinity", "extendClusters")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    name: str
    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    """A hard cap on what the Pods of the queue use together."""
    state: str = "Open"
    priority: int = 0
    """A queue of higher priority is served before all of lower priority."""
    fifo: bool = False
    """Nobody passes the first in line, however small."""
    notes: tuple[str, ...] = ()
    """What of the Queue is not considered, for its owner to read."""


def read_queue(obj: Object) -> QueueSpec:
    spec = spec_of(obj)
    return QueueSpec(
        name=name_of(obj),
        weight=max(1, int(spec.get("weight") or 1)),
        capability=parse_amounts(spec.get("capability") or {}),
        state=status_of(obj).get("state") or "Open",
        priority=int(spec.get("priority") or 0),
        fifo=spec.get("dequeueStrategy") == "fifo",
        notes=_notes(spec),
    )


def default_queue() -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": DEFAULT_QUEUE},
        "spec": {"weight": 1, "reclaimable": False},
    }


class QueueUsage:
    """What the Pods of one queue use, and what is set aside for one of them in this pass."""

    __slots__ = ("aside", "used")

    def __init__(self) -> None:
        self.used: Amounts = {}
        self.aside: Amounts = {}

    def add(self, more: Mapping[str, int], times: int = 1) -> None:
        used = self.used
        for name, amount in more.items():
            used[name] = used.get(name, 0) + times * amount

    def share(self, total: Mapping[str, int], weight: int) -> float:
        """The dominant share: of the resource it uses most of, the part of the machine, by weight."""
        parts = [n / total[name] for name, n in self.used.items() if n and total.get(name)]
        return max(parts, default=0.0) / weight

    def over(self, queue: QueueSpec, asked: Mapping[str, int]) -> str:
        """Why the queue's capability does not allow so much more; '' if it does."""
        for name, cap in queue.capability.items():
            wanted = asked.get(name, 0)
            used = self.used.get(name, 0) + self.aside.get(name, 0)
            if wanted and used + wanted > cap:
                return reasons.over_capability(queue.name, name, used, wanted, cap)
        return ""


def never_allowed(queue: QueueSpec, asked: Mapping[str, int]) -> bool:
    """Whether the capability is too small even for an otherwise unused queue."""
    return any(asked.get(name, 0) > cap for name, cap in queue.capability.items())


def queue_status(state: str, phases: Mapping[str, int], allocated: Mapping[str, str]) -> dict[str, Any]:
    """The counts of PodGroups by phase; zeroes are left out, as Volcano's JSON leaves them out."""
    counts = {
        phase: phases.get(phase.capitalize(), 0) for phase in ("pending", "inqueue", "running", "completed", "unknown")
    }
    status: dict[str, Any] = {"state": state, **{phase: n for phase, n in counts.items() if n}}
    if allocated:
        status["allocated"] = dict(allocated)
    return status


def _notes(spec: Mapping[str, Any]) -> tuple[str, ...]:
    notes = [f"spec.{name} is not considered by this scheduler" for name in _UNSUPPORTED_FIELDS if spec.get(name)]
    if spec.get("reclaimable"):
        notes.append("spec.reclaimable is not considered: running Pods are never evicted for another queue")
    return tuple(notes)


Rank: TypeAlias = tuple[int, float, int]
"""Higher priority first, then the older, then whoever was seen first."""

_numbers = count()


@dataclass(slots=True, eq=False)
class QueueItem:
    """Something that is placed whole or not at all: what a gang still misses, one Pod, or (`admission`) a PodGroup
    without Pods that wants to be let in."""

    owner: str
    """Unique, and fit to be read: `PodGroup default/train`, `Pod default/web`."""
    kind: Literal["pod", "gang", "admission"]
    queue: str
    priority: int
    created: float
    seq: int
    waiting_since: float
    likeness: Hashable
    demand: Amounts
    pods: tuple[Pod, ...] = ()
    group: GroupKey | None = None
    beyond: Amounts = field(default_factory=dict)
    """The part of the demand that its Pods do not ask for, but minResources does."""

    @property
    def rank(self) -> Rank:
        return (-self.priority, self.created, self.seq)


class Bucket:
    """Items of one priority and likeness, oldest first."""

    __slots__ = ("_heap", "fresh", "impossible_at", "items", "key", "told_at", "told_of")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.items: dict[str, QueueItem] = {}
        self.fresh: list[QueueItem] = []
        """Those that have not been told yet why they wait."""
        self.impossible_at = -1
        """The size epoch of the machine in which this would not even fit on an empty one."""
        self.told_at = float("-inf")
        """When its items were last told why they wait, and of which state of the world."""
        self.told_of = -1
        self._heap: list[tuple[Rank, int, QueueItem]] = []
        """The number tells apart an item and the older form of it that it has replaced."""

    def add(self, item: QueueItem) -> None:
        self.items[item.owner] = item
        self.fresh.append(item)
        heappush(self._heap, (item.rank, next(_numbers), item))

    def head(self) -> QueueItem | None:
        heap = self._heap
        while heap:
            item = heap[0][2]
            if self.items.get(item.owner) is item:
                return item
            heappop(heap)
        return None

    def tidy(self) -> None:
        if len(self._heap) > 64 + 2 * len(self.items):
            self._heap = [(item.rank, next(_numbers), item) for item in self.items.values()]
            heapify(self._heap)
        if len(self.fresh) > 64 + 2 * len(self.items):
            self.fresh = [item for item in self.fresh if self.items.get(item.owner) is item]


class WaitingLine:
    def __init__(self) -> None:
        self.buckets: dict[Hashable, Bucket] = {}
        self._where: dict[str, Bucket] = {}
        self._turn: CycleOrder | None = None

    def __len__(self) -> int:
        return len(self._where)

    def add(self, item: QueueItem) -> None:
        """It takes the place of an older item of the same owner."""
        self.remove(item.owner)
        key = (item.priority, item.likeness)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(key)
        bucket.add(item)
        self._where[item.owner] = bucket
        if self._turn is not None:
            self._turn.offer(bucket)

    def remove(self, owner: str) -> None:
        bucket = self._where.pop(owner, None)
        if bucket is None:
            return
        del bucket.items[owner]
        if bucket.items:
            bucket.tidy()
        else:
            del self.buckets[bucket.key]

    def items(self) -> Iterator[QueueItem]:
        return (item for bucket in self.buckets.values() for item in bucket.items.values())

    def begin(self) -> CycleOrder:
        """The order of one pass, which also takes in what joins the line meanwhile."""
        self._turn = CycleOrder(self)
        return self._turn

    def end(self) -> None:
        self._turn = None


class CycleOrder:
    def __init__(self, line: WaitingLine) -> None:
        self._heap: list[tuple[Rank, int, Bucket]] = []
        self._failed: set[Bucket] = set()
        for bucket in line.buckets.values():
            self.offer(bucket)

    def offer(self, bucket: Bucket) -> None:
        head = bucket.head()
        if head is not None and bucket not in self._failed:
            heappush(self._heap, (head.rank, next(_numbers), bucket))

    def next(self) -> Bucket | None:
        """The bucket whose head is to be tried; `offer` it again if there may be more in it, else `fail` it."""
        while self._heap:
            rank, _, bucket = heappop(self._heap)
            head = bucket.head()
            if head is None or bucket in self._failed:
                continue
            if head.rank != rank:
                self.offer(bucket)
                continue
            return bucket
        return None

    def fail(self, bucket: Bucket) -> None:
        self._failed.add(bucket)

    def failed(self, bucket: Bucket) -> bool:
        return bucket in self._failed

    def stop(self) -> list[Bucket]:
        """Ends the turn; answers whatever has not been tried, in order."""
        rest: dict[Bucket, None] = {}
        while (bucket := self.next()) is not None:
            rest[bucket] = None
        return list(rest)


LabelView = Callable[[Pod], Hashable]
"""What of a Pod matters to the neighbourhood rules of others."""


def pod_owner(pod: Pod) -> str:
    return f"Pod {pod.key}"


def pod_item(pod: Pod, queue: str, priorities: Priorities, view: LabelView) -> QueueItem:
    return QueueItem(
        owner=pod_owner(pod),
        kind="pod",
        queue=queue,
        priority=priorities.of(pod.priority, pod.priority_class),
        created=pod.created,
        seq=pod.seq,
        waiting_since=pod.created,
        likeness=(pod.profile, view(pod)),
        demand=pod.profile.requests,
        pods=(pod,),
        group=pod.group,
    )


def gang_item(
    owner: str,
    facts: PodGroupSpec,
    roll: GroupMembers,
    used: Amounts,
    priorities: Priorities,
    view: LabelView,
    *,
    seq: int,
    waiting_from: float,
    holds: bool,
) -> QueueItem:
    """`used` is what members already use; the demand is what the missing ones ask for, or the rest of minResources
    where that is more. A gang that holds capacity is like no other: only it can use that."""
    alike: dict[Hashable, int] = {}
    for pod in roll.core:
        kind = (pod.profile, view(pod))
        alike[kind] = alike.get(kind, 0) + 1
    demand = sum_amounts(p.profile.requests for p in roll.core)
    rest = {name: amount - used.get(name, 0) for name, amount in facts.min_resources.items()}
    beyond = {name: amount for name, amount in rest.items() if amount > demand.get(name, 0)}
    return QueueItem(
        owner=owner,
        kind="gang",
        queue=facts.queue,
        priority=_priority(facts, roll, priorities),
        created=facts.created,
        seq=seq,
        waiting_since=max(facts.created, waiting_from, *(p.created for p in roll.core)),
        likeness=(frozenset(alike.items()), tuple(beyond.items()), owner if holds else ""),
        demand=demand | beyond,
        pods=roll.core,
        group=facts.key,
        beyond=beyond,
    )


def admission_item(
    owner: str, facts: PodGroupSpec, priorities: Priorities, *, seq: int, waiting_from: float
) -> QueueItem:
    demand = dict(facts.min_resources)
    if demand:
        demand["pods"] = max(demand.get("pods", 0), facts.min_member)
    return QueueItem(
        owner=owner,
        kind="admission",
        queue=facts.queue,
        priority=priorities.of(None, facts.priority_class),
        created=facts.created,
        seq=seq,
        waiting_since=max(facts.created, waiting_from),
        likeness=("admission", tuple(demand.items())),
        demand=demand,
        group=facts.key,
    )


def _priority(facts: PodGroupSpec, roll: GroupMembers, priorities: Priorities) -> int:
    if facts.priority_class:
        return priorities.of(None, facts.priority_class)
    return max(priorities.of(p.priority, p.priority_class) for p in roll.core)
