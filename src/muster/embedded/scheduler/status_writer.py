"""Writes the scheduler's findings: conditions of waiting Pods, and the status of PodGroups and Queues."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import uuid4

from muster.embedded.scheduler.model import GroupKey
from muster.embedded.scheduler.pod_groups import plugin_status, volcano_status
from muster.embedded.scheduler.queue import queue_status
from muster.embedded.scheduler.state import GroupState, QueueState, SchedulerState
from muster.kube.builtin import PLUGIN_POD_GROUP, POD, POD_GROUP, QUEUE
from muster.kube.cluster import Cluster
from muster.kube.conditions import get_condition, set_condition
from muster.kube.errors import ApiError, Conflict, NotFound
from muster.kube.informer import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.kube.patches import diff_merge
from muster.kube.pod_resources import format_amounts

log = logging.getLogger(__name__)

_AT_ONCE = 64
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
        batch = [(key, waiting.pop(key)) for key in list(waiting)[:_AT_ONCE]]
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
