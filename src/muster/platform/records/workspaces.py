"""Notebooks and TensorBoards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from muster.platform.records.common import MessagePart

WorkspaceState: TypeAlias = Literal["starting", "running", "stopped", "failed", "deleting"]


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
    text_parts: list[MessagePart]
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
    reason_parts: list[MessagePart]
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
    reason_parts: list[MessagePart]
    progress: WorkspaceProgress | None
    created: datetime
    ready_since: datetime | None
    pod: str
    may: list[str]
    """What the caller may do now: open, start, stop, restart, edit, delete."""
