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
    missing_capacity,
    plan_assignments,
    reserve,
    shortfall,
)
from muster.embedded.scheduler.state import GroupState, Hold, PodNotice, QueueState, SchedulerState
from muster.kube.quantity import sum_amounts

_REPORT_ALL = 64
"""In a longer bucket, only the first item gets a changed reason."""
_MOST_EXPLAINED = 200_000
"""At most this many shapes are examined for reasons in one cycle. The rest is reported shortly after, in the next."""
_EXPLAIN_PAUSE = 0.05


class PlacedItem(NamedTuple):
    """Pods that are bound in one transaction."""

    group: GroupState | None
    assignments: Assignments


@dataclass(slots=True)
class CycleResult:
    placements: list[PlacedItem] = field(default_factory=list)
    new_reasons: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods that wait, with the reason, if it has changed."""
    notices: list[PodNotice] = field(default_factory=list)
    groups: dict[GroupState, None] = field(default_factory=dict)
    """Groups whose status may have to be written."""
    timed_out: list[GroupState] = field(default_factory=list)
    wake_at: float | None = None
    """When the next cycle is due, even if nothing changes."""


def run_cycle(state: SchedulerState, now: float, at_most: int | None = None) -> CycleResult:
    """Runs one cycle. It ends when `at_most` Pods are placed; the next one, due at once, continues with the rest."""
    return _Cycle(state, now, at_most).run()


class _Cycle:
    def __init__(self, state: SchedulerState, now: float, at_most: int | None) -> None:
        self._at_most = at_most
        self._placed = 0
        self._state = state
        self._cache = state.node_cache
        self._now = now
        self._result = CycleResult()
        self._renewed: dict[str, Reservation] = {}
        self._reserved_in: set[str] = set()
        self._explained = 0

    def run(self) -> CycleResult:
        state, out = self._state, self._result
        self._add_groups(state.update_groups(self._now))
        for owner, reservation in state.reservations.items():
            self._cache.unblock(owner, reservation.kept)
        state.placer.begin()
        orders = [(queue, queue.waiting_line.begin()) for queue in state.queues.values() if len(queue.waiting_line)]
        for queue, _ in orders:
            queue.usage.reserved = {}
        try:
            open_orders = [(queue, order) for queue, order in orders if self._is_open(queue, order)]
            self._serve_overdue(open_orders)
            self._serve_queues(open_orders)
        finally:
            for queue, _ in orders:
                queue.waiting_line.end()
        state.reservations = self._renewed
        self._add_groups(state.update_groups(self._now))
        self._report_blocked_groups()
        out.notices, state.notices = state.notices, []
        for group in state.holding:
            if group.hold is not None:
                self._wake(group.hold.until)
        for group in state.backing_off:
            self._wake(group.backoff_until)
        return out

    def _is_open(self, queue: QueueState, order: CycleOrder) -> bool:
        if queue.spec is not None and queue.spec.state == "Open":
            return True
        why = (
            reasons.queue_not_found(queue.name)
            if queue.spec is None
            else reasons.queue_not_open(queue.name, queue.spec.state)
        )
        for bucket in order.stop():
            self._report(bucket, why)
        return False

    def _serve_overdue(self, orders: list[tuple[QueueState, CycleOrder]]) -> None:
        due: list[tuple[int, float, int, QueueState, CycleOrder, Bucket]] = []
        for number, (queue, order) in enumerate(orders):
            heads = [
                (head.rank, bucket, head)
                for bucket in queue.waiting_line.buckets.values()
                if bucket.impossible_at != self._cache.size_epoch and (head := bucket.head()) is not None
            ]
            if heads:
                _, bucket, head = min(heads, key=lambda entry: entry[0])
                if self._is_overdue(head):
                    due.append((-_spec(queue).priority, head.waiting_since, number, queue, order, bucket))
        for *_, queue, order, bucket in sorted(due, key=lambda entry: entry[:3]):
            self._serve(queue, order, bucket)

    def _serve_queues(self, orders: list[tuple[QueueState, CycleOrder]]) -> None:
        heap = [(*self._turn_key(queue), number) for number, (queue, _) in enumerate(orders)]
        heapify(heap)
        while heap:
            if self._at_most is not None and self._placed >= self._at_most:
                self._wake(self._now)
                return
            *_, number = heappop(heap)
            queue, order = orders[number]
            bucket = order.next()
            if bucket is None:
                continue
            placed = self._serve(queue, order, bucket)
            if not placed and _spec(queue).fifo:
                head = bucket.head()
                for rest in order.stop():
                    self._report(rest, reasons.behind_head(head.owner if head is not None else "", queue.name))
            else:
                heappush(heap, (*self._turn_key(queue), number))

    def _turn_key(self, queue: QueueState) -> tuple[int, float, str]:
        spec = _spec(queue)
        return (-spec.priority, queue.usage.share(self._cache.total, spec.weight), queue.name)

    def _serve(self, queue: QueueState, order: CycleOrder, bucket: Bucket) -> bool:
        item = bucket.head()
        assert item is not None
        wanted = bool(bucket.fresh) or self._now >= bucket.reported_at + self._state.settings.report_again_seconds
        explain = wanted and self._explained < _MOST_EXPLAINED
        why = self._try(queue, item, explain)
        if not why:
            order.offer(bucket)
            return True
        order.fail(bucket)
        if explain:
            self._explained += len(self._cache.shapes)
            self._report(bucket, why)
        elif wanted:
            self._wake(self._now + _EXPLAIN_PAUSE)
        elif bucket.reported_change != self._state.change_count:
            self._wake(bucket.reported_at + self._state.settings.report_again_seconds)
        self._wait(queue, bucket, item)
        return False

    def _try(self, queue: QueueState, item: QueueItem, explain: bool) -> str:
        """Places the item. Returns why not, or '' if it was placed."""
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
        exceeded = queue.usage.check_capability(_spec(queue), item.demand)
        if exceeded:
            return exceeded
        if item.kind == "admission":
            assert group is not None
            return self._admit(queue, item, group)
        if item.extra_demand and (gap := self._missing_resource(item)):
            return gap
        assignments = state.placer.place(item.pods, explain=explain)
        if isinstance(assignments, Unplaced):
            reservation = state.reservations.get(item.owner)
            plan = reservation.assignments_for(item.pods) if reservation is not None else None
            if plan is None or not state.placer.place_as_planned(plan):
                return str(assignments) if explain else "no room"
            assignments = plan
        state.assume(assignments)
        self._placed += len(assignments)
        self._result.placements.append(PlacedItem(group, assignments))
        if group is not None:
            group.admitted = True
            state.update_group(group, self._now)
            state.dirty.pop(group, None)
            self._result.groups[group] = None
        return ""

    def _admit(self, queue: QueueState, item: QueueItem, group: GroupState) -> str:
        if not item.demand:
            group.admitted = True
        else:
            kept = find_room(self._cache, item.demand)
            if kept is None:
                group.admitted = False
                return shortfall(self._cache, item.demand)
            until = self._now + self._state.settings.hold_seconds
            self._state.take_hold(group, Hold(kept, item.demand, queue.name, until))
        self._state.update_group(group, self._now)
        self._result.groups[group] = None
        return ""

    def _missing_resource(self, item: QueueItem) -> str:
        free = self._cache.free_total()
        for name, amount in item.extra_demand.items():
            if amount > free.get(name, 0):
                return reasons.resource_gap(name, amount, free.get(name, 0))
        return ""

    def _wait(self, queue: QueueState, bucket: Bucket, item: QueueItem) -> None:
        """The first item of a bucket was not placed: it may time out, or get a reservation."""
        group = self._state.groups[item.group] if item.group is not None and item.kind != "pod" else None
        timeout = group.spec.timeout if group is not None and group.spec is not None else None
        if group is not None and timeout is not None:
            if self._now >= item.waiting_since + timeout:
                group.waiting_from = item.waiting_since = self._now
                self._result.timed_out.append(group)
            self._wake(item.waiting_since + timeout)
        if not self._is_overdue(item):
            self._wake(item.waiting_since + self._state.settings.reserve_after_seconds)
        elif queue.name not in self._reserved_in:
            self._reserve(queue, bucket, item)

    def _is_overdue(self, item: QueueItem) -> bool:
        return self._now >= item.waiting_since + self._state.settings.reserve_after_seconds

    def _reserve(self, queue: QueueState, bucket: Bucket, item: QueueItem) -> None:
        if bucket.impossible_at == self._cache.size_epoch:
            return
        if never_allowed(_spec(queue), item.demand):
            bucket.impossible_at = self._cache.size_epoch
            return
        reservation = self._plan(bucket, item)
        if reservation is None:
            return
        self._reserved_in.add(queue.name)
        self._renewed[item.owner] = reservation
        self._cache.block(item.owner, reservation.kept)
        queue.usage.reserved = sum_amounts((queue.usage.reserved, item.demand))

    def _plan(self, bucket: Bucket, item: QueueItem) -> Reservation | None:
        """Returns the current plan as long as it is valid and no other is closer to completion. Changing plans
        freely could let other items in again and again."""
        cache, now = self._cache, self._now
        old = self._state.reservations.get(item.owner)
        if old is not None:
            if not old.is_valid(cache) or (item.pods and old.assignments_for(item.pods) is None):
                old = None
            elif now < old.planned_at + self._state.settings.reserve_after_seconds:
                return old
        new = self._new_plan(item)
        if new is None and old is None:
            if self._new_plan(item, ignore_kept=True) is None:
                bucket.impossible_at = cache.size_epoch
            return None
        if old is None or (new is not None and missing_capacity(cache, new.kept) < missing_capacity(cache, old.kept)):
            return new
        old.planned_at = now
        return old

    def _new_plan(self, item: QueueItem, *, ignore_kept: bool = False) -> Reservation | None:
        if any(pod.profile.refusal for pod in item.pods):
            return None
        if not item.pods:
            kept = find_room_in_time(self._cache, item.demand, ignore_kept=ignore_kept)
            return Reservation(kept, [], self._now) if kept is not None else None
        assignments = plan_assignments(self._cache, item.pods, ignore_kept=ignore_kept)
        if assignments is None:
            return None
        return reserve(self._cache, assignments, item.extra_demand, self._now, ignore_kept=ignore_kept)

    def _report(self, bucket: Bucket, why: str) -> None:
        items = {item.owner: item for item in bucket.fresh if bucket.items.get(item.owner) is item}
        bucket.fresh = []
        bucket.reported_at, bucket.reported_change = self._now, self._state.change_count
        if len(bucket.items) <= _REPORT_ALL:
            items = bucket.items
        elif (head := bucket.head()) is not None:
            items[head.owner] = head
        for item in items.values():
            self._report_item(item, why)

    def _report_item(self, item: QueueItem, why: str) -> None:
        group = self._state.groups.get(item.group) if item.group is not None and item.kind != "pod" else None
        if group is None or group.spec is None or group.members is None:
            for pod in item.pods:
                self._report_pod(pod, why)
            return
        minimum, members = group.spec.min_member, group.members
        detail = f"{reasons.group_not_ready(members.tasks, minimum)}; {why}"
        text = reasons.gang_unschedulable(minimum - members.ready, members.total, detail)
        self._set_problem(group, "NotEnoughResources", text)
        for pod in members.waiting:
            self._report_pod(pod, detail)

    def _report_pod(self, pod: Pod, message: str) -> None:
        if pod.last_reason != message:
            pod.last_reason, pod.reported_at = message, self._now
            self._result.new_reasons.append((pod, message))

    def _set_problem(self, group: GroupState, reason: str, message: str) -> None:
        if group.problem != (reason, message):
            group.problem = (reason, message)
            self._result.groups[group] = None

    def _report_blocked_groups(self) -> None:
        """Reports gangs that cannot be placed at all, but not while their Pods are still being created."""
        patience = self._state.settings.patience_seconds
        for group in self._state.blocked_groups:
            waiting = [pod for pod in group.pods.values() if pod.waits]
            due = max((pod.created for pod in waiting), default=self._now) + patience
            if self._now < due:
                self._wake(due)
                continue
            if group.members is not None and group.members.problem is not None:
                reason, message = group.members.problem
                self._set_problem(group, reason, message)
            else:
                message = reasons.group_not_found(str(group.key))
            for pod in waiting:
                self._report_pod(pod, message)

    def _add_groups(self, groups: list[GroupState]) -> None:
        self._result.groups.update(dict.fromkeys(groups))

    def _wake(self, at: float) -> None:
        if self._result.wake_at is None or at < self._result.wake_at:
            self._result.wake_at = at


def _spec(queue: QueueState) -> QueueSpec:
    assert queue.spec is not None
    return queue.spec
