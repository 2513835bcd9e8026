"""The records of the platform: users, teams, workflows, versions, modules, runs, jobs, resources.

A record is written once, as a dataclass. The database fills it from a row, the API returns it as JSON, and the SDK
reads that JSON into the same class. This module imports only the standard library, because the SDK does, too.

Records have no default values: a field that depends on who asks, such as `may`, is set by the route that returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")

Kind: TypeAlias = Literal[
    "workflow", "version", "run", "module", "review", "category", "virtual cluster", "storage root", "user", "team",
    "token", "audit", "settings", "node", "queue", "job", "dispatch job", "experiment", "pipeline", "pipeline run",
    "recurring run", "volume", "workspace", "pod",
]  # fmt: skip
Role: TypeAlias = Literal["admin", "leader", "member"]
TeamRole: TypeAlias = Literal["leader", "member"]
Scope: TypeAlias = Literal["read", "write", "admin", "run"]
RunState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "stopped"]
NodeState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "stopped", "skipped"]
WorkspaceState: TypeAlias = Literal["starting", "running", "stopped", "failed", "deleting"]
JobState: TypeAlias = Literal["waiting", "running", "restarting", "suspended", "succeeded", "failed"]
DispatchState: TypeAlias = Literal[
    "waiting", "starting", "preparing", "running", "submitting", "stopping", "cancelling", "restarting",
    "succeeded", "failed", "cancelled",
]  # fmt: skip
MemberState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "gone"]
ModuleState: TypeAlias = Literal[
    "building", "build failed", "private", "in review", "rejected", "published", "deprecated"
]
ReviewState: TypeAlias = Literal["open", "approved", "rejected", "withdrawn"]
Decision: TypeAlias = Literal["approve", "reject", "withdraw"]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next: str | None
    """The cursor of the next page; None on the last one."""
    total: int
    """The number of items on all pages."""

    def map(self, function: Callable[[T], U]) -> Page[U]:
        return Page([function(item) for item in self.items], self.next, self.total)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a status message: a code of the message catalog with its values. The code `text` is any other text."""

    code: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a permission is checked for. A thing that does not exist yet belongs to the user who creates it."""

    kind: Kind
    id: str = ""
    owner: str = ""
    team: str = ""
    """The id of the team it is shared with; '' for none."""
    public: bool = False


# Users


@dataclass(frozen=True, slots=True)
class User:
    id: str
    name: str
    display_name: str
    role: Role
    """`leader` leads at least one team."""
    disabled: bool
    created: datetime
    revision: int
    """Increases with every change."""
    email: str | None
    """Only for admins and the user themselves, like the fields below; None for others."""
    last_login: datetime | None
    has_password: bool | None
    openid: bool | None
    """Whether the account comes from the OpenID provider."""

    @property
    def admin(self) -> bool:
        return self.role == "admin"

    @property
    def subject(self) -> Subject:
        return Subject("user", self.id, owner=self.id)


@dataclass(frozen=True, slots=True)
class Me:
    """The user who sends the request."""

    user: User
    teams: dict[str, str]
    """By team id: leader or member."""
    scopes: list[Scope]
    via: str
    """`session` or `token`."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    created: datetime
    last_used: datetime
    expires: datetime
    address: str
    browser: str
    current: bool
    """Whether this request uses it."""


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    members: int
    """The number of members."""
    may: list[str]
    """What the caller may do: edit, set members, leave, delete."""

    @property
    def subject(self) -> Subject:
        return Subject("team", self.id, team=self.id)


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a team."""

    user_id: str
    name: str
    display_name: str
    role: TeamRole
    since: datetime


@dataclass(frozen=True, slots=True)
class ApiToken:
    id: str
    user_id: str
    user_name: str
    name: str
    hint: str
    """The last characters of the secret."""
    scopes: list[Scope]
    created: datetime
    last_used: datetime | None
    expires: datetime | None
    revoked: datetime | None

    @property
    def subject(self) -> Subject:
        return Subject("token", self.id, owner=self.user_id)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: str
    at: datetime
    actor_id: str
    actor_name: str
    via: str
    address: str
    action: str
    kind: str
    subject_id: str
    subject_name: str
    details: dict[str, Any]


# Workflows


@dataclass(frozen=True, slots=True)
class Workflow:
    id: str
    name: str
    description: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    created: datetime
    updated: datetime
    archived: datetime | None
    versions: int
    """The number of versions, which is also the number of the latest one."""
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("workflow", self.id, owner=self.owner_id, team=self.team_id or "")

    @property
    def version_subject(self) -> Subject:
        """Versions have the owner and team of their workflow."""
        return Subject("version", self.id, owner=self.owner_id, team=self.team_id or "")


@dataclass(frozen=True, slots=True)
class WorkflowDetail(Workflow):
    may: list[str]
    """What the caller may do: edit, archive, delete, create version."""


@dataclass(frozen=True, slots=True)
class Version:
    id: str
    workflow_id: str
    number: int
    name: str
    description: str
    type: Literal["graph", "yaml"]
    hash: str
    """Equal for versions that run the same."""
    nodes: int
    author_id: str
    author_name: str
    copied_from: str
    created: datetime
    archived: datetime | None


@dataclass(frozen=True, slots=True)
class InitialParameter:
    """An initial parameter of a version, which a run may set."""

    name: str
    description: str
    default: str | None
    required: bool


@dataclass(frozen=True, slots=True)
class VersionDetail(Version):
    workflow_name: str
    document: dict[str, Any]
    """Without the values of secret variables, unless the caller works on the workflow."""
    parameters: list[InitialParameter]
    hidden: bool
    """Whether values of secret variables may be left out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning about a graph document."""

    path: str
    """Where, as in `nodes[1].inputs[0].from`; '' for the whole document."""
    code: str
    """Of the message catalog. A user interface makes a sentence of it and the arguments."""
    message: str
    fix: str
    """What to write instead."""
    arguments: dict[str, Any]
    severity: Literal["error", "warning"]
    """A document with warnings can be stored and run."""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message}; {self.fix}" if self.fix else f"{place}{self.message}"

    @property
    def is_warning(self) -> bool:
        return self.severity == "warning"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version that was just stored."""

    workflow_id: str
    workflow_name: str
    revision: int
    """Of the workflow."""
    version: Version
    notes: list[Finding]
    """Warnings."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two versions."""

    action: Literal["added", "removed", "changed"]
    what: str
    """`parameter`, `node`, `edge`, `input` ..., or `field`."""
    name: str
    """`train`, `step1 -> step2`, `lr of train`, or `command of train`."""
    path: str
    """By names: `nodes[train].command`."""
    before: Any
    after: Any
    text: str


