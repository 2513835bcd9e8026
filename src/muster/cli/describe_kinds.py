"""The built-in kinds in detail: Pods, nodes, Jobs, ConfigMaps and Secrets; any other kind field by field. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.cli.events import events_grid
from muster.cli.output import (
    NONE,
    SectionGrid,
    Sections,
    SectionValue,
    format_pairs,
    format_timestamp,
    label_for_key,
    to_section,
)
from muster.kube.columns import pod_status
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
from muster.kube.pod_diagnosis import diagnose_pod
from muster.kube.quantity import milli_value, sum_resources, whole_value
from muster.kube.tables import format_duration

_SHOWN_ELSEWHERE = ("name", "namespace", "labels", "annotations", "managedFields")


def describe_any(obj: Object, events: Sequence[Object], now: datetime) -> Sections:
    """Describes an object of any kind by printing all its fields."""
    rest = {key: value for key, value in meta(obj).items() if key not in _SHOWN_ELSEWHERE}
    fields = _describe_metadata(obj)
    fields += [
        ("API Version", str(obj.get("apiVersion"))),
        ("Kind", str(obj.get("kind"))),
        ("Metadata", to_section(rest)),
    ]
    fields += [
        (label_for_key(key), to_section(value))
        for key, value in obj.items()
        if key not in ("apiVersion", "kind", "metadata") and value not in (None, {}, [])
    ]
    return [*fields, _events(events, now)]


def describe_config_map(obj: Object, events: Sequence[Object], now: datetime) -> Sections:
    data: Sections = [(key, str(text).rstrip("\n")) for key, text in _sorted_items(obj.get("data"))]
    binary: Sections = [(key, f"{_decoded_size(text)} bytes") for key, text in _sorted_items(obj.get("binaryData"))]
    return [
        *_describe_metadata(obj),
        ("Data", data or NONE),
        *([("Binary Data", binary)] if binary else []),
        _events(events, now),
    ]


def describe_secret(obj: Object, events: Sequence[Object], now: datetime) -> Sections:
    """Describes a Secret with the sizes of its values, never the values."""
    data: Sections = [(key, f"{_decoded_size(text)} bytes") for key, text in _sorted_items(obj.get("data"))]
    return [
        *_describe_metadata(obj),
        ("Type", str(obj.get("type") or "Opaque")),
        ("Data", data or NONE),
        _events(events, now),
    ]


def describe_job(job: Object, pods: Sequence[Object], events: Sequence[Object], now: datetime) -> Sections:
    spec, status, owner = spec_of(job), status_of(job), controller_of(job)
    counts = {phase: sum(status_of(pod).get("phase") == phase for pod in pods) for phase in ("Pending", "Running")}
    fields = _describe_metadata(job)
    fields += [
        ("Selector", format_pairs((spec.get("selector") or {}).get("matchLabels"))),
        *([("Controlled By", f"{owner['kind']}/{owner['name']}")] if owner else []),
        ("Parallelism", str(spec.get("parallelism", 1))),
        ("Completions", str(spec.get("completions", "<unset>"))),
        ("Completion Mode", str(spec.get("completionMode") or "NonIndexed")),
        ("Suspend", str(bool(spec.get("suspend"))).lower()),
        ("Backoff Limit", str(spec.get("backoffLimit", 6))),
    ]
    if status.get("startTime"):
        fields.append(("Start Time", format_timestamp(status["startTime"])))
    if status.get("completionTime"):
        took = parse_time(status["completionTime"]) - parse_time(status.get("startTime") or status["completionTime"])
        fields += [
            ("Completed At", format_timestamp(status["completionTime"])),
            ("Duration", format_duration(took.total_seconds())),
        ]
    fields += [
        (
            "Pods Statuses",
            f"{status.get('active', 0)} Active ({counts['Pending']} Pending, {counts['Running']} Running) / "
            f"{status.get('succeeded', 0)} Succeeded / {status.get('failed', 0)} Failed",
        ),
        ("Conditions", _conditions(status)),
        ("Pods", SectionGrid(("Name", "Phase", "Node"), [_pod_row(pod) for pod in pods]) if pods else NONE),
        ("Pod Template", to_section(spec.get("template") or {})),
        _events(events, now),
    ]
    return fields


def describe_node(node: Object, pods: Sequence[Object], events: Sequence[Object], now: datetime) -> Sections:
    """Describes a node. `pods` are the Pods on it that have not ended."""
    spec, status = spec_of(node), status_of(node)
    allocatable = status.get("allocatable") or {}
    requests = [_requests(pod) for pod in pods]
    fields = _describe_metadata(node)
    fields += [
        ("CreationTimestamp", format_timestamp(meta(node).get("creationTimestamp"))),
        ("Taints", [f"{t.get('key')}={t.get('value') or ''}:{t.get('effect')}" for t in spec.get("taints") or ()]),
        ("Unschedulable", str(bool(spec.get("unschedulable"))).lower()),
        ("Conditions", _conditions(status)),
        ("Addresses", [(str(a.get("type")), str(a.get("address"))) for a in status.get("addresses") or ()] or NONE),
        ("Capacity", [(key, str(value)) for key, value in _sorted_items(status.get("capacity"))] or NONE),
        ("Allocatable", [(key, str(value)) for key, value in _sorted_items(allocatable)] or NONE),
        ("System Info", to_section(status.get("nodeInfo") or {})),
        (
            f"Non-terminated Pods ({len(pods)} in total)",
            SectionGrid(
                ("Namespace", "Name", "CPU Requests", "Memory Requests", "Age"),
                [
                    (
                        namespace_of(pod),
                        name_of(pod),
                        _format_share(wanted, allocatable, "cpu"),
                        _format_share(wanted, allocatable, "memory"),
                        format_duration((now - parse_time(meta(pod)["creationTimestamp"])).total_seconds()),
                    )
                    for pod, wanted in zip(pods, requests, strict=True)
                ],
            )
            if pods
            else NONE,
        ),
        ("Allocated resources", _allocated_grid(sum_resources(requests), allocatable)),
        _events(events, now),
    ]
    return fields


def _describe_metadata(obj: Object) -> Sections:
    namespace = namespace_of(obj)
    return [
        ("Name", name_of(obj)),
        *([("Namespace", namespace)] if namespace else []),
        ("Labels", format_pairs(labels_of(obj))),
        ("Annotations", format_pairs(annotations_of(obj), ": ")),
    ]


def _events(events: Sequence[Object], now: datetime) -> tuple[str, SectionValue]:
    return "Events", events_grid(events, now) if events else NONE


def _conditions(status: Mapping[str, Any]) -> SectionValue:
    rows = [
        (c.get("type"), c.get("status"), c.get("reason") or "", c.get("message") or "")
        for c in status.get("conditions") or ()
    ]
    return SectionGrid(("Type", "Status", "Reason", "Message"), rows) if rows else NONE


def _pod_row(pod: Object) -> tuple[str, str, str]:
    return name_of(pod), str(status_of(pod).get("phase") or "Unknown"), str(spec_of(pod).get("nodeName") or NONE)


def _requests(pod: Object) -> dict[str, str]:
    """Returns the requests of a Pod: the sum of its containers, or of an init container if that is larger."""
    spec = spec_of(pod)
    together = sum_resources((c.get("resources") or {}).get("requests") or {} for c in spec.get("containers") or ())
    for container in spec.get("initContainers") or ():
        wanted = (container.get("resources") or {}).get("requests") or {}
        if container.get("restartPolicy") == "Always":
            together = sum_resources([together, wanted])
            continue
        for resource, amount in wanted.items():
            if milli_value(amount) > milli_value(together.get(resource, "0")):
                together[resource] = amount
    return together


def _format_share(wanted: Mapping[str, str], of: Mapping[str, str], resource: str) -> str:
    amount = wanted.get(resource, "0")
    total = milli_value(of.get(resource, "0"))
    return f"{amount} ({milli_value(amount) * 100 // total}%)" if total else amount


def _allocated_grid(total: Mapping[str, str], allocatable: Mapping[str, str]) -> SectionGrid:
    resources = [
        r
        for r in sorted({*total, *allocatable})
        if r != "pods" and (whole_value(total.get(r, "0")) or r in allocatable)
    ]
    return SectionGrid(("Resource", "Requests"), [(r, _format_share(total, allocatable, r)) for r in resources])


def _sorted_items(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return sorted((mapping or {}).items())


def _decoded_size(text: Any) -> int:
    try:
        return len(base64.b64decode(str(text)))
    except (binascii.Error, ValueError):
        return len(str(text))


_SOURCES = {
    "configMap": "ConfigMap (a volume populated by a ConfigMap)",
    "secret": "Secret (a volume populated by a Secret)",
    "emptyDir": "EmptyDir (a temporary directory that shares a pod's lifetime)",
    "hostPath": "HostPath (bare host directory volume)",
    "persistentVolumeClaim": "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
    "projected": "Projected (a volume that contains injected data from multiple sources)",
    "downwardAPI": "DownwardAPI (a volume populated by information about the pod)",
}


def describe_pod(
    pod: Object, events: Sequence[Object], last_lines: Mapping[str, Sequence[str]], now: datetime
) -> Sections:
    """Describes a Pod. `last_lines` holds the end of the log of each failed container."""
    spec, status, owner = spec_of(pod), status_of(pod), controller_of(pod)
    reasons = diagnose_pod(pod, events)
    node = " / ".join(text for text in (spec.get("nodeName"), status.get("hostIP")) if text) or NONE
    fields: Sections = [
        ("Name", str(meta(pod).get("name"))),
        ("Namespace", str(meta(pod).get("namespace"))),
        ("Priority", str(spec.get("priority", 0))),
        *([("Priority Class Name", str(spec["priorityClassName"]))] if spec.get("priorityClassName") else []),
        ("Service Account", str(spec.get("serviceAccountName") or "default")),
        ("Node", node.replace(" ", "")),
        *([("Start Time", format_timestamp(status["startTime"]))] if status.get("startTime") else []),
        ("Labels", format_pairs(labels_of(pod))),
        ("Annotations", format_pairs(annotations_of(pod), ": ")),
        ("Status", _status(pod)),
    ]
    if reasons:
        fields.append(("Why", reasons))
    fields += [
        ("IP", str(status.get("podIP") or "")),
        *([("Controlled By", f"{owner['kind']}/{owner['name']}")] if owner else []),
    ]
    for label, specs, statuses in (
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
    ):
        by_name = {s.get("name"): s for s in status.get(statuses) or ()}
        blocks: Sections = [
            (str(c["name"]), _container(c, by_name.get(c["name"]) or {}, last_lines.get(str(c["name"])) or ()))
            for c in spec.get(specs) or ()
        ]
        if blocks:
            fields.append((label, blocks))
    fields += [
        ("Conditions", _pod_conditions(status)),
        ("Volumes", [(str(v.get("name")), _volume(v)) for v in spec.get("volumes") or ()] or NONE),
        ("QoS Class", str(status.get("qosClass") or NONE)),
        ("Node-Selectors", format_pairs(spec.get("nodeSelector"))),
        ("Tolerations", [_toleration(t) for t in spec.get("tolerations") or ()]),
        ("Events", events_grid(events, now) if events else NONE),
    ]
    return fields


def _status(pod: Object) -> str:
    phase, state = str(status_of(pod).get("phase") or "Unknown"), pod_status(pod)
    deleted = meta(pod).get("deletionTimestamp")
    if deleted:
        grace = meta(pod).get("deletionGracePeriodSeconds")
        return f"Terminating (since {format_timestamp(deleted)}" + (
            f", grace period {grace}s)" if grace is not None else ")"
        )
    return phase if state in (phase, "Completed", "Error") else f"{phase} ({state})"


def _container(container: Mapping[str, Any], status: Mapping[str, Any], last_lines: Sequence[str]) -> Sections:
    resources = container.get("resources") or {}
    fields: Sections = [
        *([("Container ID", str(status["containerID"]))] if status.get("containerID") else []),
        ("Image", str(container.get("image") or NONE)),
        *([("Image ID", str(status["imageID"]))] if status.get("imageID") else []),
    ]
    ports = [f"{p.get('containerPort')}/{p.get('protocol', 'TCP')}" for p in container.get("ports") or ()]
    if ports:
        fields.append(("Ports", ", ".join(ports)))
    for key in ("command", "args"):
        if container.get(key):
            fields.append((key.capitalize(), [str(word) for word in container[key]]))
    fields += _state("State", status.get("state"))
    if status.get("lastState"):
        fields += _state("Last State", status.get("lastState"))
    if last_lines:
        fields.append(("Last Log Lines", list(last_lines)))
    fields += [
        ("Ready", str(bool(status.get("ready")))),
        ("Restart Count", str(status.get("restartCount", 0))),
    ]
    for key in ("limits", "requests"):
        if resources.get(key):
            fields.append((key.capitalize(), [(k, str(v)) for k, v in sorted(resources[key].items())]))
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(key):
            fields.append((label_for_key(key).removesuffix(" Probe"), _probe(container[key])))
    if container.get("envFrom"):
        fields.append(("Environment Variables from", [_env_source(e) for e in container["envFrom"]]))
    fields += [
        ("Environment", [(str(e.get("name")), _env_value(e)) for e in container.get("env") or ()] or NONE),
        ("Mounts", [_mount(m) for m in container.get("volumeMounts") or ()]),
    ]
    return fields


def _state(label: str, state: Mapping[str, Any] | None) -> Sections:
    """Returns the state of a container. Its fields are not indented further than those of the container."""
    name = next(iter(state or {}), "waiting")
    detail = (state or {}).get(name) or {}
    inner: Sections = []
    if detail.get("reason"):
        inner.append(("Reason", str(detail["reason"])))
    if detail.get("message"):
        inner.append(("Message", str(detail["message"]).rstrip()))
    if "exitCode" in detail:
        inner.append(("Exit Code", str(detail["exitCode"])))
    if detail.get("signal"):
        inner.append(("Signal", str(detail["signal"])))
    if detail.get("startedAt"):
        inner.append(("Started", format_timestamp(detail["startedAt"])))
    if detail.get("finishedAt"):
        inner.append(("Finished", format_timestamp(detail["finishedAt"])))
    return [(label, name.capitalize()), *[(f"  {key}", value) for key, value in inner]]


def _pod_conditions(status: Mapping[str, Any]) -> SectionValue:
    conditions = status.get("conditions") or ()
    rows = [(c.get("type"), c.get("status"), c.get("reason") or "", c.get("message") or "") for c in conditions]
    if not rows:
        return NONE
    if any(reason or message for _, _, reason, message in rows):
        return SectionGrid(("Type", "Status", "Reason", "Message"), rows)
    return SectionGrid(("Type", "Status"), [row[:2] for row in rows])


def _volume(volume: Mapping[str, Any]) -> Sections:
    source, detail = next(((k, v) for k, v in volume.items() if k != "name"), ("emptyDir", {}))
    inner = to_section(detail) if detail else []
    block: Any = inner if isinstance(inner, list) else []
    return [("Type", _SOURCES.get(source, label_for_key(source))), *block]


def _toleration(toleration: Mapping[str, Any]) -> str:
    text = str(toleration.get("key") or "")
    if toleration.get("value"):
        text += f"={toleration['value']}"
    if toleration.get("effect"):
        text += f":{toleration['effect']}"
    if toleration.get("operator") == "Exists":
        text += " op=Exists"
    if toleration.get("tolerationSeconds") is not None:
        text += f" for {toleration['tolerationSeconds']}s"
    return text.strip()


def _probe(probe: Mapping[str, Any]) -> str:
    if probe.get("exec"):
        what = f"exec {probe['exec'].get('command')}"
    elif probe.get("httpGet"):
        get = probe["httpGet"]
        host, path = f"{get.get('host', '')}:{get.get('port')}", get.get("path", "/")
        what = f"http-get {get.get('scheme', 'HTTP').lower()}://{host}{path}"
    elif probe.get("tcpSocket"):
        what = f"tcp-socket {probe['tcpSocket'].get('host', '')}:{probe['tcpSocket'].get('port')}"
    else:
        what = "grpc" if probe.get("grpc") else "unknown"
    return (
        f"{what} delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s "
        f"period={probe.get('periodSeconds', 10)}s #success={probe.get('successThreshold', 1)} "
        f"#failure={probe.get('failureThreshold', 3)}"
    )


def _env_source(source: Mapping[str, Any]) -> str:
    for key, label in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if source.get(key):
            optional = bool(source[key].get("optional"))
            return f"{source[key].get('name')}  {label}  Optional: {str(optional).lower()}"
    return str(dict(source))


def _env_value(entry: Mapping[str, Any]) -> str:
    origin = entry.get("valueFrom")
    if not origin:
        return str(entry.get("value") or "")
    if origin.get("fieldRef"):
        return f"({origin['fieldRef'].get('apiVersion', 'v1')}:{origin['fieldRef'].get('fieldPath')})"
    if origin.get("resourceFieldRef"):
        return f"({origin['resourceFieldRef'].get('resource')})"
    for key, label in (("configMapKeyRef", "config map"), ("secretKeyRef", "secret")):
        if origin.get(key):
            return f"<set to the key '{origin[key].get('key')}' of {label} '{origin[key].get('name')}'>"
    return str(origin)


def _mount(mount: Mapping[str, Any]) -> str:
    mode = "ro" if mount.get("readOnly") else "rw"
    path = f',path="{mount["subPath"]}"' if mount.get("subPath") else ""
    return f"{mount.get('mountPath')} from {mount.get('name')} ({mode}{path})"
