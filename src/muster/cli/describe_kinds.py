"""Kinds other than Pod in detail: nodes, Jobs, ConfigMaps and Secrets by hand, every other kind field by field."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.cli.happenings import grid
from muster.cli.sections import NONE, Fields, Grid, Value, anything, label_of, moment, pairs
from muster.kube.objects import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
)
from muster.kube.quantity import milli, sum_resources, whole
from muster.kube.tables import human_duration

_SHOWN_ELSEWHERE = ("name", "namespace", "labels", "annotations", "managedFields")


def describe_any(obj: Object, events: Sequence[Object], now: datetime) -> Fields:
    """What can be said of a kind that nobody has written a description of: all of it."""
    rest = {key: value for key, value in meta(obj).items() if key not in _SHOWN_ELSEWHERE}
    fields = _head(obj)
    fields += [
        ("API Version", str(obj.get("apiVersion"))),
        ("Kind", str(obj.get("kind"))),
        ("Metadata", anything(rest)),
    ]
    fields += [
        (label_of(key), anything(value))
        for key, value in obj.items()
        if key not in ("apiVersion", "kind", "metadata") and value not in (None, {}, [])
    ]
    return [*fields, _events(events, now)]


def describe_config_map(obj: Object, events: Sequence[Object], now: datetime) -> Fields:
    data: Fields = [(key, str(text).rstrip("\n")) for key, text in _sorted(obj.get("data"))]
    binary: Fields = [(key, f"{_decoded_size(text)} bytes") for key, text in _sorted(obj.get("binaryData"))]
    return [*_head(obj), ("Data", data or NONE), *([("Binary Data", binary)] if binary else []), _events(events, now)]


def describe_secret(obj: Object, events: Sequence[Object], now: datetime) -> Fields:
    """Sizes, never values."""
    data: Fields = [(key, f"{_decoded_size(text)} bytes") for key, text in _sorted(obj.get("data"))]
    return [*_head(obj), ("Type", str(obj.get("type") or "Opaque")), ("Data", data or NONE), _events(events, now)]


def describe_job(job: Object, pods: Sequence[Object], events: Sequence[Object], now: datetime) -> Fields:
    spec, status, owner = spec_of(job), status_of(job), controller_of(job)
    counts = {phase: sum(status_of(pod).get("phase") == phase for pod in pods) for phase in ("Pending", "Running")}
    fields = _head(job)
    fields += [
        ("Selector", pairs((spec.get("selector") or {}).get("matchLabels"))),
        *([("Controlled By", f"{owner['kind']}/{owner['name']}")] if owner else []),
        ("Parallelism", str(spec.get("parallelism", 1))),
        ("Completions", str(spec.get("completions", "<unset>"))),
        ("Completion Mode", str(spec.get("completionMode") or "NonIndexed")),
        ("Suspend", str(bool(spec.get("suspend"))).lower()),
        ("Backoff Limit", str(spec.get("backoffLimit", 6))),
    ]
    if status.get("startTime"):
        fields.append(("Start Time", moment(status["startTime"])))
    if status.get("completionTime"):
        took = parse_time(status["completionTime"]) - parse_time(status.get("startTime") or status["completionTime"])
        fields += [
            ("Completed At", moment(status["completionTime"])),
            ("Duration", human_duration(took.total_seconds())),
        ]
    fields += [
        (
            "Pods Statuses",
            f"{status.get('active', 0)} Active ({counts['Pending']} Pending, {counts['Running']} Running) / "
            f"{status.get('succeeded', 0)} Succeeded / {status.get('failed', 0)} Failed",
        ),
        ("Conditions", _conditions(status)),
        ("Pods", Grid(("Name", "Phase", "Node"), [_pod_row(pod) for pod in pods]) if pods else NONE),
        ("Pod Template", anything(spec.get("template") or {})),
        _events(events, now),
    ]
    return fields


def describe_node(node: Object, pods: Sequence[Object], events: Sequence[Object], now: datetime) -> Fields:
    """`pods` are those on the node that have not ended."""
    spec, status = spec_of(node), status_of(node)
    allocatable = status.get("allocatable") or {}
    requests = [_requests(pod) for pod in pods]
    fields = _head(node)
    fields += [
        ("CreationTimestamp", moment(meta(node).get("creationTimestamp"))),
        ("Taints", [f"{t.get('key')}={t.get('value') or ''}:{t.get('effect')}" for t in spec.get("taints") or ()]),
        ("Unschedulable", str(bool(spec.get("unschedulable"))).lower()),
        ("Conditions", _conditions(status)),
        ("Addresses", [(str(a.get("type")), str(a.get("address"))) for a in status.get("addresses") or ()] or NONE),
        ("Capacity", [(key, str(value)) for key, value in _sorted(status.get("capacity"))] or NONE),
        ("Allocatable", [(key, str(value)) for key, value in _sorted(allocatable)] or NONE),
        ("System Info", anything(status.get("nodeInfo") or {})),
        (
            f"Non-terminated Pods ({len(pods)} in total)",
            Grid(
                ("Namespace", "Name", "CPU Requests", "Memory Requests", "Age"),
                [
                    (
                        namespace_of(pod),
                        name_of(pod),
                        _share(wanted, allocatable, "cpu"),
                        _share(wanted, allocatable, "memory"),
                        human_duration((now - parse_time(meta(pod)["creationTimestamp"])).total_seconds()),
                    )
                    for pod, wanted in zip(pods, requests, strict=True)
                ],
            )
            if pods
            else NONE,
        ),
        ("Allocated resources", _allocated(sum_resources(requests), allocatable)),
        _events(events, now),
    ]
    return fields


def _head(obj: Object) -> Fields:
    namespace = namespace_of(obj)
    return [
        ("Name", name_of(obj)),
        *([("Namespace", namespace)] if namespace else []),
        ("Labels", pairs(labels_of(obj))),
        ("Annotations", pairs(annotations_of(obj), ": ")),
    ]


def _events(events: Sequence[Object], now: datetime) -> tuple[str, Value]:
    return "Events", grid(events, now) if events else NONE


def _conditions(status: Mapping[str, Any]) -> Value:
    rows = [
        (c.get("type"), c.get("status"), c.get("reason") or "", c.get("message") or "")
        for c in status.get("conditions") or ()
    ]
    return Grid(("Type", "Status", "Reason", "Message"), rows) if rows else NONE


def _pod_row(pod: Object) -> tuple[str, str, str]:
    return name_of(pod), str(status_of(pod).get("phase") or "Unknown"), str(spec_of(pod).get("nodeName") or NONE)


def _requests(pod: Object) -> dict[str, str]:
    """What the containers ask for; an init container's need counts where it is the greater one."""
    spec = spec_of(pod)
    together = sum_resources((c.get("resources") or {}).get("requests") or {} for c in spec.get("containers") or ())
    for container in spec.get("initContainers") or ():
        wanted = (container.get("resources") or {}).get("requests") or {}
        if container.get("restartPolicy") == "Always":
            together = sum_resources([together, wanted])
            continue
        for resource, amount in wanted.items():
            if milli(amount) > milli(together.get(resource, "0")):
                together[resource] = amount
    return together


def _share(wanted: Mapping[str, str], of: Mapping[str, str], resource: str) -> str:
    amount = wanted.get(resource, "0")
    total = milli(of.get(resource, "0"))
    return f"{amount} ({milli(amount) * 100 // total}%)" if total else amount


def _allocated(total: Mapping[str, str], allocatable: Mapping[str, str]) -> Grid:
    resources = [
        r for r in sorted({*total, *allocatable}) if r != "pods" and (whole(total.get(r, "0")) or r in allocatable)
    ]
    return Grid(("Resource", "Requests"), [(r, _share(total, allocatable, r)) for r in resources])


def _sorted(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return sorted((mapping or {}).items())


def _decoded_size(text: Any) -> int:
    try:
        return len(base64.b64decode(str(text)))
    except (binascii.Error, ValueError):
        return len(str(text))
