"""metrics.k8s.io: what nodes and Pods use at the moment. Measured when asked for, never stored."""

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

MACHINE: Final = ""
"""Stands for the whole machine among the uids of Pods."""


class Rate(NamedTuple):
    cores: float
    memory: int
    """in bytes"""


Rates = Mapping[str, Rate]
"""By the uid of a Pod."""


def pod_metrics(pods: Iterable[Object], rates: Rates, now: str, window: float) -> list[Object]:
    """Of the Pods that run. What a Pod uses is measured as a whole: its first container stands for all of them."""
    return [
        _metrics(POD_METRICS, pod, now, window)
        | {"containers": [{"name": spec_of(pod)["containers"][0]["name"], "usage": _usage(rates[uid_of(pod)])}]}
        for pod in pods
        if uid_of(pod) in rates and status_of(pod).get("phase") == "Running"
    ]


def node_metrics(
    nodes: Iterable[Object], pods: Iterable[Object], own: str, rates: Rates, now: str, window: float
) -> list[Object]:
    """`own` is the node that is this machine; any other uses what its Pods use."""
    on: dict[str, Rate] = {}
    for pod in pods:
        rate = rates.get(uid_of(pod))
        if rate is not None:
            node = spec_of(pod).get("nodeName", "")
            sofar = on.get(node, Rate(0.0, 0))
            on[node] = Rate(sofar.cores + rate.cores, sofar.memory + rate.memory)
    return [
        _metrics(NODE_METRICS, node, now, window)
        | {"usage": _usage(rates[MACHINE] if name_of(node) == own else on.get(name_of(node), Rate(0.0, 0)))}
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


def _usage(rate: Rate) -> Object:
    return {"cpu": f"{round(rate.cores * 1e9)}n", "memory": f"{rate.memory // 1024}Ki"}
