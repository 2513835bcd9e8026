"""A job's conditions and times, in the order and wording that training-operator's users know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from muster.kube.objects import Condition, Object, get_condition, is_condition_true, timestamp

State: TypeAlias = Literal["Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True)
class Progress:
    conditions: tuple[Condition, ...] = ()
    start: str | None = None
    completion: str | None = None

    def has(self, state: State) -> bool:
        return is_condition_true(self.conditions, state)

    @property
    def finished(self) -> bool:
        return self.has("Succeeded") or self.has("Failed")

    def with_condition(
        self, kind: str, state: State, message: str, now: datetime, *, status: bool = True, reason: str = ""
    ) -> Progress:
        """The newest condition is the last one, which the State column shows. Running and Restarting replace each
        other; when the job ends, Running becomes false."""
        reason = reason or f"{kind}{state}"
        truth = "True" if status else "False"
        old = get_condition(self.conditions, state)
        if old is not None and (old["status"], old["reason"]) == (truth, reason):
            return self
        moment = timestamp(now)
        unchanged = old is not None and old["status"] == truth
        condition = {
            "type": state,
            "status": truth,
            "reason": reason,
            "message": message,
            "lastUpdateTime": moment,
            "lastTransitionTime": old["lastTransitionTime"] if old is not None and unchanged else moment,
        }
        return replace(self, conditions=(*_other_conditions(self.conditions, state, moment), condition))


def read_progress(status: Object) -> Progress:
    return Progress(tuple(status.get("conditions") or ()), status.get("startTime"), status.get("completionTime"))


def _other_conditions(conditions: Iterable[Condition], state: State, moment: str) -> Iterable[Condition]:
    for condition in conditions:
        type = condition["type"]
        if type == state or {type, state} == {"Running", "Restarting"}:
            continue
        if type == "Running" and state in ("Succeeded", "Failed") and condition["status"] == "True":
            yield {**condition, "status": "False", "lastUpdateTime": moment, "lastTransitionTime": moment}
        else:
            yield condition
