"""A Pod in detail: what it is, how it is doing, and, if it is not doing well, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.cli.happenings import grid
from muster.cli.sections import NONE, Fields, Grid, Value, anything, label_of, moment, pairs
from muster.kube.objects import Object, annotations_of, controller_of, labels_of, meta, spec_of, status_of
from muster.kube.pod_columns import status_word
from muster.kube.why import why

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
) -> Fields:
    """`last_lines` holds the end of the log of each container that ended badly."""
    spec, status, owner = spec_of(pod), status_of(pod), controller_of(pod)
    reasons = why(pod, events)
    node = " / ".join(text for text in (spec.get("nodeName"), status.get("hostIP")) if text) or NONE
    fields: Fields = [
        ("Name", str(meta(pod).get("name"))),
        ("Namespace", str(meta(pod).get("namespace"))),
        ("Priority", str(spec.get("priority", 0))),
        *([("Priority Class Name", str(spec["priorityClassName"]))] if spec.get("priorityClassName") else []),
        ("Service Account", str(spec.get("serviceAccountName") or "default")),
        ("Node", node.replace(" ", "")),
        *([("Start Time", moment(status["startTime"]))] if status.get("startTime") else []),
        ("Labels", pairs(labels_of(pod))),
        ("Annotations", pairs(annotations_of(pod), ": ")),
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
        blocks: Fields = [
            (str(c["name"]), _container(c, by_name.get(c["name"]) or {}, last_lines.get(str(c["name"])) or ()))
            for c in spec.get(specs) or ()
        ]
        if blocks:
            fields.append((label, blocks))
    fields += [
        ("Conditions", _conditions(status)),
        ("Volumes", [(str(v.get("name")), _volume(v)) for v in spec.get("volumes") or ()] or NONE),
        ("QoS Class", str(status.get("qosClass") or NONE)),
        ("Node-Selectors", pairs(spec.get("nodeSelector"))),
        ("Tolerations", [_toleration(t) for t in spec.get("tolerations") or ()]),
        ("Events", grid(events, now) if events else NONE),
    ]
    return fields


def _status(pod: Object) -> str:
    phase, state = str(status_of(pod).get("phase") or "Unknown"), status_word(pod)
    deleted = meta(pod).get("deletionTimestamp")
    if deleted:
        grace = meta(pod).get("deletionGracePeriodSeconds")
        return f"Terminating (since {moment(deleted)}" + (f", grace period {grace}s)" if grace is not None else ")")
    return phase if state in (phase, "Completed", "Error") else f"{phase} ({state})"


def _container(container: Mapping[str, Any], status: Mapping[str, Any], last_lines: Sequence[str]) -> Fields:
    resources = container.get("resources") or {}
    fields: Fields = [
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
            fields.append((label_of(key).removesuffix(" Probe"), _probe(container[key])))
    if container.get("envFrom"):
        fields.append(("Environment Variables from", [_env_source(e) for e in container["envFrom"]]))
    fields += [
        ("Environment", [(str(e.get("name")), _env_value(e)) for e in container.get("env") or ()] or NONE),
        ("Mounts", [_mount(m) for m in container.get("volumeMounts") or ()]),
    ]
    return fields


def _state(label: str, state: Mapping[str, Any] | None) -> Fields:
    """The state's own fields stand on the container's level: one indentation less to read."""
    name = next(iter(state or {}), "waiting")
    detail = (state or {}).get(name) or {}
    inner: Fields = []
    if detail.get("reason"):
        inner.append(("Reason", str(detail["reason"])))
    if detail.get("message"):
        inner.append(("Message", str(detail["message"]).rstrip()))
    if "exitCode" in detail:
        inner.append(("Exit Code", str(detail["exitCode"])))
    if detail.get("signal"):
        inner.append(("Signal", str(detail["signal"])))
    if detail.get("startedAt"):
        inner.append(("Started", moment(detail["startedAt"])))
    if detail.get("finishedAt"):
        inner.append(("Finished", moment(detail["finishedAt"])))
    return [(label, name.capitalize()), *[(f"  {key}", value) for key, value in inner]]


def _conditions(status: Mapping[str, Any]) -> Value:
    conditions = status.get("conditions") or ()
    rows = [(c.get("type"), c.get("status"), c.get("reason") or "", c.get("message") or "") for c in conditions]
    if not rows:
        return NONE
    if any(reason or message for _, _, reason, message in rows):
        return Grid(("Type", "Status", "Reason", "Message"), rows)
    return Grid(("Type", "Status"), [row[:2] for row in rows])


def _volume(volume: Mapping[str, Any]) -> Fields:
    source, detail = next(((k, v) for k, v in volume.items() if k != "name"), ("emptyDir", {}))
    inner = anything(detail) if detail else []
    block: Any = inner if isinstance(inner, list) else []
    return [("Type", _SOURCES.get(source, label_of(source))), *block]


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
