"""Jobs as Kubernetes objects, and objects as descriptions of jobs. Pure functions.

A job of one node becomes a Pod; one of several becomes a PyTorchJob, whose members find each other by MASTER_ADDR, RANK
and WORLD_SIZE. `Spec.manifest` replaces both with a whole object of the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from muster.dispatch.errors import Refused
from muster.dispatch.model import Capacity, ClusterState, Job, JobDescription, JobFault, Mount, Spec
from muster.dispatch.secrets import Secret
from muster.kube.builtin import JOB, POD
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    copy_of,
    is_condition_true,
    is_deleting,
    labels_of,
    parse_time,
    spec_of,
    status_of,
)
from muster.kube.pod_diagnosis import diagnose_pod, find_failed_containers, select_pods_to_diagnose
from muster.kube.quantity import parse_amounts, pod_requests

JOB_LABEL = "dispatch.muster.dev/job"
ATTEMPT_LABEL = "dispatch.muster.dev/attempt"
TYPE_LABEL = "dispatch.muster.dev/type"
GPU = "nvidia.com/gpu"
GPU_TYPE_LABEL = "nvidia.com/gpu.product"

ENDED_STATES: frozenset[ClusterState] = frozenset({"succeeded", "failed", "cancelled"})
_RETRYABLE_REASONS = frozenset({"Evicted", "NodeLost", "NodeShutdown", "Preempting", "UnexpectedAdmissionError"})


@dataclass(frozen=True, slots=True)
class PodOptions:
    """How one cluster wants its Pods."""

    namespace: str = "default"
    image: str = ""
    """For jobs that name none."""
    folder: Mount | None = None
    """Where Pods find the dispatcher's folder; None: they do not see it."""
    storage: Mapping[str, Mount] = field(default_factory=dict)
    """What a mount of another kind means here, by `KIND` or `KIND/NAME`: {"pfs": Mount("", "/", "claim", "shared")}."""
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    gpu_resource: str = GPU
    gpu_type_label: str = GPU_TYPE_LABEL
    rdma_resource: str = ""
    service_account: str = ""


