"""Gang scheduling of a job: the PodGroup that holds its Pods back until there is room for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast, get_args

from muster.kube.builtin import PLUGIN_POD_GROUP, POD_GROUP
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, labels_of, meta, owner_reference, parse_time, spec_of, status_of
from muster.kube.quantity import Amounts, format_amounts, pod_requests, sum_amounts
from muster.training.model import Role, SchedulingPolicy, TrainingJob

Scheduler: TypeAlias = Literal["none", "volcano", "scheduler-plugins"]
"""The gang scheduler of a cluster. `none` still uses Volcano for jobs that name it."""

PLUGINS_SCHEDULER = "scheduler-plugins-scheduler"
"""The scheduler's name if it was installed from the scheduler-plugins chart."""

_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Names the PodGroup of a Pod: of scheduler-plugins."""
_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
"""The same of Volcano."""

_GROUP_WAIT_SECONDS = 3.0
"""How long a job that only names a gang scheduler waits for a PodGroup from its user. kubectl sends the objects of a
file one after the other, and our PodGroup would conflict with the user's."""


@dataclass(frozen=True, slots=True)
class GangSettings:
    scheduler: Scheduler = "none"
    name: str = ""
    """The name of a scheduler with the Coscheduling plugin, unless it is the usual one."""
    always: bool = False
    by_policy: bool = True
    """Whether a schedulingPolicy alone makes a gang. A real cluster without a gang scheduler should ignore it."""


@dataclass(frozen=True, slots=True)
class GangMembership:
    """What makes a Pod a member of its gang."""

    scheduler: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""


def parse_scheduler(written: str) -> tuple[Scheduler, str]:
    """Parses --gang-scheduler-name: the gang scheduler, and the name of a scheduler with its plugin. The ValueError
    says what to write instead."""
    kind, _, name = written.partition(":")
    if kind not in get_args(Scheduler):
        known = ", ".join(get_args(Scheduler))
        own = f"a scheduler of your own with the plugin Coscheduling is written scheduler-plugins:{written}"
        raise ValueError(f'"{written}" is not one of {known}; {own}')
    if kind != "scheduler-plugins" and name:
        raise ValueError(f'"{written}": write {kind}; only after scheduler-plugins: comes a name')
    return cast(Scheduler, kind), name


def wants_gang(job: TrainingJob, settings: GangSettings) -> bool:
    """With `always` (--gang) every job is a gang, otherwise those with a schedulingPolicy or the name of a gang
    scheduler. Where policies are ignored, only jobs that name Volcano are held back."""
    names = {(role.template.get("spec") or {}).get("schedulerName") for role in job.roles}
    asked = settings.by_policy and (job.policy.scheduling is not None or PLUGINS_SCHEDULER in names)
    return _is_always_gang(settings) or asked or "volcano" in names


def seconds_to_wait_for_group(job: TrainingJob, settings: GangSettings, now: datetime) -> float:
    """Returns the seconds left. A job with a schedulingPolicy needs no PodGroup from its user, nor does a cluster where
    every job gets one."""
    if _is_always_gang(settings) or job.policy.scheduling is not None:
        return 0.0
    return _GROUP_WAIT_SECONDS - (now - parse_time(meta(job.object)["creationTimestamp"])).total_seconds()


def group_kind(scheduler: Scheduler) -> Kind:
    return PLUGIN_POD_GROUP if scheduler == "scheduler-plugins" else POD_GROUP


def pod_group(job: TrainingJob, scheduler: Scheduler, *, late: int = 0) -> Object:
    """`late` replicas are created once the others run: they need room, but must not be waited for. A minimum above the
    number of replicas is kept: the gang waits until it is lowered."""
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
    """`name` is the name of a scheduler with the plugin, unless it is the usual one."""
    policy = job.policy.scheduling or SchedulingPolicy()
    if scheduler == "scheduler-plugins":
        return GangMembership(name or PLUGINS_SCHEDULER, labels={_GROUP_LABEL: job.name})
    return GangMembership(
        "volcano",
        annotations={_GROUP_ANNOTATION: job.name},
        priority_class=policy.priority_class,
    )


def is_gang_member(pod: Object) -> bool:
    return _GROUP_LABEL in labels_of(pod) or _GROUP_ANNOTATION in annotations_of(pod)


def is_admitted(group: Object | None, scheduler: Scheduler) -> bool:
    """Whether Pods may be created. Volcano moves a PodGroup on from Pending when there is room for it. The
    scheduler-plugins scheduler has no such step; it holds back the Pods themselves."""
    if group is None:
        return False
    if scheduler == "scheduler-plugins":
        return True
    return status_of(group).get("phase") not in (None, "", "Pending")


_WAITING = (None, "", "Pending", "Inqueue", "PreScheduling", "Scheduling")
"""Phases of PodGroups, of Volcano and scheduler-plugins, whose Pods do not run yet."""


def needs_update(group: Object, wanted: Object) -> bool:
    """Whether a PodGroup must be changed to what the job wants: in everything while its Pods wait, later only if its
    minimum could never be reached again."""
    now, then = spec_of(wanted), spec_of(group)
    if status_of(group).get("phase") in _WAITING:
        return any(then.get(name) != value for name, value in now.items())
    return bool(then.get("minMember", 0) > now["minMember"])


def minimum_resources(roles: Iterable[Role], members: int) -> dict[str, str]:
    """Returns what the first `members` replicas request in total, in the order of roles."""
    asked: list[Amounts] = []
    for role in roles:
        request = pod_requests(role.template.get("spec") or {})
        asked += [request] * min(role.replicas, members - len(asked))
    return format_amounts({name: amount for name, amount in sum_amounts(asked).items() if name != "pods"})


def _is_always_gang(settings: GangSettings) -> bool:
    return settings.always or settings.scheduler != "none"
