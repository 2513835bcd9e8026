"""One scheduling cycle: which Pods are placed now, which wait, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import Pod
from muster.embedded.scheduler.placement import Assignments, Unplaced
from muster.embedded.scheduler.queue import Bucket, CycleOrder, QueueItem, QueueSpec, never_allowed
from muster.embedded.scheduler.reservation import (
    Reservation,
    find_room,
    find_room_in_time,
    plan_assignments,
    reserve,
    shortfall,
    still_missing,
)
from muster.embedded.scheduler.state import GroupState, Hold, PodNotice, QueueState, SchedulerState
from muster.kube.pod_resources import sum_amounts

_ALL_TOLD = 64
"""In a longer bucket, only the first in line is told that the reason has changed."""
_MOST_EXPLAINED = 200_000
"""So many shapes of nodes are asked for reasons in one pass; who is left is told in the next, a breath later."""
_BREATH = 0.05


class PlacedItem(NamedTuple):
    """To be bound all at once."""

    group: GroupState | None
    seats: Assignments


@dataclass(slots=True)
class CycleResult:
    placements: list[PlacedItem] = field(default_factory=list)
    told: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods that wait, with the reason, where it is news to them."""
    notices: list[PodNotice] = field(default_factory=list)
    groups: dict[GroupState, None] = field(default_factory=dict)
    """Those whose status may have to be written."""
    timed_out: list[GroupState] = field(default_factory=list)
    wake_at: float | None = None
    """When the next pass is due even if nothing happens."""


def run_cycle(state: SchedulerState, now: float, at_most: int | None = None) -> CycleResult:
    """`at_most` ends the pass once so many Pods are placed; the next, due at once, goes on with the rest."""
    return _Cycle(state, now, at_most).run()


