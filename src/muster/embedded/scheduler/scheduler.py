"""The scheduler's shell: it watches, runs a pass when something has changed, binds, and reports.

What Kubernetes' scheduler can do and this one does not: preemption. A PriorityClass decides who is served first;
nothing that runs is ever evicted, whatever its preemptionPolicy says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Protocol

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.cycle import CycleResult, PlacedItem, run_cycle
from muster.embedded.scheduler.model import DEFAULT_QUEUE, Flavour, GroupKey
from muster.embedded.scheduler.pod_groups import read_pod_group
from muster.embedded.scheduler.queue import default_queue, read_queue
from muster.embedded.scheduler.settings import SchedulerSettings
from muster.embedded.scheduler.state import GroupState, PodNotice, SchedulerState
from muster.embedded.scheduler.status_writer import StatusWriter
from muster.kube.builtin import NODE, PLUGIN_POD_GROUP, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, Conflict
from muster.kube.event_recorder import EventRecorder
from muster.kube.informer import Informer, OnChange
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, key_of, name_of, namespace_of

log = logging.getLogger(__name__)

_FIRST_RETRY = 0.02
_LAST_RETRY = 5.0
_AT_ONCE = 256


class BindingCluster(Cluster, Protocol):
    async def bind(self, bindings: Sequence[tuple[Key, str, str]]) -> list[Object]:
        """Gives Pods, (key, uid, node name) each, their nodes: all of them, or none and Conflict."""
        ...


class Scheduler:
    """`run()` until cancelled. It may be run again: everything it needs it finds in the cluster. `clock` tells the
    time in seconds since the epoch."""

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
    """One life of the scheduler, from an empty memory on."""

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
        seen: dict[Kind, OnChange] = {
            QUEUE: self._queue_changed,
            PRIORITY_CLASS: self._priority_class_changed,
            POD_GROUP: self._group_changed("volcano"),
            PLUGIN_POD_GROUP: self._group_changed("plugin"),
            NODE: self._node_changed,
            POD: self._pod_changed,
        }
        self._informers = {kind: Informer(cluster, kind, on_change=on_change) for kind, on_change in seen.items()}
        self._reporter = StatusWriter(cluster, self._state, self._informers)

    async def run(self) -> None:
        await self._ensure_default_queue()
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                for informer in self._informers.values():
                    await stack.enter_async_context(informer)
                tasks.create_task(self._reporter.run(), name="scheduler reports")
                tasks.create_task(self._schedule(), name="scheduler passes")
        finally:
            for timer in (self._timer, self._retry):
                if timer is not None:
                    timer.cancel()

    async def _schedule(self) -> None:
        self._wake.set()
        while True:
            await self._wake.wait()
            # What was committed together arrives together: let the informers hand over all of it first.
            await asyncio.sleep(0)
            self._wake.clear()
            if self._state.queue(DEFAULT_QUEUE).facts is None:
                await self._ensure_default_queue()
            outcome = run_cycle(self._state, self._clock(), self._state.settings.pods_per_pass)
            self._wake_at(outcome.wake_at)
            self._report(outcome)
            for start in range(0, len(outcome.placements), _AT_ONCE):
                await asyncio.gather(*(self._bind(p) for p in outcome.placements[start : start + _AT_ONCE]))

    async def _bind(self, placement: PlacedItem) -> None:
        try:
            bound = await self._cluster.bind([(pod.key, pod.uid, node) for pod, node in placement.seats])
        except ApiError as error:
            self._bind_failed(placement, error)
            return
        self._failures = 0
        for obj, (pod, node) in zip(bound, placement.seats, strict=True):
            self._recorder.event(obj, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")
        if placement.group is not None and (group := self._object_of(placement.group)) is not None:
            self._recorder.event(group, "Normal", "Scheduled", reasons.READY)

    def _bind_failed(self, placement: PlacedItem, error: ApiError) -> None:
        """The plan is undone. What changed will wake us; in case we know of it already, so does a timer."""
        log.log(logging.DEBUG if isinstance(error, Conflict) else logging.WARNING, "%s; trying again", error)
        for pod, _ in placement.seats:
            self._state.give_up(pod.key, pod.uid)
        delay = min(_FIRST_RETRY * 2**self._failures, _LAST_RETRY)
        self._failures += 1
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(delay, self._wake.set)

    def _report(self, outcome: CycleResult) -> None:
        for pod, message in outcome.told:
            self._reporter.pod_waits(pod.key, pod.uid, "Unschedulable", message)
            self._say(POD, pod.key, "FailedScheduling", message)
        for notice in outcome.notices:
            self._pass_on(notice)
        for group in outcome.timed_out:
            seconds = group.facts.timeout if group.facts is not None else 0
            self._say_of(group, "ScheduleTimeout", f"not placed within scheduleTimeoutSeconds ({seconds:g}): capacity "
                         "that was kept for it is released, and its wait for a reservation begins anew")  # fmt: skip
        for group in outcome.groups:
            if group.trouble is not None and group.trouble != group.said:
                self._say_of(group, "Unschedulable", group.trouble[1])
            group.said = group.trouble
            self._reporter.group_changed(group)
        if outcome.placements or outcome.groups:
            self._reporter.queues_changed()

    def _pass_on(self, notice: PodNotice) -> None:
        pod, reason, message = notice
        if reason == "SchedulingGated":
            self._reporter.pod_waits(pod.key, pod.uid, reason, message)
        else:
            self._say(POD, pod.key, reason, message)

    def _say(self, kind: Kind, key: Key, reason: str, message: str) -> None:
        obj = self._informers[kind].get(*key)
        if obj is not None:
            self._recorder.event(obj, "Warning", reason, message)

    def _say_of(self, group: GroupState, reason: str, message: str) -> None:
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
        changed = self._state.put_pod(after) if after is not None else self._state.drop_pod(key_of(before or {}))
        self._woken(changed)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        changed = self._state.put_node(after) if after is not None else self._state.drop_node(name_of(before or {}))
        self._woken(changed)

    def _queue_changed(self, before: Object | None, after: Object | None) -> None:
        self._reporter.seen(before, after)
        if after is None:
            self._woken(self._state.drop_queue(name_of(before or {})))
            return
        self._woken(self._state.put_queue(after))
        if before is None:
            self._reporter.queues_changed()
        for note in read_queue(after).notes:
            if before is None or note not in read_queue(before).notes:
                self._recorder.event(after, "Warning", "NotConsidered", note)

    def _priority_class_changed(self, before: Object | None, after: Object | None) -> None:
        self._woken(self._state.set_priority_classes(self._informers[PRIORITY_CLASS].objects.values()))

    def _group_changed(self, flavour: Flavour) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            self._reporter.seen(before, after)
            if after is None:
                gone = before or {}
                self._woken(self._state.drop_group(GroupKey(flavour, namespace_of(gone), name_of(gone))))
                return
            self._woken(self._state.put_group(flavour, after))
            for note in read_pod_group(flavour, after).notes:
                if before is None or note not in read_pod_group(flavour, before).notes:
                    self._recorder.event(after, "Warning", "NotConsidered", note)

        return changed

    def _woken(self, changed: bool) -> None:
        if changed:
            self._wake.set()

    async def _ensure_default_queue(self) -> None:
        with suppress(AlreadyExists):
            await self._cluster.create(default_queue())
