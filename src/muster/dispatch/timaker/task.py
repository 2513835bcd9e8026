"""What a job is on timaker, as records and pure functions: parameters, units, states, times, and what fits.

The names are those of Poseidon's `TimakerTaskInfo`, in Python's spelling.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, Protocol, Self

from muster.dispatch.errors import Refused
from muster.dispatch.model import Capacity, ClusterState, Job, Spec
from muster.dispatch.secrets import MASK, Secret
from muster.kube.quantity import parse_quantity

STATES: Mapping[str, ClusterState] = {
    "JobReceived": "preparing",
    "PrepareInstance": "preparing",
    "InstanceReady": "preparing",
    "PreResume": "preparing",
    "Resuming": "preparing",
    "Training": "running",
    "Suspending": "running",
    "PreSuspend": "stopping",
    "Suspended": "stopping",
    "PreStopped": "stopping",
    "Stopping": "stopping",
    "Stopped": "cancelled",
    "Completed": "succeeded",
    "Failed": "failed",
    "Evicted": "failed",
}
"""timaker's states. An unknown one counts as running: the job goes on until timaker says that it has ended."""

REASONS: Mapping[str, str] = {
    "JobReceived": "timaker has received it",
    "PrepareInstance": "timaker prepares its instances",
    "InstanceReady": "its instances are ready on timaker",
    "PreResume": "timaker is about to resume it",
    "Resuming": "timaker resumes it",
    "Suspending": "timaker is suspending it",
    "PreSuspend": "timaker is about to suspend it",
    "Suspended": "suspended on timaker",
    "PreStopped": "timaker is about to stop it",
    "Stopping": "timaker is stopping it",
    "Stopped": "stopped on timaker",
}
STOPPING = frozenset({"PreStopped", "Stopping"})
"""States in which a stop is under way. A suspended job is not being stopped."""

CODE_FOLDER = "/opt/ml/code"
"""Where timaker mounts the one folder that a job may have."""
MEGABYTE = 2**20
SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")
CARD_TYPES = ("V100", "A100", "T4", "P40")
_INT32 = 2**31 - 1
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TimakerFileSystemDataSource:
    """A folder that is mounted at /opt/ml/code."""

    file_system_type: str
    directory_path: str
    read_only: bool = False
    file_system_endpoint: str = ""
    user: str = ""
    """Of Ceph."""
    secret_key: str | Secret = field(default="", repr=False)
    """Of Ceph."""


@dataclass(frozen=True, slots=True)
class TimakerTaskInfo:
    """The parameters of a job on timaker, as a TimakerJobParser returns them. Whatever is None or empty comes from the
    job: its resources, and the spec of `Container.prepare`. Nothing of it is stored."""

    host: str
    """The host that requests are signed for."""
    addr: str
    """The gateway's address: `http://10.0.0.1:31425`."""
    secret_id: str | Secret = field(repr=False)
    secret_key: str | Secret = field(repr=False)
    uin: str
    """The user."""
    project_id: int = 1
    """1 is timaker's default project."""
    memory: int | None = None
    """MB."""
    cpu_num: int | None = None
    """1/1000 cores."""
    gpu_num: int | None = None
    """1/100 cards."""
    gpu_type: str | None = None
    instance_count: int | None = None
    is_elasticity: bool = False
    env_config: Mapping[str, str | Secret] = field(default_factory=dict)
    start_cmd: str = ""
    enable_rdma: bool | None = None
    """Only if timaker has RDMA: otherwise the job is never scheduled."""
    file_system_option: TimakerFileSystemDataSource | None = None
    task_name: str = ""
    """By default our name of the attempt. If a start is unclear, people look for this name on timaker."""
    image_name: str = ""


class TimakerJobParser(Protocol):
    """Turns a job into the parameters of timaker. It is called for every request, in a thread, so that each developer's
    jobs use that developer's keys, and a key is never kept."""

    def __call__(self, job: Job, /) -> TimakerTaskInfo: ...