class _Cycle:
    def __init__(self, state: SchedulerState, now: float, at_most: int | None) -> None:
        self._at_most = at_most
        self._placed = 0
        self._state = state
        self._machine = state.machine
        self._now = now
        self._out = CycleResult()
        self._renewed: dict[str, Reservation] = {}
        self._reserved_in: set[str] = set()
        self._explained = 0

    def run(self) -> CycleResult:
        state, out = self._state, self._out
        self._looked_at(state.settle(self._now))
        for owner, reservation in state.reservations.items():
            self._machine.unblock(owner, reservation.kept)
        state.placer.begin()
        turns = [(queue, queue.line.begin()) for queue in state.queues.values() if len(queue.line)]
        for queue, _ in turns:
            queue.usage.aside = {}
        try:
            turns_left = [(queue, turn) for queue, turn in turns if self._is_open(queue, turn)]
            self._serve_overdue(turns_left)
            self._serve_in_turn(turns_left)
        finally:
            for queue, _ in turns:
                queue.line.end()
        state.reservations = self._renewed
        self._looked_at(state.settle(self._now))
        self._complain()
        out.notices, state.notices = state.notices, []
        for group in state.holding:
            if group.hold is not None:
                self._wake(group.hold.until)
        for group in state.cooling:
            self._wake(group.cool_until)
        return out

    def _is_open(self, queue: QueueState, turn: CycleOrder) -> bool:
        if queue.facts is not None and queue.facts.state == "Open":
            return True
        why = (
            reasons.queue_not_found(queue.name)
            if queue.facts is None
            else reasons.queue_not_open(queue.name, queue.facts.state)
        )
        for bucket in turn.stop():
            self._tell(bucket, why)
        return False

    def _serve_overdue(self, turns: list[tuple[QueueState, CycleOrder]]) -> None:
        due: list[tuple[int, float, int, QueueState, CycleOrder, Bucket]] = []
        for number, (queue, turn) in enumerate(turns):
            heads = [
                (head.rank, bucket, head)
                for bucket in queue.line.buckets.values()
                if bucket.impossible_at != self._machine.size_epoch and (head := bucket.head()) is not None
            ]
            if heads:
                _, bucket, head = min(heads, key=lambda entry: entry[0])
                if self._is_overdue(head):
                    due.append((-_facts(queue).priority, head.waiting_since, number, queue, turn, bucket))
        for *_, queue, turn, bucket in sorted(due, key=lambda entry: entry[:3]):
            self._serve(queue, turn, bucket)

    def _serve_in_turn(self, turns: list[tuple[QueueState, CycleOrder]]) -> None:
        heap = [(*self._standing(queue), number) for number, (queue, _) in enumerate(turns)]
        heapify(heap)
        while heap:
            if self._at_most is not None and self._placed >= self._at_most:
                self._wake(self._now)
                return
            *_, number = heappop(heap)
            queue, turn = turns[number]
            bucket = turn.next()
            if bucket is None:
                continue
            placed = self._serve(queue, turn, bucket)
            if not placed and _facts(queue).fifo:
                head = bucket.head()
                for rest in turn.stop():
                    self._tell(rest, reasons.behind(head.owner if head is not None else "", queue.name))
            else:
                heappush(heap, (*self._standing(queue), number))

    def _standing(self, queue: QueueState) -> tuple[int, float, str]:
        facts = _facts(queue)
        return (-facts.priority, queue.usage.share(self._machine.total, facts.weight), queue.name)

    def _serve(self, queue: QueueState, turn: CycleOrder, bucket: Bucket) -> bool:
        item = bucket.head()
        assert item is not None
        wanted = bool(bucket.fresh) or self._now >= bucket.told_at + self._state.settings.retell_seconds
        explain = wanted and self._explained < _MOST_EXPLAINED
        why = self._try(queue, item, explain)
        if not why:
            turn.offer(bucket)
            return True
        turn.fail(bucket)
        if explain:
            self._explained += len(self._machine.shapes)
            self._tell(bucket, why)
        elif wanted:
            self._wake(self._now + _BREATH)
        elif bucket.told_of != self._state.stirrings:
            self._wake(bucket.told_at + self._state.settings.retell_seconds)
        self._wait(queue, bucket, item)
        return False

    def _try(self, queue: QueueState, item: QueueItem, explain: bool) -> str:
        """Places the item; answers why not, if not."""
        group = self._state.groups[item.group] if item.group is not None and item.kind != "pod" else None
        hold = group.hold if group is not None else None
        if group is None or hold is None:
            return self._place(queue, item, group, explain)
        self._state.release_hold(group)
        self._state.placer.begin()
        why = self._place(queue, item, group, explain)
        if why:
            self._state.take_hold(group, hold)
        return why

    def _place(self, queue: QueueState, item: QueueItem, group: GroupState | None, explain: bool) -> str:
        state = self._state
        for pod in item.pods:
            if pod.profile.refusal:
                return pod.profile.refusal
        over = queue.usage.over(_facts(queue), item.demand)
        if over:
            return over
        if item.kind == "admission":
            assert group is not None
            return self._admit(queue, item, group)
        if item.beyond and (gap := self._gap(item)):
            return gap
        seats = state.placer.seat(item.pods, explain=explain)
        if isinstance(seats, Unplaced):
            reservation = state.reservations.get(item.owner)
            plan = reservation.seats_for(item.pods) if reservation is not None else None
            if plan is None or not state.placer.seat_as_planned(plan):
                return str(seats) if explain else "no room"
            seats = plan
        state.assume(seats)
        self._placed += len(seats)
        self._out.placements.append(PlacedItem(group, seats))
        if group is not None:
            group.admitted = True
            state.muster(group, self._now)
            state.dirty.pop(group, None)
            self._out.groups[group] = None
        return ""

    def _admit(self, queue: QueueState, item: QueueItem, group: GroupState) -> str:
        if not item.demand:
            group.admitted = True
        else:
            kept = find_room(self._machine, item.demand)
            if kept is None:
                group.admitted = False
                return shortfall(self._machine, item.demand)
            until = self._now + self._state.settings.hold_seconds
            self._state.take_hold(group, Hold(kept, item.demand, queue.name, until))
        self._state.muster(group, self._now)
        self._out.groups[group] = None
        return ""

    def _gap(self, item: QueueItem) -> str:
        free = self._machine.free_total()
        for name, amount in item.beyond.items():
            if amount > free.get(name, 0):
                return reasons.resource_gap(name, amount, free.get(name, 0))
        return ""

    def _wait(self, queue: QueueState, bucket: Bucket, item: QueueItem) -> None:
        """The head of a bucket has failed: its clock goes on, and may have run out."""
        group = self._state.groups[item.group] if item.group is not None and item.kind != "pod" else None
        timeout = group.facts.timeout if group is not None and group.facts is not None else None
        if group is not None and timeout is not None:
            if self._now >= item.waiting_since + timeout:
                group.waiting_from = item.waiting_since = self._now
                self._out.timed_out.append(group)
            self._wake(item.waiting_since + timeout)
        if not self._is_overdue(item):
            self._wake(item.waiting_since + self._state.settings.reserve_after_seconds)
        elif queue.name not in self._reserved_in:
            self._reserve(queue, bucket, item)

    def _is_overdue(self, item: QueueItem) -> bool:
        return self._now >= item.waiting_since + self._state.settings.reserve_after_seconds

    def _reserve(self, queue: QueueState, bucket: Bucket, item: QueueItem) -> None:
        if bucket.impossible_at == self._machine.size_epoch:
            return
        if never_allowed(_facts(queue), item.demand):
            bucket.impossible_at = self._machine.size_epoch
            return
        reservation = self._plan(bucket, item)
        if reservation is None:
            return
        self._reserved_in.add(queue.name)
        self._renewed[item.owner] = reservation
        self._machine.block(item.owner, reservation.kept)
        queue.usage.aside = sum_amounts((queue.usage.aside, item.demand))

    def _plan(self, bucket: Bucket, item: QueueItem) -> Reservation | None:
        """The plan there is, as long as it holds good and no other is nearer; moving it at will could let others in
        again and again."""
        machine, now = self._machine, self._now
        old = self._state.reservations.get(item.owner)
        if old is not None:
            if not old.is_sound(machine) or (item.pods and old.seats_for(item.pods) is None):
                old = None
            elif now < old.planned_at + self._state.settings.reserve_after_seconds:
                return old
        new = self._new_plan(item)
        if new is None and old is None:
            if self._new_plan(item, ignore_kept=True) is None:
                bucket.impossible_at = machine.size_epoch
            return None
        if old is None or (new is not None and still_missing(machine, new.kept) < still_missing(machine, old.kept)):
            return new
        old.planned_at = now
        return old

    def _new_plan(self, item: QueueItem, *, ignore_kept: bool = False) -> Reservation | None:
        if any(pod.profile.refusal for pod in item.pods):
            return None
        if not item.pods:
            kept = find_room_in_time(self._machine, item.demand, ignore_kept=ignore_kept)
            return Reservation(kept, [], self._now) if kept is not None else None
        seats = plan_assignments(self._machine, item.pods, ignore_kept=ignore_kept)
        if seats is None:
            return None
        return reserve(self._machine, seats, item.beyond, self._now, ignore_kept=ignore_kept)

    def _tell(self, bucket: Bucket, why: str) -> None:
        items = {item.owner: item for item in bucket.fresh if bucket.items.get(item.owner) is item}
        bucket.fresh = []
        bucket.told_at, bucket.told_of = self._now, self._state.stirrings
        if len(bucket.items) <= _ALL_TOLD:
            items = bucket.items
        elif (head := bucket.head()) is not None:
            items[head.owner] = head
        for item in items.values():
            self._tell_item(item, why)

    def _tell_item(self, item: QueueItem, why: str) -> None:
        group = self._state.groups.get(item.group) if item.group is not None and item.kind != "pod" else None
        if group is None or group.facts is None or group.roll is None:
            for pod in item.pods:
                self._tell_pod(pod, why)
            return
        minimum, roll = group.facts.min_member, group.roll
        detail = f"{reasons.group_not_ready(roll.tasks, minimum)}; {why}"
        text = reasons.gang_unschedulable(minimum - roll.ready, roll.members, detail)
        self._trouble(group, "NotEnoughResources", text)
        for pod in roll.waiting:
            self._tell_pod(pod, detail)

    def _tell_pod(self, pod: Pod, message: str) -> None:
        if pod.told != message:
            pod.told, pod.told_at = message, self._now
            self._out.told.append((pod, message))

    def _trouble(self, group: GroupState, reason: str, message: str) -> None:
        if group.trouble != (reason, message):
            group.trouble = (reason, message)
            self._out.groups[group] = None

    def _complain(self) -> None:
        """Gangs that cannot be tried say so, but not while their Pods are still being created."""
        patience = self._state.settings.patience_seconds
        for group in self._state.complaining:
            waiting = [pod for pod in group.pods.values() if pod.waits]
            ripe = max((pod.created for pod in waiting), default=self._now) + patience
            if self._now < ripe:
                self._wake(ripe)
                continue
            if group.roll is not None and group.roll.complaint is not None:
                reason, message = group.roll.complaint
                self._trouble(group, reason, message)
            else:
                message = reasons.group_not_found(str(group.key))
            for pod in waiting:
                self._tell_pod(pod, message)

    def _looked_at(self, groups: list[GroupState]) -> None:
        self._out.groups.update(dict.fromkeys(groups))

    def _wake(self, at: float) -> None:
        if self._out.wake_at is None or at < self._out.wake_at:
            self._out.wake_at = at


def _facts(queue: QueueState) -> QueueSpec:
    assert queue.facts is not None
    return queue.facts
