"""What the engine and the shell around it say to each other. Plain data, no decisions.

The engine (`step`) decides: it looks at a Run and at what has been observed, changes the Run's nodes and answers
Actions. The shell does: it stores the nodes that changed, launches and stops what it is told to, and reports an Outcome
for every leaf. Everything may be told twice; nothing depends on having been told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

from muster.kube.objects import Key, Object

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Skipped", "Failed", "Error", "Omitted"]
NodeType: TypeAlias = Literal[
    "Pod", "Container", "Steps", "StepGroup", "DAG", "TaskGroup", "Retry", "Skipped", "Suspend", "HTTP", "Plugin"
]
Template: TypeAlias = dict[str, Any]


class Outputs(TypedDict, total=False):
    parameters: list[dict[str, Any]]
    artifacts: list[dict[str, Any]]
    result: str
    exitCode: str


class Node(TypedDict, total=False):
    """An entry of `status.nodes`, with exactly the fields Argo writes. A changed node is a new dictionary: the old one
    may be on its way to the disk or to a client."""

    id: str
    name: str
    displayName: str
    type: NodeType
    templateName: str
    templateRef: dict[str, Any]
    templateScope: str
    phase: Phase
    boundaryID: str
    message: str
    startedAt: str
    finishedAt: str
    progress: str
    resourcesDuration: dict[str, int]
    podIP: str
    daemoned: bool
    nodeFlag: dict[str, bool]
    inputs: dict[str, Any]
    outputs: Outputs
    children: list[str]
    outboundNodes: list[str]
    hostNodeName: str
    memoizationStatus: dict[str, Any]
    synchronizationStatus: dict[str, Any]
    taskResultSynced: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a leaf: a Pod, an object that a resource template made, or a request. An end (Succeeded, Failed,
    Error) comes with everything that was collected, and is final."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Error"]
    message: str = ""
    exit_code: int | None = None
    outputs: Outputs = field(default_factory=Outputs)
    started: str = ""
    finished: str = ""
    host: str = ""
    address: str = ""
    ready: bool = False
    """The Pod passes its readiness probes: what those wait for who need a daemon."""
    progress: str = ""
    containers: Mapping[str, Outcome] = field(default_factory=dict)
    """Of a containerSet's Pod, by container."""
    durations: Mapping[str, int] = field(default_factory=dict)
    """resourcesDuration."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A leaf that has to run. Asked for once, when the node is made; after a restart the shell asks `Run.launch` for
    those nodes that are Pending and have nothing running."""

    node: Node
    kind: Literal["pod", "resource", "http"]
    template: Template
    """Nothing is left to be filled in: inputs have their values, input artifacts where they come from."""
    pod_name: str
    wants_result: bool = False
    """Somebody reads `outputs.result`: the shell has to collect what it prints."""


class Stop(NamedTuple):
    """A leaf that has to end: its Outcome will tell that it has. With `force`, without waiting for its grace period."""

    node: str
    force: bool = False


class WorkflowEvent(NamedTuple):
    """An event about the workflow."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(slots=True)
class Actions:
    """In this order: store `changed` (and `status`), then launch and stop."""

    changed: set[str] = field(default_factory=set)
    """Nodes to store."""
    launch: list[Launch] = field(default_factory=list)
    stop: list[Stop] = field(default_factory=list)
    remember: list[Memo] = field(default_factory=list)
    news: list[WorkflowEvent] = field(default_factory=list)
    wake: datetime | None = None
    """When time alone may change something."""
    status: dict[str, Any] | None = None
    """The workflow's status without its nodes, if that has changed: phase, startedAt, finishedAt, progress, message,
    conditions, outputs, synchronization, storedTemplates, storedWorkflowTemplateSpec, resourcesDuration ..."""


class Memo(NamedTuple):
    """An entry for a cache (a ConfigMap): what a memoized template has answered."""

    cache: str
    key: str
    node: str
    outputs: Outputs


class Locks(Protocol):
    """Mutexes and semaphores of all workflows of this cluster. In memory; who holds what is also in each workflow's
    status.synchronization, from which it is rebuilt."""

    def acquire(self, lock: str, holder: str, *, limit: int, priority: int, since: str) -> str:
        """'' if the holder has it now (or had it already), else the message to show, and the holder waits in line:
        higher priority first, then who came first. `limit` is 1 for a mutex. When a lock becomes free, the shell calls
        `step` for the workflow whose turn it is."""
        ...

    def release(self, lock: str, holder: str) -> None: ...

    def restore(self, lock: str, holders: Iterable[str]) -> None:
        """They had it before a restart, whatever the limit is now."""
        ...


class ClusterView(Protocol):
    """What the engine may look at besides the workflow itself. All answers are immediate, from memory."""

    @property
    def now(self) -> datetime: ...

    @property
    def locks(self) -> Locks: ...

    def config_map(self, name: str) -> Mapping[str, str] | None:
        """The data of a ConfigMap of the workflow's namespace."""
        ...

    def template(self, name: str, *, cluster_scope: bool) -> Object | None:
        """A WorkflowTemplate of the workflow's namespace, or a ClusterWorkflowTemplate."""
        ...


ReportOutcome: TypeAlias = Callable[[Key, str, Outcome], None]
"""(workflow, node id, what is known of it now). Must not wait."""


class Executor(Protocol):
    """Runs one kind of leaf: Pods, objects of resource templates, or requests."""

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        """Sees to it that the leaf runs, and from then on reports on it. May be called again at any time, and is for
        every unfinished leaf when the server starts. `begun` says that it had been seen running: should nothing be
        there any more, that is an Error, not a reason to run it again. `spec` is the workflow's as the engine resolved
        it. A failure that is the user's is reported as an Error; ApiError is raised where trying again may help."""
        ...

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None: ...

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """Ends what runs for other nodes of the workflow than these: they were to be stopped, and the server ended
        before that was done."""
        ...

    async def run(self) -> None:
        """Until cancelled."""
        ...
