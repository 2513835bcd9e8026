"""Explains why a training job waits or has failed, from the job, its Pods, its PodGroup and their events. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from muster.kube.objects import Object, name_of, status_of, uid_of
from muster.kube.pod_diagnosis import MAX_DIAGNOSED_PODS, diagnose_pod, select_pods_to_diagnose

Code: TypeAlias = Literal["failed", "suspended", "gang waits", "pod", "warning"]

_FINAL = ("Succeeded", "Failed", "Completed")
_NOT_SCHEDULED_YET = "the scheduler has not looked at it yet"


class JobProblem(NamedTuple):
    """As text it is an English sentence; its parts serve translations."""

    code: Code
    detail: str = ""
    about: str = ""
    """The Pod, or the reason of an event."""

    def __str__(self) -> str:
        match self.code:
            case "suspended":
                return "it is suspended: set spec.runPolicy.suspend to false"
            case "gang waits":
                return f"the gang waits for room: {self.detail}"
            case "pod":
                return f"pod/{self.about}: {self.detail}"
            case "warning":
                return f"{self.about}: {self.detail}"
        return self.detail


def job_state(job: Object) -> str:
    """Returns the job's phase or its newest condition, as its kind writes it."""
    status = status_of(job)
    conditions = status.get("conditions") or [{}]
    return str(status.get("phase") or conditions[-1].get("type") or "not seen by a controller yet")


def diagnose_job(
    job: Object,
    pods: Sequence[Object],
    group: Object | None,
    events: Sequence[Object],
    pod_events: Mapping[str, Sequence[Object]],
) -> list[JobProblem]:
    """Returns the problems, the nearest cause first; none when all is well. `group` is the PodGroup of the job's name.
    `pod_events`, by the Pod's uid, are those of the first Pods that `select_pods_to_diagnose` returns."""
    state = job_state(job)
    found: list[JobProblem] = []
    if state == "Failed":
        conditions = status_of(job).get("conditions") or [{}]
        found.append(JobProblem("failed", str(status_of(job).get("message") or conditions[-1].get("message") or "")))
    elif state in _FINAL:
        return []
    elif state == "Suspended":
        return [JobProblem("suspended")]  # that is why its Pods are being deleted
    elif group is not None and status_of(group).get("phase") in (None, "", "Pending"):
        found.append(JobProblem("gang waits", waiting_message(group) or _NOT_SCHEDULED_YET))
    for pod in select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]:
        found += [
            JobProblem("pod", cause, name_of(pod)) for cause in diagnose_pod(pod, pod_events.get(uid_of(pod)) or ())
        ]
    if state not in _FINAL:
        latest = {e.get("reason"): e for e in events if e.get("type") == "Warning"}
        found += [JobProblem("warning", str(e.get("message", "")), str(reason)) for reason, e in latest.items()]
    return [reason for reason in dict.fromkeys(found) if str(reason)]


def waiting_message(group: Object) -> str:
    """Returns the scheduler's last message about a PodGroup; '' if there is none."""
    said = [c for c in status_of(group).get("conditions") or () if c.get("message") and c.get("status") == "True"]
    return str(said[-1]["message"]) if said else ""
