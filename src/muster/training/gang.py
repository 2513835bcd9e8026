"""The gang of a job: the PodGroup that holds its members back until there is room for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast, get_args

from muster.kube.builtin import PLUGIN_POD_GROUP, POD_GROUP
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, owner_reference, parse_time, spec_of, status_of
from muster.kube.pod_resources import Amounts, format_amounts, pod_requests, sum_amounts
from muster.training.model import Role, SchedulingPolicy, TrainingJob

Scheduler: TypeAlias = Literal["none", "volcano", "scheduler-plugins"]
"""Which gang scheduler a cluster has. `none` still uses Volcano's for jobs that ask for it by name."""

PLUGINS_SCHEDULER = "scheduler-plugins-scheduler"
"""What its scheduler is called where it was installed from its own chart."""


_BRING_SECONDS = 3.0
"""For how long a job that only names a gang scheduler waits for a PodGroup that its user may bring: kubectl sends what
is in a file one after the other, and a group of ours would be in the way of theirs."""


@dataclass(frozen=True, slots=True)
class GangSettings:
    scheduler: Scheduler = "none"
    name: str = ""
    """Of a scheduler with the plugin of scheduler-plugins, if it is not called as usual."""
    always: bool = False
    by_policy: bool = True
    """Whether a schedulingPolicy alone makes a gang. Without a gang scheduler, a real cluster had better ignore it."""


@dataclass(frozen=True, slots=True)
class GangMembership:
    """What makes a Pod a member of its gang."""

    scheduler: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""


def parse_scheduler(written: str) -> tuple[Scheduler, str]:
    """What is written as --gang-scheduler-name: which gang scheduler, and the name of a scheduler that has its plugin.
    ValueError says what to write instead."""
    kind, _, name = written.partition(":")
    if kind not in get_args(Scheduler):
        known = ", ".join(get_args(Scheduler))
        own = f"a scheduler of your own with the plugin Coscheduling is written scheduler-plugins:{written}"
        raise ValueError(f'"{written}" is not one of {known}; {own}')
    if kind != "scheduler-plugins" and name:
        raise ValueError(f'"{written}": write {kind}; only after scheduler-plugins: comes a name')
    return cast(Scheduler, kind), name


def wants_gang(job: TrainingJob, settings: GangSettings) -> bool:
    """With `always` (--gang) every job is one; else those that have a schedulingPolicy or name a gang scheduler. Where
    a policy counts for nothing, PodGroups are Volcano's, and only jobs that name it are held back by them."""
    names = {(role.template.get("spec") or {}).get("schedulerName") for role in job.roles}
    asked = settings.by_policy and (job.policy.scheduling is not None or PLUGINS_SCHEDULER in names)
    return _makes_all_gangs(settings) or asked or "volcano" in names


def seconds_to_wait_for_group(job: TrainingJob, settings: GangSettings, now: datetime) -> float:
    """Seconds left. Who says what the group shall be, or works where every job gets one, brings none."""
    if _makes_all_gangs(settings) or job.policy.scheduling is not None:
        return 0.0
    return _BRING_SECONDS - (now - parse_time(meta(job.object)["creationTimestamp"])).total_seconds()


def group_kind(scheduler: Scheduler) -> Kind:
    return PLUGIN_POD_GROUP if scheduler == "scheduler-plugins" else POD_GROUP


def pod_group(job: TrainingJob, scheduler: Scheduler, *, late: int = 0) -> Object:
    """`late` members exist only when the others run: there must be room for them, but nobody can wait for them. More
    than there are members may be asked for, too: then they wait until less is."""
    kind = group_kind(scheduler)
    policy = job.policy.scheduling or SchedulingPolicy()
    minimum = policy.min_available if policy.min_available is not None else job.size
    spec: dict[str, Any] = {
        "minMember": min(minimum, job.size - late) if minimum <= job.size else minimum,
        "minResources": dict(policy.min_resources) if policy.min_resources else minimum_resources(job.roles, minimum),
    }
    if kind is POD_GROUP:
        spec["queue"] = policy.queue or "default"
        if policy.priority_class:
            spec["priorityClassName"] = policy.priority_class
    elif policy.timeout_seconds is not None:
        spec["scheduleTimeoutSeconds"] = policy.timeout_seconds
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(job.object)],
        },
        "spec": spec,
    }


def gang_membership(job: TrainingJob, scheduler: Scheduler, name: str = "") -> GangMembership:
    """`name` is what a scheduler with the plugin is called, if not as usual."""
    policy = job.policy.scheduling or SchedulingPolicy()
    if scheduler == "scheduler-plugins":
        return GangMembership(name or PLUGINS_SCHEDULER, labels={"scheduling.x-k8s.io/pod-group": job.name})
    return GangMembership(
        "volcano",
        annotations={"scheduling.k8s.io/group-name": job.name},
        priority_class=policy.priority_class,
    )


def is_admitted(group: Object | None, scheduler: Scheduler) -> bool:
    """Whether Pods may be created: Volcano moves a group on from Pending when there is room for it. The
    scheduler-plugins scheduler has no such step; it holds back the Pods themselves."""
    if group is None:
        return False
    if scheduler == "scheduler-plugins":
        return True
    return status_of(group).get("phase") not in (None, "", "Pending")


_WAITING = (None, "", "Pending", "Inqueue", "PreScheduling", "Scheduling")
"""Phases of groups, of Volcano and of scheduler-plugins, whose members do not run yet."""


def needs_update(group: Object, wanted: Object) -> bool:
    """Whether a group has to become as the job now wants it: while its members wait, in everything; later only when
    the number of before could never be reached again."""
    now, then = spec_of(wanted), spec_of(group)
    if status_of(group).get("phase") in _WAITING:
        return any(then.get(name) != value for name, value in now.items())
    return bool(then.get("minMember", 0) > now["minMember"])


def minimum_resources(roles: Iterable[Role], members: int) -> dict[str, str]:
    """What the first `members` replicas ask for together, in the order of roles."""
    asked: list[Amounts] = []
    for role in roles:
        request = pod_requests(role.template.get("spec") or {})
        asked += [request] * min(role.replicas, members - len(asked))
    return format_amounts({name: amount for name, amount in sum_amounts(asked).items() if name != "pods"})


def _makes_all_gangs(settings: GangSettings) -> bool:
    return settings.always or settings.scheduler != "none"
