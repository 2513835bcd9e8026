"""What requests about training jobs, and answers to them, are made of."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.server.platform.rest import Answer, Body

State = Literal["waiting", "running", "restarting", "suspended", "succeeded", "failed"]
_LARGEST = 1_000_000
_Manifest = Annotated[str, Field(max_length=_LARGEST)]


class JobBody(Body):
    manifest: _Manifest
    """YAML or JSON, of one or more training jobs."""
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of a team one is in, which they are shared with."""


class ManifestBody(Body):
    manifest: _Manifest


class JobAnswer(Answer):
    uid: str
    namespace: str
    kind: str
    word: str
    """The kind as addresses have it."""
    api_version: str
    name: str
    state: State
    deleting: bool
    owner_id: str | None
    """null if it belongs to nobody: it was not made here."""
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    run_id: str | None
    """The run that made it."""
    run_name: str | None
    replicas: int
    running: int
    succeeded: int
    failed: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    may: list[str]
    """What whoever asks may do with it."""


class JobMemberAnswer(Answer):
    index: int
    pod: str
    uid: str
    """Of the Pod; "" if there is none."""
    state: Literal["waiting", "running", "succeeded", "failed", "gone"]
    word: str
    restarts: int
    host: str
    started: str | None
    finished: str | None
    exit_code: int | None
    message: str
    containers: list[str]


class JobRoleAnswer(Answer):
    name: str
    replicas: int
    restart: str
    """When a member is started again."""
    members: list[JobMemberAnswer]


class JobConditionAnswer(Answer):
    type: str
    status: str
    reason: str
    message: str
    since: str | None


class ReasonAnswer(Answer):
    code: str
    detail: str
    about: str
    text: str
    """All of it, in English."""


class JobGroupAnswer(Answer):
    name: str
    queue: str
    phase: str
    members: int
    """How many have to start together."""
    running: int
    succeeded: int
    failed: int
    message: str
    """Why it waits."""
    since: datetime | None


class WholeJob(JobAnswer):
    roles: list[JobRoleAnswer]
    conditions: list[JobConditionAnswer]
    group: JobGroupAnswer | None
    reasons: list[ReasonAnswer]
    """Why it waits or has failed, the nearest cause first."""
    restarts: int


class ManifestProblem(Answer):
    line: int
    """From 1; 0 if it is about the whole text."""
    column: int
    path: str
    message: str
    code: str
    """For those who show it in another language: which sentence it is, and what to put into it."""
    arguments: dict[str, Any]
    severity: Literal["error", "warning"]


class ManifestJob(Answer):
    kind: str
    api_version: str
    name: str
    namespace: str
    line: int


class CheckedManifest(Answer):
    problems: list[ManifestProblem]
    jobs: list[ManifestJob]
    """What would be made of it."""


class JobKindAnswer(Answer):
    word: str
    kind: str
    api_version: str
