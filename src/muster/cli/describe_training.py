"""A training job in detail, in one screen: how far it is and, if it waits or failed, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from muster.cli.happenings import grid
from muster.cli.sections import NONE, Fields, Grid, moment
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, spec_of, status_of, uid_of
from muster.kube.pod_columns import status_word
from muster.kube.tables import human_duration
from muster.kube.why import PODS_SHOWN, telling
from muster.training.why import Reason, reasons, state_word

GROUPS = ("kubeflow.org", "batch.paddlepaddle.org")
_EVENTS_SHOWN = 12


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
        ("State", state_word(job)),
        ("Created", moment(meta(job).get("creationTimestamp"))),
    ]
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        seconds = (end - parse_time(status["startTime"])).total_seconds()
        fields.append(("Ended after" if status.get("completionTime") else "Active for", human_duration(seconds)))
    if group is not None:
        fields.append(("PodGroup", _group(group)))
    found = _together(reasons(job, pods, group, events, pod_events))
    if found:
        fields.append(("Why", found))
    for pod in telling(pods)[:PODS_SHOWN]:
        for container, lines in (last_lines.get(uid_of(pod)) or {}).items():
            said: Fields = [("Log", "\n".join(lines))]
            fields.append((f'Last lines of pod/{name_of(pod)}, container "{container}"', said))
    fields.append(("Pods", Grid(("Name", "Status", "Restarts", "Node"), [_row(pod) for pod in pods]) if pods else NONE))
    hidden = len(events) - _EVENTS_SHOWN
    label = f"Events (the last {_EVENTS_SHOWN} of {len(events)})" if hidden > 0 else "Events"
    fields.append((label, grid(events[-_EVENTS_SHOWN:], now) if events else NONE))
    return fields


def _together(found: Sequence[Reason]) -> list[str]:
    """Pods that wait for the same thing are named in one line."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for reason in found:
        about = "" if reason.code == "pod" else reason.about
        told.setdefault((reason.code, reason.detail, about), []).append(str(reason))
    return [
        ", ".join([text.removesuffix(f": {detail}") for text in texts[:-1]] + texts[-1:])
        for (_, detail, _), texts in told.items()
    ]


def _group(group: Object) -> str:
    minimum = spec_of(group).get("minMember", 1)
    return f"{status_of(group).get('phase') or 'Pending'}, needs room for {minimum} at once"


def _row(pod: Object) -> tuple[str, str, str, str]:
    restarts = sum(c.get("restartCount", 0) for c in status_of(pod).get("containerStatuses") or ())
    return name_of(pod), status_word(pod), str(restarts), str(spec_of(pod).get("nodeName") or NONE)
