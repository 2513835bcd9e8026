"""What the API says about Workflows and schedules, and the list of everything that ran."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from muster.platform.records.runs import NodeState

AnyRunState: TypeAlias = Literal["waiting", "running", "suspended", "succeeded", "failed", "stopped"]
Origin: TypeAlias = Literal["workflow", "argo", "cron", "pipeline", "job"]
"""What started it: a workflow of the platform, a client of the cluster, a CronWorkflow, a pipeline, or a training job
that no workflow created."""
ScheduleKind: TypeAlias = Literal["cron", "pipeline"]
ScheduleState: TypeAlias = Literal["active", "paused", "ended", "failed"]


@dataclass(frozen=True, slots=True)
class ArgoWorkflow:
    uid: str
    namespace: str
    name: str
    state: AnyRunState
    message: str
    """Why it waits or failed."""
    creator: str
    """Who created it, as the cluster calls them; '' if that is not known."""
    schedule: str
    """The name of the CronWorkflow that created it; '' if none did."""
    template: str
    """The name of the WorkflowTemplate that it runs; '' if it has its own templates."""
    done: int
    nodes: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    owner_id: str | None
    """The user whose namespace it is in."""
    owner_name: str | None
    team_id: str | None
    """The team whose namespace it is in."""
    team_name: str | None
    may: list[str]
    """What the user may do now."""


@dataclass(frozen=True, slots=True)
class ArgoNode:
    """A node that is drawn: a Pod, a job, a request, a pause, or a group that many nodes lead to."""

    id: str
    name: str
    """As it is shown."""
    path: str
    """Its place in the workflow: `train.fit(0:a)`."""
    type: str
    """As in Argo: Pod, Suspend, HTTP, Plugin, Skipped, StepGroup, TaskGroup."""
    template: str
    state: NodeState
    message: str
    attempts: int
    started: datetime | None
    finished: datetime | None
    children: list[str]
    """Ids of the nodes that follow."""


@dataclass(frozen=True, slots=True)
class NamedValue:
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ArgoWorkflowDetail(ArgoWorkflow):
    parameters: list[NamedValue]
    node_states: list[ArgoNode]
    service_account: str
    priority: int


@dataclass(frozen=True, slots=True)
class ArgoAttempt:
    number: int
    id: str
    state: NodeState
    message: str
    pod: str
    """'' if it has none."""
    exit_code: str
    host: str
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class ArgoValue:
    name: str
    type: Literal["text", "file"]
    value: str | None
    path: str


@dataclass(frozen=True, slots=True)
class ArgoNodeDetail:
    id: str
    name: str
    path: str
    type: str
    template: str
    state: NodeState
    message: str
    started: datetime | None
    finished: datetime | None
    attempts: list[ArgoAttempt]
    inputs: list[ArgoValue]
    outputs: list[ArgoValue]
    definition: dict[str, Any]
    """Its template, without secrets."""


@dataclass(frozen=True, slots=True)
class AnyRun:
    """One line in the list of everything that ran."""

    origin: Origin
    id: str
    """The id of the run, or the uid of the object."""
    name: str
    namespace: str
    kind: str
    """Of a training job, as in URLs: `pytorchjob`; else ''."""
    state: AnyRunState
    stopping: bool
    message: str
    source: str
    """The name of the workflow, pipeline, CronWorkflow or WorkflowTemplate that it was started from; '' if none."""
    source_id: str
    """The id of the workflow or pipeline."""
    version: str
    """The version of the workflow or pipeline, as in URLs."""
    version_name: str
    tags: list[str]
    """Only runs of the platform have tags."""
    scheduled: bool
    """Whether a schedule started it."""
    owner_id: str | None
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    done: int | None
    """Finished nodes; None if it has none."""
    nodes: int | None
    created: datetime
    started: datetime | None
    finished: datetime | None
    may: list[str]
    """What the user may do now: stop, suspend, resume, retry, copy, delete."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A CronWorkflow or a recurring run of a pipeline."""

    kind: ScheduleKind
    id: str
    """The uid, or the id of the recurring run."""
    namespace: str
    name: str
    state: ScheduleState
    message: str
    """Why it does not run, or why the last start failed."""
    schedules: list[str]
    """Cron expressions, or `every 3600s`."""
    timezone: str
    """'' for the time zone of the server; recurring runs use UTC."""
    next: list[datetime]
    """The next times; [] while it is paused."""
    last: datetime | None
    """When it was started last."""
    active: int
    """Runs that have not ended."""
    source: str
    """The name of the pipeline or WorkflowTemplate, if there is one."""
    created: datetime
    owner_id: str | None
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    may: list[str]
    """What the user may do now: pause, resume, run, delete."""
