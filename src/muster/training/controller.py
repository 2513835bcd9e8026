"""The training controller: reads what is, asks `plan` what to do, does it. The same on every cluster."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from muster.kube.builtin import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster, Endpoint
from muster.kube.controller import Controller, OnDone
from muster.kube.errors import Cause
from muster.kube.informer import InformerSet, OnChange, Trim, index_by_controller
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.kube.patches import diff_merge
from muster.training.children import EventRecorder, Expectations, JobChildren, find_kind, ignore_not_found
from muster.training.etcd import EtcdEntry, put_key
from muster.training.gang import GangSettings, group_kind
from muster.training.job_events import JobEvent, OnJobEvent, job_events_between
from muster.training.kinds.base import JobKind
from muster.training.labels import JOB_NAME, replica_name
from muster.training.model import ObservedObjects, Replica, TrainingJob
from muster.training.plan import Plan, plan
from muster.training.replicas import gang_attempt
from muster.training.trim import trimmer_for

AUTOSCALER = ("autoscaling/v2", "HorizontalPodAutoscaler")
_COMPANIONS = (CONFIG_MAP, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)
_OWNED = (JOB_NAME,)
_OWNED_PODS = (JOB_NAME, f"paddle-res-name,!{JOB_NAME}")
"""What belongs to jobs carries this label; Pods that paddle-operator has made carry another one."""

Item: TypeAlias = tuple[str, Key]
"""A job in the queue: which dialect's, and its name."""


