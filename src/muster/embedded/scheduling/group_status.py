"""What is written into a PodGroup's status: as Volcano and the scheduler plugins' controller write it."""

from __future__ import annotations

from typing import Any

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.groups import GroupFacts, Roll

Status = dict[str, Any]


def volcano_status(
    facts: GroupFacts,
    roll: Roll,
    old: Status,
    *,
    admitted: bool,
    trouble: tuple[str, str] | None,
    now: str,
    transition: str,
) -> Status:
    """Pending until admitted, Inqueue until placed, Running from the moment minMember Pods have a node, Completed
    when all of them have ended; Unknown when some run and the rest finds no room. `trouble` is (reason, message) of
    why the gang cannot be placed now."""
    phase = _volcano_phase(facts, roll, old.get("phase") or "", admitted=admitted, stuck=trouble is not None)
    conditions = old.get("conditions") or []
    if trouble is not None:
        conditions = _with_condition(conditions, "Unschedulable", *trouble, now=now, transition=transition)
    elif phase == "Running" and roll.ready >= facts.min_member:
        conditions = _with_condition(conditions, "Scheduled", reasons.TASKS_READY, "", now=now, transition=transition)
    status: Status = {"phase": phase}
    if conditions:
        status["conditions"] = conditions
    return status | _counts(roll)


def plugin_status(facts: GroupFacts, roll: Roll, old: Status, *, owner: str, now: str) -> Status:
    """Pending until minMember Pods exist, Scheduling until they run, Running, and at last Finished or Failed."""
    status: Status = {"phase": _plugin_phase(facts, roll, old.get("phase") or "")} | _counts(roll)
    if owner or old.get("occupiedBy"):
        status["occupiedBy"] = old.get("occupiedBy") or owner
    if old.get("scheduleStartTime"):
        status["scheduleStartTime"] = old["scheduleStartTime"]
    elif status["phase"] != "Pending":
        status["scheduleStartTime"] = now
    return status


def _volcano_phase(facts: GroupFacts, roll: Roll, before: str, *, admitted: bool, stuck: bool) -> str:
    if before == "Completed" and not roll.members:
        return before
    if roll.running and stuck:
        return "Unknown"
    failed = roll.tasks.get("Failed", 0)
    if roll.members and roll.ready + failed >= facts.min_member:
        return "Completed" if roll.finished == roll.members else "Running"
    return "Inqueue" if admitted else "Pending"


def _plugin_phase(facts: GroupFacts, roll: Roll, before: str) -> str:
    if before in ("Finished", "Failed"):
        return before
    minimum, tasks = facts.min_member, roll.tasks
    running, succeeded, failed = roll.running, tasks.get("Succeeded", 0), tasks.get("Failed", 0)
    if roll.members < minimum:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    return "Running" if running + succeeded >= minimum else "Scheduling"


def _counts(roll: Roll) -> Status:
    """Zeroes are left out, as upstream's JSON leaves them out."""
    counts = {name.lower(): roll.tasks.get(name, 0) for name in ("Running", "Succeeded", "Failed")}
    return {name: number for name, number in counts.items() if number}


def _with_condition(
    conditions: list[Status], type: str, reason: str, message: str, *, now: str, transition: str
) -> list[Status]:
    """Both conditions stay, as with Volcano; the newer one is the one that counts. An equal one is left alone."""
    new = {"type": type, "status": "True", "reason": reason, "message": message}
    if not message:
        del new["message"]
    newest = max((c.get("lastTransitionTime", "") for c in conditions), default="")
    for condition in conditions:
        same = {k: v for k, v in condition.items() if k not in ("transitionID", "lastTransitionTime")} == new
        if same and condition.get("lastTransitionTime", "") == newest:
            return conditions
    new |= {"transitionID": transition, "lastTransitionTime": now}
    found = [new if c.get("type") == type else c for c in conditions]
    return found if new in found else [*conditions, new]
