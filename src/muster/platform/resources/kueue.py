"""A virtual cluster as a queue of Kueue: a ResourceFlavor with its nodes, a ClusterQueue with its total, and a
LocalQueue in every namespace that may use it.

Kueue holds back the Pods of plain nodes and whole training jobs until there is quota for them.
"""

from __future__ import annotations

from typing import Any, Final

from muster.kube.objects import Object, spec_of, status_of
from muster.kube.quantity import multiply_resources, sum_resources
from muster.kube.selectors import parse_toleration
from muster.platform.records.resources import VirtualCluster

GROUP: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""Names the LocalQueue of a Pod or a job."""
JOBS: Final = {
    ("kubeflow.org/v1", "JAXJob"),
    ("kubeflow.org/v1", "PaddleJob"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"),
    ("kubeflow.org/v1", "XGBoostJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
}
"""The training jobs that Kueue holds back as a whole. The Pods of others wait one by one."""
_UNLIMITED: Final = {"cpu": "1000000", "memory": "1000Ti"}
"""Kueue refuses Pods that request a resource without a quota, and containers beside the user's may request these."""


def flavor_spec(cluster: VirtualCluster) -> Object:
    spec: Object = {}
    if cluster.node_selector:
        spec["nodeLabels"] = dict(cluster.node_selector)
    tolerations = [toleration for taint in cluster.tolerations if (toleration := parse_toleration(taint))]
    if tolerations:
        spec["tolerations"] = tolerations
    return spec


def cluster_queue_spec(cluster: VirtualCluster) -> Object:
    """A queue for all namespaces. Only those with a LocalQueue can use it."""
    quotas = {**_UNLIMITED, **multiply_resources(cluster.sku, cluster.total or 0)}
    resources = [{"name": name, "nominalQuota": quotas[name]} for name in sorted(quotas)]
    flavor = {"name": cluster.queue, "resources": resources}
    group = {"coveredResources": sorted(quotas), "flavors": [flavor]}
    return {"namespaceSelector": {}, "resourceGroups": [group]}


def local_queue_spec(cluster: VirtualCluster) -> Object:
    return {"clusterQueue": cluster.queue}


def quota_of(cluster_queue: Object) -> dict[str, str]:
    """The limits by resource, without those that are not meant as limits."""
    return {
        each["name"]: str(each["nominalQuota"])
        for flavor in _flavors(spec_of(cluster_queue).get("resourceGroups"))
        for each in flavor.get("resources") or ()
        if _UNLIMITED.get(each["name"]) != str(each["nominalQuota"])
    }


def usage_of(cluster_queue: Object) -> dict[str, str]:
    """What the admitted Pods and jobs use."""
    return sum_resources(
        {each["name"]: each.get("total") or "0"}
        for flavor in status_of(cluster_queue).get("flavorsUsage") or ()
        for each in flavor.get("resources") or ()
    )


def _flavors(groups: Any) -> list[Any]:
    return [flavor for group in groups or () for flavor in group.get("flavors") or ()]
