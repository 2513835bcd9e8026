"""The totals of virtual clusters as the scheduler honours them: a Queue for each, capped at so many SKUs."""

from __future__ import annotations

from collections.abc import Iterable

from muster.kube.builtin import QUEUE
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, labels_of, name_of, spec_of, status_of
from muster.platform.resources.clusters import VirtualCluster
from muster.platform.resources.skus import skus_in, times

LABEL = "muster.dev/virtual-cluster"


def queue_for(cluster: VirtualCluster) -> Object:
    spec: Object = {"weight": 1, "reclaimable": False}
    if cluster.total is not None:
        spec["capability"] = times(cluster.sku, cluster.total)
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": cluster.queue, "labels": {LABEL: cluster.id}},
        "spec": spec,
    }


async def settle_queues(on: Cluster, clusters: Iterable[VirtualCluster]) -> None:
    """Makes the Queues as the virtual clusters are, whatever happened before."""
    wanted = {cluster.queue: queue_for(cluster) for cluster in clusters}
    there = {name_of(queue): queue for queue in (await on.list(QUEUE, labels=LABEL)).items}
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
    """By Pods that are on a machine now."""
    return skus_in(status_of(queue or {}).get("allocated") or {}, cluster.sku)


async def queues(on: Cluster) -> dict[str, Object]:
    """By the id of the virtual cluster."""
    return {labels_of(queue)[LABEL]: queue for queue in (await on.list(QUEUE, labels=LABEL)).items}


def _cap(queue: Object) -> object:
    return spec_of(queue).get("capability")


def _replacing(queue: Object) -> Object:
    return {"op": "add", "path": "/spec", "value": spec_of(queue)}
