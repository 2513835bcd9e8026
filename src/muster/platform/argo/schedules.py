"""CronWorkflows as the platform shows and creates them. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from typing import Any, Final

from muster.kube.objects import (
    Object,
    annotations_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from muster.platform.argo.workflows import moment
from muster.platform.jobs.jobs import FindOwner
from muster.platform.permissions import Actor, may
from muster.platform.records.argo import Schedule, ScheduleState
from muster.platform.records.common import Subject
from muster.workflows.cron.plan import schedules_of
from muster.workflows.cron.schedule import Schedule as CronSchedule
from muster.workflows.cron.schedule import ScheduleError, parse_schedule
from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW

NEXT_TIMES: Final = 5
MOST_SCHEDULES: Final = 20
_PROBLEMS: Final = ("SpecError", "SubmissionError")


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """What a form says about a CronWorkflow. What is empty is as the manifest says."""

    name: str
    schedules: Sequence[str]
    timezone: str
    concurrency: str
    """Allow, Forbid or Replace."""
    suspended: bool


def describe_schedule(cron: Object, now: datetime) -> Schedule:
    spec, status = spec_of(cron), status_of(cron)
    times, problem = [], ""
    try:
        times = list(islice(next_times([timed.schedule for timed in schedules_of(cron)], now), NEXT_TIMES))
    except ScheduleError as error:
        problem = str(error)
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    failed = [c for c in conditions if c.get("type") in _PROBLEMS and c.get("status") == "True"]
    problem = problem or next((str(c.get("message") or c.get("type")) for c in failed), "")
    state = _state(cron, problem)
    return Schedule(
        kind="cron",
        id=uid_of(cron),
        namespace=namespace_of(cron),
        name=name_of(cron),
        state=state,
        message=problem,
        schedules=[str(each) for each in spec.get("schedules") or [spec.get("schedule")] if each],
        timezone=str(spec.get("timezone") or ""),
        next=times if state in ("active", "failed") else [],
        last=moment(status.get("lastScheduledTime")),
        active=len(status.get("active") or ()),
        source=str(((spec.get("workflowSpec") or {}).get("workflowTemplateRef") or {}).get("name") or ""),
        created=parse_time(meta(cron)["creationTimestamp"]),
        owner_id=None,
        owner_name=None,
        team_id=None,
        team_name=None,
        may=[],
    )


def _state(cron: Object, problem: str) -> ScheduleState:
    if spec_of(cron).get("suspend"):
        return "paused"
    if status_of(cron).get("phase") == "Stopped":
        return "ended"
    return "failed" if problem else "active"


def next_times(schedules: Sequence[CronSchedule], now: datetime) -> Iterator[datetime]:
    """The times after `now` at which any of the schedules is due, in order and each once."""
    return (time for time, _ in groupby(heapq.merge(*(_times(each, now) for each in schedules))))


def _times(schedule: CronSchedule, now: datetime) -> Iterator[datetime]:
    at = schedule.next_after(now)
    while at is not None:
        yield at
        at = schedule.next_after(at)


def parse_schedules(texts: Sequence[str], timezone: str) -> list[CronSchedule]:
    """Raises ScheduleError."""
    if not texts:
        raise ScheduleError("there is no schedule; write one, such as 0 9 * * 1-5")
    return [parse_schedule(text, timezone) for text in texts]


def subject_of(namespace: str, uid: str, find_owner: FindOwner) -> Subject:
    """A CronWorkflow belongs to the user or the team of its namespace, as Workflows do."""
    place = find_owner(namespace)
    if place is None:
        return Subject("schedule", uid)
    return Subject("schedule", uid, owner=place.user, team=place.team)


def list_actions(actor: Actor, schedule: Schedule, subject: Subject) -> list[str]:
    """The actions that are permitted and possible now."""
    actions = {
        "run": bool(may(actor, "run", subject)),
        "pause": schedule.state in ("active", "failed") and bool(may(actor, "edit", subject)),
        "resume": schedule.state == "paused" and bool(may(actor, "edit", subject)),
        "delete": bool(may(actor, "delete", subject)),
    }
    return [action for action, allowed in actions.items() if allowed]


def is_workflow(obj: Object) -> bool:
    return (obj.get("apiVersion"), obj.get("kind")) in {
        (kind.api_version, kind.kind) for kind in (WORKFLOW, CRON_WORKFLOW)
    }


def cron_workflow(manifest: Object, new: NewSchedule, namespace: str) -> Object:
    """The CronWorkflow to create: of a CronWorkflow with these changes, or of a Workflow that it starts."""
    if manifest.get("kind") == CRON_WORKFLOW.kind:
        spec, metadata = dict(spec_of(manifest)), dict(meta(manifest))
    else:
        spec, metadata = {"workflowSpec": spec_of(manifest)}, {}
        passed_on = {"labels": labels_of(manifest), "annotations": annotations_of(manifest)}
        if any(passed_on.values()):
            spec["workflowMetadata"] = {name: value for name, value in passed_on.items() if value}
    if new.name:
        metadata["name"] = new.name
    if new.schedules:
        spec.pop("schedule", None)
        spec["schedules"] = list(new.schedules)
    if new.timezone:
        spec["timezone"] = new.timezone
    if new.concurrency:
        spec["concurrencyPolicy"] = new.concurrency
    if new.suspended:
        spec["suspend"] = True
    metadata["namespace"] = namespace
    metadata.pop("generateName", None)
    return {"apiVersion": CRON_WORKFLOW.api_version, "kind": CRON_WORKFLOW.kind, "metadata": metadata, "spec": spec}
