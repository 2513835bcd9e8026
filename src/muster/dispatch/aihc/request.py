"""What a job is on AIHC, as pure functions: the body of CreateJob, and what AIHC's words mean."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, TypeAlias, TypedDict

from muster.dispatch.errors import Refused
from muster.dispatch.model import ClusterState, Job, Mount, Resources, Spec
from muster.kube.quantity import parse_quantity

STATES: Mapping[str, ClusterState] = {
    "Created": "preparing",
    "Scheduled": "preparing",
    "Starting": "preparing",
    "Running": "running",
    "Abnormal": "running",
    "Restarting": "preparing",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Stopping": "stopping",
    "Stopped": "cancelled",
    "ManualTermination": "cancelled",
}
"""AIHC's states. An unknown one counts as running: the job goes on until AIHC says that it has ended."""

REASONS: Mapping[str, str] = {
    "Created": "waits in AIHC's queue {queue}",
    "Scheduled": "has a place on AIHC; its pods are being created",
    "Starting": "its pods are starting on AIHC",
    "Abnormal": "AIHC reports a problem, and the job goes on; see its events",
    "Restarting": "AIHC restarts it after a fault",
    "Stopping": "AIHC is stopping it",
    "Stopped": "stopped on AIHC",
    "ManualTermination": "stopped on AIHC",
}

JOB_TYPES = ("PyTorchJob", "TFJob", "MPIJob", "RayJob")
_JOB_TYPE_NAMES = {
    **{name.lower(): name for name in JOB_TYPES},
    **{name.lower().removesuffix("job"): name for name in JOB_TYPES},
    "tensorflowjob": "TFJob",
    "tensorflow": "TFJob",
}
STOPPABLE = frozenset({"PyTorchJob", "MPIJob"})
"""What StopJob stops. Others can only be deleted."""

DATASOURCE_TYPES = ("pfs", "hostpath", "bos", "cfs", "rapidfs", "dataset", "emptydir")
PRIORITIES = ("high", "normal", "low")
GPU_RESOURCES: Mapping[str, str] = {
    "A10": "baidu.com/a10_24g_cgpu",
    "A100-40G": "baidu.com/a100_40g_cgpu",
    "A100-80G": "baidu.com/a100_80g_cgpu",
    "A800": "baidu.com/a800_80g_cgpu",
    "H20": "baidu.com/h20_96g_cgpu",
    "H800": "baidu.com/h800_80g_cgpu",
    "L20": "baidu.com/l20_cgpu",
    "V100-16G": "baidu.com/v100_16g_cgpu",
    "V100-32G": "baidu.com/v100_32g_cgpu",
}
"""AIHC counts cards by a resource per type. `AihcAdapter(gpu_resources=...)` adds to these or replaces them."""

GIGABYTE = 2**30
"""AIHC's unit of memory. Its documentation says GB and its queues say Gi."""


class AihcJob(TypedDict, total=False):
    """What a parser, or `Spec.options[adapter]`, may say about a job, in the words of CreateJob. It goes before what
    the spec and the resources say; `jobSpec` is merged field by field, and its `envs` by name."""

    jobType: str
    queue: str
    priority: str
    command: str
    jobSpec: Mapping[str, Any]
    sharedMemory: str
    """A quantity, such as `10Gi`: one more entry of jobSpec.resources."""
    labels: list[Mapping[str, str]]
    datasources: list[Mapping[str, Any]]
    enableBccl: bool
    faultTolerance: bool
    faultToleranceArgs: str
    tensorboardConfig: Mapping[str, Any]
    alertConfig: Mapping[str, Any]
    retentionPeriod: str


