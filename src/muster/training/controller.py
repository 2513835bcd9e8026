"""The training controller: reads what is, asks `plan` what to do, does it. The same on every cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol

from muster.kube.builtin import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster, Endpoint
from muster.kube.controller import Controller
from muster.kube.errors import AlreadyExists, ApiError, Cause, Conflict, NotFound
from muster.kube.informer import Informer, OnChange, by_controller
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    key_of,
    name_of,
    namespace_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.training.dialect import Dialect
from muster.training.etcd import Announcement, put
from muster.training.gang import group_kind
from muster.training.model import Observed, Replica, TrainingJob
from muster.training.names import replica_name
from muster.training.plan import GangSettings, Plan, is_ours, plan
from muster.training.restarts import gang_attempt

AUTOSCALER = ("autoscaling/v2", "HorizontalPodAutoscaler")
_COMPANIONS = (CONFIG_MAP, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)


_PATIENCE = 5.0


class _Expected(NamedTuple):
    """Pods we made that the informer has not shown yet, by uid."""

    pods: set[str]
    until: float


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
        self._by_owner = {
            (kind.api_version, kind.kind): name for name, d in self._dialects.items() for kind in (d.kind, *d.also)
        }
        self._queue: Controller[tuple[str, Key]] = Controller("training", self._reconcile)
        self._jobs = {
            name: Informer(cluster, dialect.kind, on_change=self._job_watcher(name))
            for name, dialect in self._dialects.items()
        }
        self._pods = self._owned(POD)
        self._services = self._owned(SERVICE)
        self._companions = [self._owned(kind) for kind in (*_COMPANIONS, *_known(cluster, AUTOSCALER))]
        self._groups = Informer(cluster, group_kind(gang.scheduler), on_change=self._group_changed)
        self._addresses: dict[str, tuple[int, dict[Replica, Endpoint]]] = {}
        self._expected: dict[tuple[str, Key], _Expected] = {}
        self._announced: dict[str, Announcement] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            needed = [self._pods, self._services, *self._companions]
            for informer in (*needed, self._groups, *self._jobs.values()):
                group.create_task(informer.run())
            # Not for the others: a real cluster may lack PodGroups or some of the kinds, and the rest shall work there.
            for informer in needed:
                await informer.synced.wait()
            await self._queue.run()

    async def _reconcile(self, item: tuple[str, Key]) -> float | None:
        name, key = item
        obj = self._jobs[name].get(*key)
        if obj is None:
            self._expected.pop(item, None)
            return None
        expected = self._expected.get(item)
        if expected is not None and expected.pods:
            patience = expected.until - asyncio.get_running_loop().time()
            if patience > 0:
                return patience
        dialect = self._dialects[name]
        progress = dialect.read_progress(obj)
        causes = dialect.problems(obj) if progress.start is None and not progress.finished else []
        if causes:
            await self._refuse(dialect, obj, causes)
            return None
        job = dialect.read(obj)
        if not is_ours(job):
            return None
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

    async def _refuse(self, dialect: Dialect, obj: Object, causes: Sequence[Cause]) -> None:
        """A cluster that cannot check jobs by our rules lets wrong ones in: they fail at once and say why."""
        kind = dialect.kind.kind
        message = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        now = datetime.now(UTC)
        progress = dialect.read_progress(obj).with_condition(kind, "Failed", message, now, reason=f"{kind}Invalid")
        job = TrainingJob(obj, ())
        status = dialect.write_status(job, replace(progress, completion=timestamp(now)), {}, ())
        await self._cluster.update({**obj, "status": status}, subresource="status")
        self._recorder.event(obj, "Warning", f"{kind}Invalid", message)

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
        if decided.annotations:
            # With the version that was looked at: were it an old one, a restart might be counted twice, or not at all.
            seen = {"uid": job.uid, "resourceVersion": version_of(obj)}
            change = {"metadata": {"annotations": decided.annotations, **seen}}
            obj = await self._cluster.patch(kind, job.name, job.namespace, change)
        status = dialect.write_status(job, decided.progress, decided.counts, pods)
        if status != status_of(obj):
            await self._cluster.update({**obj, "status": status}, subresource="status")
        for severity, reason, message in decided.events:
            self._recorder.event(obj, severity, reason, message)
        await asyncio.gather(*(self._delete(obj, thing) for thing in decided.delete))
        await asyncio.gather(*(self._cluster.update(thing) for thing in decided.update))
        if not decided.progress.finished:
            await self._announce(dialect, job)
        # Services and files come before the Pods that look for them; within each, all at once.
        others = [thing for thing in decided.create if thing["kind"] != "Pod"]
        await asyncio.gather(*(self._create(item, obj, thing) for thing in others))
        await asyncio.gather(*(self._create(item, obj, thing) for thing in decided.create if thing["kind"] == "Pod"))

    async def _announce(self, dialect: Dialect, job: TrainingJob) -> None:
        """Tells those outside the cluster who wait to hear how many members there are to be."""
        news = dialect.announcement(job)
        if news is None or self._announced.get(job.uid) == news:
            return
        try:
            await put(news)
        except OSError as error:
            message = f"etcd at {news.server} could not be told {news.key}={news.value}: {error}"
            self._recorder.event(job.object, "Warning", "FailedAnnounce", message)
            raise
        self._announced[job.uid] = news

    async def _create(self, item: tuple[str, Key], job: Object, thing: Object) -> None:
        if thing["kind"] == AUTOSCALER[1] and not _known(self._cluster, AUTOSCALER):
            message = "elasticPolicy.metrics: this cluster has no HorizontalPodAutoscaler; scale by changing replicas"
            self._recorder.event(job, "Warning", "NoAutoscaler", message)
            return
        try:
            made = await self._cluster.create(thing)
        except AlreadyExists:
            await self._check_owner(job, thing)
            return
        except ApiError as error:
            message = f"Error creating {thing['kind'].lower()} {name_of(thing)}: {error.message}"
            self._recorder.event(job, "Warning", f"FailedCreate{thing['kind']}", message)
            raise
        if made["kind"] == "Pod":
            self._expect(item, made)
        what = made["kind"].lower()
        self._recorder.event(job, "Normal", f"SuccessfulCreate{made['kind']}", f"Created {what}: {name_of(made)}")

    def _expect(self, item: tuple[str, Key], made: Object) -> None:
        """Until the informer shows the Pod there is no use in looking: it would seem to be missing. Should the news
        get lost, a look a while later does no harm: what exists is not made twice."""
        shown = self._pods.get(*key_of(made))
        if shown is not None and uid_of(shown) == uid_of(made):
            return
        until = asyncio.get_running_loop().time() + _PATIENCE
        known = self._expected.get(item)
        self._expected[item] = _Expected({*(known.pods if known else ()), uid_of(made)}, until)

    async def _check_owner(self, job: Object, thing: Object) -> None:
        """Something of that name is there. If it is not ours, say so: waiting in silence would look like a hang. Only
        a PodGroup may be the user's."""
        kind = self._cluster.catalogue.of_object(thing)
        there = await self._cluster.get(kind, name_of(thing), namespace_of(thing))
        owner = controller_of(there)
        if owner is None and kind.kind == "PodGroup":
            return
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
                self._announced.pop(uid_of(job), None)
            self._queue.enqueue((name, key_of(job)))

        return changed

    def _owned_changed(self, before: Object | None, after: Object | None) -> None:
        for thing in (before, after):
            owner = controller_of(thing) if thing is not None else None
            name = self._by_owner.get((owner["apiVersion"], owner["kind"])) if owner is not None else None
            if thing is None or owner is None or name is None:
                continue
            item = (name, Key(namespace_of(thing), owner["name"]))
            expected = self._expected.get(item)
            if expected is not None:
                expected.pods.discard(uid_of(thing))
            self._queue.enqueue(item)

    def _group_changed(self, before: Object | None, after: Object | None) -> None:
        """A PodGroup concerns the job of its name, whoever made it."""
        key = key_of(after or before or {})
        for name, jobs in self._jobs.items():
            if key in jobs.objects:
                self._queue.enqueue((name, key))


def _known(cluster: Cluster, names: tuple[str, str]) -> list[Kind]:
    try:
        return [cluster.catalogue.of(*names)]
    except NotFound:
        return []


async def _unless_gone(call: Awaitable[Object]) -> None:
    try:
        await call
    except NotFound:
        return