@dataclass(frozen=True, slots=True)
class VersionDiff:
    before: Version
    after: Version
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class ImportedManifest:
    document: dict[str, Any] | None
    """A graph if a graph can say all that the manifest says; None if the manifest cannot run."""
    problems: list[Finding]


# Modules


@dataclass(frozen=True, slots=True)
class Category:
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    modules: int
    """The number of modules in it, including those that the caller may not see."""


@dataclass(frozen=True, slots=True)
class Module:
    id: str
    name: str
    description: str
    category_id: str
    category_name: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    created: datetime
    updated: datetime
    versions: int
    """The number of the newest version that the caller may see."""
    state: ModuleState
    """Of that version."""
    public_number: int
    """The number of the version that all users may use; 0 if there is none."""
    public_state: str
    revision: int
    may: list[str]
    """What the caller may do: use, inspect, edit, ask review, deprecate, delete."""

    @property
    def subject(self) -> Subject:
        return Subject("module", self.id, self.owner_id, self.team_id or "", public=self.public_number > 0)


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    name: str
    value: str
    secret: bool


@dataclass(frozen=True, slots=True)
class ModuleInput:
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class ModuleOutput:
    name: str
    path: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class ModuleVersion:
    id: str
    module_id: str
    number: int
    author_id: str
    author_name: str
    git_url: str
    """Without credentials."""
    git_ref: str
    git_commit: str
    """The commit that was built; '' before it is known."""
    dockerfile: str
    build_dir: str
    readme_path: str
    env: list[ModuleVariable]
    """Values are only for users who work on the module or review it."""
    inputs: list[ModuleInput]
    outputs: list[ModuleOutput]
    state: ModuleState
    reason: str
    """Why it failed or was rejected."""
    steps: list[str]
    """The next steps that its state allows, for users who may take them."""
    runs_as: Literal["image", "folder", ""]
    image: str
    entrypoint: list[str]
    size: int
    created: datetime
    updated: datetime
    built: datetime | None


