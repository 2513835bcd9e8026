"""Status conditions: one entry per type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

Condition: TypeAlias = dict[str, Any]
ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


def get_condition(conditions: Iterable[Condition] | None, type: str) -> Condition | None:
    return next((c for c in conditions or () if c.get("type") == type), None)


def is_condition_true(conditions: Iterable[Condition] | None, type: str) -> bool:
    found = get_condition(conditions, type)
    return found is not None and found.get("status") == "True"


def set_condition(
    conditions: Iterable[Condition] | None,
    type: str,
    status: ConditionStatus | bool,
    reason: str = "",
    message: str = "",
    now: str = "",
    **more: Any,
) -> list[Condition]:
    """Returns a new list with this condition, at its old position if it had one. `lastTransitionTime` becomes `now`
    only if the status changes. The other fields always take the new values, and a field that is not given is removed.
    `more` are fields that some kinds add: `lastUpdateTime`, `observedGeneration`."""
    before = list(conditions or ())
    truth = status if isinstance(status, str) else str(status)
    old = get_condition(before, type)
    kept = old is not None and old.get("status") == truth and old.get("lastTransitionTime")
    fields = {"type": type, "status": truth, "lastTransitionTime": kept or now, "reason": reason, "message": message}
    new = {name: value for name, value in {**fields, **more}.items() if value}
    if old is None:
        return [*before, new]
    return [new if c is old else c for c in before]
