"""The training controller: observes a job, asks `plan` what to do, and does it. The same on every cluster."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from muster.kube.builtin import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster, Endpoint
from muster.kube.controller import Controller, InformerSet, OnChange, OnDone, Trim, index_by_controller
from muster.kube.errors import Cause, Forbidden
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.kube.patches import diff_merge
from muster.training.children import EventSink, Expectations, JobChildren, find_kind, ignore_not_found
from muster.training.etcd import EtcdEntry, put_key
from muster.training.gang import GangSettings, group_kind
from muster.training.kinds.base import JobKind
from muster.training.model import (
    ATTEMPT_ANNOTATION,
    JOB_NAME,
    PADDLE_ROLE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    ObservedObjects,
    Progress,
    Replica,
    TrainingJob,
    replica_name,
)
from muster.training.plan import Plan, plan
from muster.training.replicas import gang_attempt

# Trims watched objects to what the controller needs, to save memory and needless reconciles.
#
# On a real cluster every object is a copy in our memory, and most of a Pod is never read here: what its template
# says,
# managed fields, the progress of its node. None of that is kept, and if nothing else has changed there is no
# reconcile.


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")


def trimmer_for(kind: str) -> Callable[[Object], Object]:
    """Returns the function that trims objects of that kind. Pods and Services lose their resourceVersion, because they
    are never updated as a whole."""
    return {"Pod": _trim_pod, "Service": _trim_service}.get(kind, _trim_other)


def _trim_pod(pod: Object) -> Object:
    status = status_of(pod)
    kept_status = _pick(status, ("phase", "reason", "message"))
    if PADDLE_ROLE in labels_of(pod):
        # Other kinds never read it, and need no reconcile when it changes.
        kept_status |= _pick(status, ("podIP",))
    for name in ("initContainerStatuses", "containerStatuses"):
        if status.get(name):
            kept_status[name] = [_trim_container(container) for container in status[name]]
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {
            **_identity(pod),
            "labels": _pick(labels_of(pod), (REPLICA_TYPE, REPLICA_INDEX)),
            "annotations": _pick(annotations_of(pod), (ATTEMPT_ANNOTATION,)),
        },
        "spec": {"containers": [{"name": container["name"]} for container in spec_of(pod).get("containers") or ()]},
        "status": kept_status,
    }


def _trim_service(service: Object) -> Object:
    return {"apiVersion": service["apiVersion"], "kind": service["kind"], "metadata": _identity(service)}


def _trim_other(obj: Object) -> Object:
    metadata = {name: value for name, value in meta(obj).items() if name != "managedFields"}
    if _APPLIED in annotations_of(obj):
        metadata["annotations"] = {name: text for name, text in annotations_of(obj).items() if name != _APPLIED}
    return {**obj, "metadata": metadata}


def _identity(obj: Object) -> Object:
    owner = controller_of(obj)
    return {**_pick(meta(obj), _IDENTITY), "ownerReferences": [owner] if owner is not None else []}


def _trim_container(status: Mapping[str, Any]) -> Object:
    """Keeps how the container ended and its restarts. The Pod's phase says whether it waits or runs."""
    kept: Object = {"name": status["name"], "restartCount": status.get("restartCount", 0)}
    for name in ("state", "lastState"):
        ended = (status.get(name) or {}).get("terminated")
        if ended:
            kept[name] = {"terminated": ended}
    return kept