@dataclass(frozen=True, slots=True)
class ModuleVersionDetail(ModuleVersion):
    readme: str
    """Markdown as the author wrote it. A page that shows it must remove scripts."""


@dataclass(frozen=True, slots=True)
class Review:
    id: str
    module_id: str
    module_name: str
    version_id: str
    number: int
    """Of the version."""
    author_id: str
    author_name: str
    """The user who asks for the review."""
    team_id: str | None
    team_name: str | None
    state: ReviewState
    message: str
    """From the author."""
    reason: str
    """Of the decision."""
    decided_by: str | None
    decided_by_name: str | None
    created: datetime
    decided: datetime | None
    revision: int
    may: list[Decision]
    """What the caller may decide."""

    @property
    def subject(self) -> Subject:
        return Subject("review", self.id, self.author_id, self.team_id or "")


# Resources


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    id: str
    name: str
    description: str
    node_selector: dict[str, str]
    sku: dict[str, str]
    """What one SKU is, by resource."""
    total: int | None
    """The number of SKUs; None for as many as the nodes have."""
    used: int
    """SKUs in use now."""
    available: int
    """SKUs that can be in use: the total, but no more than the nodes have."""
    largest: int
    """The most SKUs that one Pod can have: as many as fit on its largest node."""
    team_id: str | None
    team_name: str | None
    """The team that may use it; None for all users."""
    usable: bool
    """Whether the caller may use it."""
    created: datetime
    updated: datetime
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("virtual cluster", self.id, team=self.team_id or "", public=self.team_id is None)

    @property
    def queue(self) -> str:
        """The scheduler's queue that enforces the total."""
        return f"vc-{self.id}"


@dataclass(frozen=True, slots=True)
class SkuUse:
    """A node of a run that uses SKUs of a virtual cluster, or waits for them."""

    run_id: str
    run_name: str
    node: str
    owner_name: str
    skus: int


@dataclass(frozen=True, slots=True)
class VirtualClusterDetail(VirtualCluster):
    uses: list[SkuUse]
    waiting: list[SkuUse]


@dataclass(frozen=True, slots=True)
class StorageRoot:
    id: str
    name: str
    description: str
    path: str
    """Where nodes find it, and the path on the host if `host_path` and `claim` are empty."""
    host_path: str
    claim: str
    """The PersistentVolumeClaim, instead of a host path."""
    read_only: bool
    team_id: str | None
    team_name: str | None
    """The team that may use it; None for all users."""
    usable: bool
    """Whether the caller may use it."""
    created: datetime
    updated: datetime
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("storage root", self.id, team=self.team_id or "", public=self.team_id is None)


