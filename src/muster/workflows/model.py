"""The data that the engine, the controller and the executors exchange. Plain data, no decisions.

The engine (`advance_run`) decides: it takes a Run and the reported outcomes, changes the Run's nodes and returns
Actions. The controller acts: it stores the changed nodes, and has executors launch and stop leaves. Executors report an
Outcome for every leaf. Everything may be repeated; nothing depends on a single notification.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

from muster.kube.objects import Key, Object

PHASE_LABEL = "workflows.argoproj.io/phase"
COMPLETED_LABEL = "workflows.argoproj.io/completed"
PREVIOUS_LABEL = "workflows.argoproj.io/resubmitted-from-workflow"
"""The name of the workflow whose nodes, and so whose artifacts, this one may use."""
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
"""On the Pods and claims of a workflow: its name."""
NODE_ID = "workflows.argoproj.io/node-id"
"""Annotation on a node's Pod."""
PIPELINE_ARGUMENT = "kubeflow-pipeline"
"""The argument of a workflow whose tasks are decided by a TaskResolver: the compiled pipeline, as JSON."""
KEEP_ANNOTATION = "workflows.muster.dev/keep-artifacts"
"""Of a workflow whose artifacts outlive it, until `ArtifactClient.release` is called."""
PIPELINE_RUN_LABEL = "pipeline/runid"
"""On the workflow of a pipeline run: the id of the run."""
FINISHED_PHASES: frozenset[str] = frozenset(("Succeeded", "Failed", "Error"))
"""Of a workflow."""

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
    """An entry of `status.nodes`, with exactly the fields that Argo writes. A changed node is a new dictionary, because
    the old one may be being stored or sent."""

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
    estimatedDuration: int  # seconds
    failedPodRestarts: int
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
    """The state of a leaf: a Pod, an object of a resource template, or an HTTP request. An end (Succeeded, Failed,
    Error) includes everything that was collected, and is final."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Error"]
    message: str = ""
    exit_code: int | None = None
    outputs: Outputs = field(default_factory=Outputs)
    started: str = ""
    finished: str = ""
    host: str = ""
    address: str = ""
    ready: bool = False
    """The Pod passes its readiness probes, which nodes that need a daemon wait for."""
    progress: str = ""
    containers: Mapping[str, Outcome] = field(default_factory=dict)
    """For the Pod of a containerSet, by container."""
    durations: Mapping[str, int] = field(default_factory=dict)
    """resourcesDuration."""
    restarts: int = 0
    """failedPodRestarts: how often its Pod was created again because the machine had failed it before it began."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A leaf to run. Requested once, when the node is created; after a restart the controller calls `Run.launch` for
    nodes that are Pending and have nothing running."""

    node: Node
    kind: Literal["pod", "resource", "http"]
    template: Template
    """Completely filled in: inputs have their values, input artifacts their locations."""
    pod_name: str
    wants_result: bool = False
    """`outputs.result` is used, so the executor has to collect what it prints."""
    spec_patch: str = ""
    """The workflow's `podSpecPatch`, filled in."""


class Stop(NamedTuple):
    """A leaf to stop; its Outcome will report the end. With `force`, without its grace period."""

    node: str
    force: bool = False


class WorkflowEvent(NamedTuple):
    """A Kubernetes event about the workflow."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(slots=True)
class Actions:
    """What to do, in this order: store `changed` (and `status`), then launch and stop."""

    changed: set[str] = field(default_factory=set)
    """Nodes to store."""
    launch: list[Launch] = field(default_factory=list)
    stop: list[Stop] = field(default_factory=list)
    remember: list[Memo] = field(default_factory=list)
    news: list[WorkflowEvent] = field(default_factory=list)
    wake: datetime | None = None
    """When the run must be advanced even if nothing else happens."""
    status: dict[str, Any] | None = None
    """The workflow's status without its nodes, if it has changed: phase, startedAt, finishedAt, progress, message,
    conditions, outputs, synchronization, storedTemplates, storedWorkflowTemplateSpec, resourcesDuration ..."""


class Memo(NamedTuple):
    """An entry of a memoization cache (a ConfigMap): the outputs of a template."""

    cache: str
    key: str
    node: str
    outputs: Outputs


class Locks(Protocol):
    """Mutexes and semaphores of all workflows of a cluster. They are in memory, and rebuilt from each workflow's
    status.synchronization."""

    def acquire(self, lock: str, holder: str, *, limit: int, priority: int, since: str) -> str:
        """Returns '' if the holder has the lock now or had it already. Otherwise returns the message to show, and the
        holder waits in the queue: higher priority first, then in order of arrival. `limit` is 1 for a mutex. When a
        lock becomes free, the controller advances the workflow that is next."""
        ...

    def release(self, lock: str, holder: str) -> None: ...

    def restore(self, lock: str, holders: Iterable[str]) -> None:
        """They held it before a restart, whatever the limit is now."""
        ...


class ClusterView(Protocol):
    """What the engine can see besides the workflow itself. All calls return at once, from memory."""

    @property
    def now(self) -> datetime: ...

    @property
    def locks(self) -> Locks: ...

    def config_map(self, name: str) -> Mapping[str, str] | None:
        """Returns the data of a ConfigMap in the workflow's namespace."""
        ...

    @property
    def restricted(self) -> bool:
        """Whether the namespace belongs to people who are not admins."""
        ...

    def cache(self, name: str) -> Mapping[str, str] | None:
        """Returns the entries of a memoization cache in the workflow's namespace. Raises WorkflowError if the ConfigMap
        is something else."""
        ...

    def template(self, name: str, *, cluster_scope: bool) -> Object | None:
        """Returns a WorkflowTemplate of the workflow's namespace, or a ClusterWorkflowTemplate."""
        ...


ReportOutcome: TypeAlias = Callable[[Key, str, Outcome], None]
"""(workflow, node id, its current outcome). Must not block."""


class Executor(Protocol):
    """Runs one kind of leaf: Pods, objects of resource templates, or HTTP requests."""

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        """Makes sure that the leaf runs, and reports on it from then on.

        May be called again at any time, and is called for every unfinished leaf when the server starts. `begun` means
        that it was seen running: if nothing exists any more, that is an Error, not a reason to run it again. `spec` is
        the workflow's spec as the engine resolved it. An error of the user is reported as an Error; ApiError is raised
        where a retry may help.
        """
        ...

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None: ...

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """Stops what runs for other nodes of the workflow than these: they were to be stopped when the server ended."""
        ...

    def recorded(self, workflow: Object, nodes: Collection[str]) -> None:
        """Is called when the reported ends of these leaves are stored: nothing asks for them again."""
        ...

    async def run(self) -> None:
        """Runs until cancelled."""
        ...


class EventRecorder(Protocol):
    """Records Kubernetes events; see `muster.kube.events`."""

    def event(
        self,
        about: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...