@dataclass(frozen=True, slots=True)
class TimakerResources:
    """Resources of an app group in timaker's units."""

    cpu: int = 0
    """1/1000 cores."""
    memory: int = 0
    """MB."""
    vgpu: int = 0
    """1/100 cards that can be shared."""
    cards: Mapping[str, int] = field(default_factory=dict)
    """Whole cards by type: V100, A100, T4, P40."""
    elastic: int = 0
    """Cards for elastic jobs."""

    @classmethod
    def from_json(cls, resources: Mapping[str, Any]) -> Self:
        train = resources.get("Train") or {}
        return cls(
            cpu=int(train.get("Cpu") or 0),
            memory=int(train.get("Memory") or 0),
            vgpu=int(train.get("VGpu") or 0),
            cards={type: int(train.get(type) or 0) for type in CARD_TYPES},
            elastic=int(resources.get("Elastic") or 0),
        )

    def gpu(self, gpu_type: str = "", *, elastic: bool = False) -> int:
        """Returns 1/100 cards for a job: shared ones, those of its type (`V100-32G` is a V100) or of any, and for an
        elastic job the elastic ones."""
        fitting = [count for type, count in self.cards.items() if not gpu_type or gpu_type.startswith(type)]
        return self.vgpu + 100 * sum(fitting) + (100 * self.elastic if elastic else 0)


@dataclass(frozen=True, slots=True)
class TimakerCapacity:
    total: TimakerResources
    available: TimakerResources

    def to_capacity(self) -> Capacity:
        return Capacity(_in_common_units(self.total), _in_common_units(self.available))


def create_body(job: Job, spec: Spec, name: str, info: TimakerTaskInfo) -> dict[str, Any]:
    """Returns the body of CreateTrainingJob, without its RequestId. Raises Refused if timaker cannot run the job."""
    if spec.manifest is not None:
        raise Refused("spec.manifest: timaker takes no Kubernetes objects; set image and command")
    command, image = info.start_cmd or _command(spec), info.image_name or spec.image
    if not command:
        raise Refused("spec.command: timaker needs a command; return one from prepare, or start_cmd from the parser")
    if not image:
        raise Refused("spec.image: timaker needs an image; return one from prepare, or image_name from the parser")
    folder = info.file_system_option or _folder(spec)
    return {
        "Uin": info.uin,
        "TiProjectId": info.project_id,
        "TrainingJobName": info.task_name or name,
        "ResourceConfig": resource_config(job, info),
        "EnvConfig": [{"Name": key, "Value": value} for key, value in _environment(spec, info).items()],
        "AlgorithmSpecification": {
            "EntryPoint": command,
            "TrainingImageName": image,
            "AlgorithmSource": {"FileSystemDataSource": _data_source(folder)} if folder else {},
        },
        "Elastic": info.is_elasticity,
        "RestartPolicy": {"PolicyName": "AutoRestart"},
    }


def resource_config(job: Job, info: TimakerTaskInfo) -> dict[str, Any]:
    """Returns what each instance gets, in timaker's units: MB, 1/1000 cores, 1/100 cards. Exact, or Refused."""
    wanted = job.resources
    if wanted.ports:
        raise Refused("resources.ports: timaker gives jobs no ports")
    if wanted.labels:
        raise Refused("resources.labels: timaker does not place jobs by the labels of nodes")
    memory, cpu, gpu = info.memory, info.cpu_num, info.gpu_num
    if memory is None:
        memory = _units(parse_quantity(wanted.memory) / MEGABYTE, "resources.memory", wanted.memory, "Mi")
    if cpu is None:
        cpu = _units(Fraction(str(wanted.cpu)) * 1000, "resources.cpu", wanted.cpu, "1/1000 cores")
    if gpu is None:
        gpu = _units(Fraction(str(wanted.gpu)) * 100, "resources.gpu", wanted.gpu, "1/100 cards")
    return {
        "Memory": memory,
        "CpuNum": cpu,
        "GpuNum": gpu,
        "GpuType": wanted.gpu_type if info.gpu_type is None else info.gpu_type,
        "InstanceCount": wanted.nodes if info.instance_count is None else info.instance_count,
        "RDMAConfig": {"Enable": wanted.rdma if info.enable_rdma is None else info.enable_rdma},
    }