# Runs


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    name: str
    workflow_id: str
    workflow_name: str
    version_id: str
    version_number: int
    version_name: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    copied_from: str
    state: RunState
    message: str
    """Why it waits or failed."""
    message_parts: list[MessagePart]
    nodes: int
    done: int
    """The number of nodes that ended; if the run succeeded, with those that were skipped."""
    retries: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    stopping: datetime | None
    """When a user asked it to stop."""
    stopped_by: str
    """The name of that user."""
    namespace: str
    """Where its objects are on the cluster: the team's that it was shared with, or its owner's."""
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("run", self.id, owner=self.owner_id, team=self.team_id or "")

    @property
    def object_name(self) -> str:
        """The name of its Workflow and its Secret."""
        return run_object_name(self.id)


def run_object_name(run_id: str) -> str:
    return f"run-{run_id}"


@dataclass(frozen=True, slots=True)
class RunNode:
    name: str
    kind: str
    state: NodeState
    message: str
    message_parts: list[MessagePart]
    attempts: int
    started: datetime | None
    finished: datetime | None
    cluster: str
    skus: int


@dataclass(frozen=True, slots=True)
class RunWithNodes(Run):
    node_states: list[RunNode]


@dataclass(frozen=True, slots=True)
class RunDetail(RunWithNodes):
    parameters: dict[str, str] | None
    """The values that were filled in; None if the run is not shared with the caller."""
    document: dict[str, Any]
    """The version that runs, without the values of secret variables."""
    may: list[str]
    """What the caller may do: inspect, copy, edit, stop, retry, delete."""


@dataclass(frozen=True, slots=True)
class NodeAttempt:
    number: int
    pod: str
    """'' if it has none, as the task of a training job."""
    state: NodeState
    message: str
    message_parts: list[MessagePart]
    exit_code: str
    host: str
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class NodeInput:
    name: str
    type: Literal["text", "file"]
    value: str | None
    """The text, or the path."""
    path: str
    origin: str
    """The initial parameter, or NODE.OUTPUT."""
    description: str


@dataclass(frozen=True, slots=True)
class NodeOutput:
    name: str
    type: Literal["text", "file"]
    value: str | None
    path: str
    ready: bool
    description: str


@dataclass(frozen=True, slots=True)
class NodeVariable:
    name: str
    value: str | None
    """None for a secret."""
    secret: bool


@dataclass(frozen=True, slots=True)
class NodeMount:
    name: str
    path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class RunNodeDetail(RunNode):
    command: str
    image: str
    working_dir: str
    env: list[NodeVariable]
    resources: dict[str, str]
    node_selector: dict[str, str]
    mounts: list[NodeMount]
    retries: int
    """How often a failed attempt is repeated."""
    inputs: list[NodeInput]
    outputs: list[NodeOutput]
    attempt_list: list[NodeAttempt]


@dataclass(frozen=True, slots=True)
class PodContainer:
    name: str
    image: str
    state: str
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    started: str | None
    finished: str | None


@dataclass(frozen=True, slots=True)
class PodSummary:
    name: str
    phase: str
    host: str
    address: str
    message: str
    message_parts: list[MessagePart]
    containers: list[PodContainer]


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    time: str | None
    type: str
    reason: str
    object: str
    message: str
    count: int


# Jobs


@dataclass(frozen=True, slots=True)
class Job:
    """A training job of any kind."""

    uid: str
    namespace: str
    kind: str
    word: str
    """The kind as it is written in URLs."""
    api_version: str
    name: str
    state: JobState
    deleting: bool
    owner_id: str | None
    """None if it was created outside the platform."""
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    run_id: str | None
    """The run that created it; the job then belongs to the owner of the run."""
    run_name: str | None
    replicas: int
    running: int
    succeeded: int
    failed: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    may: list[str]
    """What the caller may do now: suspend, resume, delete."""


# Workspaces


@dataclass(frozen=True, slots=True)
class WorkspaceImage:
    """An image that the form for a new notebook offers."""

    name: str
    title: str
    image: str
    description: str
    contents: list[str]
    """What is inside."""
    ready: bool
    """Whether a notebook can start with it at once; if not, it is installed first."""


