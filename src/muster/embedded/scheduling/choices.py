"""Which nodes are open to Pods of one profile, best first: kept from decision to decision."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from muster.embedded.scheduling.fit import Gladness, Vector, gladness, ports_clash
from muster.embedded.scheduling.machine import Machine, Node, Shape, axes_of
from muster.embedded.scheduling.profile import Profile

_SAMPLE = 128
_LOOKS = 3 * _SAMPLE
_OLDEST = 16


class _Entry(NamedTuple):
    glad: Gladness
    number: int
    shape: Shape
    capacity: int
    """How many Pods of the profile a node of this shape takes."""


class Choices:
    """The shapes that fit one profile, best first. All of them where there are few; of very many, only so many are
    judged that a good choice is likely: the oldest few, which are the empty nodes, then the newest, which are those
    that are being filled."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
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

    def roomiest(self, wanted: int) -> tuple[Node, int] | None:
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
            gladness(verdict, self._demand, free, shape.node_class.allocatable),
            shape.number,
            shape,
            1 if profile.host_ports else capacity,
        )
