"""What the scheduler remembers of groups and queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import Flavour, GroupKey, Pod, Priorities, ProfileBook, read_node, read_pod
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
from muster.embedded.scheduler.settings import SchedulerSettings
from muster.kube.objects import Key, Object
from muster.kube.pod_resources import Amounts, sum_amounts


class PodNotice(NamedTuple):
    """Something to be said once about a Pod that is not about waiting in line."""

    pod: Pod
    reason: str
    message: str


class Hold(NamedTuple):
    kept: Kept
    demand: Amounts
    queue: str
    until: float


class QueueState:
    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: QueueSpec | None = None
        self.usage = QueueUsage()
        self.line = WaitingLine()


class GroupState:
    """A PodGroup and its Pods, either of which may be missing."""

    def __init__(self, key: GroupKey, seq: int) -> None:
        self.key = key
        self.seq = seq
        self.facts: PodGroupSpec | None = None
        self.pods: dict[str, Pod] = {}
        self.roll: GroupMembers | None = None
        self.hold: Hold | None = None
        self.admitted = False
        self.cool_until = float("-inf")
        """Since its last hold ended without Pods, it is not admitted before this."""
        self.lapses = 0
        """How many holds in a row have ended so."""
        self.waiting_from = float("-inf")
        """The clock of waiting starts here at the earliest: at the last time-out."""
        self.trouble: tuple[str, str] | None = None
        """(reason, message) of why it is not placed."""
        self.said: tuple[str, str] | None = None
        """The trouble there was last an event about."""
        self.in_line: list[tuple[str, str]] = []
        """(queue, owner) of its items."""

    @property
    def owner(self) -> str:
        kind = "PodGroup" if self.key.flavour == "volcano" else "PodGroup.scheduling.x-k8s.io"
        return f"{kind} {self.key}"


_LONGEST_COOLING = 3600.0


class SchedulerState:
    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.machine = NodeCache()
        self.placer = Placer(self.machine)
        self.pods: dict[Key, Pod] = {}
        self.groups: dict[GroupKey, GroupState] = {}
        self.queues: dict[str, QueueState] = {}
        self.reservations: dict[str, Reservation] = {}
        self.notices: list[PodNotice] = []
        self.stirrings = 0
        """Grows with every change to nodes, queues, or what is used of them: reasons for waiting may differ then."""
        self.dirty: dict[GroupState, None] = {}
        """Groups of which something has changed since the last pass."""
        self.holding: dict[GroupState, None] = {}
        self.cooling: dict[GroupState, None] = {}
        """Groups whose hold has lapsed and that may not be admitted yet."""
        self.complaining: dict[GroupState, None] = {}
        """Groups with Pods that cannot be tried at all: too few of them, or no PodGroup."""
        self._priorities = Priorities()
        self._book = ProfileBook()
        self._seq = count(1)

    def put_node(self, obj: Object) -> bool:
        """Each of these answers whether anything has changed that a pass could act upon."""
        return self._stirred(self.machine.put_node(read_node(obj)))

    def drop_node(self, name: str) -> bool:
        return self._stirred(self.machine.drop_node(name))

    def put_pod(self, obj: Object) -> bool:
        new = read_pod(obj, self._book)
        old = self.pods.get(new.key)
        if old is not None and old.uid != new.uid:
            self.drop_pod(old.key)
            old = None
        if old is not None:
            if old.assumed and not new.node:
                new.node, new.assumed = old.node, True
            new.seq, new.told, new.told_at, new.noticed = old.seq, old.told, old.told_at, old.noticed
            if _same_footing(old, new):
                return self._touch(old, new)
            self._leave(old)
        else:
            new.seq = next(self._seq)
        if new.finished and new.group is None:
            self.pods.pop(new.key, None)
            return old is not None
        self.pods[new.key] = new
        self._enter(new)
        return True

    def drop_pod(self, key: Key) -> bool:
        pod = self.pods.pop(key, None)
        if pod is None:
            return False
        self._leave(pod)
        return True

    def put_group(self, flavour: Flavour, obj: Object) -> bool:
        facts = read_pod_group(flavour, obj)
        group = self._group(facts.key)
        if group.facts == facts:
            return False
        if group.facts is not None and group.facts.uid != facts.uid:
            self._forget_group(group)
        if group.facts is not None and group.facts == replace(facts, phase=group.facts.phase):
            group.facts = facts  # our own writing
            return False
        moved = group.facts is None or group.facts.queue != facts.queue
        if group.facts is None and facts.phase == "Inqueue":
            group.admitted = True
        group.facts = facts
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
        self._forget_group(group)
        group.facts = None
        self.dirty[group] = None
        return True

    def put_queue(self, obj: Object) -> bool:
        facts = read_queue(obj)
        queue = self.queue(facts.name)
        if queue.facts == facts:
            return False
        queue.facts = facts
        for bucket in queue.line.buckets.values():
            bucket.impossible_at = -1
        return self._stirred(True)

    def drop_queue(self, name: str) -> bool:
        queue = self.queues.get(name)
        if queue is None or queue.facts is None:
            return False
        queue.facts = None
        return self._stirred(True)

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
        return group.facts.queue if group is not None and group.facts is not None else pod.queue

    def settle(self, now: float) -> list[GroupState]:
        """Brings lines and holds up to date; answers the groups that were looked at."""
        for group in [g for g in self.holding if g.hold is not None and g.hold.until <= now]:
            self.release_hold(group)
            self.stirrings += 1
            if not any(not pod.finished for pod in group.pods.values()):
                group.admitted = False
                group.lapses += 1
                wait = self.settings.hold_seconds * 2 ** (group.lapses - 1)
                group.cool_until = now + min(wait, max(_LONGEST_COOLING, self.settings.hold_seconds))
            self.dirty[group] = None
        for group in [g for g in self.cooling if now >= g.cool_until]:
            del self.cooling[group]
            self.dirty[group] = None
        looked_at = list(self.dirty)
        self.dirty.clear()
        for group in looked_at:
            self.muster(group, now)
        return looked_at

    def muster(self, group: GroupState, now: float) -> None:
        """Works out anew who of a group waits, and as what."""
        for queue, owner in group.in_line:
            self.queue(queue).line.remove(owner)
        group.in_line = []
        group.trouble = None
        self.complaining.pop(group, None)
        facts = group.facts
        if facts is None:
            group.roll = None
            if not group.pods:
                self.groups.pop(group.key, None)
            elif any(p.waits and self._ours(p) for p in group.pods.values()):
                self.complaining[group] = None
            return
        roll = group.roll = count_members(
            facts, (p for p in group.pods.values() if p.node or p.finished or self._ours(p))
        )
        if facts.deleting:
            return
        if roll.members:
            group.lapses = 0
        if roll.complaint is not None and roll.waiting:
            self.complaining[group] = None
        view = self.machine.topology.view
        if roll.core:
            members = [p.profile.requests for p in group.pods.values() if p.occupies] if facts.min_resources else []
            item = gang_item(
                group.owner, facts, roll, sum_amounts(members), self._priorities, view,
                seq=group.seq, waiting_from=group.waiting_from, holds=group.hold is not None,
            )  # fmt: skip
            self._line_up(group, item)
        for pod in roll.extras:
            self._line_up(group, pod_item(pod, facts.queue, self._priorities, view))
        if facts.key.flavour == "volcano" and not roll.waiting and self._wants_admission(group, facts, roll, now):
            since = max(group.cool_until, group.waiting_from)
            self._line_up(
                group, admission_item(group.owner, facts, self._priorities, seq=group.seq, waiting_from=since)
            )

    def assume(self, seats: Assignments) -> None:
        """These Pods, already accounted for on the machine, are about to be bound."""
        for pod, node in seats:
            pod.node, pod.assumed = node, True
            self._charge(pod)
            self.queue(pod.charged).line.remove(pod_owner(pod))
            if pod.group is not None:
                self.dirty[self.groups[pod.group]] = None

    def give_up(self, key: Key, uid: str) -> None:
        """The binding of an assumed Pod has failed: it waits again."""
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid and pod.assumed:
            self._leave(pod)
            pod.node, pod.assumed = "", False
            self._enter(pod)

    def take_hold(self, group: GroupState, hold: Hold) -> None:
        group.hold = hold
        group.admitted = True
        self.holding[group] = None
        self.machine.block(group.owner, hold.kept)
        self.queue(hold.queue).usage.add(hold.demand)

    def release_hold(self, group: GroupState) -> None:
        hold, group.hold = group.hold, None
        self.holding.pop(group, None)
        if hold is not None:
            self.machine.unblock(group.owner, hold.kept)
            self.queue(hold.queue).usage.add(hold.demand, -1)

    def _touch(self, old: Pod, new: Pod) -> bool:
        changed = old.phase != new.phase or old.deleting != new.deleting or old.assumed != new.assumed
        old.phase, old.deleting, old.gated, old.assumed = new.phase, new.deleting, new.gated, new.assumed
        if changed and old.group is not None:
            self.dirty[self.groups[old.group]] = None
            return True
        return False

    def _enter(self, pod: Pod) -> None:
        if pod.profile.neighbours and self.machine.topology.learn(pod.profile):
            self._requeue_all()
        if pod.group is not None:
            group = self._group(pod.group)
            group.pods[pod.uid] = pod
            self.dirty[group] = None
        if pod.occupies:
            self.machine.assign(pod, pod.node)
            self._charge(pod)
            return
        self._notice(pod)
        if pod.group is None and pod.waits and self._ours(pod):
            self._queue_up(pod)

    def _leave(self, pod: Pod) -> None:
        if pod.occupies:
            self.machine.release(pod, pod.node)
            self._uncharge(pod)
        elif pod.group is None:
            self.queue(pod.queue).line.remove(pod_owner(pod))
        if pod.group is not None:
            group = self._group(pod.group)
            group.pods.pop(pod.uid, None)
            self.dirty[group] = None

    def _notice(self, pod: Pod) -> None:
        if pod.node or pod.finished or pod.deleting:
            return
        if not self._ours(pod):
            self._say_once(pod, "FailedScheduling", reasons.foreign_scheduler(pod.scheduler))
            return
        if pod.gated:
            self._say_once(pod, "SchedulingGated", reasons.GATED)
        if pod.priority is None and not self._priorities.knows(pod.priority_class):
            self._say_once(pod, "UnknownPriorityClass", reasons.unknown_priority_class(pod.priority_class))
        if pod.profile.neighbours.ignored:
            text = reasons.ignored_wishes(pod.profile.neighbours.ignored)
            self._say_once(pod, "PreferenceNotConsidered", text)

    def _say_once(self, pod: Pod, reason: str, message: str) -> None:
        if reason not in pod.noticed:
            pod.noticed = (*pod.noticed, reason)
            self.notices.append(PodNotice(pod, reason, message))

    def _ours(self, pod: Pod) -> bool:
        return pod.scheduler in self.settings.scheduler_names

    def _group(self, key: GroupKey) -> GroupState:
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = GroupState(key, next(self._seq))
        return found

    def _forget_group(self, group: GroupState) -> None:
        self.release_hold(group)
        self.cooling.pop(group, None)
        group.admitted = False
        group.cool_until = group.waiting_from = float("-inf")
        group.lapses = 0

    def _stirred(self, changed: bool) -> bool:
        self.stirrings += changed
        return changed

    def _charge(self, pod: Pod) -> None:
        self.stirrings += 1
        pod.charged = self.queue_of(pod)
        self.queue(pod.charged).usage.add(pod.profile.requests)

    def _uncharge(self, pod: Pod) -> None:
        self.stirrings += 1
        self.queue(pod.charged).usage.add(pod.profile.requests, -1)

    def _requeue_all(self) -> None:
        """What items are alike, or their priority, may have changed."""
        for group in self.groups.values():
            self.dirty[group] = None
        for pod in self.pods.values():
            if pod.group is None and pod.waits and self._ours(pod):
                self.queue(pod.queue).line.remove(pod_owner(pod))
                self._queue_up(pod)

    def _line_up(self, group: GroupState, item: QueueItem) -> None:
        group.in_line.append((item.queue, item.owner))
        self.queue(item.queue).line.add(item)

    def _queue_up(self, pod: Pod) -> None:
        self.queue(pod.queue).line.add(pod_item(pod, pod.queue, self._priorities, self.machine.topology.view))

    def _wants_admission(self, group: GroupState, facts: PodGroupSpec, roll: GroupMembers, now: float) -> bool:
        if any(not pod.finished for pod in group.pods.values()) or group.hold is not None:
            return False
        if facts.phase == "Completed" or (roll.members and roll.finished >= facts.min_member):
            return False
        if group.admitted and not facts.min_resources:
            return False
        if now < group.cool_until:
            self.cooling[group] = None
            return False
        return True


def _same_footing(old: Pod, new: Pod) -> bool:
    """Whether only phase and the like have changed: nothing that is accounted for."""
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
