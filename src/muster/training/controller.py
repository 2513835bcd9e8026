"""The training controller: reads what is, asks `plan` what to do, does it. The same on every cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from muster.kube.builtin import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster, Endpoint
from muster.kube.controller import Controller
from muster.kube.errors import AlreadyExists, Conflict, NotFound
from muster.kube.informer import Informer, OnChange, by_controller
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    key_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)
from muster.training.dialect import Dialect
from muster.training.gang import group_kind
from muster.training.model import Replica, TrainingJob
from muster.training.names import replica_name
from muster.training.plan import GangSettings, Observed, Plan, gang_attempt, is_ours, plan

_COMPANIONS = (CONFIG_MAP, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)


class EventRecorder(Protocol):
    def event(self, about: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


class TrainingController:
    """One for all dialects: they share the informers of Pods, Services and PodGroups."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        dialects: Sequence[Dialect],
        gang: GangSettings = GangSettings(),  # noqa: B008 (frozen)
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._gang = gang
        self._dialects = {dialect.kind.resource + dialect.kind.version: dialect for dialect in dialects}
        self._by_owner = {(d.kind.api_version, d.kind.kind): name for name, d in self._dialects.items()}
        self._queue: Controller[tuple[str, Key]] = Controller("training", self._reconcile)
        self._jobs = {
            name: Informer(cluster, dialect.kind, on_change=self._job_watcher(name))
            for name, dialect in self._dialects.items()
        }
        self._pods = self._owned(POD)
        self._services = self._owned(SERVICE)
        self._companions = [self._owned(kind) for kind in _COMPANIONS]
        self._groups = Informer(cluster, group_kind(gang.scheduler), on_change=self._group_changed)
        self._addresses: dict[str, tuple[int, dict[Replica, Endpoint]]] = {}
        self._expected: dict[tuple[str, Key], set[str]] = {}
        """Pods we made that the informer has not shown yet."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            informers = [self._pods, self._services, *self._companions, self._groups, *self._jobs.values()]
            for informer in informers:
                group.create_task(informer.run())
            for informer in informers:
                await informer.synced.wait()
            await self._queue.run()

    async def _reconcile(self, item: tuple[str, Key]) -> float | None:
        name, key = item
        obj = self._jobs[name].get(*key)
        if obj is None:
            self._expected.pop(item, None)
            return None
        dialect = self._dialects[name]
        job = dialect.read(obj)
        if not is_ours(job) or self._expected.get(item):
            return None
        progress = dialect.read_progress(obj)
        observed = Observed(
            pods=self._pods.by("owner", uid_of(obj)),
            services=self._services.by("owner", uid_of(obj)),
            companions=[o for informer in self._companions for o in informer.by("owner", uid_of(obj))],
            group=self._groups.get(*key),
        )
        addresses = {} if progress.finished or job.policy.suspend else await self._resolve(dialect, job)
        decided = plan(dialect, job, progress, observed, addresses, datetime.now(UTC), self._gang)
        await self._carry_out(item, dialect, job, decided, observed.pods)
        return decided.again

    async def _resolve(self, dialect: Dialect, job: TrainingJob) -> dict[Replica, Endpoint]:
        """Where the members listen, asked once per attempt of the gang."""
        attempt = gang_attempt(job)
        wanted = {replica: (replica, dialect.port_of(job, replica)) for replica in dialect.listeners(job)}
        wanted |= dialect.extra_ports(job)
        known = self._addresses.get(job.uid)
        found = dict(known[1]) if known is not None and known[0] == attempt else {}
        missing = [name for name in wanted if name not in found]
        ends = await asyncio.gather(
            *(
                self._cluster.endpoint(
                    replica_name(job, replica), job.namespace, port, owner=job.object, attempt=attempt
                )
                for replica, port in (wanted[name] for name in missing)
            )
        )
        found.update(zip(missing, ends, strict=True))
        self._addresses[job.uid] = (attempt, found)
        return found

    async def _carry_out(
        self, item: tuple[str, Key], dialect: Dialect, job: TrainingJob, decided: Plan, pods: Sequence[Object]
    ) -> None:
        kind, obj = dialect.kind, job.object
        if decided.expired:
            await _unless_gone(self._cluster.delete(kind, job.name, job.namespace, uid=job.uid))
            return
        if decided.annotations and any(annotations_of(obj).get(k) != v for k, v in decided.annotations.items()):
            change = {"metadata": {"annotations": decided.annotations, "uid": job.uid}}
            obj = await self._cluster.patch(kind, job.name, job.namespace, change)
        status = dialect.write_status(job, decided.progress, decided.counts, pods)
        if status != status_of(obj):
            await self._cluster.update({**obj, "status": status}, subresource="status")
        for severity, reason, message in decided.events:
            self._recorder.event(obj, severity, reason, message)
        await asyncio.gather(*(self._delete(obj, thing) for thing in decided.delete))
        # Services and files come before the Pods that look for them; within each, all at once.
        others = [thing for thing in decided.create if thing["kind"] != "Pod"]
        await asyncio.gather(*(self._create(item, obj, thing) for thing in others))
        await asyncio.gather(*(self._create(item, obj, thing) for thing in decided.create if thing["kind"] == "Pod"))

    async def _create(self, item: tuple[str, Key], job: Object, thing: Object) -> None:
        try:
            made = await self._cluster.create(thing)
        except AlreadyExists:
            await self._check_owner(job, thing)
            return
        if made["kind"] == "Pod" and self._pods.get(*key_of(made)) is None:
            self._expected.setdefault(item, set()).add(uid_of(made))
        what = made["kind"].lower()
        self._recorder.event(job, "Normal", f"SuccessfulCreate{made['kind']}", f"Created {what}: {name_of(made)}")

    async def _check_owner(self, job: Object, thing: Object) -> None:
        """Something of that name is there. If it is not ours, say so: waiting in silence would look like a hang."""
        kind = self._cluster.catalogue.of_object(thing)
        there = await self._cluster.get(kind, name_of(thing), namespace_of(thing))
        owner = controller_of(there)
        if owner is None or owner.get("uid") != uid_of(job):
            message = (
                f"{kind.singular} {name_of(thing)} already exists and belongs to something else; delete or rename it"
            )
            self._recorder.event(job, "Warning", f"FailedCreate{thing['kind']}", message)
            raise Conflict(message)

    async def _delete(self, job: Object, thing: Object) -> None:
        kind = self._cluster.catalogue.of_object(thing)
        await _unless_gone(self._cluster.delete(kind, name_of(thing), namespace_of(thing), uid=uid_of(thing)))
        what = thing["kind"].lower()
        self._recorder.event(job, "Normal", f"SuccessfulDelete{thing['kind']}", f"Deleted {what}: {name_of(thing)}")

    def _owned(self, kind: Kind) -> Informer:
        return Informer(self._cluster, kind, on_change=self._owned_changed, indexers={"owner": by_controller})

    def _job_watcher(self, name: str) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            job = after or before or {}
            if after is None:
                self._addresses.pop(uid_of(job), None)
            self._queue.enqueue((name, key_of(job)))

        return changed

    def _owned_changed(self, before: Object | None, after: Object | None) -> None:
        thing = after or before or {}
        owner = controller_of(thing)
        name = self._by_owner.get((owner["apiVersion"], owner["kind"])) if owner is not None else None
        if owner is None or name is None:
            return
        item = (name, Key(namespace_of(thing), owner["name"]))
        self._expected.get(item, set()).discard(uid_of(thing))
        self._queue.enqueue(item)

    def _group_changed(self, before: Object | None, after: Object | None) -> None:
        """A PodGroup concerns the job of its name, whoever made it."""
        key = key_of(after or before or {})
        for name, jobs in self._jobs.items():
            if key in jobs.objects:
                self._queue.enqueue((name, key))


async def _unless_gone(call: Awaitable[Object]) -> None:
    try:
        await call
    except NotFound:
        return
