"""The scheduler: watches the cluster, runs a cycle when something has changed, binds Pods and reports.

Unlike the scheduler of Kubernetes, it never preempts: a PriorityClass decides what is placed first. A running Pod is
never evicted, whatever its preemptionPolicy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Protocol
from uuid import uuid4

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.cycle import CycleResult, PlacedItem, run_cycle
from muster.embedded.scheduler.model import DEFAULT_QUEUE, Flavour, GroupKey, SchedulerSettings
from muster.embedded.scheduler.pod_groups import plugin_status, read_pod_group, volcano_status
from muster.embedded.scheduler.queue import default_queue, queue_status, read_queue
from muster.embedded.scheduler.state import GroupState, PodNotice, QueueState, SchedulerState
from muster.kube.builtin import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PLUGIN_POD_GROUP,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
)
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer, OnChange
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    get_condition,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    set_condition,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.kube.patches import diff_merge
from muster.kube.quantity import format_amounts

# Writes the scheduler's findings: conditions of waiting Pods, and the status of PodGroups
# and Queues.


log = logging.getLogger(__name__)

_WRITES_AT_ONCE = 64
_RETRY_SECONDS = 0.05


class StatusWriter:
    """`run()` writes until cancelled. The other methods return at once."""

    def __init__(self, cluster: Cluster, state: SchedulerState, informers: Mapping[Kind, Informer]) -> None:
        self._cluster = cluster
        self._state = state
        self._informers = informers
        self._pods: dict[Key, tuple[str, str, str]] = {}
        self._groups: dict[GroupKey, GroupState] = {}
        self._queues = False
        self._queues_written = float("-inf")
        self._last_written: dict[str, Object] = {}
        """Our last write of the status of a group or queue, until the informer has it."""
        self._wake = asyncio.Event()

    def set_pod_reason(self, key: Key, uid: str, reason: str, message: str) -> None:
        self._pods[key] = (uid, reason, message)
        self._wake.set()

    def group_changed(self, group: GroupState) -> None:
        self._groups[group.key] = group
        self._queues = True
        self._wake.set()

    def queues_changed(self) -> None:
        self._queues = True
        self._wake.set()

    def informer_changed(self, before: Object | None, after: Object | None) -> None:
        """The informer has a new state of a PodGroup or Queue, so our last write may be dropped."""
        uid = uid_of(after or before or {})
        ours = self._last_written.get(uid)
        if ours is not None and (after is None or int(version_of(ours)) <= int(version_of(after))):
            del self._last_written[uid]

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._groups:
                await self._write_batch(self._groups, self._write_group)
            if self._queues:
                due = self._queues_written + self._state.settings.queue_status_seconds
                if loop.time() < due:
                    loop.call_at(due, self._wake.set)
                else:
                    self._queues = False
                    self._queues_written = loop.time()
                    phases = self._phases()
                    queues = list(self._state.queues.values())
                    await asyncio.gather(*(self._write_queue(q, phases.get(q.name, {})) for q in queues))
            if self._pods:
                await self._write_batch(self._pods, self._write_pod)
                self._wake.set()

    async def _write_batch(
        self, waiting: dict[Any, Any], write: Callable[[Any, Any], Coroutine[Any, Any, None]]
    ) -> None:
        batch = [(key, waiting.pop(key)) for key in list(waiting)[:_WRITES_AT_ONCE]]
        await asyncio.gather(*(write(key, what) for key, what in batch))

    async def _write_pod(self, key: Key, what: tuple[str, str, str]) -> None:
        uid, reason, message = what
        pod = self._informers[POD].get(*key)
        if pod is None or uid_of(pod) != uid or is_deleting(pod) or spec_of(pod).get("nodeName"):
            return
        conditions = status_of(pod).get("conditions")
        found = get_condition(conditions, "PodScheduled")
        if found is not None and (found.get("status"), found.get("reason"), found.get("message")) == (
            "False", reason, message,
        ):  # fmt: skip
            return
        new = set_condition(conditions, "PodScheduled", "False", reason, message, now=timestamp())
        patch = {"metadata": {"resourceVersion": version_of(pod)}, "status": {"conditions": new}}
        try:
            await self._cluster.patch(POD, key.name, key.namespace, patch, subresource="status")
        except Conflict:
            # It has changed, perhaps because it was bound: try again when the informer has the new state.
            await asyncio.sleep(_RETRY_SECONDS)
            self._pods.setdefault(key, what)
            self._wake.set()
        except NotFound:
            pass
        except ApiError as error:
            log.warning("the condition of pod %s was not written: %s", key, error)

    async def _write_group(self, key: GroupKey, group: GroupState) -> None:
        kind = POD_GROUP if key.flavour == "volcano" else PLUGIN_POD_GROUP
        obj = self._current(self._informers[kind].get(key.namespace, key.name))
        spec, members = group.spec, group.members
        if obj is None or spec is None or members is None or spec.uid != uid_of(obj):
            return
        old, now = status_of(obj), timestamp()
        if key.flavour == "volcano":
            new = volcano_status(
                spec, members, old, admitted=group.admitted, problem=group.problem, now=now, transition=str(uuid4())
            )
        else:
            new = plugin_status(spec, members, old, owner=self._owner_of_pods(group), now=now)
        await self._write_status(kind, obj, new)

    def _phases(self) -> dict[str, Counter[str]]:
        """Returns the number of Volcano PodGroups by queue and phase."""
        found: dict[str, Counter[str]] = {}
        for group in self._state.groups.values():
            if group.spec is not None and group.key.flavour == "volcano":
                written = self._last_written.get(group.spec.uid)
                phase = (status_of(written).get("phase") if written else group.spec.phase) or "Pending"
                found.setdefault(group.spec.queue, Counter())[phase] += 1
        return found

    async def _write_queue(self, queue: QueueState, phases: Mapping[str, int]) -> None:
        obj = self._current(self._informers[QUEUE].get("", queue.name))
        if queue.spec is None or obj is None:
            return
        used = format_amounts({name: amount for name, amount in sorted(queue.usage.used.items()) if amount > 0})
        old = status_of(obj)
        kept = {name: value for name, value in old.items() if name in ("reservation",)}
        await self._write_status(QUEUE, obj, kept | queue_status(old.get("state") or "Open", phases, used))

    async def _write_status(self, kind: Kind, obj: Object, new: Object) -> None:
        old = status_of(obj)
        if new == old:
            return
        try:
            written = await self._cluster.patch(
                kind, name_of(obj), namespace_of(obj), {"status": diff_merge(old, new)}, subresource="status"
            )
            self._last_written[uid_of(obj)] = written
        except NotFound:
            self._last_written.pop(uid_of(obj), None)
        except ApiError as error:
            log.warning("the status of %s %s was not written: %s", kind.singular, name_of(obj), error)

    def _current(self, known: Object | None) -> Object | None:
        """Returns our last write if the informer does not have it yet, or else the informer's object."""
        if known is None:
            return None
        return self._last_written.get(uid_of(known), known)

    def _owner_of_pods(self, group: GroupState) -> str:
        """Returns the owner of the Pods of a scheduler-plugins group, as `namespace/name`."""
        for pod in group.pods.values():
            obj = self._informers[POD].get(*pod.key)
            owner = controller_of(obj) if obj is not None else None
            if owner is not None:
                return f"{pod.key.namespace}/{owner.get('name')}"
        return ""


