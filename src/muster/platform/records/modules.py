"""Modules, their versions, and reviews."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from muster.platform.records.common import Subject

ModuleState: TypeAlias = Literal[
    "building", "build failed", "private", "in review", "rejected", "published", "deprecated"
]
ReviewState: TypeAlias = Literal["open", "approved", "rejected", "withdrawn"]
Decision: TypeAlias = Literal["approve", "reject", "withdraw"]


@dataclass(frozen=True, slots=True)
class Category:
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    modules: int
    """The number of modules in it, including those that the caller may not see."""


@dataclass(frozen=True, slots=True)
class Module:
    id: str
    name: str
    description: str
    category_id: str
    category_name: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    created: datetime
    updated: datetime
    versions: int
    """The number of the newest version that the caller may see."""
    state: ModuleState
    """Of that version."""
    public_number: int
    """The number of the version that all users may use; 0 if there is none."""
    public_state: str
    revision: int
    may: list[str]
    """What the caller may do: use, inspect, edit, ask review, deprecate, delete."""

    @property
    def subject(self) -> Subject:
        return Subject("module", self.id, self.owner_id, self.team_id or "", public=self.public_number > 0)


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    name: str
    value: str
    secret: bool


@dataclass(frozen=True, slots=True)
class ModuleInput:
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class ModuleOutput:
    name: str
    path: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class ModuleVersion:
    id: str
    module_id: str
    number: int
    author_id: str
    author_name: str
    git_url: str
    """Without credentials."""
    git_ref: str
    git_commit: str
    """The commit that was built; '' before it is known."""
    dockerfile: str
    build_dir: str
    readme_path: str
    env: list[ModuleVariable]
    """Values are only for users who work on the module or review it."""
    inputs: list[ModuleInput]
    outputs: list[ModuleOutput]
    state: ModuleState
    reason: str
    """Why it failed or was rejected."""
    steps: list[str]
    """The next steps that its state allows, for users who may take them."""
    runs_as: Literal["image", "folder", ""]
    image: str
    entrypoint: list[str]
    size: int
    created: datetime
    updated: datetime
    built: datetime | None


@dataclass(frozen=True, slots=True)
class ModuleVersionDetail(ModuleVersion):
    readme: str
    """Markdown as the author wrote it. A page that shows it must remove scripts."""


SourceKind: TypeAlias = Literal["text", "binary", "large", "link"]
SourceChange: TypeAlias = Literal["added", "removed", "changed", "same"]


@dataclass(frozen=True, slots=True)
class SourceEntry:
    path: str
    size: int
    kind: SourceKind
    """Only text is stored, unless it is too large. Of a link, its target is."""
    change: SourceChange
    """Since the version that it is compared with."""


@dataclass(frozen=True, slots=True)
class SourceListing:
    """The files of the repository that a version was built from."""

    stored: bool
    """False if the version was built by a release that did not store its source."""
    files: list[SourceEntry]
    left_out: int
    """The number of files beyond those that are listed."""
    compared: bool
    """Whether the other version has its source, too."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: str
    size: int
    kind: SourceKind
    text: str | None
    """None if it is not stored."""


@dataclass(frozen=True, slots=True)
class Review:
    id: str
    module_id: str
    module_name: str
    version_id: str
    number: int
    """Of the version."""
    author_id: str
    author_name: str
    """The user who asks for the review."""
    team_id: str | None
    team_name: str | None
    state: ReviewState
    message: str
    """From the author."""
    reason: str
    """Of the decision."""
    decided_by: str | None
    decided_by_name: str | None
    created: datetime
    decided: datetime | None
    revision: int
    may: list[Decision]
    """What the caller may decide."""

    @property
    def subject(self) -> Subject:
        return Subject("review", self.id, self.author_id, self.team_id or "")
