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
from muster.kube.quantity import Amounts, parse_amounts, sum_amounts

_UNSUPPORTED_FIELDS = ("deserved", "guarantee", "parent", "type", "affinity", "extendClusters")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    name: str
    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    """A hard limit on what the Pods of the queue use together."""
    state: str = "Open"
    priority: int = 0
    """A queue with a higher priority is served before all queues with a lower one."""
    fifo: bool = False
    """Nothing may overtake the first item, however small it is."""
    notes: tuple[str, ...] = ()
    """Fields of the Queue that are ignored, as messages for its owner."""


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
    """What the Pods of a queue use, and what is reserved for one item in this cycle."""

    __slots__ = ("reserved", "used")

    def __init__(self) -> None:
        self.used: Amounts = {}
        self.reserved: Amounts = {}

    def add(self, more: Mapping[str, int], times: int = 1) -> None:
        used = self.used
        for name, amount in more.items():
            used[name] = used.get(name, 0) + times * amount

    def share(self, total: Mapping[str, int], weight: int) -> float:
        """Returns the dominant share (of the resource of which the queue uses the largest part), divided by weight."""
        parts = [n / total[name] for name, n in self.used.items() if n and total.get(name)]
        return max(parts, default=0.0) / weight

    def check_capability(self, queue: QueueSpec, asked: Mapping[str, int]) -> str:
        """Returns why the queue's capability does not allow this demand, or '' if it does."""
        for name, cap in queue.capability.items():
            wanted = asked.get(name, 0)
            used = self.used.get(name, 0) + self.reserved.get(name, 0)
            if wanted and used + wanted > cap:
                return reasons.over_capability(queue.name, name, used, wanted, cap)
        return ""


def never_allowed(queue: QueueSpec, asked: Mapping[str, int]) -> bool:
    """Whether the demand exceeds the capability even of an unused queue."""
    return any(asked.get(name, 0) > cap for name, cap in queue.capability.items())


def queue_status(state: str, phases: Mapping[str, int], allocated: Mapping[str, str]) -> dict[str, Any]:
    """Returns the status with the counts of PodGroups by phase. Zeros are omitted, as in Volcano."""
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
"""Higher priority first, then older, then first seen."""

_sequence = count()


@dataclass(slots=True, eq=False)
class QueueItem:
    """Something that is placed as a whole or not at all: the missing members of a gang, a single Pod, or (`admission`)
    a PodGroup without Pods that waits for admission."""

    owner: str
    """Unique and readable: `PodGroup default/train`, `Pod default/web`."""
    kind: Literal["pod", "gang", "admission"]
    queue: str
    priority: int
    created: float
    seq: int
    waiting_since: float
    equivalence: Hashable
    demand: Amounts
    pods: tuple[Pod, ...] = ()
    group: GroupKey | None = None
    extra_demand: Amounts = field(default_factory=dict)
    """The part of the demand that comes from minResources, beyond what its Pods request."""

    @property
    def rank(self) -> Rank:
        return (-self.priority, self.created, self.seq)


class Bucket:
    """Items of one priority and equivalence class, oldest first."""

    __slots__ = ("_heap", "fresh", "impossible_at", "items", "key", "reported_at", "reported_change")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.items: dict[str, QueueItem] = {}
        self.fresh: list[QueueItem] = []
        """Items whose reason for waiting has not been reported yet."""
        self.impossible_at = -1
        """The size epoch of the node cache in which this would not even fit on empty nodes."""
        self.reported_at = float("-inf")
        """When the reason was last reported, and for which `change_count` of the state."""
        self.reported_change = -1
        self._heap: list[tuple[Rank, int, QueueItem]] = []
        """The number distinguishes an item from an older one that it replaced."""

    def add(self, item: QueueItem) -> None:
        self.items[item.owner] = item
        self.fresh.append(item)
        heappush(self._heap, (item.rank, next(_sequence), item))

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
            self._heap = [(item.rank, next(_sequence), item) for item in self.items.values()]
            heapify(self._heap)
        if len(self.fresh) > 64 + 2 * len(self.items):
            self.fresh = [item for item in self.fresh if self.items.get(item.owner) is item]