def lacking(config: Mapping[str, Any], resources: TimakerResources, *, elastic: bool) -> str:
    """Returns which resources do not suffice for all instances of a job, in words; empty if it fits."""
    count = config["InstanceCount"]
    gpu_type = str(config["GpuType"])
    needs = [
        (config["GpuNum"] * count, resources.gpu(gpu_type, elastic=elastic), 100, f"{gpu_type or 'GPU'} cards"),
        (config["CpuNum"] * count, resources.cpu, 1000, "cores"),
        (config["Memory"] * count, resources.memory, 1, "MB of memory"),
    ]
    return ", ".join(
        f"{needed / unit:g} {what} needed, {there / unit:g} there"
        for needed, there, unit, what in needs
        if needed > there
    )


def cluster_state(status: str) -> ClusterState:
    return STATES.get(status, "running")


def describe_status(status: str) -> str:
    """Returns why a job is in this state, in a sentence; empty if there is nothing to explain."""
    if status in STATES:
        return REASONS.get(status, "")
    return f"timaker says {status!r}, which is not known here; the job counts as running"


def parse_time(text: object) -> datetime | None:
    """Reads `2026-01-01 08:00:00`, which is Shanghai's time. None if there is no time."""
    try:
        found = datetime.strptime(str(text or "").strip(), "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 (timaker names no zone)
    except ValueError:
        return None
    return found.replace(tzinfo=SHANGHAI).astimezone(UTC)


def mask_keys(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the body of CreateTrainingJob as it may be shown: the key of the file system is ***."""
    algorithm = dict(body["AlgorithmSpecification"])
    source = algorithm["AlgorithmSource"].get("FileSystemDataSource")
    if source and source.get("SecretKey"):
        algorithm["AlgorithmSource"] = {"FileSystemDataSource": {**source, "SecretKey": MASK}}
    return {**body, "AlgorithmSpecification": algorithm}


def _command(spec: Spec) -> str:
    command = shlex.join(spec.command)
    return f"cd {shlex.quote(spec.working_dir)} && {command}" if spec.working_dir and command else command


def _environment(spec: Spec, info: TimakerTaskInfo) -> dict[str, str | Secret]:
    merged = {**info.env_config, **spec.env}
    for name in merged:
        if not _VARIABLE.fullmatch(name):
            raise Refused(f"env: {name!r} is not the name of a variable on Linux, which timaker needs")
    return merged


def _folder(spec: Spec) -> TimakerFileSystemDataSource | None:
    if not spec.mounts:
        return None
    mount = spec.mounts[0]
    if len(spec.mounts) > 1 or mount.path != CODE_FOLDER:
        raise Refused(
            f"mounts: timaker mounts one folder, at {CODE_FOLDER}; or return file_system_option from the parser"
        )
    if mount.kind == "claim":
        raise Refused("mounts: timaker does not know the claims of a Kubernetes cluster")
    return TimakerFileSystemDataSource(mount.kind, mount.source, mount.read_only, mount.name)


def _data_source(folder: TimakerFileSystemDataSource) -> dict[str, Any]:
    found: dict[str, Any] = {
        "FileSystemType": folder.file_system_type,
        "DirectoryPath": folder.directory_path,
        "ReadOnly": folder.read_only,
    }
    more = {"FileSystemEndpoint": folder.file_system_endpoint, "User": folder.user, "SecretKey": folder.secret_key}
    return found | {name: value for name, value in more.items() if value}


def _units(value: Fraction, field: str, written: object, unit: str) -> int:
    if value.denominator != 1:
        raise Refused(f"{field}: {written} is not a whole number of {unit}, timaker's unit")
    if value > _INT32:
        raise Refused(f"{field}: {written} is more than timaker can count")
    return value.numerator


def _in_common_units(resources: TimakerResources) -> dict[str, float]:
    found = {
        "cpu": resources.cpu / 1000,
        "memory": float(resources.memory * MEGABYTE),
        "gpu": resources.gpu(elastic=True) / 100,
    }
    return found | {f"gpu/{type}": resources.gpu(type, elastic=True) / 100 for type in resources.cards}