def build_object(job: Job, spec: Spec, name: str, options: PodOptions) -> Object:
    """Returns the object that runs a job. Raises Refused if the job cannot be expressed."""
    labels = {JOB_LABEL: job.id, ATTEMPT_LABEL: str(job.attempt), TYPE_LABEL: _label_value(job.type)}
    if spec.manifest is not None:
        return _from_manifest(spec.manifest, name, options.namespace, labels)
    pod = {"restartPolicy": "Never", **_pod_spec(job, spec, name, options)}
    if job.resources.nodes == 1:
        metadata = {"name": name, "namespace": options.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    return _pytorch_job(job, pod, name, options.namespace, labels)


def folder_in_pod(job: Job, options: PodOptions) -> str:
    """Returns where a Pod finds the job's folder: by default under the dispatcher's own path."""
    if options.folder is None:
        return ""
    return f"{options.folder.path.rstrip('/')}/{job.id}" if options.folder.path else job.folder


def secrets_of(spec: Spec, options: PodOptions) -> dict[str, Secret]:
    """Returns the variables whose values are keys. They go into a Secret, not into the Pod."""
    env = {**options.env, **spec.env}
    return {name: value for name, value in env.items() if isinstance(value, Secret)}


def build_secret(name: str, namespace: str, labels: Mapping[str, str], keys: Mapping[str, Secret]) -> Object:
    """Reads the keys; the result must not be shown."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    data = {variable: key.reveal() for variable, key in keys.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def describe_object(obj: Object, pods: Sequence[Object]) -> JobDescription:
    """Returns what a Pod, Job, Workflow or training job says about itself; `pods` are its Pods."""
    if obj.get("kind") == "Pod":
        return describe_pod(obj)
    state = _state_of(obj)
    status = status_of(obj)
    hosts = tuple(sorted({str(spec_of(pod).get("nodeName")) for pod in pods if spec_of(pod).get("nodeName")}))
    found = JobDescription(
        state,
        _reason_of(obj, pods) if state != "succeeded" else "",
        _status_word(obj),
        hosts=hosts,
        started=_time(status.get("startTime") or status.get("startedAt")),
        ended=_time(status.get("completionTime") or status.get("finishedAt")),
    )
    if state != "failed":
        return found
    ends = [end for pod in pods for end in find_failed_containers(pod)]
    exit_code = ends[0].exit_code if ends else None
    fault = JobFault("Job.Failed", found.reason or "it failed", retryable=True, exit_code=exit_code)
    return replace(found, fault=fault)


def describe_pod(pod: Object) -> JobDescription:
    status = status_of(pod)
    phase = str(status.get("phase") or "Pending")
    states: dict[str, ClusterState] = {"Pending": "preparing", "Succeeded": "succeeded", "Failed": "failed"}
    state = states.get(phase, "running")
    if is_deleting(pod) and state in {"preparing", "running"}:
        state = "stopping"
    host = spec_of(pod).get("nodeName")
    reasons = diagnose_pod(pod) if state != "succeeded" else []
    ends = [
        end
        for container in status.get("containerStatuses") or ()
        if (end := (container.get("state") or {}).get("terminated"))
    ]
    return JobDescription(
        state,
        "; ".join(reasons) if state in {"preparing", "failed"} else "",
        phase,
        _pod_fault(pod, reasons) if state == "failed" else None,
        hosts=(str(host),) if host else (),
        started=_time(status.get("startTime")) if phase != "Pending" else None,
        ended=max((time for end in ends if (time := _time(end.get("finishedAt")))), default=None),
    )


def termination_message(pod: Object) -> str:
    """Returns what the first container left in its termination message."""
    for container in status_of(pod).get("containerStatuses") or ():
        end = (container.get("state") or {}).get("terminated") or {}
        if end.get("message"):
            return str(end["message"])
    return ""


def measure_capacity(nodes: Iterable[Object], pods: Iterable[Object], options: PodOptions) -> Capacity:
    """Returns what the schedulable nodes have, and what no Pod has asked for."""
    total: dict[str, float] = {"cpu": 0.0, "memory": 0.0, "gpu": 0.0}
    gpu_types: dict[str, str] = {}
    for node in nodes:
        if spec_of(node).get("unschedulable") or not is_condition_true(status_of(node).get("conditions"), "Ready"):
            continue
        name = str((node.get("metadata") or {}).get("name"))
        gpu_types[name] = labels_of(node).get(options.gpu_type_label, "")
        _add(total, status_of(node).get("allocatable") or {}, gpu_types[name], options, 1)
    free = dict(total)
    for pod in pods:
        if status_of(pod).get("phase") in ("Succeeded", "Failed"):
            continue
        host = str(spec_of(pod).get("nodeName") or "")
        if host and host not in gpu_types:
            continue
        requests = pod_requests(spec_of(pod))
        for resource, amount in _named(requests, gpu_types.get(host, ""), options).items():
            free[resource] = free.get(resource, 0.0) - amount
    return Capacity(total, free)


@cache
def job_kinds() -> tuple[Kind, ...]:
    """Returns the kinds that can be a job, one version of each: those of which it can be told when they have ended."""
    from muster.training.registry import training_kinds  # a tenth of a second, which most jobs need not pay
    from muster.workflows.kinds import WORKFLOW

    found: dict[str, Kind] = {}
    for kind in (POD, JOB, *training_kinds(), WORKFLOW):
        found.setdefault(kind.resource, kind)
    return tuple(found.values())


def _pod_spec(job: Job, spec: Spec, name: str, options: PodOptions) -> dict[str, Any]:
    wanted, where = job.resources, job.on
    image = spec.image or options.image
    if not image:
        raise Refused(f"{where} needs an image: prepare must return Spec(image=...)")
    if wanted.ports:
        raise Refused(f"{where} hands out no ports: on Kubernetes, every Pod has all ports for itself; set ports=0")
    if wanted.gpu != int(wanted.gpu):
        raise Refused(f"{where} hands out whole GPUs only, not {wanted.gpu:g}")
    requests: dict[str, str] = {"cpu": f"{round(wanted.cpu * 1000)}m", "memory": wanted.memory}
    limits: dict[str, str] = {}
    if wanted.gpu:
        limits[options.gpu_resource] = str(int(wanted.gpu))
    if wanted.rdma:
        if not options.rdma_resource:
            raise Refused(f"{where} has no RDMA resource configured: ClusterAdapter(rdma_resource=...)")
        limits[options.rdma_resource] = "1"
    volumes, mounts = _volumes(job, spec, options)
    container: dict[str, Any] = {
        "name": "main" if wanted.nodes == 1 else "pytorch",
        "image": image,
        "command": list(spec.command),
        "env": _env(spec, name, options),
        "resources": {"requests": requests | limits, **({"limits": limits} if limits else {})},
        "volumeMounts": mounts,
    }
    if spec.working_dir:
        container["workingDir"] = spec.working_dir
    selector = dict(wanted.labels)
    if wanted.gpu and wanted.gpu_type:
        selector[options.gpu_type_label] = wanted.gpu_type
    built: dict[str, Any] = {
        "containers": [{key: value for key, value in container.items() if value}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
    }
    more = {"volumes": volumes, "nodeSelector": selector, "serviceAccountName": options.service_account}
    return built | {key: value for key, value in more.items() if value}


def _env(spec: Spec, name: str, options: PodOptions) -> list[Object]:
    found: list[Object] = []
    for variable, value in {**options.env, **spec.env}.items():
        if isinstance(value, Secret):
            found.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": variable}}})
        else:
            found.append({"name": variable, "value": value})
    return found


def _volumes(job: Job, spec: Spec, options: PodOptions) -> tuple[list[Object], list[Object]]:
    wanted = list(spec.mounts)
    if options.folder is not None and job.folder:
        base = options.folder
        path = folder_in_pod(job, options)
        source = job.folder if base.kind == "hostpath" and not base.source else _join(base.source, job.id)
        wanted.append(Mount(path, source, base.kind, base.name))
    volumes: list[Object] = []
    mounts: list[Object] = []
    for number, given in enumerate(wanted):
        mount = _resolve(job, given, options)
        name = f"mount-{number}"
        entry: Object = {"name": name, "mountPath": mount.path}
        if mount.read_only:
            entry["readOnly"] = True
        if mount.kind == "hostpath":
            volumes.append({"name": name, "hostPath": {"path": mount.source}})
        else:
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": mount.name}})
            if mount.source.strip("/"):
                entry["subPath"] = mount.source.strip("/")
        mounts.append(entry)
    return volumes, mounts


def _resolve(job: Job, mount: Mount, options: PodOptions) -> Mount:
    """Maps a kind of storage that only some clusters know to a path or a claim."""
    if mount.kind in {"hostpath", "claim"}:
        if mount.kind == "claim" and not mount.name:
            raise Refused(f"the mount {mount.path} needs the name of a claim")
        return mount
    base = options.storage.get(f"{mount.kind}/{mount.name}") or options.storage.get(mount.kind)
    if base is None:
        which = f"{mount.kind} {mount.name}".strip()
        raise Refused(
            f"{job.on} does not know the storage {which} (mounted at {mount.path}); say what it is here with "
            f'storage={{"{mount.kind}": Mount(...)}}'
        )
    return replace(base, path=mount.path, source=_join(base.source, mount.source), read_only=mount.read_only)


def _join(base: str, path: str) -> str:
    return f"{base.rstrip('/')}/{path.strip('/')}".rstrip("/") or "/"


def _pytorch_job(job: Job, pod: dict[str, Any], name: str, namespace: str, labels: dict[str, str]) -> Object:
    template = {"metadata": {"labels": labels}, "spec": {k: v for k, v in pod.items() if k != "restartPolicy"}}
    roles = {"Master": 1, "Worker": job.resources.nodes - 1}
    replicas = {
        role: {"replicas": count, "restartPolicy": "Never", "template": copy_of(template)}
        for role, count in roles.items()
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    spec = {"runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0}, "pytorchReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def _from_manifest(manifest: Mapping[str, Any], name: str, namespace: str, labels: dict[str, str]) -> Object:
    obj = copy_of(dict(manifest))
    metadata = obj.setdefault("metadata", {})
    metadata.pop("generateName", None)
    metadata["name"] = name
    metadata.setdefault("namespace", namespace)
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    _label_templates(obj.get("spec"), labels)
    return obj


def _label_templates(part: Any, labels: Mapping[str, str]) -> None:
    """Labels every Pod template in an object, so that its Pods are found."""
    if isinstance(part, dict):
        template = part.get("template")
        if isinstance(template, dict) and "spec" in template:
            metadata = template.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        for value in part.values():
            _label_templates(value, labels)


def _state_of(obj: Object) -> ClusterState:
    status = status_of(obj)
    phases: dict[str, ClusterState] = {
        "Succeeded": "succeeded", "Completed": "succeeded", "Failed": "failed", "Error": "failed",
        "Running": "running", "Restarting": "running", "Aborting": "stopping", "Terminated": "cancelled",
    }  # fmt: skip
    if status.get("phase"):
        return phases.get(str(status["phase"]), "preparing")
    conditions = status.get("conditions")
    if is_condition_true(conditions, "Succeeded") or is_condition_true(conditions, "Complete"):
        return "succeeded"
    if is_condition_true(conditions, "Failed"):
        return "failed"
    if is_deleting(obj):
        return "stopping"
    if is_condition_true(conditions, "Running") or is_condition_true(conditions, "Restarting") or status.get("active"):
        return "running"
    return "preparing"


def _status_word(obj: Object) -> str:
    status = status_of(obj)
    conditions = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    return str(status.get("phase") or (conditions[-1].get("type") if conditions else "") or "Created")


def _reason_of(obj: Object, pods: Sequence[Object]) -> str:
    status = status_of(obj)
    conditions = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    failed = [str(c.get("message")) for c in conditions if c.get("type") == "Failed" and c.get("message")]
    said = failed or ([str(status["message"])] if status.get("message") else [])
    for pod in select_pods_to_diagnose(pods)[:3]:
        name = (pod.get("metadata") or {}).get("name")
        said += [f"pod {name}: {cause}" for cause in diagnose_pod(pod)]
    return "; ".join(dict.fromkeys(said))


def _pod_fault(pod: Object, reasons: Sequence[str]) -> JobFault:
    status = status_of(pod)
    message = "; ".join(reasons) or "it failed"
    reason = str(status.get("reason") or "")
    if reason in _RETRYABLE_REASONS:
        return JobFault(f"Cluster.{reason}", message, "dispatch", retryable=True)
    ends = find_failed_containers(pod)
    if not ends:
        return JobFault(f"Job.{reason}" if reason else "Job.Failed", message, retryable=True)
    end = ends[0]
    if end.failed_to_start:
        return JobFault("Job.CannotStart", message, retryable=False, exit_code=end.exit_code)
    code = "Job.OutOfMemory" if end.reason == "OOMKilled" else "Job.ExitCode"
    return JobFault(code, message, retryable=True, exit_code=end.exit_code)


def _named(amounts: Mapping[str, int], gpu_type: str, options: PodOptions) -> dict[str, float]:
    """Converts a scheduler's amounts to the names of `Capacity`."""
    found = {"cpu": amounts.get("cpu", 0) / 1000, "memory": float(amounts.get("memory", 0))}
    found["gpu"] = float(amounts.get(options.gpu_resource, 0))
    if gpu_type:
        found[f"gpu/{gpu_type}"] = found["gpu"]
    return found


def _add(total: dict[str, float], resources: Mapping[str, str], gpu_type: str, options: PodOptions, sign: int) -> None:
    for resource, amount in _named(parse_amounts(resources), gpu_type, options).items():
        total[resource] = total.get(resource, 0.0) + sign * amount


def _label_value(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in text)[:63]
    return kept.strip("-_.")


def _time(text: Any) -> datetime | None:
    return parse_time(str(text)) if text else None
