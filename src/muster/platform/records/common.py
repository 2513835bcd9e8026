"""What records of every area share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")
Kind: TypeAlias = Literal[
    "workflow", "version", "run", "module", "review", "category", "virtual cluster", "storage root", "user", "team",
    "token", "audit", "settings", "node", "queue", "job", "dispatch job", "experiment", "pipeline", "pipeline run",
    "recurring run", "volume", "workspace", "pod", "argo workflow", "schedule", "webhook",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next: str | None
    """The cursor of the next page; None on the last one."""
    total: int
    """The number of items on all pages."""

    def map(self, function: Callable[[T], U]) -> Page[U]:
        return Page([function(item) for item in self.items], self.next, self.total)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a status message: a code of the message catalog with its values. The code `text` is any other text."""

    code: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a permission is checked for. A thing that does not exist yet belongs to the user who creates it."""

    kind: Kind
    id: str = ""
    owner: str = ""
    team: str = ""
    """The id of the team it is shared with; '' for none."""
    public: bool = False
