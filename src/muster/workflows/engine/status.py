"""`status` of a Workflow, without its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FINISHED = frozenset(("Succeeded", "Failed", "Error"))
_OURS = frozenset(
    (
        "phase", "startedAt", "finishedAt", "progress", "message", "conditions", "outputs", "synchronization",
        "storedTemplates", "storedWorkflowTemplateSpec", "resourcesDuration", "nodes",
    )
)  # fmt: skip
"""Fields that the engine writes; others may be written by whoever makes volumes or collects garbage."""


class Status:
    """The fields are replaced, never changed: they may be on their way to the disk."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.fields: dict[str, Any] = {name: value for name, value in status.items() if name != "nodes"}
        self._changed = False

    @property
    def is_finished(self) -> bool:
        return self.fields.get("phase") in _FINISHED

    def set(self, **fields: Any) -> None:
        """None removes a field."""
        if all(self.fields.get(name) == value for name, value in fields.items()):
            return
        merged = {**self.fields, **fields}
        self.fields = {name: value for name, value in merged.items() if value is not None}
        self._changed = True

    def adopt(self, status: Mapping[str, Any]) -> None:
        """Takes over what others have written."""
        theirs = {name: value for name, value in status.items() if name not in _OURS}
        self.fields = {name: value for name, value in self.fields.items() if name in _OURS} | theirs

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
        """The status if it has changed since the last time."""
        changed, self._changed = self._changed, False
        return self.fields if changed else None