_FIRST_RETRY = 0.02
_LAST_RETRY = 5.0
_AT_ONCE = 256


class BindingCluster(Cluster, Protocol):
    async def bind(self, bindings: Sequence[tuple[Key, str, str]]) -> list[Object]:
        """Binds Pods, each (key, uid, node name): all of them, or none and raises Conflict."""
        ...


class Scheduler:
    """`run()` runs until cancelled. It can be run again: all its state is in the cluster. `clock` returns seconds since
    the epoch."""

    def __init__(
        self,
        cluster: BindingCluster,
        recorder: EventRecorder,
        settings: SchedulerSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._settings = settings or SchedulerSettings()
        self._clock = clock

    async def run(self) -> None:
        await _Session(self._cluster, self._recorder, self._settings, self._clock).run()


class _Session:
    """One run of the scheduler, starting without any state."""

    def __init__(
        self, cluster: BindingCluster, recorder: EventRecorder, settings: SchedulerSettings, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._state = SchedulerState(settings)
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._without_claim: dict[Key, str] = {}
        """Pods that wait for a claim that does not exist."""
        handlers: dict[Kind, OnChange] = {
            QUEUE: self._queue_changed,
            PRIORITY_CLASS: self._priority_class_changed,
            POD_GROUP: self._group_changed("volcano"),
            PLUGIN_POD_GROUP: self._group_changed("plugin"),
            NODE: self._node_changed,
            PERSISTENT_VOLUME_CLAIM: self._claim_changed,  # before the Pods that want them
            POD: self._pod_changed,
        }
        self._informers = {kind: Informer(cluster, kind, on_change=on_change) for kind, on_change in handlers.items()}
        self._status_writer = StatusWriter(cluster, self._state, self._informers)

    async def run(self) -> None:
        await self._ensure_default_queue()
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                for informer in self._informers.values():
                    await stack.enter_async_context(informer)
                tasks.create_task(self._status_writer.run(), name="scheduler status")
                tasks.create_task(self._schedule(), name="scheduler cycles")
        finally:
            for timer in (self._timer, self._retry):
                if timer is not None:
                    timer.cancel()

    async def _schedule(self) -> None:
        self._wake.set()
        while True:
            await self._wake.wait()
            # What was committed together arrives together: let the informers deliver all of it first.
            await asyncio.sleep(0)
            self._wake.clear()
            if self._state.queue(DEFAULT_QUEUE).spec is None:
                await self._ensure_default_queue()
            result = run_cycle(self._state, self._clock(), self._state.settings.pods_per_cycle)
            self._wake_at(result.wake_at)
            self._report(result)
            for start in range(0, len(result.placements), _AT_ONCE):
                await asyncio.gather(*(self._bind(p) for p in result.placements[start : start + _AT_ONCE]))

    async def _bind(self, placement: PlacedItem) -> None:
        try:
            bound = await self._cluster.bind([(pod.key, pod.uid, node) for pod, node in placement.assignments])
        except ApiError as error:
            self._bind_failed(placement, error)
            return
        self._failures = 0
        for obj, (pod, node) in zip(bound, placement.assignments, strict=True):
            self._recorder.event(obj, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")
        if placement.group is not None and (group := self._object_of(placement.group)) is not None:
            self._recorder.event(group, "Normal", "Scheduled", reasons.READY)

    def _bind_failed(self, placement: PlacedItem, error: ApiError) -> None:
        """Undoes the plan. The change that caused the failure wakes the scheduler; if it is already known, a timer
        does."""
        log.log(logging.DEBUG if isinstance(error, Conflict) else logging.WARNING, "%s; trying again", error)
        for pod, _ in placement.assignments:
            self._state.give_up(pod.key, pod.uid)
        delay = min(_FIRST_RETRY * 2**self._failures, _LAST_RETRY)
        self._failures += 1
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(delay, self._wake.set)

    def _report(self, result: CycleResult) -> None:
        for pod, message in result.new_reasons:
            self._status_writer.set_pod_reason(pod.key, pod.uid, "Unschedulable", message)
            self._warn_about(POD, pod.key, "FailedScheduling", message)
        for notice in result.notices:
            self._report_notice(notice)
        for group in result.timed_out:
            seconds = group.spec.timeout if group.spec is not None else 0
            message = (
                f"not placed within scheduleTimeoutSeconds ({seconds:g}): its reservation is released, "
                "and its waiting time starts again"
            )
            self._warn_group(group, "ScheduleTimeout", message)
        for group in result.groups:
            if group.problem is not None and group.problem != group.reported_problem:
                self._warn_group(group, "Unschedulable", group.problem[1])
            group.reported_problem = group.problem
            self._status_writer.group_changed(group)
        if result.placements or result.groups:
            self._status_writer.queues_changed()

    def _report_notice(self, notice: PodNotice) -> None:
        pod, reason, message = notice
        if reason == "SchedulingGated":
            self._status_writer.set_pod_reason(pod.key, pod.uid, reason, message)
        else:
            self._warn_about(POD, pod.key, reason, message)

    def _warn_about(self, kind: Kind, key: Key, reason: str, message: str) -> None:
        obj = self._informers[kind].get(*key)
        if obj is not None:
            self._recorder.event(obj, "Warning", reason, message)

    def _warn_group(self, group: GroupState, reason: str, message: str) -> None:
        obj = self._object_of(group)
        if obj is not None:
            self._recorder.event(obj, "Warning", reason, message)

    def _object_of(self, group: GroupState) -> Object | None:
        kind = POD_GROUP if group.key.flavour == "volcano" else PLUGIN_POD_GROUP
        return self._informers[kind].get(group.key.namespace, group.key.name)

    def _wake_at(self, moment: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if moment is not None:
            delay = max(0.0, moment - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake.set)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            self._without_claim.pop(key_of(before or {}), None)
            self._wake_if(self._state.drop_pod(key_of(before or {})))
            return
        missing = self._find_missing_claim(after)
        if not missing:
            self._without_claim.pop(key_of(after), None)
            self._wake_if(self._state.put_pod(after))
            return
        # It takes part in scheduling once its claim exists.
        self._wake_if(self._state.drop_pod(key_of(after)))
        if self._without_claim.get(key_of(after)) != missing:
            self._without_claim[key_of(after)] = missing
            message = reasons.claim_not_found(len(self._informers[NODE].objects), missing)
            self._status_writer.set_pod_reason(key_of(after), uid_of(after), "Unschedulable", message)
            self._recorder.event(after, "Warning", "FailedScheduling", message)

    def _find_missing_claim(self, pod: Object) -> str:
        spec = spec_of(pod)
        if "nodeName" in spec:
            return ""
        for volume in spec.get("volumes") or ():
            if "persistentVolumeClaim" not in volume:
                continue
            claim = volume["persistentVolumeClaim"].get("claimName")
            if claim and self._informers[PERSISTENT_VOLUME_CLAIM].get(namespace_of(pod), claim) is None:
                return str(claim)
        return ""

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None or after is None:
            return
        namespace, name = key_of(after)
        for key in [key for key, claim in self._without_claim.items() if (key.namespace, claim) == (namespace, name)]:
            pod = self._informers[POD].get(*key)
            if pod is not None:
                self._pod_changed(pod, pod)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        changed = self._state.put_node(after) if after is not None else self._state.drop_node(name_of(before or {}))
        self._wake_if(changed)

    def _queue_changed(self, before: Object | None, after: Object | None) -> None:
        self._status_writer.informer_changed(before, after)
        if after is None:
            self._wake_if(self._state.drop_queue(name_of(before or {})))
            return
        self._wake_if(self._state.put_queue(after))
        if before is None:
            self._status_writer.queues_changed()
        for note in read_queue(after).notes:
            if before is None or note not in read_queue(before).notes:
                self._recorder.event(after, "Warning", "NotConsidered", note)

    def _priority_class_changed(self, before: Object | None, after: Object | None) -> None:
        self._wake_if(self._state.set_priority_classes(self._informers[PRIORITY_CLASS].objects.values()))

    def _group_changed(self, flavour: Flavour) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            self._status_writer.informer_changed(before, after)
            if after is None:
                gone = before or {}
                self._wake_if(self._state.drop_group(GroupKey(flavour, namespace_of(gone), name_of(gone))))
                return
            self._wake_if(self._state.put_group(flavour, after))
            for note in read_pod_group(flavour, after).notes:
                if before is None or note not in read_pod_group(flavour, before).notes:
                    self._recorder.event(after, "Warning", "NotConsidered", note)

        return changed

    def _wake_if(self, changed: bool) -> None:
        if changed:
            self._wake.set()

    async def _ensure_default_queue(self) -> None:
        with suppress(AlreadyExists):
            await self._cluster.create(default_queue())