class WaitingLine:
    """What waits in one queue."""

    def __init__(self) -> None:
        self.buckets: dict[Hashable, Bucket] = {}
        self._where: dict[str, Bucket] = {}
        self._order: CycleOrder | None = None

    def __len__(self) -> int:
        return len(self._where)

    def add(self, item: QueueItem) -> None:
        """Adds an item. It replaces an older item of the same owner."""
        self.remove(item.owner)
        key = (item.priority, item.equivalence)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(key)
        bucket.add(item)
        self._where[item.owner] = bucket
        if self._order is not None:
            self._order.offer(bucket)

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
        """Returns the order of one cycle. Items that are added during the cycle are included."""
        self._order = CycleOrder(self)
        return self._order

    def end(self) -> None:
        self._order = None


class CycleOrder:
    """The order in which the buckets of one queue are tried in one cycle."""

    def __init__(self, waiting_line: WaitingLine) -> None:
        self._heap: list[tuple[Rank, int, Bucket]] = []
        self._failed: set[Bucket] = set()
        for bucket in waiting_line.buckets.values():
            self.offer(bucket)

    def offer(self, bucket: Bucket) -> None:
        head = bucket.head()
        if head is not None and bucket not in self._failed:
            heappush(self._heap, (head.rank, next(_sequence), bucket))

    def next(self) -> Bucket | None:
        """Returns the bucket whose first item is tried next. Call `offer` if it may have more, otherwise `fail`."""
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

    def has_failed(self, bucket: Bucket) -> bool:
        return bucket in self._failed

    def stop(self) -> list[Bucket]:
        """Ends the cycle for this queue. Returns the buckets that have not been tried, in order."""
        rest: dict[Bucket, None] = {}
        while (bucket := self.next()) is not None:
            rest[bucket] = None
        return list(rest)


LabelView = Callable[[Pod], Hashable]
"""What of a Pod matters to the affinity rules of other Pods."""


def pod_owner(pod: Pod) -> str:
    return f"Pod {pod.key}"


def pod_item(pod: Pod, queue: str, priorities: Priorities, label_view: LabelView) -> QueueItem:
    return QueueItem(
        owner=pod_owner(pod),
        kind="pod",
        queue=queue,
        priority=priorities.of(pod.priority, pod.priority_class),
        created=pod.created,
        seq=pod.seq,
        waiting_since=pod.created,
        equivalence=(pod.profile, label_view(pod)),
        demand=pod.profile.requests,
        pods=(pod,),
        group=pod.group,
    )


def gang_item(
    owner: str,
    spec: PodGroupSpec,
    members: GroupMembers,
    used: Amounts,
    priorities: Priorities,
    label_view: LabelView,
    *,
    seq: int,
    waiting_from: float,
    holds: bool,
) -> QueueItem:
    """`used` is what members already use. The demand is what the missing members request, or the rest of minResources
    if that is more. A gang that holds capacity is not equivalent to any other: only it can use that capacity."""
    alike: dict[Hashable, int] = {}
    for pod in members.core:
        kind = (pod.profile, label_view(pod))
        alike[kind] = alike.get(kind, 0) + 1
    demand = sum_amounts(p.profile.requests for p in members.core)
    rest = {name: amount - used.get(name, 0) for name, amount in spec.min_resources.items()}
    extra_demand = {name: amount for name, amount in rest.items() if amount > demand.get(name, 0)}
    return QueueItem(
        owner=owner,
        kind="gang",
        queue=spec.queue,
        priority=_priority(spec, members, priorities),
        created=spec.created,
        seq=seq,
        waiting_since=max(spec.created, waiting_from, *(p.created for p in members.core)),
        equivalence=(frozenset(alike.items()), tuple(extra_demand.items()), owner if holds else ""),
        demand=demand | extra_demand,
        pods=members.core,
        group=spec.key,
        extra_demand=extra_demand,
    )


def admission_item(
    owner: str, spec: PodGroupSpec, priorities: Priorities, *, seq: int, waiting_from: float
) -> QueueItem:
    demand = dict(spec.min_resources)
    if demand:
        demand["pods"] = max(demand.get("pods", 0), spec.min_member)
    return QueueItem(
        owner=owner,
        kind="admission",
        queue=spec.queue,
        priority=priorities.of(None, spec.priority_class),
        created=spec.created,
        seq=seq,
        waiting_since=max(spec.created, waiting_from),
        equivalence=("admission", tuple(demand.items())),
        demand=demand,
        group=spec.key,
    )


def _priority(spec: PodGroupSpec, members: GroupMembers, priorities: Priorities) -> int:
    if spec.priority_class:
        return priorities.of(None, spec.priority_class)
    return max(priorities.of(p.priority, p.priority_class) for p in members.core)
