"""PodGroups: what a gang asks for, which members it has, and the status that Volcano and scheduler-plugins write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import DEFAULT_QUEUE, Flavour, GroupKey, Pod, created_at, read_queue_name
from muster.kube.objects import Object, annotations_of, is_deleting, name_of, namespace_of, spec_of, status_of, uid_of
from muster.kube.quantity import Amounts, parse_group_resources

_NOT_CONSIDERED = ("networkTopology", "subGroupPolicy")


@dataclass(frozen=True, slots=True)
class PodGroupSpec:
    """The spec of a PodGroup, and the phase that was written last."""

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
    """Fields of the PodGroup that are ignored, as messages for its owner."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a gang, by what the scheduler has to do with them."""

    ready: int
    """Placed, running or succeeded Pods. They count towards minMember."""
    core: tuple[Pod, ...]
    """The Pods that must be placed together to complete the gang. Empty if it is complete, or cannot be yet."""
    extras: tuple[Pod, ...]
    """The Pods that may be placed one by one, because the gang is complete."""
    waiting: tuple[Pod, ...]
    """All Pods that have to be placed."""
    problem: tuple[str, str] | None
    """(reason, message) if the gang cannot be placed at all yet."""
    tasks: Mapping[str, int]
    """The number of Pods by Volcano's task status: Pending, Bound, Running and so on."""
    total: int
    """All its Pods, finished ones included."""

    @property
    def running(self) -> int:
        return self.tasks.get("Running", 0)

    @property
    def finished(self) -> int:
        return self.tasks.get("Succeeded", 0) + self.tasks.get("Failed", 0)


def read_pod_group(flavour: Flavour, obj: Object) -> PodGroupSpec:
    spec: Mapping[str, Any] = spec_of(obj)
    volcano = flavour == "volcano"
    named = read_queue_name(annotations_of(obj))
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


def count_members(spec: PodGroupSpec, pods: Iterable[Pod]) -> GroupMembers:
    """Sorts the Pods of a group. If there are more than needed, those with higher priority, then the older ones, belong
    to the core. As in Volcano, minTaskMember is ignored if its sum is larger than minMember."""
    placed_pods = list(pods)
    tasks = Counter(map(task_status, placed_pods))
    ready = [p for p in placed_pods if p.phase == "Succeeded" or (p.occupies and not p.deleting)]
    waiting = sorted((p for p in placed_pods if p.waits), key=_order)
    missing = max(0, spec.min_member - len(ready))
    asked = spec.min_tasks if sum(spec.min_tasks.values()) <= spec.min_member else {}
    lacking = Counter(asked)
    lacking.subtract(Counter(p.task for p in ready))
    needed = sum(n for n in lacking.values() if n > 0)

    def result(
        core: Iterable[Pod] = (), extras: Iterable[Pod] = (), problem: tuple[str, str] | None = None
    ) -> GroupMembers:
        return GroupMembers(len(ready), tuple(core), tuple(extras), tuple(waiting), problem, tasks, len(placed_pods))

    if not missing and not needed:
        return result(extras=waiting)
    here = Counter(p.task for p in waiting)
    if any(n > here[task] for task, n in lacking.items() if n > 0):
        return result(problem=("NotEnoughPodsOfTask", reasons.NOT_ENOUGH_OF_TASK))
    if len(waiting) < missing:
        text = reasons.not_enough_tasks(len(ready) + len(waiting), spec.min_member)
        return result(problem=("NotEnoughTasks", text))
    core, rest = [], []
    for pod in waiting:
        if lacking[pod.task] > 0:
            lacking[pod.task] -= 1
            core.append(pod)
        else:
            rest.append(pod)
    further = max(0, missing - len(core))
    return result(core=[*core, *rest[:further]])


def task_status(pod: Pod) -> str:
    """Returns Volcano's task status of a Pod."""
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
    spec: PodGroupSpec,
    members: GroupMembers,
    old: Status,
    *,
    admitted: bool,
    problem: tuple[str, str] | None,
    now: str,
    transition: str,
) -> Status:
    """Returns the status of a Volcano PodGroup.

    Pending until admitted, Inqueue until placed, Running when minMember Pods have a node, Completed when all have
    ended; Unknown if some run and there is no room for the rest. `problem` is (reason, message) of why the gang
    cannot be placed now."""
    phase = _volcano_phase(spec, members, old.get("phase") or "", admitted=admitted, stuck=problem is not None)
    conditions = old.get("conditions") or []
    if problem is not None:
        conditions = _with_condition(conditions, "Unschedulable", *problem, now=now, transition=transition)
    elif phase == "Running" and members.ready >= spec.min_member:
        conditions = _with_condition(conditions, "Scheduled", reasons.TASKS_READY, "", now=now, transition=transition)
    status: Status = {"phase": phase}
    if conditions:
        status["conditions"] = conditions
    return status | _counts(members)


def plugin_status(spec: PodGroupSpec, members: GroupMembers, old: Status, *, owner: str, now: str) -> Status:
    """Returns the status of a scheduler-plugins PodGroup.

    Pending until minMember Pods exist, Scheduling until they run, Running, then Finished or Failed."""
    status: Status = {"phase": _plugin_phase(spec, members, old.get("phase") or "")} | _counts(members)
    if owner or old.get("occupiedBy"):
        status["occupiedBy"] = old.get("occupiedBy") or owner
    if old.get("scheduleStartTime"):
        status["scheduleStartTime"] = old["scheduleStartTime"]
    elif status["phase"] != "Pending":
        status["scheduleStartTime"] = now
    return status


def _volcano_phase(spec: PodGroupSpec, members: GroupMembers, before: str, *, admitted: bool, stuck: bool) -> str:
    if before == "Completed" and not members.total:
        return before
    if members.running and stuck:
        return "Unknown"
    failed = members.tasks.get("Failed", 0)
    if members.total and members.ready + failed >= spec.min_member:
        return "Completed" if members.finished == members.total else "Running"
    return "Inqueue" if admitted else "Pending"


def _plugin_phase(spec: PodGroupSpec, members: GroupMembers, before: str) -> str:
    if before in ("Finished", "Failed"):
        return before
    minimum, tasks = spec.min_member, members.tasks
    running, succeeded, failed = members.running, tasks.get("Succeeded", 0), tasks.get("Failed", 0)
    if members.total < minimum:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    return "Running" if running + succeeded >= minimum else "Scheduling"


def _counts(members: GroupMembers) -> Status:
    """Zeros are omitted, as upstream does."""
    counts = {name.lower(): members.tasks.get(name, 0) for name in ("Running", "Succeeded", "Failed")}
    return {name: number for name, number in counts.items() if number}


def _with_condition(
    conditions: list[Status], type: str, reason: str, message: str, *, now: str, transition: str
) -> list[Status]:
    """Adds a condition. As in Volcano, both conditions stay and the newer one counts. An equal one is not written
    again."""
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