def _pick(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


AUTOSCALER = ("autoscaling/v2", "HorizontalPodAutoscaler")
_COMPANIONS = (CONFIG_MAP, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)
_OWNED = (JOB_NAME,)
_OWNED_PODS = (JOB_NAME, f"paddle-res-name,!{JOB_NAME}")
"""Objects that belong to jobs carry this label. Pods created by paddle-operator carry another one."""

Item: TypeAlias = tuple[str, Key]
"""A job in the queue: the name of its kind, and its key."""


JobEvent: TypeAlias = Literal["created", "deleted", "successful", "failed", "restarted"]
"""What is counted as a metric, once the status has been written. Only one operator can write it, and only once."""

OnJobEvent: TypeAlias = Callable[[JobKind, Object, JobEvent], None]
"""(job kind, job, event)"""


class TrainingController:
    """Reconciles the jobs of all kinds, which share the informers of Pods, Services and PodGroups."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventSink,
        job_kinds: Sequence[JobKind],
        gang: GangSettings = GangSettings(),  # noqa: B008 (frozen)
        *,
        namespaces: Sequence[str] = ("",),
        workers: int = 4,
        settle_seconds: float = 0.0,
        lean: bool = False,
        on_done: OnDone[Item] | None = None,
        on_job_event: OnJobEvent | None = None,
    ) -> None:
        """`namespaces` are those whose jobs are reconciled, by default all; `workers` is the number of concurrent
        reconciles. Changes of replica counts alone are written at the earliest `settle_seconds` after the last write:
        replicas start one by one, and each would cost a request. `lean` trims cached objects to what is needed, for
        clusters whose objects are copies in our memory."""
        self._cluster = cluster
        self._recorder = recorder
        self._children = JobChildren(cluster, recorder)
        self._gang = gang
        self._namespaces = tuple(namespaces)
        self._settle = settle_seconds
        self._lean = lean
        self._on_job_event = on_job_event
        self._status_written: dict[str, float] = {}
        """When a job's status was last written, by uid."""
        self._job_kinds = {job_kind.kind.resource + job_kind.kind.version: job_kind for job_kind in job_kinds}
        self._kinds = {name: _served_version(cluster, job_kind) for name, job_kind in self._job_kinds.items()}
        self._by_owner = {
            (kind.api_version, kind.kind): name
            for name, d in self._job_kinds.items()
            for kind in (d.kind, *d.other_versions)
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
        self._published: dict[str, EtcdEntry] = {}

    @property
    def depth(self) -> int:
        """The number of jobs that wait for a reconcile."""
        return self._queue.depth

    @property
    def is_synced(self) -> bool:
        """Whether all informers have listed their objects."""
        return all(informers.is_synced for informers in (*self._owned.values(), *self._jobs.values()))

    def jobs(self) -> Iterator[tuple[JobKind, Object]]:
        """The cached jobs."""
        return ((self._job_kinds[name], obj) for name, jobs in self._jobs.items() for obj in jobs)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informers in (*self._owned.values(), *self._groups, *self._jobs.values()):
                group.create_task(informers.run())
            # Do not wait for the others: a real cluster may lack PodGroups or some of the kinds, and the rest must
            # work.
            for informers in self._owned.values():
                await informers.wait_synced()
            await self._queue.run()

    async def finish(self) -> None:
        """Starts no more reconciles, and waits for those that run. `run` still has to be cancelled."""
        await self._queue.finish()

    async def _reconcile(self, item: Item) -> float | None:
        name, key = item
        obj = self._jobs[name].get(*key)
        if obj is None:
            self._expectations.forget(item)
            return None
        left = self._expectations.seconds_left(item)
        if left > 0:
            return left
        job_kind = self._job_kinds[name]
        if is_deleting(obj) and set(job_kind.inherited_finalizers) & set(meta(obj).get("finalizers") or ()):
            await self._remove_inherited_finalizers(item, obj)
            return None
        if job_kind.is_managed_elsewhere(obj):
            return None
        progress = job_kind.read_progress(obj)
        causes = job_kind.validate(obj) if progress.start is None and not progress.finished else []
        if causes:
            await self._fail_invalid(item, obj, causes)
            return None
        job = job_kind.read(obj)
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
        addresses = {} if progress.finished or job.policy.suspend else await self._resolve(job_kind, job)
        decision = plan(job_kind, job, progress, observed, addresses, datetime.now(UTC), self._gang)
        await self._execute(item, job_kind, job, decision, observed.pods)
        return decision.again  # read after executing, which may have postponed something

    async def _remove_inherited_finalizers(self, item: Item, obj: Object) -> None:
        """The objects of a job are garbage collected; only finalizers of another operator hold the job."""
        kept = [f for f in meta(obj)["finalizers"] if f not in self._job_kinds[item[0]].inherited_finalizers]
        change = {"metadata": {"finalizers": kept, "uid": uid_of(obj), "resourceVersion": version_of(obj)}}
        await ignore_not_found(self._cluster.patch(self._kinds[item[0]], name_of(obj), namespace_of(obj), change))

    async def _fail_invalid(self, item: Item, obj: Object, causes: Sequence[Cause]) -> None:
        """A cluster without our webhook accepts invalid jobs: they fail at once, with the reason."""
        job_kind = self._job_kinds[item[0]]
        kind = job_kind.kind.kind
        message = "; ".join(
            cause.message if cause.message.startswith(cause.field) else f"{cause.field}: {cause.message}"
            for cause in causes
        )
        now = datetime.now(UTC)
        progress = job_kind.read_progress(obj).with_condition(kind, "Failed", message, now, reason=f"{kind}Invalid")
        job = TrainingJob(obj, ())
        status = job_kind.write_status(job, replace(progress, completion=timestamp(now)), {}, ())
        await self._write_status(item, obj, status)
        self._recorder.event(obj, "Warning", f"{kind}Invalid", message)

    async def _resolve(self, job_kind: JobKind, job: TrainingJob) -> dict[Replica, Endpoint]:
        """Returns where the replicas listen. The cluster is asked once per attempt of the gang."""
        attempt = gang_attempt(job)
        wanted = {replica: (replica, job_kind.port_of(job, replica)) for replica in job_kind.listeners(job)}
        wanted |= job_kind.extra_ports(job)
        known = self._addresses.get(job.uid)
        found = dict(known[1]) if known is not None and known[0] == attempt else {}
        missing = [name for name in wanted if name not in found]
        endpoints = await asyncio.gather(
            *(
                self._cluster.endpoint(
                    replica_name(job, replica), job.namespace, port, owner=job.object, attempt=attempt
                )
                for replica, port in (wanted[name] for name in missing)
            )
        )
        found.update(zip(missing, endpoints, strict=True))
        self._addresses[job.uid] = (attempt, found)
        return found

    async def _execute(
        self, item: Item, job_kind: JobKind, job: TrainingJob, decision: Plan, pods: Sequence[Object]
    ) -> None:
        kind, obj = self._kinds[item[0]], job.object
        if decision.expired:
            await ignore_not_found(self._cluster.delete(kind, job.name, job.namespace, uid=job.uid))
            return
        if decision.annotations:
            # With the version that was observed: based on an old one, a restart might be counted twice, or not at all.
            seen = {"uid": job.uid, "resourceVersion": version_of(obj)}
            change = {"metadata": {"annotations": decision.annotations, **seen}}
            obj = await self._cluster.patch(kind, job.name, job.namespace, change)
            if decision.restarting:
                self._report(job_kind, obj, "restarted")
        status = job_kind.write_status(job, decision.progress, decision.counts, pods)
        if status != status_of(obj):
            rest = self._seconds_to_settle(obj, status)
            if rest > 0:
                decision.wait(rest)
            else:
                await self._write_status(item, obj, status)
        for severity, reason, message in decision.events:
            self._recorder.event(obj, severity, reason, message)
        await asyncio.gather(*(self._children.delete(obj, thing) for thing in decision.delete))
        await asyncio.gather(*(self._cluster.update(thing) for thing in decision.update))
        if not decision.progress.finished:
            await self._publish_to_etcd(job_kind, job)
        try:
            await self._children.create(obj, decision.create, lambda made: self._expect_object(item, made))
        except Forbidden as error:
            if not error.causes:
                raise  # a quota or a role, which may change
            await self._fail_invalid(item, obj, error.causes)

    def _seconds_to_settle(self, obj: Object, status: Object) -> float:
        """Returns the seconds that this change may still wait."""
        since = asyncio.get_running_loop().time() - self._status_written.get(uid_of(obj), -math.inf)
        return (
            self._settle - since if _without_replica_counts(status) == _without_replica_counts(status_of(obj)) else 0.0
        )

    async def _write_status(self, item: Item, obj: Object, status: Object) -> None:
        """Patches what has changed, on condition that the job is still the observed one."""
        change = {
            "metadata": {"uid": uid_of(obj), "resourceVersion": version_of(obj)},
            "status": diff_merge(status_of(obj), status),
        }
        made = await self._cluster.patch(
            self._kinds[item[0]], name_of(obj), namespace_of(obj), change, subresource="status"
        )  # fmt: skip
        self._status_written[uid_of(obj)] = asyncio.get_running_loop().time()
        cached = self._jobs[item[0]].get(*item[1])
        if cached is not None and version_of(cached) == version_of(obj) != version_of(made):
            self._expectations.expect(item, _version(made))
        job_kind = self._job_kinds[item[0]]
        for event in job_events_between(job_kind.read_progress(obj), job_kind.read_progress({"status": status})):
            self._report(job_kind, obj, event)

    def _report(self, job_kind: JobKind, job: Object, event: JobEvent) -> None:
        if self._on_job_event is not None:
            self._on_job_event(job_kind, job, event)

    async def _publish_to_etcd(self, job_kind: JobKind, job: TrainingJob) -> None:
        """Tells elastic workers, through an etcd outside the cluster, how many they should be."""
        entry = job_kind.etcd_entry(job)
        if entry is None or self._published.get(job.uid) == entry:
            return
        try:
            await put_key(entry)
        except OSError as error:
            message = f"etcd at {entry.server} could not be told {entry.key}={entry.value}: {error}"
            self._recorder.event(job.object, "Warning", "FailedAnnounce", message)
            raise
        self._published[job.uid] = entry

    def _expect_object(self, item: Item, made: Object) -> None:
        informers = [self._owned[made["kind"]]] if made["kind"] in self._owned else self._groups
        cached = next(filter(None, (i.get(*key_of(made)) for i in informers)), None)
        if informers and (cached is None or uid_of(cached) != uid_of(made)):
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
                self._published.pop(uid_of(job), None)
                self._status_written.pop(uid_of(job), None)
                self._report(self._job_kinds[name], job, "deleted")
            item = (name, key_of(job))
            self._expectations.observe(item, _version(job))
            self._queue.enqueue(item, urgent=before is not None)

        return changed

    def _owned_changed(self, before: Object | None, after: Object | None) -> None:
        for thing in (before, after):
            owner = controller_of(thing) if thing is not None else None
            name = self._by_owner.get((owner["apiVersion"], owner["kind"])) if owner is not None else None
            if thing is None or owner is None or name is None:
                continue
            item = (name, Key(namespace_of(thing), owner["name"]))
            self._expectations.observe(item, uid_of(thing))
            self._queue.enqueue(item, urgent=True)

    def _group_changed(self, before: Object | None, after: Object | None) -> None:
        """A PodGroup belongs to the job of the same name, even if a user created it."""
        group = after or before or {}
        key = key_of(group)
        for name, jobs in self._jobs.items():
            if jobs.get(*key) is not None:
                self._expectations.observe((name, key), uid_of(group))
                self._queue.enqueue((name, key), urgent=True)


_REPLICA_COUNTS = frozenset({"replicaStatuses", "ps", "worker", "heter"})


def _without_replica_counts(status: Object) -> Object:
    """Returns the status without the counts of replicas."""
    return {name: value for name, value in status.items() if name not in _REPLICA_COUNTS}


def _version(obj: Object) -> str:
    return f"{uid_of(obj)}@{version_of(obj)}"


def _served_version(cluster: Cluster, job_kind: JobKind) -> Kind:
    """Returns the kind in the version that the cluster serves."""
    kinds = (job_kind.kind, *job_kind.other_versions)
    return next((kind for kind in kinds if find_kind(cluster, (kind.api_version, kind.kind))), job_kind.kind)


def job_events_between(before: Progress, after: Progress) -> list[JobEvent]:
    """Returns the events between two written states of a job."""
    passed: list[JobEvent] = []
    if after.conditions and not before.conditions:
        passed.append("created")
    if after.has("Succeeded") and not before.has("Succeeded"):
        passed.append("successful")
    if after.has("Failed") and not before.has("Failed"):
        passed.append("failed")
    return passed
