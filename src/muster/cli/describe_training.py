"""A training job in detail, in one screen: how far it is and, if it waits or failed, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from muster.cli.happenings import grid
from muster.cli.sections import NONE, Fields, Grid, moment
from muster.cli.summary import PODS_SHOWN, telling
from muster.cli.why import why
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, spec_of, status_of, uid_of
from muster.kube.pod_columns import status_word
from muster.kube.tables import human_duration

GROUPS = ("kubeflow.org", "batch.paddlepaddle.org")
_EVENTS_SHOWN = 12
_FINAL = ("Succeeded", "Failed", "Completed")


def describe_training_job(
    job: Object,
    pods: Sequence[Object],
    group: Object | None,
    events: Sequence[Object],
    pod_events: Mapping[str, Sequence[Object]],
    last_lines: Mapping[str, Mapping[str, Sequence[str]]],
    now: datetime,
) -> Fields:
    """`group` is the PodGroup of the job's name. Events and the ends of logs, by the Pod's uid, are those of the Pods
    that `telling` names."""
    status = status_of(job)
    fields: Fields = [
        ("Name", name_of(job)),
        ("Namespace", namespace_of(job)),
        ("Kind", f"{job.get('kind')} ({job.get('apiVersion')})"),
        ("State", _state(job)),
        ("Created", moment(meta(job).get("creationTimestamp"))),
    ]
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        seconds = (end - parse_time(status["startTime"])).total_seconds()
        fields.append(("Ended after" if status.get("completionTime") else "Active for", human_duration(seconds)))
    if group is not None:
        fields.append(("PodGroup", _group(group)))
    reasons = list(_why(job, pods, group, events, pod_events))
    if reasons:
        fields.append(("Why", reasons))
    for pod in telling(pods)[:PODS_SHOWN]:
        for container, lines in (last_lines.get(uid_of(pod)) or {}).items():
            said: Fields = [("Log", "\n".join(lines))]
            fields.append((f'Last lines of pod/{name_of(pod)}, container "{container}"', said))
    fields.append(("Pods", Grid(("Name", "Status", "Restarts", "Node"), [_row(pod) for pod in pods]) if pods else NONE))
    hidden = len(events) - _EVENTS_SHOWN
    label = f"Events (the last {_EVENTS_SHOWN} of {len(events)})" if hidden > 0 else "Events"
    fields.append((label, grid(events[-_EVENTS_SHOWN:], now) if events else NONE))
    return fields


def _state(job: Object) -> str:
    status = status_of(job)
    conditions = status.get("conditions") or [{}]
    return str(status.get("phase") or conditions[-1].get("type") or "not seen by a controller yet")


def _group(group: Object) -> str:
    minimum = spec_of(group).get("minMember", 1)
    return f"{status_of(group).get('phase') or 'Pending'}, needs room for {minimum} at once"


def _why(
    job: Object,
    pods: Sequence[Object],
    group: Object | None,
    events: Sequence[Object],
    pod_events: Mapping[str, Sequence[Object]],
) -> list[str]:
    """The nearest cause first; nothing when all is well."""
    state = _state(job)
    found: list[str] = []
    if state == "Failed":
        conditions = status_of(job).get("conditions") or [{}]
        found.append(str(status_of(job).get("message") or conditions[-1].get("message") or ""))
    elif state in _FINAL:
        return []
    elif state == "Suspended":
        found.append("it is suspended: set spec.runPolicy.suspend to false")
    elif group is not None and status_of(group).get("phase") in (None, "", "Pending"):
        said = [c for c in status_of(group).get("conditions") or () if c.get("message") and c.get("status") == "True"]
        reason = said[-1]["message"] if said else "the scheduler has not looked at it yet"
        found.append(f"the gang waits for room: {reason}")
    for pod in telling(pods)[:PODS_SHOWN]:
        found += [f"pod/{name_of(pod)}: {reason}" for reason in why(pod, pod_events.get(uid_of(pod)) or ())]
    if state not in _FINAL:
        latest = {e.get("reason"): e for e in events if e.get("type") == "Warning"}
        found += [f"{reason}: {event.get('message', '')}" for reason, event in latest.items()]
    return [reason for reason in dict.fromkeys(found) if reason]


def _row(pod: Object) -> tuple[str, str, str, str]:
    restarts = sum(c.get("restartCount", 0) for c in status_of(pod).get("containerStatuses") or ())
    return name_of(pod), status_word(pod), str(restarts), str(spec_of(pod).get("nodeName") or NONE)
