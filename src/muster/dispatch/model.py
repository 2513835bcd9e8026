"""Jobs as plain data: what is submitted, what an adapter is handed, and what it reports back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from muster.dispatch.errors import InvalidJob
from muster.dispatch.secrets import Secret
from muster.kube.quantity import QuantityError, whole_value

State: TypeAlias = Literal[
    "waiting", "starting", "preparing", "running", "submitting", "stopping", "cancelling", "restarting",
    "succeeded", "failed", "cancelled",
]  # fmt: skip
STATES: tuple[State, ...] = get_args(State)
ENDED: frozenset[State] = frozenset({"succeeded", "failed", "cancelled"})
ON_CLUSTER: frozenset[State] = frozenset({"preparing", "running", "stopping", "cancelling"})
"""States in which the cluster may hold the job; an adapter is asked about jobs in these."""

ClusterState: TypeAlias = Literal["preparing", "running", "stopping", "succeeded", "failed", "cancelled"]
"""The states that an adapter reports. `preparing`: accepted, but not running (queued, pulling images, suspended)."""
OnUnclear: TypeAlias = Literal["hold", "again", "fail"]


@dataclass(frozen=True, slots=True)
class Resources:
    """What each node of a job needs, in people's units. An adapter converts exactly, or raises Refused."""

    cpu: float = 1
    """Cores."""
    memory: str = "1Gi"
    """A Kubernetes quantity."""
    gpu: float = 0
    """Cards; a fraction is a share of one card."""
    gpu_type: str = ""
    """`V100`, `A800`, ...; empty: any."""
    nodes: int = 1
    rdma: bool = False
    ports: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node must have."""

    def __post_init__(self) -> None:
        if self.cpu < 0 or self.gpu < 0 or self.ports < 0 or self.nodes < 1:
            raise InvalidJob("resources: cpu, gpu and ports must not be negative, and nodes must be 1 or more")
        try:
            whole_value(self.memory)
        except QuantityError as error:
            raise InvalidJob(f"resources.memory: {error}") from None

    @property
    def memory_bytes(self) -> int:
        return whole_value(self.memory)


@dataclass(frozen=True, slots=True)
class JobFault:
    """Why a job failed."""

    code: str
    """A stable word for programs: `Train.Diverged`, `Job.ExitCode`, `Dispatch.Timeout`."""
    message: str
    origin: Literal["job", "dispatch"] = "job"
    """Who is at fault: the job (its code, its hooks, its data) or the dispatcher and its clusters."""
    hook: str = ""
    """The hook that raised it, if one did."""
    retryable: bool = False
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed job starts again. The dispatcher's own repeated calls are not counted."""

    times: int = 0
    backoff: float = 10
    """Seconds before the first retry; doubled for each further one, up to `backoff_max`."""
    backoff_max: float = 600
    on: Callable[[JobFault], bool] | None = None
    """Decides whether a fault is retried; without it, every retryable fault is."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Storage that a job sees under `path`."""

    path: str
    source: str
    """A path on the node or in the storage; for a claim, the path within the volume."""
    kind: str = "hostpath"
    """`hostpath`, `claim`, or a kind that only some clusters know: `pfs`, `bos`, `cfs`, `ceph`, ..."""
    name: str = ""
    """The claim, the PFS instance, the bucket."""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """What a job runs, as `Container.prepare` returns it. The same for every cluster."""

    image: str = ""
    command: tuple[str, ...] = ()
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    working_dir: str = ""
    manifest: Mapping[str, Any] | None = None
    """A whole Kubernetes object, such as a PyTorchJob, for clusters that take one. Only its name and labels are
    replaced."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What only one kind of cluster understands, by the adapter's name: `{"aihc": {"jobType": "MPIJob"}}`."""

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            raise InvalidJob('command is a list of words; for a shell write ["sh", "-c", "..."]')
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "mounts", tuple(self.mounts))


