"""Decides what a CronWorkflow does next, from its object, its workflows and the time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from muster.kube.budgets import Budgets, setting_name
from muster.kube.objects import (
    Object,
    annotations_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    parse_time,
    set_condition,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.workflows.cron.schedule import Schedule, ScheduleError, parse_schedule
from muster.workflows.lang.environment import evaluate_bool
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.go_time import SECOND
from muster.workflows.lang.go_time_values import Time
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import substitute
from muster.workflows.model import FINISHED_PHASES
from muster.workflows.submit import workflow_from_cron

CRON_LABEL = "workflows.argoproj.io/cron-workflow"
COMPLETED_LABEL = "cronworkflows.argoproj.io/completed"
SCHEDULE_ANNOTATION = "cronworkflows.argoproj.io/last-used-schedule"
_PASSED_ON = tuple(
    f"workflows.argoproj.io/{name}"
    for name in ("creator", "creator-email", "creator-preferred-username", "controller-instanceid")
)
_NUMBERS = re.compile(r"\{\{\s*cronworkflow\.(failed|succeeded)\s*\}\}")
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32))
_LONGEST_WINDOW = timedelta(days=400)
"""A run that was missed before that is not run any more."""
_MOST_SCHEDULES = 100
_MOST_KEPT = 100
"""Ended workflows of a restricted namespace that a CronWorkflow keeps."""


class Timed(NamedTuple):
    """A schedule, as text and parsed."""

    text: str
    schedule: Schedule


def schedules_of(cron: Object) -> list[Timed]:
    """Raises ScheduleError."""
    spec = spec_of(cron)
    texts = list(spec.get("schedules") or ()) or [t for t in (spec.get("schedule"),) if t]
    if len(texts) > _MOST_SCHEDULES:
        raise ScheduleError(f"{len(texts)} schedules are too many (at most {_MOST_SCHEDULES})")
    zone = str(spec.get("timezone") or "")
    return [Timed(str(text), parse_schedule(str(text), zone)) for text in texts]


def schedule_text(cron: Object) -> str:
    """Returns all schedules with their time zone, as Argo records them."""
    spec = spec_of(cron)
    texts = list(spec.get("schedules") or ()) or [t for t in (spec.get("schedule"),) if t]
    zone = f"CRON_TZ={spec['timezone']} " if spec.get("timezone") else ""
    return ",".join(f"{zone}{text}" for text in texts)


def missed_time(cron: Object, schedules: Iterable[Timed], now: datetime) -> tuple[datetime, Schedule] | None:
    """Returns the last time it should have run since it did, if startingDeadlineSeconds still allows that run."""
    deadline = spec_of(cron).get("startingDeadlineSeconds")
    last = status_of(cron).get("lastScheduledTime")
    if deadline is None or not last or annotations_of(cron).get(SCHEDULE_ANNOTATION) != schedule_text(cron):
        return None
    earliest = max(parse_time(last), now - timedelta(seconds=int(deadline)))
    for _, schedule in schedules:
        if schedule.every:
            found = schedule.latest_between(parse_time(last), now)
            if found is not None and found >= earliest:
                return found, schedule
            continue
        # Only the last one counts, so the last hour is searched first.
        for window in (*_WINDOWS, min(now - earliest, _LONGEST_WINDOW)):
            found = schedule.latest_between(max(earliest, now - window), now)
            if found is not None:
                return found, schedule
    return None


def update_status(cron: Object, workflows: Sequence[Object]) -> dict[str, Any]:
    """Returns the status, updated from the state of its workflows."""
    status = {"active": [], "succeeded": 0, "failed": 0, **status_of(cron)}
    known = {uid_of(workflow): workflow for workflow in workflows}
    active: list[dict[str, Any]] = []
    for ref in status["active"] or ():
        workflow = known.get(ref.get("uid"))
        if workflow is None:
            continue
        phase = status_of(workflow).get("phase")
        if phase not in FINISHED_PHASES:
            active.append(ref)
        elif phase == "Succeeded":
            status["succeeded"] += 1
        else:
            status["failed"] += 1
    listed = {ref.get("uid") for ref in active}
    active += [
        reference(workflow)
        for uid, workflow in known.items()
        if uid not in listed and status_of(workflow).get("phase") not in FINISHED_PHASES
    ]
    return {**status, "active": active}


def has_stopped(cron: Object, status: Mapping[str, Any]) -> bool:
    """Whether stopStrategy says that it has run often enough. Raises ExpressionError."""
    expression = (spec_of(cron).get("stopStrategy") or {}).get("expression")
    return bool(expression) and evaluate_bool(str(expression), _scope(cron, status))


def may_run(cron: Object, status: Mapping[str, Any]) -> bool:
    """Raises ExpressionError."""
    spec = spec_of(cron)
    if spec.get("suspend") or status.get("phase") == "Stopped":
        return False
    when = spec.get("when")
    if when and not _holds(cron, status, str(when)):
        return False
    return not is_forbidden(cron, status)


def is_forbidden(cron: Object, status: Mapping[str, Any]) -> bool:
    """Whether it may not run because a workflow of an earlier time still does."""
    return spec_of(cron).get("concurrencyPolicy") == "Forbid" and bool(status["active"])


def workflow_for(cron: Object, due: datetime, schedule: Schedule) -> Object:
    """Returns the workflow to create. Its name is derived from the time it is due, so it cannot be created twice."""
    made = workflow_from_cron(cron, schedule.written(due))
    passed_on = {name: value for name, value in labels_of(cron).items() if name in _PASSED_ON}
    metadata = {name: value for name, value in meta(made).items() if name != "generateName"}
    return {
        **made,
        "metadata": {
            **metadata,
            "name": f"{name_of(cron)}-{int(due.timestamp())}",
            "namespace": namespace_of(cron),
            "labels": {**passed_on, **labels_of(made)},
            "ownerReferences": [owner_reference(cron)],
        },
    }


def status_after_start(status: Mapping[str, Any], workflow: Object, due: datetime) -> dict[str, Any]:
    """Returns the status after a workflow was created."""
    refs = [ref for ref in status["active"] if ref.get("uid") != uid_of(workflow)]
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "SubmissionError"]
    return {
        **status,
        "active": [*refs, reference(workflow)],
        "phase": "Active",
        "lastScheduledTime": timestamp(due),
        "conditions": conditions,
    }


def status_after_failure(status: Mapping[str, Any], type: str, message: str) -> dict[str, Any]:
    """Returns the status with a SpecError or a SubmissionError."""
    conditions = set_condition(status.get("conditions"), type, True, message=message)
    more = {"failed": status.get("failed", 0) + 1} if type == "SubmissionError" else {}
    return {**status, **more, "conditions": conditions}


def member_problem(cron: Object, schedules: Sequence[Timed], older: int, budgets: Budgets) -> str:
    """Returns why a CronWorkflow of a restricted namespace, which has so many older ones, does not run, or ''."""
    if older >= budgets.member_cron_workflows:
        most, setting = budgets.member_cron_workflows, setting_name("member_cron_workflows")
        return f"the namespace has more than {most} CronWorkflows: see {setting} in config.yaml"
    for text, schedule in schedules:
        if schedule.every and schedule.every < budgets.member_cron_seconds * SECOND:
            setting = setting_name("member_cron_seconds")
            return (
                f"schedule '{text}' is more often than every {budgets.member_cron_seconds} seconds: see {setting} in "
                "config.yaml"
            )
    return ""


def workflows_to_delete(cron: Object, workflows: Iterable[Object], *, restricted: bool = False) -> list[Object]:
    """Returns its oldest ended workflows beyond the history limits."""
    spec = spec_of(cron)
    most = _MOST_KEPT if restricted else None
    ended = [
        w
        for w in workflows
        if status_of(w).get("phase") in FINISHED_PHASES and labels_of(w).get(CRON_LABEL) == name_of(cron)
    ]
    ended.sort(key=lambda w: str(status_of(w).get("finishedAt") or ""), reverse=True)
    good = [w for w in ended if status_of(w)["phase"] == "Succeeded"]
    bad = [w for w in ended if status_of(w)["phase"] != "Succeeded"]
    return (
        good[_limit(spec.get("successfulJobsHistoryLimit"), 3, most) :]
        + bad[_limit(spec.get("failedJobsHistoryLimit"), 1, most) :]
    )


def reference(workflow: Object) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "name": name_of(workflow),
        "namespace": namespace_of(workflow),
        "uid": uid_of(workflow),
        "resourceVersion": version_of(workflow),
    }


def _limit(given: int | None, default: int, most: int | None) -> int:
    wanted = default if given is None or given < 0 else given
    return wanted if most is None else min(wanted, most)


def _holds(cron: Object, status: Mapping[str, Any], when: str) -> bool:
    numbers = _NUMBERS.sub(lambda found: str(status.get(found[1]) or 0), when)
    return evaluate_when(str(substitute(numbers, _scope(cron, status))))


def _scope(cron: Object, status: Mapping[str, Any]) -> dict[str, Any]:
    last = status.get("lastScheduledTime")
    scope: dict[str, Any] = {
        "name": name_of(cron),
        "namespace": namespace_of(cron),
        "failed": status.get("failed") or 0,
        "succeeded": status.get("succeeded") or 0,
        "lastScheduledTime": Time(int(parse_time(last).astimezone(UTC).timestamp()) * SECOND) if last else None,
        "labels.json": to_json(labels_of(cron)),
        "annotations.json": to_json(annotations_of(cron)),
        **{f"labels.{name}": value for name, value in labels_of(cron).items()},
        **{f"annotations.{name}": value for name, value in annotations_of(cron).items()},
    }
    return {f"cronworkflow.{name}": value for name, value in scope.items()}
