"""Jobs of the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from muster.platform.records.common import MessagePart

DispatchState: TypeAlias = Literal[
    "waiting", "starting", "preparing", "running", "submitting", "stopping", "cancelling", "restarting",
    "succeeded", "failed", "cancelled",
]  # fmt: skip


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
