"""What enforces the totals of virtual clusters on the cluster: a queue for each of them, or a ResourceQuota; and queues
and PodGroups as the API shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.kube.builtin import PLUGIN_POD_GROUP, PRIORITY_CLASS, QUEUE, RESOURCE_QUOTA
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, namespace_of, spec_of, status_of
from muster.kube.quantity import multiply_resources, sum_resources
from muster.platform.namespace_objects import HASH_ANNOTATION, MANAGED_LABEL, content_hash
from muster.platform.records.resources import QueueSystem, VirtualCluster
from muster.platform.resources import kueue, resource_quotas
from muster.platform.resources.nodes import parse_optional_time
from muster.platform.resources.resources import count_skus

LABEL = "muster.dev/virtual-cluster"
_PREFIX = "vc-"


async def find_queue_system(on: Cluster) -> QueueSystem:
    """Returns what a real cluster has: Volcano, else Kueue, else nothing but ResourceQuotas."""
    try:
        await on.list(QUEUE, limit=1)
        return "volcano"
    except NotFound:
        return "kueue" if kueue_kind(on, "ClusterQueue") is not None else "quota"


def kueue_kind(on: Cluster, kind: str) -> Kind | None:
    """Returns a kind of Kueue in the version that the cluster serves; None if it has no Kueue."""
    return on.catalogue.in_group(kueue.GROUP, kind)


def queue_for(cluster: VirtualCluster) -> Object:
    spec: Object = {"weight": 1, "reclaimable": False}
    if cluster.total is not None:
        spec["capability"] = multiply_resources(cluster.sku, cluster.total)
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": cluster.queue, "labels": {LABEL: cluster.id}},
        "spec": spec,
    }


async def sync_queues(on: Cluster, clusters: Iterable[VirtualCluster], system: QueueSystem) -> None:
    """Creates, updates and deletes what enforces the totals, as far as it belongs to no namespace."""
    clusters = list(clusters)
    limited = [each for each in clusters if each.queue_in(system)]
    if system == "kueue":
        for name, spec in (("ResourceFlavor", kueue.flavor_spec), ("ClusterQueue", kueue.cluster_queue_spec)):
            kind = kueue_kind(on, name)
            if kind is not None:
                await _sync(on, kind, [_add_hash(kind, each, spec(each)) for each in limited], _content)
    elif system == "quota":
        await _sync(on, PRIORITY_CLASS, [_marked_class(each) for each in limited], lambda _: None)
    else:
        await _sync(on, QUEUE, [queue_for(each) for each in clusters], _cap)


async def _sync(on: Cluster, kind: Kind, wanted: Iterable[Object], content: Callable[[Object], object]) -> None:
    """`content` is what may change, as far as it can be compared."""
    objects = {name_of(obj): obj for obj in wanted}
    there = {name_of(obj): obj for obj in (await on.list(kind, labels=LABEL)).items}
    for name, obj in objects.items():
        if name not in there:
            await on.create(obj)
        elif content(there[name]) != content(obj):
            change = [{"op": "add", "path": "/spec", "value": spec_of(obj)}]
            if annotations_of(obj):
                change.append({"op": "add", "path": "/metadata/annotations", "value": dict(annotations_of(obj))})
            await on.patch(kind, name, "", change, type="json")
    for name in there.keys() - objects.keys():
        try:
            await on.delete(kind, name)
        except NotFound:
            continue


def _add_hash(kind: Kind, cluster: VirtualCluster, spec: Object) -> Object:
    """The API server adds defaults to a spec, so it is compared by its hash."""
    metadata = {
        "name": cluster.queue,
        "labels": {LABEL: cluster.id},
        "annotations": {HASH_ANNOTATION: content_hash(spec)},
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _marked_class(cluster: VirtualCluster) -> Object:
    made = resource_quotas.priority_class(cluster)
    return {**made, "metadata": {**meta(made), "labels": {LABEL: cluster.id}}}


def skus_used(allocated: Mapping[str, Any] | None, cluster: VirtualCluster) -> int:
    """SKUs used by Pods that run on a node."""
    return count_skus(allocated or {}, cluster.sku)


async def list_usage(on: Cluster, system: QueueSystem) -> dict[str, Mapping[str, Any]]:
    """Returns what is used of each virtual cluster, by its id."""
    if system == "quota":
        found: dict[str, list[Mapping[str, Any]]] = {}
        for quota in (await on.list(RESOURCE_QUOTA, labels=MANAGED_LABEL)).items:
            found.setdefault(name_of(quota).removeprefix(_PREFIX), []).append(resource_quotas.usage_of(quota))
        return {name: sum_resources(amounts) for name, amounts in found.items()}
    if system == "kueue":
        kind = kueue_kind(on, "ClusterQueue")
        queues = (await on.list(kind, labels=LABEL)).items if kind is not None else []
        return {labels_of(queue)[LABEL]: kueue.usage_of(queue) for queue in queues}
    return {labels_of(queue)[LABEL]: status_of(queue).get("allocated") or {} for queue in await _queues(on, LABEL)}


async def list_queues(on: Cluster, system: QueueSystem, names: Mapping[str, str]) -> list[QueueStatus]:
    """Returns all queues. `names` are those of virtual clusters, by queue."""
    if system == "kueue":
        kind = kueue_kind(on, "ClusterQueue")
        found = (await on.list(kind)).items if kind is not None else []
        return [describe_cluster_queue(queue, names.get(name_of(queue))) for queue in found]
    return [describe_queue(queue, names.get(name_of(queue))) for queue in await _queues(on)]


async def _queues(on: Cluster, labels: str = "") -> list[Object]:
    """Returns none where there is no Volcano."""
    try:
        return (await on.list(QUEUE, labels=labels)).items
    except NotFound:
        return []


def _cap(queue: Object) -> object:
    return spec_of(queue).get("capability")


def _content(obj: Object) -> object:
    return annotations_of(obj).get(HASH_ANNOTATION)


PHASES = ("pending", "inqueue", "running", "unknown", "completed")
_UNPLACED = ("Pending", "Inqueue", "Unknown", "Scheduling")


@dataclass(frozen=True, slots=True)
class QueueStatus:
    name: str
    cluster_id: str | None
    """The virtual cluster whose total it enforces; None if it was created on the cluster itself."""
    cluster_name: str | None
    state: str
    parent: str
    weight: int
    priority: int
    reclaimable: bool
    capability: dict[str, str]
    """Limits by resource; a resource that is not listed has no limit."""
    allocated: dict[str, str]
    groups: dict[str, int]
    """How many PodGroups are in which phase: pending, inqueue, running, unknown, completed."""


@dataclass(frozen=True, slots=True)
class PodGroupStatus:
    name: str | None
    """None, like the namespace, for users who may not inspect its run."""
    namespace: str | None
    flavour: str
    """volcano or scheduler-plugins"""
    queue: str
    phase: str
    members: int
    """How many have to start together."""
    running: int
    succeeded: int
    failed: int
    reason: str
    """Why it waits, in one word and in a sentence; '' if it does not."""
    message: str
    since: datetime | None
    """When the reason started."""
    created: datetime | None


@dataclass(frozen=True, slots=True)
class ListedPodGroup(PodGroupStatus):
    cluster_name: str | None
    """The virtual cluster of its queue."""
    run_id: str | None
    run_name: str | None
    owner_name: str | None


def describe_queue(queue: Object, cluster_name: str | None) -> QueueStatus:
    spec, status = spec_of(queue), status_of(queue)
    return QueueStatus(
        name=name_of(queue),
        cluster_id=labels_of(queue).get(LABEL) or None,
        cluster_name=cluster_name,
        state=status.get("state") or "Open",
        parent=spec.get("parent") or "",
        weight=int(spec.get("weight") or 1),
        priority=int(spec.get("priority") or 0),
        reclaimable=spec.get("reclaimable") is not False,
        capability=_texts(spec.get("capability")),
        allocated=_texts(status.get("allocated")),
        groups={phase: int(status.get(phase) or 0) for phase in PHASES},
    )


def describe_cluster_queue(queue: Object, cluster_name: str | None) -> QueueStatus:
    """A ClusterQueue of Kueue. Its Workloads are counted as the groups that they are."""
    spec, status = spec_of(queue), status_of(queue)
    groups = {"pending": status.get("pendingWorkloads"), "running": status.get("admittedWorkloads")}
    return QueueStatus(
        name=name_of(queue),
        cluster_id=labels_of(queue).get(LABEL) or None,
        cluster_name=cluster_name,
        state="Closed" if spec.get("stopPolicy") not in (None, "None") else "Open",
        parent=spec.get("cohortName") or spec.get("cohort") or "",
        weight=1,
        priority=0,
        reclaimable=False,
        capability=kueue.quota_of(queue),
        allocated=kueue.usage_of(queue),
        groups={phase: int(groups.get(phase) or 0) for phase in PHASES},
    )


def describe_pod_group(group: Object) -> PodGroupStatus:
    spec, status = spec_of(group), status_of(group)
    phase = status.get("phase") or "Pending"
    trouble = _newest(status.get("conditions") or ()) if phase in _UNPLACED else {}
    unplaced = trouble if trouble.get("type") == "Unschedulable" else {}
    plugin = group.get("apiVersion") == PLUGIN_POD_GROUP.api_version
    return PodGroupStatus(
        name=name_of(group),
        namespace=namespace_of(group),
        flavour="scheduler-plugins" if plugin else "volcano",
        queue="" if plugin else spec.get("queue") or "default",
        phase=phase,
        members=int(spec.get("minMember") or 0),
        running=int(status.get("running") or 0),
        succeeded=int(status.get("succeeded") or 0),
        failed=int(status.get("failed") or 0),
        reason=unplaced.get("reason") or "",
        message=unplaced.get("message") or "",
        since=parse_optional_time(unplaced.get("lastTransitionTime")),
        created=parse_optional_time(meta(group).get("creationTimestamp")),
    )


def _newest(conditions: Any) -> Mapping[str, Any]:
    """Volcano keeps outdated conditions; the newest one counts."""
    return max(conditions, key=lambda each: each.get("lastTransitionTime") or "", default={})


def _texts(resources: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (resources or {}).items()}
