"""Queues: one for every virtual cluster, capped at its total; and the queues and PodGroups as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.kube.builtin import PLUGIN_POD_GROUP, QUEUE
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of, spec_of, status_of
from muster.platform.records.resources import VirtualCluster
from muster.platform.resources.nodes import parse_optional_time
from muster.platform.resources.resources import count_skus, multiply_sku

LABEL = "muster.dev/virtual-cluster"
VOLCANO = "volcano"
"""The schedulerName of Volcano."""


def queue_for(cluster: VirtualCluster) -> Object:
    spec: Object = {"weight": 1, "reclaimable": False}
    if cluster.total is not None:
        spec["capability"] = multiply_sku(cluster.sku, cluster.total)
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": cluster.queue, "labels": {LABEL: cluster.id}},
        "spec": spec,
    }


async def has_queues(on: Cluster) -> bool:
    """Whether the cluster has Volcano's queues."""
    try:
        await on.list(QUEUE, limit=1)
    except NotFound:
        return False
    return True


async def sync_queues(on: Cluster, clusters: Iterable[VirtualCluster]) -> None:
    """Creates, updates and deletes Queues so that they match the virtual clusters, where there are queues."""
    if not await has_queues(on):
        return
    wanted = {cluster.queue: queue_for(cluster) for cluster in clusters}
    there = {name_of(queue): queue for queue in await find_queues(on, labels=LABEL)}
    for name, queue in wanted.items():
        if name not in there:
            await on.create(queue)
        elif _cap(there[name]) != _cap(queue):
            await on.patch(QUEUE, name, "", [_replacing(queue)], type="json")
    for name in there.keys() - wanted.keys():
        try:
            await on.delete(QUEUE, name)
        except NotFound:
            continue


def skus_used(queue: Object | None, cluster: VirtualCluster) -> int:
    """SKUs used by Pods that run on a node."""
    return count_skus(status_of(queue or {}).get("allocated") or {}, cluster.sku)


async def list_queues(on: Cluster) -> dict[str, Object]:
    """The queues by id of their virtual cluster."""
    return {labels_of(queue)[LABEL]: queue for queue in await find_queues(on, labels=LABEL)}


async def find_queues(on: Cluster, labels: str = "") -> list[Object]:
    """Returns none where there is no Volcano."""
    try:
        return (await on.list(QUEUE, labels=labels)).items
    except NotFound:
        return []


def _cap(queue: Object) -> object:
    return spec_of(queue).get("capability")


def _replacing(queue: Object) -> Object:
    return {"op": "add", "path": "/spec", "value": spec_of(queue)}


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
