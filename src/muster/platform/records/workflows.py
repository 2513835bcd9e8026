"""Workflows and their versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from muster.platform.records.common import Subject


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
