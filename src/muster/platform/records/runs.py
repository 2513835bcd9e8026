"""Runs and their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from muster.platform.records.common import MessagePart, Subject

RunState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "stopped"]
NodeState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "stopped", "skipped"]


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
    tags: list[str]
    """KEY or KEY=VALUE, in the order of the keys."""
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
class TagCount:
    tag: str
    runs: int
    """The number of runs that have it."""


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
    last_event: str
    """The events of the run continue after it: pass it as `after`."""


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
class ComparedValue:
    origin: str
    """The initial parameter, or NODE.OUTPUT; '' for a fixed value."""
    value: str | None
    """None if it is not known: its node has not ended, or was skipped."""


@dataclass(frozen=True, slots=True)
class RunNodeComparison:
    left: ComparedValue
    operator: str
    right: ComparedValue
    holds: bool | None
    """None if a value is not known."""


@dataclass(frozen=True, slots=True)
class RunNodeCondition:
    match: Literal["all", "any"]
    comparisons: list[RunNodeComparison]


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
    timeout: str
    """How long one attempt may run; '' for any time."""
    condition: RunNodeCondition | None
    """Without it, the node runs whatever the values are."""
    inputs: list[NodeInput]
    outputs: list[NodeOutput]
    attempt_list: list[NodeAttempt]
