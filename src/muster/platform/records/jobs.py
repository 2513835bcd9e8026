"""Training jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from muster.platform.records.common import MessagePart

JobState: TypeAlias = Literal["waiting", "running", "restarting", "suspended", "succeeded", "failed"]
MemberState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "gone"]


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
    workflow: str
    """The name of the Workflow that created it; '' if none did."""
    replicas: int
    running: int
    succeeded: int
    failed: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    may: list[str]
    """What the caller may do now: suspend, resume, delete."""


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
