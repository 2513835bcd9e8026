"""CronJob of batch/v1: the kind, what it does next (pure), and its controller.

It shares the schedules of CronWorkflows. A Job's name is derived from the time it was due, so nothing runs twice,
whenever the controller stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from muster.kube.budgets import Budgets, setting_name
from muster.kube.builtin import JOB
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, FairQueue, Informer, index_by_controller
from muster.kube.defaults import default_pod_template, with_field
from muster.kube.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    invalid,
    required,
)
from muster.kube.kinds import Column, Kind
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    is_condition_true,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    parse_time,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.kube.schema import upstream_schema
from muster.kube.tables import AGE, format_age
from muster.kube.validation import validate_job, validator
from muster.workflows.cron.schedule import Schedule, ScheduleError, parse_schedule
from muster.workflows.lang.go_time import SECOND
from muster.workflows.lang.limits import BudgetExceeded
from muster.workflows.model import EventRecorder
from muster.workflows.step_threads import run_metered

SCHEDULED_ANNOTATION: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LONGEST_NAME = 52
"""Of a CronJob: its Jobs add 11 characters."""
_DEFAULTS = {
    "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
}  # fmt: skip
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=400))
"""Only the last time that was missed counts, so the last hour is searched first."""
_SLACK = 0.02
"""Seconds after a due time at which the controller looks again: timers may be early."""
_WORKERS, _PER_NAMESPACE = 4, 2
_REFUSALS = (BadRequest, Forbidden, Invalid, TooLarge)


def default_cron_job(cron: Object) -> Object:
    spec = cron.get("spec")
    if spec is None:
        return cron
    missing = {field: value for field, value in _DEFAULTS.items() if spec.get(field) is None}
    if missing:
        spec = {**spec, **missing}
    job = spec_of(spec.get("jobTemplate") or {})
    template = job.get("template")
    if template is not None:
        filled = default_pod_template(template)
        if filled is not template:
            spec = {**spec, "jobTemplate": {**spec["jobTemplate"], "spec": {**job, "template": filled}}}
    return with_field(cron, "spec", spec)


@validator
def validate_cron_job(cron: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(cron)
    if old is None and len(name_of(cron)) > _LONGEST_NAME:
        yield invalid("metadata.name", name_of(cron), f"must be no more than {_LONGEST_NAME} characters")
    if old is not None and spec is spec_of(old):
        return
    if not spec.get("schedule"):
        yield required("spec.schedule")
        return
    if "TZ" in spec["schedule"]:
        yield invalid("spec.schedule", spec["schedule"], "must not contain a time zone: use spec.timeZone")
    else:
        try:
            parse_schedule(spec["schedule"], spec.get("timeZone") or "")
        except ScheduleError as error:
            yield invalid("spec.schedule", spec["schedule"], str(error))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if spec.get(field) is not None and spec[field] < 0:
            yield invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    job = {"metadata": {"name": "job"}, "spec": spec_of(spec["jobTemplate"])}
    for cause in validate_job(job, None):
        yield cause._replace(field=f"spec.jobTemplate.{cause.field}")
    if spec_of(job).get("manualSelector"):
        yield Cause(
            "spec.jobTemplate.spec.manualSelector", "Forbidden: a CronJob makes many Jobs", "FieldValueForbidden"
        )


def _last_schedule(cron: Object, now: datetime) -> str:
    last = status_of(cron).get("lastScheduleTime")
    return format_age(last, now) if last else "<none>"


CRON_JOB: Final = Kind(
    "batch", "v1", "CronJob", "cronjobs", short_names=("cj",), categories=("all",),
    schema=upstream_schema("batch.v1.CronJob"),
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Timezone", cell=lambda cron, _: spec_of(cron).get("timeZone") or "<none>"),
        Column("Suspend", cell=lambda cron, _: str(bool(spec_of(cron).get("suspend")))),
        Column("Active", cell=lambda cron, _: len(status_of(cron).get("active") or ()), type="integer"),
        Column("Last Schedule", cell=_last_schedule),
        AGE,
    ),
    default=default_cron_job, validate=validate_cron_job,
)  # fmt: skip


CronEvent: TypeAlias = tuple[Literal["Normal", "Warning"], str, str]


class CronJobPlan(NamedTuple):
    status: Object
    create: Object | None = None
    """The Job that is due."""
    due: datetime | None = None
    delete: tuple[Object, ...] = ()
    events: tuple[CronEvent, ...] = ()
    next_time: datetime | None = None
    """When to look again."""


def plan_cron_job(cron: Object, jobs: Sequence[Object], schedule: Schedule, now: datetime) -> CronJobPlan:
    """Returns what to do now, from a CronJob and its Jobs."""
    spec, status = spec_of(cron), status_of(cron)
    running = [job for job in jobs if not _outcome(job)]
    known = {ref.get("uid") for ref in status.get("active") or ()}
    events: list[CronEvent] = [
        ("Normal", "SawCompletedJob", f"Saw completed job: {name_of(job)}, condition: {outcome}")
        for job in jobs
        if uid_of(job) in known and (outcome := _outcome(job))
    ]
    new_status: Object = {"active": [_reference(job) for job in running]} if running else {}
    for field in ("lastScheduleTime", "lastSuccessfulTime"):
        if status.get(field):
            new_status[field] = status[field]
    ended = [status_of(job)["completionTime"] for job in jobs if _outcome(job) == "Complete"]
    if ended:
        new_status["lastSuccessfulTime"] = max([*ended, new_status.get("lastSuccessfulTime") or ""])
    old = tuple(_beyond_history(spec, jobs))
    if spec.get("suspend") or is_deleting(cron):
        return CronJobPlan(new_status, delete=old, events=tuple(events))
    next_time = schedule.next_after(now)
    due = _latest_due(cron, schedule, now)
    if due is None:
        return CronJobPlan(new_status, delete=old, events=tuple(events), next_time=next_time)
    if running and spec.get("concurrencyPolicy") == "Forbid":
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        events.append(("Normal", "JobAlreadyActive", message))
        return CronJobPlan(new_status, delete=old, events=tuple(events), next_time=next_time)
    if spec.get("concurrencyPolicy") == "Replace":
        old = (*old, *running)
        new_status.pop("active", None)
    job = job_of(cron, due, schedule)
    return CronJobPlan(new_status, job, due, old, tuple(events), next_time)


def job_of(cron: Object, due: datetime, schedule: Schedule) -> Object:
    """Returns the Job for a time. Its name says which, so there is only one."""
    template = spec_of(cron)["jobTemplate"]
    annotations = {**annotations_of(template), SCHEDULED_ANNOTATION: schedule.written(due)}
    metadata: Object = {
        "name": f"{name_of(cron)}-{int(due.timestamp()) // 60}",
        "namespace": namespace_of(cron),
        "annotations": annotations,
        "ownerReferences": [owner_reference(cron)],
    }
    if labels_of(template):
        metadata["labels"] = labels_of(template)
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec_of(template)}


def _latest_due(cron: Object, schedule: Schedule, now: datetime) -> datetime | None:
    """Returns the last time it should have run since it did, if startingDeadlineSeconds still allows that run."""
    earliest = parse_time(status_of(cron).get("lastScheduleTime") or meta(cron)["creationTimestamp"])
    deadline = spec_of(cron).get("startingDeadlineSeconds")
    allowed = earliest if deadline is None else max(earliest, now - timedelta(seconds=deadline))
    if schedule.every:
        found = schedule.latest_between(earliest, now)
        return found if found is not None and found >= allowed else None
    for window in _WINDOWS:
        found = schedule.latest_between(max(allowed, now - window), now)
        if found is not None:
            return found
        if now - window <= allowed:
            return None
    return None


def _outcome(job: Object) -> str:
    conditions = status_of(job).get("conditions") or []
    return next((word for word in ("Complete", "Failed") if is_condition_true(conditions, word)), "")


def _reference(job: Object) -> Object:
    return {
        "kind": JOB.kind, "apiVersion": JOB.api_version, "namespace": namespace_of(job), "name": name_of(job),
        "uid": uid_of(job), "resourceVersion": version_of(job),
    }  # fmt: skip


def _beyond_history(spec: Object, jobs: Sequence[Object]) -> Iterator[Object]:
    for outcome, field in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        limit = spec.get(field)
        if limit is None:
            continue
        ended = sorted(
            (job for job in jobs if _outcome(job) == outcome and not is_deleting(job)),
            key=lambda job: (str(status_of(job).get("startTime") or ""), name_of(job)),
        )
        yield from ended[: max(0, len(ended) - limit)]


def member_problem(cron: Object, schedule: Schedule, older: int, budgets: Budgets) -> str:
    """Returns why a CronJob of a restricted namespace, which has so many older ones, does not run, or ''."""
    if older >= budgets.member_cron_workflows:
        setting = setting_name("member_cron_workflows")
        return f"the namespace has more than {budgets.member_cron_workflows} CronJobs: see {setting} in config.yaml"
    if schedule.every and schedule.every < budgets.member_cron_seconds * SECOND:
        setting = setting_name("member_cron_seconds")
        most = f"more often than every {budgets.member_cron_seconds} seconds"
        return f"schedule '{spec_of(cron)['schedule']}' is {most}: see {setting} in config.yaml"
    return ""


class CronJobController:
    """`is_restricted` says whether a namespace has the budgets of the platform's members."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        budgets: Budgets | None = None,
        is_restricted: Callable[[str], bool] = lambda namespace: False,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._budgets = budgets or Budgets()
        self._is_restricted = is_restricted
        queue = FairQueue[Key](lambda key: key.namespace, _PER_NAMESPACE)
        self._queue: Controller[Key] = Controller("cron jobs", self._reconcile, workers=_WORKERS, queue=queue)
        self._crons = Informer(
            cluster, CRON_JOB, on_change=self._cron_changed, indexers={"namespace": lambda cron: [namespace_of(cron)]}
        )
        self._jobs = Informer(cluster, JOB, on_change=self._job_changed, indexers={"owner": index_by_controller})
        self._refused: dict[str, str] = {}
        """By uid: why it does not run, so that this is said once."""

    async def run(self) -> None:
        async with self._jobs, self._crons:
            await self._queue.run()

    def _cron_changed(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        assert changed is not None
        if after is None:
            self._refused.pop(uid_of(changed), None)
        self._queue.enqueue(key_of(changed))

    def _job_changed(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        assert changed is not None
        for owner in meta(changed).get("ownerReferences") or ():
            if owner["kind"] == CRON_JOB.kind:
                self._queue.enqueue(Key(namespace_of(changed), owner["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        cron = self._crons.get(*key)
        if cron is None or is_deleting(cron):
            return None
        spec, now = spec_of(cron), self._clock()
        schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
        if self._is_restricted(key.namespace):
            problem = member_problem(cron, schedule, self._older(cron), self._budgets)
            if problem:
                self._refuse(cron, problem)
                return None
        try:
            plan = await run_metered(partial(plan_cron_job, cron, self._jobs.by("owner", uid_of(cron)), schedule, now))
        except BudgetExceeded as error:
            self._refuse(cron, str(error))
            return None
        await self._carry_out(cron, plan)
        if plan.next_time is None:
            return None
        return max(0.0, (plan.next_time - self._clock()).total_seconds()) + _SLACK

    async def _carry_out(self, cron: Object, plan: CronJobPlan) -> None:
        for severity, reason, message in plan.events:
            self._recorder.event(cron, severity, reason, message)
        for job in plan.delete:
            await self._delete(cron, job)
        status = plan.status
        if plan.create is not None and plan.due is not None:
            made = await self._create(cron, plan.create)
            status = {**status, "lastScheduleTime": timestamp(plan.due)}
            if made is not None:
                listed = [ref for ref in status.get("active") or () if ref["uid"] != uid_of(made)]
                status["active"] = [*listed, _reference(made)]
        if status != status_of(cron):
            change = {field: status.get(field) for field in ("active", "lastScheduleTime", "lastSuccessfulTime")}
            body = {"metadata": {"uid": uid_of(cron)}, "status": change}
            try:
                await self._cluster.patch(CRON_JOB, name_of(cron), namespace_of(cron), body, subresource="status")
            except NotFound:
                return

    async def _create(self, cron: Object, job: Object) -> Object | None:
        try:
            made = await self._cluster.create(job)
        except AlreadyExists:  # by us, before a restart
            found = await self._cluster.get(JOB, name_of(job), namespace_of(job))
            is_ours = (controller_of(found) or {}).get("uid") == uid_of(cron)
            return found if is_ours and not _outcome(found) else None
        except _REFUSALS as error:
            self._recorder.event(cron, "Warning", "FailedCreate", f"Error creating job: {error.message}")
            return None
        self._recorder.event(cron, "Normal", "SuccessfulCreate", f"Created job {name_of(made)}")
        return made

    async def _delete(self, cron: Object, job: Object) -> None:
        try:
            await self._cluster.delete(JOB, name_of(job), namespace_of(job), uid=uid_of(job))
        except NotFound:
            return
        self._recorder.event(cron, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")

    def _older(self, cron: Object) -> int:
        since = (meta(cron)["creationTimestamp"], uid_of(cron))
        ours = self._crons.by("namespace", namespace_of(cron))
        return sum((meta(other)["creationTimestamp"], uid_of(other)) < since for other in ours)

    def _refuse(self, cron: Object, problem: str) -> None:
        if self._refused.get(uid_of(cron)) != problem:
            self._refused[uid_of(cron)] = problem
            self._recorder.event(cron, "Warning", "NotScheduled", problem)
