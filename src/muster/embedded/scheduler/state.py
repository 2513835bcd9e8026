"""Everything the scheduler knows, built from objects one change at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import (
    FINISHED_PHASES,
    Flavour,
    GroupKey,
    Pod,
    Priorities,
    ProfileBook,
    SchedulerSettings,
    group_key_of,
    read_node,
    read_pod,
)
from muster.embedded.scheduler.node_cache import NodeCache
from muster.embedded.scheduler.placement import Assignments, Placer
from muster.embedded.scheduler.pod_groups import GroupMembers, PodGroupSpec, count_members, read_pod_group
from muster.embedded.scheduler.queue import (
    QueueItem,
    QueueSpec,
    QueueUsage,
    WaitingLine,
    admission_item,
    gang_item,
    pod_item,
    pod_owner,
    read_queue,
)
from muster.embedded.scheduler.reservation import Kept, Reservation
from muster.kube.objects import Key, Object, key_of, status_of
from muster.kube.quantity import Amounts, sum_amounts


class PodNotice(NamedTuple):
    """A message about a Pod that is reported once, such as an ignored field."""

    pod: Pod
    reason: str
    message: str


class Hold(NamedTuple):
    """Capacity that is held for an admitted PodGroup without Pods."""

    kept: Kept
    demand: Amounts
    queue: str
    until: float


class QueueState:
    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: QueueSpec | None = None
        self.usage = QueueUsage()
        self.waiting_line = WaitingLine()


class GroupState:
    """A PodGroup and its Pods, either of which may be missing."""

    def __init__(self, key: GroupKey, seq: int) -> None:
        self.key = key
        self.seq = seq
        self.spec: PodGroupSpec | None = None
        self.pods: dict[str, Pod] = {}
        self.members: GroupMembers | None = None
        self.hold: Hold | None = None
        self.admitted = False
        self.backoff_until = float("-inf")
        """It is not admitted before this time, because its last hold expired without Pods."""
        self.expired_holds = 0
        """How many holds in a row have expired."""
        self.waiting_from = float("-inf")
        """The earliest start of its waiting time: its last timeout."""
        self.problem: tuple[str, str] | None = None
        """(reason, message) of why it is not placed."""
        self.reported_problem: tuple[str, str] | None = None
        """The problem of the last event."""
        self.queued_items: list[tuple[str, str]] = []
        """(queue, owner) of its items."""

    @property
    def owner(self) -> str:
        kind = "PodGroup" if self.key.flavour == "volcano" else "PodGroup.scheduling.x-k8s.io"
        return f"{kind} {self.key}"


_LONGEST_BACKOFF = 3600.0


class SchedulerState:
    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.node_cache = NodeCache()
        self.placer = Placer(self.node_cache)
        self.pods: dict[Key, Pod] = {}
        self.groups: dict[GroupKey, GroupState] = {}
        self.queues: dict[str, QueueState] = {}
        self.reservations: dict[str, Reservation] = {}
        self.notices: list[PodNotice] = []
        self.change_count = 0
        """Grows with every change of nodes, queues or their usage: reasons for waiting may have changed."""
        self.dirty: dict[GroupState, None] = {}
        """Groups that have changed since the last cycle."""
        self.holding: dict[GroupState, None] = {}
        self.backing_off: dict[GroupState, None] = {}
        """Groups whose hold has expired and that may not be admitted again yet."""
        self.blocked_groups: dict[GroupState, None] = {}
        """Groups whose Pods cannot be placed at all: there are too few, or there is no PodGroup."""
        self._priorities = Priorities()
        self._book = ProfileBook()
        self._seq = count(1)

    def put_node(self, obj: Object) -> bool:
        """The put and drop methods return whether anything has changed that a cycle could act on."""
        return self._count_change(self.node_cache.put_node(read_node(obj)))

    def drop_node(self, name: str) -> bool:
        return self._count_change(self.node_cache.drop_node(name))

    def put_pod(self, obj: Object) -> bool:
        if status_of(obj).get("phase") in FINISHED_PHASES and group_key_of(obj) is None:
            return self.drop_pod(key_of(obj))
        new = read_pod(obj, self._book)
        old = self.pods.get(new.key)
        if old is not None and old.uid != new.uid:
            self.drop_pod(old.key)
            old = None
        if old is not None:
            if old.assumed and not new.node:
                new.node, new.assumed = old.node, True
            new.seq, new.last_reason, new.reported_at, new.noticed = (
                old.seq,
                old.last_reason,
                old.reported_at,
                old.noticed,
            )
            if _is_same_placement(old, new):
                return self._update_pod(old, new)
            self._remove_pod(old)
        else:
            new.seq = next(self._seq)
        self.pods[new.key] = new
        self._add_pod(new)
        return True

    def drop_pod(self, key: Key) -> bool:
        pod = self.pods.pop(key, None)
        if pod is None:
            return False
        self._remove_pod(pod)
        return True

    def put_group(self, flavour: Flavour, obj: Object) -> bool:
        spec = read_pod_group(flavour, obj)
        group = self._group(spec.key)
        if group.spec == spec:
            return False
        if group.spec is not None and group.spec.uid != spec.uid:
            self._reset_group(group)
        if group.spec is not None and group.spec == replace(spec, phase=group.spec.phase):
            group.spec = spec  # written by us
            return False
        moved = group.spec is None or group.spec.queue != spec.queue
        if group.spec is None and spec.phase == "Inqueue":
            group.admitted = True
        group.spec = spec
        if moved:
            for pod in group.pods.values():
                if pod.occupies:
                    self._uncharge(pod)
                    self._charge(pod)
        self.dirty[group] = None
        return True

    def drop_group(self, key: GroupKey) -> bool:
        group = self.groups.get(key)
        if group is None:
            return False
        self._reset_group(group)
        group.spec = None
        self.dirty[group] = None
        return True

    def put_queue(self, obj: Object) -> bool:
        spec = read_queue(obj)
        queue = self.queue(spec.name)
        if queue.spec == spec:
            return False
        queue.spec = spec
        for bucket in queue.waiting_line.buckets.values():
            bucket.impossible_at = -1
        return self._count_change(True)

    def drop_queue(self, name: str) -> bool:
        queue = self.queues.get(name)
        if queue is None or queue.spec is None:
            return False
        queue.spec = None
        return self._count_change(True)

    def set_priority_classes(self, classes: Iterable[Object]) -> bool:
        self._priorities = Priorities(classes)
        self._requeue_all()
        return True

    def queue(self, name: str) -> QueueState:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = QueueState(name)
        return found

    def queue_of(self, pod: Pod) -> str:
        group = self.groups.get(pod.group) if pod.group is not None else None
        return group.spec.queue if group is not None and group.spec is not None else pod.queue

    def update_groups(self, now: float) -> list[GroupState]:
        """Brings waiting lines and holds up to date. Returns the groups that were updated."""
        for group in [g for g in self.holding if g.hold is not None and g.hold.until <= now]:
            self.release_hold(group)
            self.change_count += 1
            if not any(not pod.finished for pod in group.pods.values()):
                group.admitted = False
                group.expired_holds += 1
                wait = self.settings.hold_seconds * 2 ** (group.expired_holds - 1)
                group.backoff_until = now + min(wait, max(_LONGEST_BACKOFF, self.settings.hold_seconds))
            self.dirty[group] = None
        for group in [g for g in self.backing_off if now >= g.backoff_until]:
            del self.backing_off[group]
            self.dirty[group] = None
        looked_at = list(self.dirty)
        self.dirty.clear()
        for group in looked_at:
            self.update_group(group, now)
        return looked_at

    def update_group(self, group: GroupState, now: float) -> None:
        """Counts the members of a group again, and updates its items in the waiting line."""
        for queue, owner in group.queued_items:
            self.queue(queue).waiting_line.remove(owner)
        group.queued_items = []
        group.problem = None
        self.blocked_groups.pop(group, None)
        spec = group.spec
        if spec is None:
            group.members = None
            if not group.pods:
                self.groups.pop(group.key, None)
            elif any(p.waits and self._is_ours(p) for p in group.pods.values()):
                self.blocked_groups[group] = None
            return
        members = group.members = count_members(
            spec, (p for p in group.pods.values() if p.node or p.finished or self._is_ours(p))
        )
        if spec.deleting:
            return
        if members.total:
            group.expired_holds = 0
        if members.problem is not None and members.waiting:
            self.blocked_groups[group] = None
        label_view = self.node_cache.topology.label_view
        if members.core:
            used = [p.profile.requests for p in group.pods.values() if p.occupies] if spec.min_resources else []
            item = gang_item(
                group.owner, spec, members, sum_amounts(used), self._priorities, label_view,
                seq=group.seq, waiting_from=group.waiting_from, holds=group.hold is not None,
            )  # fmt: skip
            self._enqueue(group, item)
        for pod in members.extras:
            self._enqueue(group, pod_item(pod, spec.queue, self._priorities, label_view))
        if spec.key.flavour == "volcano" and not members.waiting and self._wants_admission(group, spec, members, now):
            since = max(group.backoff_until, group.waiting_from)
            self._enqueue(group, admission_item(group.owner, spec, self._priorities, seq=group.seq, waiting_from=since))

    def assume(self, assignments: Assignments) -> None:
        """Records that these Pods, which are already in the node cache, are about to be bound."""
        for pod, node in assignments:
            pod.node, pod.assumed = node, True
            self._charge(pod)
            self.queue(pod.charged).waiting_line.remove(pod_owner(pod))
            if pod.group is not None:
                self.dirty[self.groups[pod.group]] = None

    def give_up(self, key: Key, uid: str) -> None:
        """The binding of an assumed Pod failed: it waits again."""
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid and pod.assumed:
            self._remove_pod(pod)
            pod.node, pod.assumed = "", False
            self._add_pod(pod)

    def take_hold(self, group: GroupState, hold: Hold) -> None:
        group.hold = hold
        group.admitted = True
        self.holding[group] = None
        self.node_cache.block(group.owner, hold.kept)
        self.queue(hold.queue).usage.add(hold.demand)

    def release_hold(self, group: GroupState) -> None:
        hold, group.hold = group.hold, None
        self.holding.pop(group, None)
        if hold is not None:
            self.node_cache.unblock(group.owner, hold.kept)
            self.queue(hold.queue).usage.add(hold.demand, -1)

    def _update_pod(self, old: Pod, new: Pod) -> bool:
        changed = old.phase != new.phase or old.deleting != new.deleting or old.assumed != new.assumed
        old.phase, old.deleting, old.gated, old.assumed = new.phase, new.deleting, new.gated, new.assumed
        if changed and old.group is not None:
            self.dirty[self.groups[old.group]] = None
            return True
        return False

    def _add_pod(self, pod: Pod) -> None:
        if pod.profile.pod_affinity and self.node_cache.topology.learn(pod.profile):
            self._requeue_all()
        if pod.group is not None:
            group = self._group(pod.group)
            group.pods[pod.uid] = pod
            self.dirty[group] = None
        if pod.occupies:
            self.node_cache.assign(pod, pod.node)
            self._charge(pod)
            return
        self._notice(pod)
        if pod.group is None and pod.waits and self._is_ours(pod):
            self._enqueue_pod(pod)

    def _remove_pod(self, pod: Pod) -> None:
        if pod.occupies:
            self.node_cache.release(pod, pod.node)
            self._uncharge(pod)
        elif pod.group is None:
            self.queue(pod.queue).waiting_line.remove(pod_owner(pod))
        if pod.group is not None:
            group = self._group(pod.group)
            group.pods.pop(pod.uid, None)
            self.dirty[group] = None

    def _notice(self, pod: Pod) -> None:
        if pod.node or pod.finished or pod.deleting:
            return
        if not self._is_ours(pod):
            self._notice_once(pod, "FailedScheduling", reasons.unknown_scheduler(pod.scheduler))
            return
        if pod.gated:
            self._notice_once(pod, "SchedulingGated", reasons.GATED)
        if pod.priority is None and not self._priorities.is_known(pod.priority_class):
            self._notice_once(pod, "UnknownPriorityClass", reasons.unknown_priority_class(pod.priority_class))
        if pod.profile.pod_affinity.ignored:
            text = reasons.ignored_preferences(pod.profile.pod_affinity.ignored)
            self._notice_once(pod, "PreferenceNotConsidered", text)

    def _notice_once(self, pod: Pod, reason: str, message: str) -> None:
        if reason not in pod.noticed:
            pod.noticed = (*pod.noticed, reason)
            self.notices.append(PodNotice(pod, reason, message))

    def _is_ours(self, pod: Pod) -> bool:
        return pod.scheduler in self.settings.scheduler_names

    def _group(self, key: GroupKey) -> GroupState:
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = GroupState(key, next(self._seq))
        return found

    def _reset_group(self, group: GroupState) -> None:
        self.release_hold(group)
        self.backing_off.pop(group, None)
        group.admitted = False
        group.backoff_until = group.waiting_from = float("-inf")
        group.expired_holds = 0

    def _count_change(self, changed: bool) -> bool:
        self.change_count += changed
        return changed

    def _charge(self, pod: Pod) -> None:
        self.change_count += 1
        pod.charged = self.queue_of(pod)
        self.queue(pod.charged).usage.add(pod.profile.requests)

    def _uncharge(self, pod: Pod) -> None:
        self.change_count += 1
        self.queue(pod.charged).usage.add(pod.profile.requests, -1)

    def _requeue_all(self) -> None:
        """Equivalence classes or priorities may have changed."""
        for group in self.groups.values():
            self.dirty[group] = None
        for pod in self.pods.values():
            if pod.group is None and pod.waits and self._is_ours(pod):
                self.queue(pod.queue).waiting_line.remove(pod_owner(pod))
                self._enqueue_pod(pod)

    def _enqueue(self, group: GroupState, item: QueueItem) -> None:
        group.queued_items.append((item.queue, item.owner))
        self.queue(item.queue).waiting_line.add(item)

    def _enqueue_pod(self, pod: Pod) -> None:
        self.queue(pod.queue).waiting_line.add(
            pod_item(pod, pod.queue, self._priorities, self.node_cache.topology.label_view)
        )

    def _wants_admission(self, group: GroupState, spec: PodGroupSpec, members: GroupMembers, now: float) -> bool:
        if any(not pod.finished for pod in group.pods.values()) or group.hold is not None:
            return False
        if spec.phase == "Completed" or (members.total and members.finished >= spec.min_member):
            return False
        if group.admitted and not spec.min_resources:
            return False
        if now < group.backoff_until:
            self.backing_off[group] = None
            return False
        return True


def _is_same_placement(old: Pod, new: Pod) -> bool:
    """Whether nothing has changed that matters for placement or usage."""
    return (
        old.profile is new.profile
        and old.node == new.node
        and old.waits == new.waits
        and old.occupies == new.occupies
        and old.group == new.group
        and old.labels == new.labels
        and (old.queue, old.task, old.scheduler, old.priority, old.priority_class, old.gated)
        == (new.queue, new.task, new.scheduler, new.priority, new.priority_class, new.gated)
    )