AihcJobParser: TypeAlias = Callable[[Job, Spec], AihcJob]
_FIELDS = frozenset(AihcJob.__annotations__)
_SPEC_FIELDS = frozenset({
    "image", "replicas", "imageConfig", "resources", "envs", "enableRDMA", "hostNetwork",
})  # fmt: skip
_COPIED = (
    "enableBccl", "faultTolerance", "faultToleranceArgs", "tensorboardConfig", "alertConfig", "retentionPeriod",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AihcSettings:
    """What the adapter knows besides the job."""

    queues: tuple[str, ...]
    """The queues that jobs may name; the first is the default."""
    job_type: str = "PyTorchJob"
    gpu_resources: Mapping[str, str] = field(default_factory=dict)
    pfs_instance: str = ""
    """The PFS instance of data sources of type pfs that name none."""
    roles: bool = False
    """Send `jobSpec` of a TFJob by role, `{"Worker": {...}}`, as Baidu's documentation of 2026 has it."""


def create_body(job: Job, spec: Spec, name: str, settings: AihcSettings, extra: AihcJob) -> dict[str, Any]:
    """Returns the body of CreateJob. Secrets in it are still `Secret` objects. Raises Refused, with what to change, if
    AIHC cannot run the job as it is."""
    _check_fields(extra)
    if spec.manifest is not None:
        raise Refused("spec.manifest: AIHC takes no Kubernetes objects; set image and command")
    job_type = normalize_job_type(extra.get("jobType") or settings.job_type)
    queue = extra.get("queue") or settings.queues[0]
    if queue not in settings.queues:
        raise Refused(f"queue: {queue!r} is not one of the adapter's queues ({', '.join(settings.queues)})")
    command = extra.get("command") or _command(spec)
    if not command:
        raise Refused("spec.command: AIHC needs a command")
    job_spec = _job_spec(job, spec, settings, extra)
    body: dict[str, Any] = {
        "name": name,
        "queue": queue,
        "jobType": job_type,
        "command": command,
        "jobSpec": {"Worker": job_spec} if settings.roles and job_type == "TFJob" else job_spec,
        "priority": _priority(job, extra),
    }
    labels = extra.get("labels") or [{"key": key, "value": value} for key, value in job.labels.items()]
    if labels:
        body["labels"] = labels
    datasources = extra.get("datasources") or [_datasource(mount) for mount in spec.mounts]
    if datasources:
        body["datasources"] = [_normalize_datasource(each, settings) for each in datasources]
    options: Mapping[str, object] = {**extra}
    return body | {key: options[key] for key in _COPIED if key in options}


def normalize_job_type(text: str) -> str:
    """Returns AIHC's name: `TensorFlowJob` is TFJob; AIHC itself answers with `pytorch`."""
    found = _JOB_TYPE_NAMES.get(text.lower())
    if found is None:
        raise Refused(f"jobType: AIHC does not run {text!r}; it runs {', '.join(JOB_TYPES)}")
    return found


def whole(value: Fraction, unit: int, field: str, written: object, unit_name: str) -> int:
    """Returns how many units a value is. Raises Refused if that is not a whole number."""
    found = value / unit
    if found.denominator != 1:
        up = -(-found.numerator // found.denominator)
        raise Refused(f"{field}: {written} is not a whole number of {unit_name}; ask for {up} {unit_name}")
    return found.numerator


def resource_list(resources: Resources, gpu_resources: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns AIHC's list of what each pod gets: cores, GB, cards. Exact, or Refused."""
    if resources.ports:
        raise Refused("resources.ports: AIHC gives no ports; with jobSpec.hostNetwork a job has those of its node")
    if resources.labels:
        raise Refused("resources.labels: AIHC places jobs by queue, not by the labels of nodes")
    cpu = Fraction(str(resources.cpu))
    found: list[dict[str, Any]] = [
        {"name": "cpu", "quantity": whole(cpu, 1, "resources.cpu", resources.cpu, "cores")},
        {"name": "memory", "quantity": _gigabytes(resources.memory, "resources.memory")},
    ]
    if resources.gpu:
        cards = whole(Fraction(str(resources.gpu)), 1, "resources.gpu", resources.gpu, "cards")
        found.append({"name": _gpu_resource(resources.gpu_type, gpu_resources), "quantity": cards})
    return [each for each in found if each["quantity"]]


def cluster_state(status: str) -> ClusterState:
    return STATES.get(status, "running")


def describe_status(status: str, queue: str) -> str:
    """Returns why a job is in this state, in a sentence; empty if there is nothing to explain."""
    if status in STATES:
        return REASONS.get(status, "").format(queue=queue)
    return f"AIHC says {status!r}, which is not known here; the job counts as running"


def parse_time(value: object) -> datetime | None:
    """Reads `2025-09-10T04:00:34Z`, or epoch seconds; None if there is no time."""
    text = str(value or "").strip()
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def started_at(job: Mapping[str, Any]) -> datetime | None:
    """Returns when a described job began to run, by its timeline."""
    timeline = job.get("jobTimeLine")
    for entry in timeline if isinstance(timeline, list) else ():
        if isinstance(entry, dict) and entry.get("conditionType") == "Running":
            return parse_time(entry.get("time"))
    return None


def _check_fields(extra: AihcJob) -> None:
    for key in extra:
        if key not in _FIELDS:
            hint = "; the field is `datasources`" if key == "dataSources" else ""
            raise Refused(f"options: AIHC jobs have no field {key!r}{hint}; there are {', '.join(sorted(_FIELDS))}")
    for key in extra.get("jobSpec", {}):
        if key not in _SPEC_FIELDS:
            raise Refused(f"options: jobSpec has no field {key!r}; there are {', '.join(sorted(_SPEC_FIELDS))}")


def _command(spec: Spec) -> str:
    command = shlex.join(spec.command)
    return f"cd {shlex.quote(spec.working_dir)} && {command}" if spec.working_dir and command else command


def _job_spec(job: Job, spec: Spec, settings: AihcSettings, extra: AihcJob) -> dict[str, Any]:
    given = dict(extra.get("jobSpec", {}))
    image = given.pop("image", "") or spec.image
    if not image:
        raise Refused("spec.image: AIHC needs an image")
    if ":" not in image.rsplit("/", 1)[-1]:
        raise Refused(f"spec.image: {image!r} has no tag; AIHC needs one, such as {image}:latest")
    envs = {each["name"]: each.get("value", "") for each in given.pop("envs", None) or []}
    gpu_resources = {**GPU_RESOURCES, **settings.gpu_resources}
    resources = given.pop("resources", None) or resource_list(job.resources, gpu_resources)
    if "sharedMemory" in extra:
        shared = {"name": "sharedMemory", "quantity": _gigabytes(extra["sharedMemory"], "sharedMemory")}
        resources = [*(each for each in resources if each["name"] != "sharedMemory"), shared]
    built: dict[str, Any] = {"image": image, "replicas": job.resources.nodes, "resources": resources}
    merged = {**spec.env, **envs}
    if merged:
        built["envs"] = [{"name": key, "value": value} for key, value in merged.items()]
    if job.resources.rdma:
        built["enableRDMA"] = True
    return built | given


def priority_word(job: Job) -> str:
    return "high" if job.priority > 0 else "low" if job.priority < 0 else "normal"


def _priority(job: Job, extra: AihcJob) -> str:
    chosen = extra.get("priority") or priority_word(job)
    if chosen not in PRIORITIES:
        raise Refused(f"priority: {chosen!r} is not one of {', '.join(PRIORITIES)}")
    return chosen


def _gigabytes(memory: str, field: str) -> int:
    return whole(parse_quantity(memory), GIGABYTE, field, memory, "Gi")


def _gpu_resource(gpu_type: str, known: Mapping[str, str]) -> str:
    if "/" in gpu_type:
        return gpu_type
    found = {name.lower(): resource for name, resource in known.items()}.get(gpu_type.lower())
    if found is None:
        said = f"{gpu_type!r} is not known" if gpu_type else "it must be set, because AIHC counts cards by type"
        raise Refused(
            f"resources.gpu_type: {said}; use one of {', '.join(sorted(known))}, or AIHC's own name of the resource "
            "(baidu.com/a800_80g_cgpu), or name it in the adapter's gpu_resources"
        )
    return found


def _datasource(mount: Mount) -> dict[str, Any]:
    found: dict[str, Any] = {"type": mount.kind, "mountPath": mount.path, "options": {"readOnly": mount.read_only}}
    if mount.name:
        found["name"] = mount.name
    if mount.source:
        found["sourcePath"] = mount.source
    return found


def _normalize_datasource(given: Mapping[str, Any], settings: AihcSettings) -> dict[str, Any]:
    """Returns a data source as AIHC takes it. Only what is missing is filled in."""
    found = {**given, "type": str(given.get("type", "")).lower()}
    if found["type"] not in DATASOURCE_TYPES:
        raise Refused(
            f"mounts: AIHC has no storage of type {given.get('type')!r}; it has {', '.join(DATASOURCE_TYPES)}"
        )
    if not found.get("mountPath"):
        raise Refused(f"mounts: a {found['type']} source has no mountPath")
    if found["type"] == "pfs" and not found.get("name"):
        if not settings.pfs_instance:
            raise Refused(f"mounts: the pfs source at {found['mountPath']} needs a name, the id of its instance")
        found["name"] = settings.pfs_instance
    if "readOnly" in found:  # as the MLP Cooker and its users write it
        found["options"] = {"readOnly": found.pop("readOnly"), **found.get("options", {})}
    return found
