"""metrics.k8s.io: the current usage of nodes and Pods, measured on request and never stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, labels_of, name_of, namespace_of, spec_of, status_of, uid_of

GROUP: Final = "metrics.k8s.io"
_AGE = Column("Timestamp", ".timestamp")
NODE_METRICS: Final = Kind(
    GROUP, "v1beta1", "NodeMetrics", "nodes", namespaced=False, has_status=False,
    columns=(Column("CPU", ".usage.cpu"), Column("Memory", ".usage.memory"), _AGE),
)  # fmt: skip
POD_METRICS: Final = Kind(GROUP, "v1beta1", "PodMetrics", "pods", has_status=False, columns=(_AGE,))

WHOLE_NODE: Final = ""
"""The key of the whole machine among the uids of Pods."""


class ResourceUsage(NamedTuple):
    cores: float
    memory: int
    """In bytes."""


UsageByPod = Mapping[str, ResourceUsage]
"""By the uid of the Pod."""


def pod_metrics(pods: Iterable[Object], rates: UsageByPod, now: str, window: float) -> list[Object]:
    """Returns the metrics of running Pods. Usage is measured per Pod and reported for its first container."""
    return [
        _metrics(POD_METRICS, pod, now, window)
        | {"containers": [{"name": spec_of(pod)["containers"][0]["name"], "usage": _usage(rates[uid_of(pod)])}]}
        for pod in pods
        if uid_of(pod) in rates and status_of(pod).get("phase") == "Running"
    ]


def node_metrics(
    nodes: Iterable[Object], pods: Iterable[Object], own: str, rates: UsageByPod, now: str, window: float
) -> list[Object]:
    """`own` is the node of this machine; the usage of others is that of their Pods."""
    on: dict[str, ResourceUsage] = {}
    for pod in pods:
        rate = rates.get(uid_of(pod))
        if rate is not None:
            node = spec_of(pod).get("nodeName", "")
            sofar = on.get(node, ResourceUsage(0.0, 0))
            on[node] = ResourceUsage(sofar.cores + rate.cores, sofar.memory + rate.memory)
    return [
        _metrics(NODE_METRICS, node, now, window)
        | {"usage": _usage(rates[WHOLE_NODE] if name_of(node) == own else on.get(name_of(node), ResourceUsage(0.0, 0)))}
        for node in nodes
    ]


def _metrics(kind: Kind, of: Object, now: str, window: float) -> Object:
    metadata: Object = {"name": name_of(of), "creationTimestamp": now, "labels": labels_of(of)}
    if kind.namespaced:
        metadata["namespace"] = namespace_of(of)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "timestamp": now,
        "window": f"{window:.3f}s",
    }


def _usage(rate: ResourceUsage) -> Object:
    return {"cpu": f"{round(rate.cores * 1e9)}n", "memory": f"{rate.memory // 1024}Ki"}