@dataclass(frozen=True, slots=True)
class WorkspaceMount:
    path: str
    """Where the notebook sees it."""
    claim: str
    """The claim; '' for a folder of the nodes."""
    folder: str
    """The folder of the nodes; '' for a claim."""
    sub_path: str
    """What of it is mounted."""
    read_only: bool


@dataclass(frozen=True, slots=True)
class WorkspaceProgress:
    """How far the installation of the environment is."""

    text: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Notebook:
    uid: str
    namespace: str
    name: str
    owner_id: str | None
    """None if it was created outside the platform, in a namespace that is not a user's."""
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    image: str
    image_name: str
    """The name of the image in the list; '' if it is not there."""
    cluster: str
    """The virtual cluster; '' for none."""
    skus: int
    """The number of its SKUs; 0 without a virtual cluster."""
    resources: dict[str, str]
    """What it requests: cpu, memory, nvidia.com/gpu, ..."""
    gpus: int
    home: str
    """The claim that holds its home folder; '' if it has none: then files are lost when it stops."""
    mounts: list[WorkspaceMount]
    """Everything that it mounts, with the home."""
    state: WorkspaceState
    reason: str
    """Why it is not running; '' if there is nothing to say."""
    progress: WorkspaceProgress | None
    created: datetime
    ready_since: datetime | None
    last_activity: datetime | None
    """When a kernel or terminal was last used; None if that is not known."""
    cull_idle_minutes: float
    """How long it may be idle before it is stopped; 0 for as long as it likes."""
    cull_at: datetime | None
    """A warning: when it will be stopped unless it is used."""
    culled_at: datetime | None
    """When it was stopped because it was idle."""
    pod: str
    may: list[str]
    """What the caller may do now: open, start, stop, restart, edit, delete."""


@dataclass(frozen=True, slots=True)
class LogFolder:
    """Where a TensorBoard finds event files."""

    name: str
    """How it is called in the board; '' if it is the only one."""
    path: str
    """`pvc://CLAIM/PATH`, a folder of the nodes, or the URL of an object store."""


@dataclass(frozen=True, slots=True)
class TensorBoard:
    uid: str
    namespace: str
    name: str
    owner_id: str | None
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    logs: list[LogFolder]
    state: WorkspaceState
    reason: str
    progress: WorkspaceProgress | None
    created: datetime
    ready_since: datetime | None
    pod: str
    may: list[str]
    """What the caller may do now: open, start, stop, restart, edit, delete."""


@dataclass(frozen=True, slots=True)
class JobMember:
    index: int
    pod: str
    """The name of its Pod, whether the Pod exists or not."""
    uid: str
    """Of the Pod; '' if there is none."""
    state: MemberState
    word: str
    """The status that `kubectl get pods` prints."""
    restarts: int
    host: str
    started: str | None
    finished: str | None
    exit_code: int | None
    message: str
    """Why it waits or failed."""
    message_parts: list[MessagePart]
    containers: list[str]


@dataclass(frozen=True, slots=True)
class JobRole:
    name: str
    replicas: int
    restart: str
    """The restart policy of its members."""
    members: list[JobMember]


@dataclass(frozen=True, slots=True)
class JobCondition:
    type: str
    status: str
    reason: str
    message: str
    message_parts: list[MessagePart]
    since: str | None


@dataclass(frozen=True, slots=True)
class JobReason:
    """Why a job waits or failed."""

    code: str
    detail: str
    detail_parts: list[MessagePart]
    about: str
    """The Pod, or the reason of an event."""
    text: str
    """The whole sentence, in English."""


@dataclass(frozen=True, slots=True)
class JobPodGroup:
    name: str
    queue: str
    phase: str
    members: int
    """The number of members that start together."""
    running: int
    succeeded: int
    failed: int
    message: str
    """Why it waits."""
    message_parts: list[MessagePart]
    since: datetime | None


