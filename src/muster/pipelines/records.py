"""What is stored about Kubeflow Pipelines: experiments, pipelines, versions, runs, recurring runs, artifacts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from muster.platform.records.common import Kind, Subject

State: TypeAlias = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELING"]
ENDED: Final = ("SUCCEEDED", "FAILED")
DEFAULT_EXPERIMENT: Final = "Default"
EXPERIMENT: Final[Kind] = "experiment"
PIPELINE: Final[Kind] = "pipeline"
RUN: Final[Kind] = "pipeline run"
RECURRING_RUN: Final[Kind] = "recurring run"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something belongs: the namespace of a user or of a team."""

    namespace: str
    team_id: str | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    id: str
    name: str
    description: str
    namespace: str
    owner_id: str
    team_id: str | None
    archived: bool
    created: datetime
    last_run: datetime | None

    @property
    def subject(self) -> Subject:
        return Subject(EXPERIMENT, self.id, self.owner_id, self.team_id or "")

    @property
    def place(self) -> Place:
        return Place(self.namespace, self.team_id)


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    id: str
    name: str
    display_name: str
    description: str
    tags: Mapping[str, str]
    namespace: str
    owner_id: str
    team_id: str | None
    created: datetime

    @property
    def subject(self) -> Subject:
        return Subject(PIPELINE, self.id, self.owner_id, self.team_id or "")


@dataclass(frozen=True, slots=True)
class PipelineVersion:
    id: str
    pipeline_id: str
    name: str
    display_name: str
    description: str
    tags: Mapping[str, str]
    code_source_url: str
    spec_hash: str
    created: datetime


@dataclass(frozen=True, slots=True)
class PipelineRun:
    id: str
    name: str
    description: str
    experiment_id: str
    namespace: str
    owner_id: str
    team_id: str | None
    pipeline_id: str
    version_id: str
    """'' if the run was created from a spec."""
    spec_hash: str
    recurring_run_id: str
    parameters: Mapping[str, Any]
    pipeline_root: str
    service_account: str
    workflow: str
    """The name of its Workflow."""
    state: State
    history: list[dict[str, Any]]
    """`update_time`, `state` and, if there was one, `error`."""
    error: str
    archived: bool
    created: datetime
    scheduled: datetime
    finished: datetime | None
    stopped_by: str
    """The name of the user who canceled it."""
    retries: int

    @property
    def subject(self) -> Subject:
        return Subject(RUN, self.id, self.owner_id, self.team_id or "")


@dataclass(frozen=True, slots=True)
class RecurringRun:
    id: str
    name: str
    description: str
    experiment_id: str
    namespace: str
    owner_id: str
    team_id: str | None
    pipeline_id: str
    version_id: str
    """'' for the newest version at each tick."""
    spec_hash: str | None
    parameters: Mapping[str, Any]
    pipeline_root: str
    service_account: str
    trigger: Mapping[str, Any]
    max_concurrency: int
    no_catchup: bool
    enabled: bool
    error: str
    """Why the last tick has no run."""
    created: datetime
    updated: datetime
    last_tick: datetime | None
    ticks: int
    """The number of runs it has started."""

    @property
    def subject(self) -> Subject:
        return Subject(RECURRING_RUN, self.id, self.owner_id, self.team_id or "")


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """An artifact that a task made (`output`) or used (`input`)."""

    run_id: str
    task_id: str
    direction: Literal["input", "output"]
    key: str
    position: int
    """In a list of artifacts."""
    artifact_id: str
    """Equal for an artifact and everything that used it."""
    name: str
    type: str
    """As in system.Model."""
    uri: str
    metadata: Mapping[str, Any]
    created: datetime


def new_uuid() -> str:
    """Returns a UUID of version 7: it sorts by the time of creation, and is what `[[RunUUID]]` promises."""
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=number & ~(0x3 << 62) | 0x2 << 62))
