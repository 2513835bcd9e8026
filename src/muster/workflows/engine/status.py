"""The status of a workflow without its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.model import FINISHED_PHASES

_ENGINE_FIELDS = frozenset(
    (
        "phase", "startedAt", "finishedAt", "progress", "message", "conditions", "outputs", "synchronization",
        "storedTemplates", "storedWorkflowTemplateSpec", "resourcesDuration", "nodes",
    )
)  # fmt: skip
"""Fields that the engine writes; others are written by the controllers of volumes and garbage collection."""


class StatusBuilder:
    """The fields are replaced, never changed in place, because they may be being written or sent."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.fields: dict[str, Any] = {name: value for name, value in status.items() if name != "nodes"}
        self._changed = False

    @property
    def is_finished(self) -> bool:
        return self.fields.get("phase") in FINISHED_PHASES

    def set(self, **fields: Any) -> None:
        """Sets fields; None removes a field."""
        if all(self.fields.get(name) == value for name, value in fields.items()):
            return
        merged = {**self.fields, **fields}
        self.fields = {name: value for name, value in merged.items() if value is not None}
        self._changed = True

    def adopt(self, status: Mapping[str, Any]) -> None:
        """Takes over fields that others have written."""
        theirs = {name: value for name, value in status.items() if name not in _ENGINE_FIELDS}
        self.fields = {name: value for name, value in self.fields.items() if name in _ENGINE_FIELDS} | theirs

    def set_condition(self, kind: str, value: str) -> None:
        known = self.fields.get("conditions") or []
        others = [condition for condition in known if condition.get("type") != kind]
        if {"type": kind, "status": value} not in known:
            self.set(
                conditions=sorted([*others, {"type": kind, "status": value}], key=lambda c: c["type"] == "Completed")
            )

    def finish(self, phase: str, message: str, now: str) -> None:
        self.set(phase=phase, message=message or None, finishedAt=now)
        if not self.fields.get("startedAt"):
            self.set(startedAt=now)
        self.set_condition("Completed", "True")

    def take(self) -> dict[str, Any] | None:
        """Returns the status if it has changed since the last call."""
        changed, self._changed = self._changed, False
        return self.fields if changed else None
