"""Nodes of the cluster: what they have and what is in use, read from Kubernetes objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.kube.objects import Object, is_condition_true, labels_of, meta, name_of, parse_time, spec_of, status_of
from muster.kube.quantity import parse_quantity, pod_requests, sum_amounts

OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ResourceAmount:
    """In cores, bytes or pieces."""

    resource: str
    used: float
    """Requested by the Pods on the node."""
    allocatable: float
    capacity: float


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    name: str
    ready: bool
    unschedulable: bool
    """Closed for new Pods."""
    labels: dict[str, str]
    taints: list[str]
    conditions: list[Condition]
    amounts: list[ResourceAmount]
    pods: int
    """How many are there now."""
    system: str
    created: datetime | None


def describe_node(node: Object, pods: Iterable[Object]) -> NodeInfo:
    """`pods` are the Pods on the node that have not finished."""
    there = list(pods)
    status = status_of(node)
    capacity: Mapping[str, Any] = status.get("capacity") or {}
    allocatable: Mapping[str, Any] = status.get("allocatable") or capacity
    used = sum_amounts(pod_requests(spec_of(pod)) for pod in there)
    info = status.get("nodeInfo") or {}
    return NodeInfo(
        name=name_of(node),
        ready=is_condition_true(status.get("conditions"), "Ready"),
        unschedulable=bool(spec_of(node).get("unschedulable")),
        labels=dict(sorted(labels_of(node).items())),
        taints=[taint_text(taint) for taint in spec_of(node).get("taints") or ()],
        conditions=[condition(each) for each in status.get("conditions") or ()],
        amounts=[
            ResourceAmount(name, _to_float(name, used.get(name, 0)), _number(allocatable.get(name, 0)), _number(amount))
            for name, amount in sorted(capacity.items(), key=lambda pair: _order(pair[0]))
        ],
        pods=len(there),
        system=" · ".join(str(info[key]) for key in ("osImage", "architecture", "kubeletVersion") if info.get(key)),
        created=parse_optional_time(meta(node).get("creationTimestamp")),
    )


def condition(given: Mapping[str, Any]) -> Condition:
    kind, status, reason, message = (str(given.get(name) or "") for name in ("type", "status", "reason", "message"))
    return Condition(kind, status, reason, message, parse_optional_time(given.get("lastTransitionTime")))


def taint_text(taint: Mapping[str, Any]) -> str:
    """As kubectl writes it: key=value:NoSchedule."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def is_finished(pod: Object) -> bool:
    return status_of(pod).get("phase") in OVER


def host_of(pod: Object) -> str:
    """The node of a Pod; '' if it waits for one."""
    return spec_of(pod).get("nodeName") or ""


def matches_selector(node: Object, selector: Mapping[str, str]) -> bool:
    has = labels_of(node)
    return all(has.get(name) == value for name, value in selector.items())


def skus_available(
    nodes: Iterable[Object], selector: Mapping[str, str], sku: Mapping[str, str], total: int | None
) -> int:
    """The number of SKUs that can be in use: the total of the virtual cluster, but no more than fit on its nodes. A SKU
    is always on one node."""
    has = sum(_fitting(node, sku) for node in nodes if matches_selector(node, selector))
    return has if total is None else min(total, has)


def largest_skus(nodes: Iterable[Object], selector: Mapping[str, str], sku: Mapping[str, str]) -> int:
    """The most SKUs that fit on one node."""
    return max((_fitting(node, sku) for node in nodes if matches_selector(node, selector)), default=0)


def parse_optional_time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def _fitting(node: Object, sku: Mapping[str, str]) -> int:
    allocatable = status_of(node).get("allocatable") or status_of(node).get("capacity") or {}
    parts = (parse_quantity(allocatable.get(name, 0)) // parse_quantity(amount) for name, amount in sku.items())
    return int(min(parts, default=0))


def _order(resource: str) -> tuple[int, str]:
    first = ("cpu", "memory")
    return (first.index(resource) if resource in first else 2 if "/" in resource else 3, resource)


def _number(text: Any) -> float:
    return float(parse_quantity(text))


def _to_float(resource: str, amount: int) -> float:
    return amount / 1000 if resource == "cpu" else float(amount)