class TrainingController:
    """One for all dialects: they share the informers of Pods, Services and PodGroups."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        dialects: Sequence[JobKind],
        gang: GangSettings = GangSettings(),  # noqa: B008 (frozen)
        *,
        namespaces: Sequence[str] = ("",),
        workers: int = 4,
        settle_seconds: float = 0.0,
        lean: bool = False,
        on_done: OnDone[Item] | None = None,
        on_milestone: OnJobEvent | None = None,
    ) -> None:
        """`namespaces` are those whose jobs are looked after, by default all; `workers` is how many jobs are looked at
        at the same time. Mere numbers of members are written `settle_seconds` after the last write at the earliest:
        members come up one by one, and each would be a request. `lean` is for a cluster whose objects are copies in our
        own memory: no more of them is kept than is needed."""
        self._cluster = cluster
        self._recorder = recorder
        self._belongings = JobChildren(cluster, recorder)
        self._gang = gang
        self._namespaces = tuple(namespaces)
        self._settle = settle_seconds
        self._lean = lean
        self._on_milestone = on_milestone
        self._written: dict[str, float] = {}
        """When a job's status was last written, by uid."""
        self._dialects = {dialect.kind.resource + dialect.kind.version: dialect for dialect in dialects}
        self._kinds = {name: _served(cluster, dialect) for name, dialect in self._dialects.items()}
        self._by_owner = {
            (kind.api_version, kind.kind): name for name, d in self._dialects.items() for kind in (d.kind, *d.also)
        }
        self._queue: Controller[Item] = Controller("training", self._reconcile, workers=workers, on_done=on_done)
        self._jobs = {
            name: InformerSet(cluster, kind, self._namespaces, on_change=self._job_watcher(name), keep=self._keep(kind))
            for name, kind in self._kinds.items()
        }
        self._owned = {
            kind.kind: InformerSet(
                cluster,
                kind,
                self._namespaces,
                selectors=_OWNED_PODS if kind is POD else _OWNED,
                on_change=self._owned_changed,
                indexers={"owner": index_by_controller},
                keep=self._keep(kind),
            )
            for kind in (POD, SERVICE, *_COMPANIONS, *find_kind(cluster, AUTOSCALER))
        }
        self._groups = self._watch_groups(group_kind(gang.scheduler))
        self._addresses: dict[str, tuple[int, dict[Replica, Endpoint]]] = {}
        self._expectations: Expectations[Item] = Expectations()
        self._announced: dict[str, EtcdEntry] = {}

    @property
    def depth(self) -> int:
        """How many jobs wait to be looked at."""
        return self._queue.depth

    @property
    def is_synced(self) -> bool:
        """Whether all that there is, is known."""
        return all(informers.is_synced for informers in (*self._owned.values(), *self._jobs.values()))

    def jobs(self) -> Iterator[tuple[JobKind, Object]]:
        """As they were when last heard of."""
        return ((self._dialects[name], obj) for name, jobs in self._jobs.items() for obj in jobs)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informers in (*self._owned.values(), *self._groups, *self._jobs.values()):
                group.create_task(informers.run())
            # Not for the others: a real cluster may lack PodGroups or some of the kinds, and the rest shall work there.
            for informers in self._owned.values():
                await informers.wait_synced()
            await self._queue.run()

    async def finish(self) -> None:
        """Begins nothing more, and waits until what was begun is done. `run` still has to be cancelled."""
        await self._queue.finish()

    async def _reconcile(self, item: Item) -> float | None:
        name, key = item
        obj = self._jobs[name].get(*key)
        if obj is None:
            self._expectations.forget(item)
            return None
        patience = self._expectations.patience(item)
        if patience > 0:
            return patience
        dialect = self._dialects[name]
        if is_deleting(obj) and set(dialect.inherited_finalizers) & set(meta(obj).get("finalizers") or ()):
            await self._let_go(item, obj)
            return None
        if dialect.is_left_alone(obj):
            return None
        progress = dialect.read_progress(obj)
        causes = dialect.problems(obj) if progress.start is None and not progress.finished else []
        if causes:
            await self._refuse(item, obj, causes)
            return None
        job = dialect.read(obj)
        observed = ObservedObjects(
            pods=self._owned["Pod"].by("owner", uid_of(obj)),
            services=self._owned["Service"].by("owner", uid_of(obj)),
            companions=[
                thing
                for kind, informers in self._owned.items()
                if kind not in ("Pod", "Service")
                for thing in informers.by("owner", uid_of(obj))
            ],
            group=next(filter(None, (groups.get(*key) for groups in self._groups)), None),
        )
        addresses = {} if progress.finished or job.policy.suspend else await self._resolve(dialect, job)
        decided = plan(dialect, job, progress, observed, addresses, datetime.now(UTC), self._gang)
        await self._carry_out(item, dialect, job, decided, observed.pods)
        return decided.again  # after it was carried out: something may have been put off

    async def _let_go(self, item: Item, obj: Object) -> None:
        """What belongs to a job goes with it by itself; what holds it is left from another operator."""
        kept = [f for f in meta(obj)["finalizers"] if f not in self._dialects[item[0]].inherited_finalizers]
        change = {"metadata": {"finalizers": kept, "uid": uid_of(obj), "resourceVersion": version_of(obj)}}
        await ignore_not_found(self._cluster.patch(self._kinds[item[0]], name_of(obj), namespace_of(obj), change))

    async def _refuse(self, item: Item, obj: Object, causes: Sequence[Cause]) -> None:
        """A cluster that cannot check jobs by our rules lets wrong ones in: they fail at once and say why."""
        dialect = self._dialects[item[0]]
        kind = dialect.kind.kind
        message = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        now = datetime.now(UTC)
        progress = dialect.read_progress(obj).with_condition(kind, "Failed", message, now, reason=f"{kind}Invalid")
        job = TrainingJob(obj, ())
        status = dialect.write_status(job, replace(progress, completion=timestamp(now)), {}, ())
        await self._write_status(item, obj, status)
        self._recorder.event(obj, "Warning", f"{kind}Invalid", message)

    async def _resolve(self, dialect: JobKind, job: TrainingJob) -> dict[Replica, Endpoint]:
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
        self, item: Item, dialect: JobKind, job: TrainingJob, decided: Plan, pods: Sequence[Object]
    ) -> None:
        kind, obj = self._kinds[item[0]], job.object
        if decided.expired:
            await ignore_not_found(self._cluster.delete(kind, job.name, job.namespace, uid=job.uid))
            return
        if decided.annotations:
            # With the version that was looked at: were it an old one, a restart might be counted twice, or not at all.
            seen = {"uid": job.uid, "resourceVersion": version_of(obj)}
            change = {"metadata": {"annotations": decided.annotations, **seen}}
            obj = await self._cluster.patch(kind, job.name, job.namespace, change)
            if decided.restarting:
                self._tell(dialect, obj, "restarted")
        status = dialect.write_status(job, decided.progress, decided.counts, pods)
        if status != status_of(obj):
            rest = self._still_settling(obj, status)
            if rest > 0:
                decided.wait(rest)
            else:
                await self._write_status(item, obj, status)
        for severity, reason, message in decided.events:
            self._recorder.event(obj, severity, reason, message)
        await asyncio.gather(*(self._belongings.delete(obj, thing) for thing in decided.delete))
        await asyncio.gather(*(self._cluster.update(thing) for thing in decided.update))
        if not decided.progress.finished:
            await self._announce(dialect, job)
        await self._belongings.create(obj, decided.create, lambda made: self._expect_shown(item, made))

    def _still_settling(self, obj: Object, status: Object) -> float:
        """Seconds that this change may still wait."""
        since = asyncio.get_running_loop().time() - self._written.get(uid_of(obj), -math.inf)
        return self._settle - since if _without_numbers(status) == _without_numbers(status_of(obj)) else 0.0

    async def _write_status(self, item: Item, obj: Object, status: Object) -> None:
        """What has changed of it, and only if the job is still the one that was looked at."""
        change = {
            "metadata": {"uid": uid_of(obj), "resourceVersion": version_of(obj)},
            "status": diff_merge(status_of(obj), status),
        }
        made = await self._cluster.patch(
            self._kinds[item[0]], name_of(obj), namespace_of(obj), change, subresource="status"
        )  # fmt: skip
        self._written[uid_of(obj)] = asyncio.get_running_loop().time()
        shown = self._jobs[item[0]].get(*item[1])
        if shown is not None and version_of(shown) == version_of(obj) != version_of(made):
            self._expectations.expect(item, _version(made))
        dialect = self._dialects[item[0]]
        for milestone in job_events_between(dialect.read_progress(obj), dialect.read_progress({"status": status})):
            self._tell(dialect, obj, milestone)

    def _tell(self, dialect: JobKind, job: Object, milestone: JobEvent) -> None:
        if self._on_milestone is not None:
            self._on_milestone(dialect, job, milestone)

    async def _announce(self, dialect: JobKind, job: TrainingJob) -> None:
        """Tells those outside the cluster who wait to hear how many members there are to be."""
        news = dialect.announcement(job)
        if news is None or self._announced.get(job.uid) == news:
            return
        try:
            await put_key(news)
        except OSError as error:
            message = f"etcd at {news.server} could not be told {news.key}={news.value}: {error}"
            self._recorder.event(job.object, "Warning", "FailedAnnounce", message)
            raise
        self._announced[job.uid] = news

    def _expect_shown(self, item: Item, made: Object) -> None:
        informers = [self._owned[made["kind"]]] if made["kind"] in self._owned else self._groups
        shown = next(filter(None, (i.get(*key_of(made)) for i in informers)), None)
        if informers and (shown is None or uid_of(shown) != uid_of(made)):
            self._expectations.expect(item, uid_of(made))

    def _watch_groups(self, kind: Kind) -> list[InformerSet]:
        if not find_kind(self._cluster, (kind.api_version, kind.kind)):
            return []
        return [
            InformerSet(self._cluster, kind, self._namespaces, on_change=self._group_changed, keep=self._keep(kind))
        ]

    def _keep(self, kind: Kind) -> Trim | None:
        return trimmer_for(kind.kind) if self._lean else None

    def _job_watcher(self, name: str) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            job = after or before or {}
            if after is None:
                self._addresses.pop(uid_of(job), None)
                self._announced.pop(uid_of(job), None)
                self._written.pop(uid_of(job), None)
                self._tell(self._dialects[name], job, "deleted")
            item = (name, key_of(job))
            self._expectations.seen(item, _version(job))
            self._queue.enqueue(item, urgent=before is not None)

        return changed

    def _owned_changed(self, before: Object | None, after: Object | None) -> None:
        for thing in (before, after):
            owner = controller_of(thing) if thing is not None else None
            name = self._by_owner.get((owner["apiVersion"], owner["kind"])) if owner is not None else None
            if thing is None or owner is None or name is None:
                continue
            item = (name, Key(namespace_of(thing), owner["name"]))
            self._expectations.seen(item, uid_of(thing))
            self._queue.enqueue(item, urgent=True)

    def _group_changed(self, before: Object | None, after: Object | None) -> None:
        """A PodGroup concerns the job of its name, whoever made it."""
        group = after or before or {}
        key = key_of(group)
        for name, jobs in self._jobs.items():
            if jobs.get(*key) is not None:
                self._expectations.seen((name, key), uid_of(group))
                self._queue.enqueue((name, key), urgent=True)


_NUMBERS = frozenset({"replicaStatuses", "ps", "worker", "heter"})


def _without_numbers(status: Object) -> Object:
    """What everybody waits for, and not how many members are how far."""
    return {name: value for name, value in status.items() if name not in _NUMBERS}


def _version(obj: Object) -> str:
    return f"{uid_of(obj)}@{version_of(obj)}"


def _served(cluster: Cluster, dialect: JobKind) -> Kind:
    """In the version that the cluster has."""
    kinds = (dialect.kind, *dialect.also)
    return next((kind for kind in kinds if find_kind(cluster, (kind.api_version, kind.kind))), dialect.kind)
