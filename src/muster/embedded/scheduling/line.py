"""The line of a queue: what waits in it, in order of priority and age, with everything that is alike in one bucket.

What is alike gets the same answer: once one of a bucket has failed, none of the others need be tried in that pass.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Literal, TypeAlias

from muster.embedded.scheduling.model import GroupKey, Pod
from muster.kube.requests import Amounts

Rank: TypeAlias = tuple[int, float, int]
"""Higher priority first, then the older, then whoever was seen first."""

_numbers = count()


@dataclass(slots=True, eq=False)
class Item:
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
        self.items: dict[str, Item] = {}
        self.fresh: list[Item] = []
        """Those that have not been told yet why they wait."""
        self.impossible_at = -1
        """The size epoch of the machine in which this would not even fit on an empty one."""
        self.told_at = float("-inf")
        """When its items were last told why they wait, and of which state of the world."""
        self.told_of = -1
        self._heap: list[tuple[Rank, int, Item]] = []
        """The number tells apart an item and the older form of it that it has replaced."""

    def add(self, item: Item) -> None:
        self.items[item.owner] = item
        self.fresh.append(item)
        heappush(self._heap, (item.rank, next(_numbers), item))

    def head(self) -> Item | None:
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


class Line:
    def __init__(self) -> None:
        self.buckets: dict[Hashable, Bucket] = {}
        self._where: dict[str, Bucket] = {}
        self._turn: Turn | None = None

    def __len__(self) -> int:
        return len(self._where)

    def add(self, item: Item) -> None:
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

    def items(self) -> Iterator[Item]:
        return (item for bucket in self.buckets.values() for item in bucket.items.values())

    def begin(self) -> Turn:
        """The order of one pass, which also takes in what joins the line meanwhile."""
        self._turn = Turn(self)
        return self._turn

    def end(self) -> None:
        self._turn = None


class Turn:
    def __init__(self, line: Line) -> None:
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