@dataclass(frozen=True, slots=True)
class JobDetail(Job):
    roles: list[JobRole]
    conditions: list[JobCondition]
    group: JobPodGroup | None
    """It is deleted when the job ends."""
    gang: bool
    """Whether the job is a gang, or was one."""
    reasons: list[JobReason]
    """The nearest cause first."""
    restarts: int


# Dispatch


@dataclass(frozen=True, slots=True)
class DispatchAdapter:
    """A cluster that the dispatcher starts jobs on."""

    name: str
    is_default: bool
    takes_manifests: bool
    """Whether it is a Kubernetes cluster."""


@dataclass(frozen=True, slots=True)
class DispatchFault:
    """Why a job failed."""

    code: str
    message: str
    origin: str
    """`job`, or `dispatch` if the dispatcher or its cluster is at fault."""
    hook: str
    exit_code: int | None
    log_tail: list[str]


@dataclass(frozen=True, slots=True)
class DispatchEvent:
    """A change of a job, with the reason."""

    id: int
    time: datetime
    attempt: int
    state: DispatchState
    reason: str
    reason_parts: list[MessagePart]


@dataclass(frozen=True, slots=True)
class DispatchJob:
    """A job of the dispatcher, on any adapter."""

    id: str
    name: str
    type: str
    kind: str
    """What it is on its cluster: `PyTorchJob`, or `container`."""
    adapter: str
    state: DispatchState
    reason: str
    """Why it waits or ended, in a sentence."""
    reason_parts: list[MessagePart]
    """The same as codes with values."""
    is_unclear: bool
    """Whether its start is unclear, and it waits for `resolve`."""
    priority: int
    owner_id: str | None
    """None if it was submitted by a program that uses the same database."""
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    attempt: int
    progress: float | None
    """From 0 to 1."""
    message: str
    cluster_status: str
    """The cluster's own word for its state."""
    external_name: str
    external_id: str | None
    hosts: list[str]
    cancel_requested: datetime | None
    created: datetime
    started: datetime | None
    ended: datetime | None
    changed: datetime | None
    may: list[str]
    """What the caller may do now: cancel, restart, resolve, edit."""


@dataclass(frozen=True, slots=True)
class DispatchJobDetail(DispatchJob):
    args: dict[str, Any]
    """What it was submitted with."""
    resources: dict[str, Any]
    labels: dict[str, str]
    key: str | None
    retries: int
    """How often it may be started again after a failure."""
    timeout: float | None
    next_at: datetime | None
    metrics: dict[str, float]
    result: Any
    fault: DispatchFault | None
    namespace: str | None
    """Where its objects are, on a Kubernetes cluster."""
    events: list[DispatchEvent]
    """The oldest first."""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The scalars with one name of one source."""

    subject: str
    """What wrote it: `node:RUN/NODE` or `job:NAMESPACE/KIND/NAME`."""
    name: str
    """The name of the node or job."""
    run: str
    """The name of the run that the node belongs to; '' for a job."""
    source: str
    """`POD` for a log, `POD:FOLDER` for event files."""
    tag: str
    count: int
    """How many points were written. There are fewer in `points` if the curve is thinned out; its first, last, smallest
    and largest points are always there."""
    points: list[tuple[int, float, float | str]]
    """Step, time in seconds since 1970, value. A value that is not finite is "NaN", "Infinity" or "-Infinity"."""


@dataclass(frozen=True, slots=True)
class MetricProblem:
    """A file that cannot be read to its end, or a limit that was reached."""

    subject: str
    source: str
    message: str


@dataclass(frozen=True, slots=True)
class Metrics:
    series: list[MetricSeries]
    problems: list[MetricProblem]
    patterns: dict[str, str]
    """The pattern of log lines by subject, where one is set."""
    cursor: str
    """For `since` of the next request."""
    live: bool
    """Whether something still runs, so that more may come."""
