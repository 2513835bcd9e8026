"""PodGroups: what a gang asks for, which members it has, and the status that Volcano and scheduler-plugins write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import DEFAULT_QUEUE, Flavour, GroupKey, Pod, created_at, queue_named_by
from muster.kube.objects import Object, annotations_of, is_deleting, name_of, namespace_of, spec_of, status_of, uid_of
from muster.kube.pod_resources import Amounts, parse_group_resources

_NOT_CONSIDERED = ("networkTopology", "subGroupPolicy")


@dataclass(frozen=True, slots=True)
class PodGroupSpec:
    """A PodGroup as its owner wrote it, and the phase last written."""

    key: GroupKey
    uid: str
    min_member: int
    created: float = 0.0
    min_tasks: Mapping[str, int] = field(default_factory=dict)
    min_resources: Amounts = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority_class: str = ""
    timeout: float | None = None
    phase: str = ""
    deleting: bool = False
    notes: tuple[str, ...] = ()
    """What of the PodGroup is not considered, for its owner to read."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Who of a gang is there."""

    ready: int
    """Placed, running or succeeded: these count towards minMember."""
    core: tuple[Pod, ...]
    """Who must be placed together for the gang to be complete; empty when it is, or cannot be yet."""
    extras: tuple[Pod, ...]
    """Who may be placed singly, the gang being complete."""
    waiting: tuple[Pod, ...]
    """All who are to be placed."""
    complaint: tuple[str, str] | None
    """Why the gang cannot even be tried: (reason, message)."""
    tasks: Mapping[str, int]
    """How many are Pending, Bound, Running and so on, in Volcano's words."""
    members: int

    @property
    def running(self) -> int:
        return self.tasks.get("Running", 0)

    @property
    def finished(self) -> int:
        return self.tasks.get("Succeeded", 0) + self.tasks.get("Failed", 0)


def read_pod_group(flavour: Flavour, obj: Object) -> PodGroupSpec:
    spec: Mapping[str, Any] = spec_of(obj)
    volcano = flavour == "volcano"
    named = queue_named_by(annotations_of(obj))
    timeout = None if volcano else spec.get("scheduleTimeoutSeconds")
    return PodGroupSpec(
        key=GroupKey(flavour, namespace_of(obj), name_of(obj)),
        uid=uid_of(obj),
        min_member=int(spec.get("minMember", 1)),
        created=created_at(obj),
        min_tasks={task: int(n) for task, n in (spec.get("minTaskMember") or {}).items()} if volcano else {},
        min_resources=parse_group_resources(spec.get("minResources") or {}),
        queue=(spec.get("queue") or named) if volcano else named,
        priority_class=(spec.get("priorityClassName") or "") if volcano else "",
        timeout=float(timeout) if timeout and timeout > 0 else None,
        phase=status_of(obj).get("phase") or "",
        deleting=is_deleting(obj),
        notes=tuple(f"spec.{f} is not considered by this scheduler" for f in _NOT_CONSIDERED if spec.get(f)),
    )


def count_members(facts: PodGroupSpec, pods: Iterable[Pod]) -> GroupMembers:
    """Of more members than are needed, those of higher priority belong to the core, then the older ones; minTaskMember
    counts only where it asks for no more than minMember in sum, as in Volcano."""
    everyone = list(pods)
    tasks = Counter(map(task_status, everyone))
    ready = [p for p in everyone if p.phase == "Succeeded" or (p.occupies and not p.deleting)]
    waiting = sorted((p for p in everyone if p.waits), key=_order)
    missing = max(0, facts.min_member - len(ready))
    asked = facts.min_tasks if sum(facts.min_tasks.values()) <= facts.min_member else {}
    lacking = Counter(asked)
    lacking.subtract(Counter(p.task for p in ready))
    needed = sum(n for n in lacking.values() if n > 0)

    def roll(
        core: Iterable[Pod] = (), extras: Iterable[Pod] = (), complaint: tuple[str, str] | None = None
    ) -> GroupMembers:
        return GroupMembers(len(ready), tuple(core), tuple(extras), tuple(waiting), complaint, tasks, len(everyone))

    if not missing and not needed:
        return roll(extras=waiting)
    here = Counter(p.task for p in waiting)
    if any(n > here[task] for task, n in lacking.items() if n > 0):
        return roll(complaint=("NotEnoughPodsOfTask", reasons.NOT_ENOUGH_OF_TASK))
    if len(waiting) < missing:
        text = reasons.not_enough_tasks(len(ready) + len(waiting), facts.min_member)
        return roll(complaint=("NotEnoughTasks", text))
    core, rest = [], []
    for pod in waiting:
        if lacking[pod.task] > 0:
            lacking[pod.task] -= 1
            core.append(pod)
        else:
            rest.append(pod)
    further = max(0, missing - len(core))
    return roll(core=[*core, *rest[:further]])


def task_status(pod: Pod) -> str:
    """What Volcano calls a Pod in this state."""
    if pod.finished:
        return pod.phase
    if pod.deleting:
        return "Releasing"
    if pod.phase == "Running":
        return "Running"
    if not pod.node:
        return "Pending"
    return "Binding" if pod.assumed else "Bound"


def _order(pod: Pod) -> tuple[int, float, str]:
    return (-(pod.priority or 0), pod.created, pod.key.name)


Status = dict[str, Any]


def volcano_status(
    facts: PodGroupSpec,
    roll: GroupMembers,
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


def plugin_status(facts: PodGroupSpec, roll: GroupMembers, old: Status, *, owner: str, now: str) -> Status:
    """Pending until minMember Pods exist, Scheduling until they run, Running, and at last Finished or Failed."""
    status: Status = {"phase": _plugin_phase(facts, roll, old.get("phase") or "")} | _counts(roll)
    if owner or old.get("occupiedBy"):
        status["occupiedBy"] = old.get("occupiedBy") or owner
    if old.get("scheduleStartTime"):
        status["scheduleStartTime"] = old["scheduleStartTime"]
    elif status["phase"] != "Pending":
        status["scheduleStartTime"] = now
    return status


def _volcano_phase(facts: PodGroupSpec, roll: GroupMembers, before: str, *, admitted: bool, stuck: bool) -> str:
    if before == "Completed" and not roll.members:
        return before
    if roll.running and stuck:
        return "Unknown"
    failed = roll.tasks.get("Failed", 0)
    if roll.members and roll.ready + failed >= facts.min_member:
        return "Completed" if roll.finished == roll.members else "Running"
    return "Inqueue" if admitted else "Pending"


def _plugin_phase(facts: PodGroupSpec, roll: GroupMembers, before: str) -> str:
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


def _counts(roll: GroupMembers) -> Status:
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