def with_env(spec: Spec, env: Mapping[str, str | Secret]) -> Spec:
    """Returns the spec with more variables; those that it has stay. A manifest says itself which it has."""
    return replace(spec, env={**env, **spec.env}) if env and spec.manifest is None else spec


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a cluster has, by resource: `cpu` (cores), `memory` (bytes), `gpu` (cards), `gpu/V100` (cards of a type).

    A resource that `total` does not name is not limited, except cards: a cluster that names no `gpu` has none.
    """

    total: Mapping[str, float]
    free: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JobDescription:
    """What a cluster says about a job."""

    state: ClusterState
    reason: str = ""
    """Why it is in this state, in a sentence: `0/3 nodes are available: 3 Insufficient nvidia.com/gpu`."""
    status: str = ""
    """The cluster's own word: `PrepareInstance`, `Abnormal`."""
    fault: JobFault | None = None
    """Why it failed; for failed jobs."""
    hosts: tuple[str, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a job's log."""

    text: str
    source: str = ""
    """The Pod or instance that wrote it."""
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobType:
    """A registered type of jobs."""

    name: str
    kind: Literal["function", "container"]
    target: str
    image: str = ""
    resources: Resources = field(default_factory=Resources)
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    hooks: frozenset[str] = frozenset()
    """The hooks that the container class defines."""
    check_every: float = 60.0
    hook_timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Tracking:
    """What the dispatcher must remember about an attempt, besides what users see."""

    sent: bool = False
    """Stored right before `start` is called: from then on, the cluster may have the job."""
    unclear: bool = False
    """An earlier start of this attempt has neither succeeded nor failed for sure."""
    on_hold: bool = False
    """The start is unclear and the cluster cannot be asked: `resolve()` decides."""
    prepared: bool = False
    """`prepare` has run, so `clean` has to."""
    off_cluster: bool = False
    """The cluster does not run it any more, or never did."""
    lost_since: datetime | None = None
    """Since when the cluster does not know it."""
    priority: int | None = None
    """What the cluster was told last; None before the first start."""
    tries: int = 0
    """Failed calls in a row; the back-off grows with them."""
    retries: int = 0
    """How often `Retry` has started the job again."""
    report_offset: int = 0
    """How much of `local_reporter.txt` has been read."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """`Context.keep`."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is stored. Every time is an aware datetime in UTC."""

    id: str
    type: str
    args: Mapping[str, Any]
    on: str
    """The name of the adapter."""
    state: State
    created: datetime
    reason: str = ""
    """Why it waits or ended, in a sentence."""
    name: str = ""
    """A name for people; need not be unique."""
    key: str | None = None
    """The same key is the same job, however often it is submitted."""
    project: str = ""
    creator: str = ""
    priority: int = 0
    """Higher is earlier."""
    resources: Resources = field(default_factory=Resources)
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    """Seconds that an attempt may run."""
    after: tuple[str, ...] = ()
    at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    attempt: int = 0
    """Counts starts, from 1."""
    external_name: str = ""
    """The name of this attempt on its cluster. It is stored before the start, and made of the id and the attempt."""
    external_id: str | None = None
    """What the cluster calls it. Stored once `start` has returned."""
    cluster_status: str = ""
    hosts: tuple[str, ...] = ()
    progress: float | None = None
    """From 0 to 1."""
    message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    result: Any = None
    fault: JobFault | None = None
    cancel_requested: datetime | None = None
    grace: float = 30
    """Seconds between the polite and the final signal when it is stopped."""
    next_at: datetime | None = None
    """When the dispatcher looks at it again, if it waits for a time."""
    started: datetime | None = None
    ended: datetime | None = None
    changed: datetime | None = None
    version: int = 0
    folder: str = ""
    """Its folder: `local_reporter.txt`, `log`, `result.json`, `error.json`, and what hooks write."""
    tracking: Tracking = field(default_factory=Tracking)

    @property
    def may_exist(self) -> bool:
        """Whether an earlier `start` of this attempt may have been carried out. If not, there is nothing to adopt."""
        return self.tracking.unclear

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED
