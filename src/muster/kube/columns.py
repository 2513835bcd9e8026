"""The columns that `kubectl get` prints for the built-in kinds, and the one-word state of a Pod."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from muster.kube.kinds import Column
from muster.kube.objects import Object, annotations_of, is_deleting, labels_of, name_of, parse_time, spec_of, status_of
from muster.kube.tables import AGE, NAME, format_age, format_duration

_ROLE_PREFIX = "node-role.kubernetes.io/"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_JOB_STATES = {
    "Suspended": "Suspended",
    "FailureTarget": "FailureTarget",
    "SuccessCriteriaMet": "SuccessCriteriaMet",
}


def _containers(template: Object) -> list[Object]:
    return spec_of(template).get("containers") or []


def _names(containers: list[Object]) -> str:
    return ",".join(str(c.get("name", "")) for c in containers)


def _images(containers: list[Object]) -> str:
    return ",".join(str(c.get("image", "")) for c in containers)


def _labels(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def _selector(selector: Object | None) -> str:
    if not selector:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule.get("key"), rule.get("operator"), ",".join(rule.get("values") or [])
        match operator:
            case "In" | "NotIn":
                parts.append(f"{key} {operator.lower()} ({values})")
            case "Exists":
                parts.append(str(key))
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(parts) or "<none>"


def _has_condition(obj: Object, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in status_of(obj).get("conditions") or [])


def _job_status(job: Object, _: datetime) -> str:
    if _has_condition(job, "Complete"):
        return "Complete"
    if _has_condition(job, "Failed"):
        return "Failed"
    if is_deleting(job):
        return "Terminating"
    return next((word for word in _JOB_STATES if _has_condition(job, word)), "Running")


def _completions(job: Object, _: datetime) -> str:
    spec, succeeded = spec_of(job), status_of(job).get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = status_of(job)
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return format_duration((end - parse_time(status["startTime"])).total_seconds())


JOB_COLUMNS: Final = (
    Column("Status", cell=_job_status),
    Column("Completions", cell=_completions),
    Column("Duration", cell=_job_duration),
    AGE,
    Column("Containers", priority=1, cell=lambda job, _: _names(_containers(spec_of(job).get("template") or {}))),
    Column("Images", priority=1, cell=lambda job, _: _images(_containers(spec_of(job).get("template") or {}))),
    Column("Selector", priority=1, cell=lambda job, _: _selector(spec_of(job).get("selector"))),
)


def _first(found: list[str], separator: str = ",", most: int = 3) -> str:
    """Shows the first few."""
    if len(found) <= most:
        return separator.join(found) or "<none>"
    return f"{separator.join(found[:most])} + {len(found) - most} more..."


def _endpoint_addresses(endpoints: Object, _: datetime) -> str:
    return _first(
        [
            f"{address['ip']}:{port['port']}"
            for subset in endpoints.get("subsets") or ()
            for port in subset.get("ports") or ()
            for address in subset.get("addresses") or ()
        ]
    )


def _slice_addresses(endpoint_slice: Object, _: datetime) -> str:
    return _first([a for endpoint in endpoint_slice.get("endpoints") or () for a in endpoint["addresses"]])


def _slice_ports(endpoint_slice: Object, _: datetime) -> str:
    ports = endpoint_slice.get("ports") or ()
    return _first([str(port.get("port") or "*") for port in ports]) if ports else "<unset>"


ENDPOINTS_COLUMNS: Final = (Column("Endpoints", cell=_endpoint_addresses), AGE)
ENDPOINT_SLICE_COLUMNS: Final = (
    Column("AddressType", ".addressType"),
    Column("Ports", cell=_slice_ports),
    Column("Endpoints", cell=_slice_addresses),
    AGE,
)


def _quota_cell(*prefixes: str) -> Callable[[Object, datetime], str]:
    """Shows used/hard of the names with a prefix; without prefixes, of all that are not limits."""

    def cell(quota: Object, _: datetime) -> str:
        hard, used = status_of(quota).get("hard") or {}, status_of(quota).get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == bool(prefixes)]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


RESOURCE_QUOTA_COLUMNS: Final = (
    Column("Request", cell=_quota_cell()),
    Column("Limit", cell=_quota_cell("limits.")),
    AGE,
)

POD_TEMPLATE_COLUMNS: Final = (
    Column("Containers", cell=lambda obj, _: _names(_containers(obj.get("template") or {}))),
    Column("Images", cell=lambda obj, _: _images(_containers(obj.get("template") or {}))),
    Column("Pod Labels", cell=lambda obj, _: _labels(labels_of(obj.get("template") or {}))),
)


def _cluster_ip(service: Object, _: datetime) -> str:
    spec = spec_of(service)
    return str(next(iter(spec.get("clusterIPs") or []), "") or spec.get("clusterIP") or "<none>")


def _external_ip(service: Object, _: datetime) -> str:
    spec = spec_of(service)
    addresses = list(spec.get("externalIPs") or [])
    match spec.get("type") or "ClusterIP":
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = (status_of(service).get("loadBalancer") or {}).get("ingress") or []
            given = sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""})
            return ",".join(given + addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _ports(service: Object, _: datetime) -> str:
    return ",".join(map(_port, spec_of(service).get("ports") or [])) or "<none>"


def _port(port: Object) -> str:
    number = f"{port.get('port')}:{port['nodePort']}" if port.get("nodePort") else str(port.get("port"))
    return f"{number}/{port.get('protocol') or 'TCP'}"


SERVICE_COLUMNS: Final = (
    Column("Type", cell=lambda obj, _: spec_of(obj).get("type") or "ClusterIP"),
    Column("Cluster-IP", cell=_cluster_ip),
    Column("External-IP", cell=_external_ip),
    Column("Port(s)", cell=_ports),
    AGE,
    Column("Selector", priority=1, cell=lambda obj, _: _labels(spec_of(obj).get("selector"))),
)


def _node_status(node: Object, _: datetime) -> str:
    ready = next((c for c in status_of(node).get("conditions") or [] if c.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if spec_of(node).get("unschedulable") else word


def _roles(node: Object, _: datetime) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or "<none>"


def _address(node: Object, kind: str) -> str:
    addresses = status_of(node).get("addresses") or []
    return next((str(a.get("address")) for a in addresses if a.get("type") == kind), "<none>")


def _node_info(node: Object, field: str) -> str:
    return (status_of(node).get("nodeInfo") or {}).get(field) or ""


NODE_COLUMNS: Final = (
    Column("Status", cell=_node_status),
    Column("Roles", cell=_roles),
    AGE,
    Column("Version", cell=lambda obj, _: _node_info(obj, "kubeletVersion")),
    Column("Internal-IP", priority=1, cell=lambda obj, _: _address(obj, "InternalIP")),
    Column("External-IP", priority=1, cell=lambda obj, _: _address(obj, "ExternalIP")),
    Column("OS-Image", priority=1, cell=lambda obj, _: _node_info(obj, "osImage") or "<unknown>"),
    Column("Kernel-Version", priority=1, cell=lambda obj, _: _node_info(obj, "kernelVersion") or "<unknown>"),
    Column(
        "Container-Runtime", priority=1, cell=lambda obj, _: _node_info(obj, "containerRuntimeVersion") or "<unknown>"
    ),
)


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or []))


def _phase(obj: Object, _: datetime) -> str:
    return "Terminating" if is_deleting(obj) else str(status_of(obj).get("phase") or "")


def _claim(volume: Object, _: datetime) -> str:
    claim = spec_of(volume).get("claimRef")
    return f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else ""


def _unset(field: str) -> Any:
    return lambda obj, _: spec_of(obj).get(field) or "<unset>"


PERSISTENT_VOLUME_COLUMNS: Final = (
    Column("Capacity", cell=lambda obj, _: str((spec_of(obj).get("capacity") or {}).get("storage", "0"))),
    Column("Access Modes", cell=lambda obj, _: _modes(spec_of(obj).get("accessModes"))),
    Column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
    Column("Status", cell=_phase),
    Column("Claim", cell=_claim),
    Column("StorageClass", ".spec.storageClassName"),
    Column("VolumeAttributesClass", cell=_unset("volumeAttributesClassName")),
    Column("Reason", ".status.reason"),
    AGE,
    Column("VolumeMode", priority=1, cell=_unset("volumeMode")),
)


def _claim_capacity(claim: Object, _: datetime) -> str:
    if not spec_of(claim).get("volumeName"):
        return ""
    return str((status_of(claim).get("capacity") or {}).get("storage", "0"))


def _claim_modes(claim: Object, _: datetime) -> str:
    return _modes(status_of(claim).get("accessModes")) if spec_of(claim).get("volumeName") else ""


PERSISTENT_VOLUME_CLAIM_COLUMNS: Final = (
    Column("Status", cell=_phase),
    Column("Volume", ".spec.volumeName"),
    Column("Capacity", cell=_claim_capacity),
    Column("Access Modes", cell=_claim_modes),
    Column("StorageClass", ".spec.storageClassName"),
    Column("VolumeAttributesClass", cell=_unset("volumeAttributesClassName")),
    AGE,
    Column("VolumeMode", priority=1, cell=_unset("volumeMode")),
)


def _class_name(obj: Object, _: datetime) -> str:
    is_default = any(annotations_of(obj).get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{name_of(obj)} (default)" if is_default else name_of(obj)


STORAGE_CLASS_COLUMNS: Final = (
    Column("Name", cell=_class_name),
    Column("Provisioner", ".provisioner"),
    Column("ReclaimPolicy", cell=lambda obj, _: obj.get("reclaimPolicy") or "Delete"),
    Column("VolumeBindingMode", cell=lambda obj, _: obj.get("volumeBindingMode") or "Immediate"),
    Column("AllowVolumeExpansion", cell=lambda obj, _: "true" if obj.get("allowVolumeExpansion") else "false"),
    AGE,
)


def _first_seen(event: Object, now: datetime) -> str:
    return format_age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    if event.get("series"):
        return format_age(event["series"].get("lastObservedTime"), now)
    return format_age(event["lastTimestamp"], now) if event.get("lastTimestamp") else _first_seen(event, now)


def _involved(event: Object, _: datetime) -> str:
    about = event.get("involvedObject") or {}
    kind = str(about.get("kind") or "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _source(event: Object, _: datetime) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _count(event: Object, _: datetime) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


EVENT_COLUMNS: Final = (
    Column("Last Seen", cell=_last_seen),
    Column("Type", ".type"),
    Column("Reason", ".reason"),
    Column("Object", cell=_involved),
    Column("Subobject", ".involvedObject.fieldPath", priority=1),
    Column("Source", priority=1, cell=_source),
    Column("Message", cell=lambda obj, _: str(obj.get("message") or "").strip()),
    Column("First Seen", priority=1, cell=_first_seen),
    Column("Count", type="integer", priority=1, cell=_count),
    Column("Name", ".metadata.name", priority=1),
)


def _subjects(binding: Object, kind: str) -> str:
    found = [s for s in binding.get("subjects") or [] if s.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{s.get('namespace') or ''}/{s.get('name')}" for s in found)
    return ", ".join(str(s.get("name")) for s in found)


def _role(binding: Object, _: datetime) -> str:
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind')}/{ref.get('name')}"


ROLE_BINDING_COLUMNS: Final = (
    Column("Role", cell=_role),
    AGE,
    Column("Users", priority=1, cell=lambda obj, _: _subjects(obj, "User")),
    Column("Groups", priority=1, cell=lambda obj, _: _subjects(obj, "Group")),
    Column("ServiceAccounts", priority=1, cell=lambda obj, _: _subjects(obj, "ServiceAccount")),
)


def _entries(*fields: str) -> Any:
    return lambda obj, _: sum(len(obj.get(field) or {}) for field in fields)


NAMESPACE_COLUMNS: Final = (Column("Status", ".status.phase"), AGE)
CONFIG_MAP_COLUMNS: Final = (Column("Data", type="integer", cell=_entries("data", "binaryData")), AGE)
SECRET_COLUMNS: Final = (Column("Type", ".type"), Column("Data", type="integer", cell=_entries("data")), AGE)
LEASE_COLUMNS: Final = (Column("Holder", ".spec.holderIdentity"), AGE)
PRIORITY_CLASS_COLUMNS: Final = (
    Column("Value", ".value", "integer"),
    Column("Global-Default", type="boolean", cell=lambda obj, _: "true" if obj.get("globalDefault") else "false"),
    AGE,
    Column("PreemptionPolicy", ".preemptionPolicy", priority=1),
)
POD_GROUP_COLUMNS: Final = (
    Column("STATUS", ".status.phase"),
    Column("minMember", ".spec.minMember", "integer"),
    Column("RUNNINGS", ".status.running", "integer"),
    AGE,
    Column("QUEUE", ".spec.queue", priority=1),
)
QUEUE_COLUMNS: Final = (NAME, Column("PARENT", ".spec.parent"))
PLUGIN_POD_GROUP_COLUMNS: Final = (
    Column("Phase", ".status.phase"),
    Column("MinMember", ".spec.minMember", "integer"),
    Column("Running", ".status.running", "integer"),
    Column("Succeeded", ".status.succeeded", "integer"),
    Column("Failed", ".status.failed", "integer"),
    AGE,
)


# Pods.


class PodSummary(NamedTuple):
    ready: int
    containers: int
    status: str
    restarts: int
    last_restart: str
    """When a container last ended before a restart, or ''."""


def summarize_pod(pod: Object) -> PodSummary:
    """Summarizes a Pod as kubectl does: the first unfinished init container determines the status, otherwise the last
    container with a reason, and a deletion overrides both."""
    spec, status = spec_of(pod), status_of(pod)
    init_specs = spec.get("initContainers") or []
    sidecars = [c.get("name") for c in init_specs if c.get("restartPolicy") == "Always"]
    word = _phase_status(status)
    init = _init_state(status.get("initContainerStatuses") or [], sidecars, len(init_specs))
    ready, restarts, last_restart = init.ready, init.restarts, init.last_restart
    if init.word and not _is_true(status, "Initialized"):
        word = init.word
    else:
        word, ready_now, restarts, last_restart = _main_state(status, init.word or word, init)
        ready += ready_now
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return PodSummary(ready, len(spec.get("containers") or []) + len(sidecars), word, restarts, last_restart)


def pod_status(pod: Object) -> str:
    """Returns the STATUS column: Running, Init:0/1, CrashLoopBackOff, Completed, Error, OOMKilled, Terminating, ..."""
    return summarize_pod(pod).status


class _InitState(NamedTuple):
    word: str
    ready: int
    restarts: int
    last_restart: str
    sidecar_restarts: int
    sidecar_last_restart: str


def _phase_status(status: Object) -> str:
    gated = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or []
    )
    return "SchedulingGated" if gated else str(status.get("reason") or status.get("phase") or "")


def _init_state(statuses: list[Object], sidecars: list[Any], total: int) -> _InitState:
    word, ready, restarts, last, sidecar_restarts, sidecar_last = "", 0, 0, "", 0, ""
    for index, container in enumerate(statuses):
        is_sidecar = container.get("name") in sidecars
        restarts += container.get("restartCount") or 0
        last = max(last, _last_end_time(container))
        if is_sidecar:
            sidecar_restarts += container.get("restartCount") or 0
            sidecar_last = max(sidecar_last, _last_end_time(container))
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if ended is not None:
            word = "Init:" + _end_reason(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            word = f"Init:{waiting['reason']}"
        else:
            word = f"Init:{index}/{total}"
        break
    return _InitState(word, ready, restarts, last, sidecar_restarts, sidecar_last)


def _main_state(status: Object, word: str, init: _InitState) -> tuple[str, int, int, str]:
    ready, restarts, last, error = 0, init.sidecar_restarts, init.sidecar_last_restart, ""
    for container in reversed(status.get("containerStatuses") or []):
        restarts += container.get("restartCount") or 0
        last = max(last, _last_end_time(container))
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = str(waiting["reason"])
        elif ended is not None:
            word = _end_reason(ended)
            if ended.get("exitCode", 0) != 0:
                error = word
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if word == "Completed":
        if ready and _is_true(status, "Ready"):
            word = "Running"
        elif error:
            word = error
        elif ready:
            word = "NotReady"
    return word, ready, restarts, last


def _end_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _last_end_time(container: Object) -> str:
    return str(((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "")


def _is_true(status: Object, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or [])


def _ready_cell(pod: Object, _: datetime) -> str:
    summary = summarize_pod(pod)
    return f"{summary.ready}/{summary.containers}"


def _restarts_cell(pod: Object, now: datetime) -> str:
    summary = summarize_pod(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({format_age(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def _ip_cell(pod: Object, _: datetime) -> str:
    ips = status_of(pod).get("podIPs") or [{"ip": status_of(pod).get("podIP")}]
    return ips[0].get("ip") or "<none>"


def _gates_cell(pod: Object, _: datetime) -> str:
    gates = spec_of(pod).get("readinessGates") or []
    met = sum(_is_true(status_of(pod), gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}" if gates else "<none>"


POD_COLUMNS = (
    Column("Ready", cell=_ready_cell),
    Column("Status", cell=lambda pod, _: pod_status(pod)),
    Column("Restarts", cell=_restarts_cell),
    AGE,
    Column("IP", priority=1, cell=_ip_cell),
    Column("Node", priority=1, cell=lambda pod, _: spec_of(pod).get("nodeName") or "<none>"),
    Column("Nominated Node", priority=1, cell=lambda pod, _: status_of(pod).get("nominatedNodeName") or "<none>"),
    Column("Readiness Gates", priority=1, cell=_gates_cell),
)
