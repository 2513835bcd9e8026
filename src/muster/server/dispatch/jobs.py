"""Jobs of the dispatcher as the platform's objects: whose they are, who may do what to them, and how they are shown.

The dispatcher stores the id of the user as `creator` and the id of the team as `project`. All changes by users are made
here, in one transaction of the platform's database with their entry in the audit log; the dispatcher sees them in its
tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select, type_coerce

from muster.dispatch.codec import from_row
from muster.dispatch.errors import InvalidJob, JobNotFound
from muster.dispatch.lifecycle import resolved, restarted
from muster.dispatch.model import ENDED, STATES, Job, JobFault
from muster.dispatch.store import change_job, delete_job, get_job, insert_job, list_events, request_cancel, set_priority
from muster.dispatch.tables import jobs
from muster.platform.database.queries import PageRequest, contains_words, select_page
from muster.platform.database.tables import UtcDateTime
from muster.platform.errors import ConflictProblem, ForbiddenProblem, InvalidProblem, NotFoundProblem
from muster.platform.permissions import Actor, Relation, may, relations, require, visible
from muster.platform.quotas import check_budget
from muster.platform.records.common import Page, Subject
from muster.platform.records.dispatch import DispatchEvent, DispatchFault, DispatchJob, DispatchJobDetail
from muster.platform.status_messages import explain
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import team_to_share_with

NAMESPACE_LABEL: Final = "muster.dev/namespace"
"""The label of a job with the namespace of its objects on this cluster."""
MOST_PRIORITY: Final = 100
_ACTIONS: Final = ("cancel", "restart", "resolve", "edit", "delete")
_MOST_EVENTS: Final = 1000


@dataclass(frozen=True, slots=True)
class DispatchFilter:
    q: str = ""
    states: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    owners: tuple[str, ...] | None = None
    """Ids of users; None for all."""
    team: str = ""
    since: datetime | None = None
    until: datetime | None = None


def subject_of(job: Job) -> Subject:
    return Subject("dispatch job", job.id, owner=job.creator, team=job.project)


def find_job(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> Job:
    """Returns a job that the actor may do this to. Raises NotFound, also for one that they may not see, or
    Forbidden."""
    try:
        job = get_job(connection, identifier)
    except JobNotFound:
        raise NotFoundProblem.named("dispatch job", identifier) from None
    require(actor, action, subject_of(job), identifier)
    return job


def page_of_jobs(connection: Connection, actor: Actor, only: DispatchFilter, wanted: PageRequest) -> Page[Job]:
    """Returns one page of the jobs that the actor may see, the newest first by default."""
    unknown = [each for each in only.states if each not in STATES]
    if unknown:
        raise InvalidProblem.field("state", "filter.value", value=unknown[0], choices=list(STATES))
    query = _filtered(select(jobs), actor, only)
    created = type_coerce(jobs.c.created, UtcDateTime())
    sortable = {
        "created": created,
        "name": jobs.c.name,
        "state": jobs.c.state,
        "adapter": jobs.c.adapter,
        "priority": jobs.c.priority,
    }
    page = select_page(connection, query, wanted, key=jobs.c.id, sortable=sortable, usual="-created")
    return page.map(lambda row: from_row(dict(row._mapping)))


def numbered_page(
    connection: Connection, actor: Actor, only: DispatchFilter, queue: str, limit: int, offset: int
) -> tuple[list[Job], int]:
    """A page by its number, the newest first, and how many jobs there are. `queue` is that of a task."""
    query = _filtered(select(jobs), actor, only)
    if queue:
        query = query.where(jobs.c.args["task"]["queue"].as_string() == queue)
    total = connection.execute(query.with_only_columns(func.count(), maintain_column_froms=True)).scalar_one()
    rows = connection.execute(query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit).offset(offset))
    return [from_row(dict(row)) for row in rows.mappings()], total


def _filtered(query: Select[Any], actor: Actor, only: DispatchFilter) -> Select[Any]:
    query = query.where(visible(actor, "dispatch job", owner=jobs.c.creator, team=jobs.c.project))
    if only.q:
        query = query.where(contains_words(only.q, jobs.c.name, jobs.c.id, jobs.c.type, jobs.c.external_id))
    for column, values in ((jobs.c.state, only.states), (jobs.c.adapter, only.adapters), (jobs.c.type, only.types)):
        if values:
            query = query.where(column.in_(values))
    if only.owners is not None:
        query = query.where(jobs.c.creator.in_(only.owners))
    if only.team:
        query = query.where(jobs.c.project == only.team)
    if only.since:
        query = query.where(jobs.c.created >= only.since)
    if only.until:
        query = query.where(jobs.c.created < only.until)
    return query


def changed_since(connection: Connection, since: datetime, most: int) -> list[Job]:
    """Returns jobs that changed at this time or later, the oldest change first."""
    at = func.coalesce(jobs.c.changed, jobs.c.created)
    query = select(jobs).where(type_coerce(at, UtcDateTime()) >= since).order_by(at).limit(most)
    return [from_row(dict(row)) for row in connection.execute(query).mappings()]


def check_new(connection: Connection, actor: Actor) -> None:
    """Raises Forbidden, or Conflict if the actor has too many jobs."""
    require(actor, "create", Subject("dispatch job", owner=actor.id))
    count = connection.execute(select(func.count()).where(jobs.c.creator == actor.id)).scalar_one()
    check_budget(connection, "user_dispatch_jobs", count, "jobs of the dispatcher")


def store_job(connection: Connection, actor: Actor, job: Job) -> Job:
    """Stores a new job. A job of the actor with the same key is returned instead."""
    identifier = insert_job(connection, job)
    if identifier == job.id:
        write_audit(connection, actor, "create", "dispatch job", job.id, job.name, {"adapter": job.on})
    return get_job(connection, identifier)


def own_key(actor: Actor, key: str) -> str | None:
    """Keys are unique in the whole database: that of one user must not find the job of another."""
    return f"{actor.id}/{key}" if key else None


def cancel_job(connection: Connection, actor: Actor, identifier: str, grace: float) -> Job:
    """Asks the dispatcher to stop the job. Nothing changes for one that has ended."""
    job = find_job(connection, actor, identifier, "cancel")
    if job.has_ended or job.cancel_requested is not None:
        return job
    write_audit(connection, actor, "cancel", "dispatch job", job.id, job.name)
    return request_cancel(connection, job.id, grace, datetime.now(UTC))


def restart_job(connection: Connection, actor: Actor, identifier: str) -> Job:
    job = find_job(connection, actor, identifier, "restart")
    if not job.has_ended:
        raise ConflictProblem.of("dispatch.not-ended", state=job.state)
    team_to_share_with(connection, actor, job.project)  # its Pods run in the namespace of the team
    write_audit(connection, actor, "restart", "dispatch job", job.id, job.name)
    return _changed(connection, job, lambda before: restarted(before, datetime.now(UTC)))


def resolve_job(connection: Connection, actor: Actor, identifier: str, how: Any, external_id: str) -> Job:
    """Decides about a job whose start is unclear."""
    job = find_job(connection, actor, identifier, "resolve")
    if not job.tracking.on_hold:
        raise ConflictProblem.of("dispatch.clear")
    if how == "adopt" and not relations(actor, subject_of(job)) & Relation.ADMIN:
        raise ForbiddenProblem.of("dispatch.adopt")  # the id could be that of a job of another user
    write_audit(connection, actor, "resolve", "dispatch job", job.id, job.name, {"how": how})
    return _changed(connection, job, lambda before: resolved(before, how, external_id, datetime.now(UTC)))


def _changed(connection: Connection, job: Job, change: Any) -> Job:
    try:
        return change_job(connection, job.id, change)
    except InvalidJob as error:
        raise ConflictProblem.of("dispatch.invalid", detail=error.message) from None


def edit_job(connection: Connection, actor: Actor, identifier: str, priority: int) -> Job:
    job = find_job(connection, actor, identifier, "edit")
    if job.has_ended:
        raise ConflictProblem.of("dispatch.ended", state=job.state)
    set_priority(connection, job.id, priority)
    write_audit(connection, actor, "edit", "dispatch job", job.id, job.name, {"priority": priority})
    return replace(job, priority=priority)


def remove_job(connection: Connection, actor: Actor, identifier: str) -> Job:
    """Forgets a job that has ended. Its folder is the caller's business."""
    job = find_job(connection, actor, identifier, "delete")
    if not job.has_ended:
        raise ConflictProblem.of("dispatch.not-ended", state=job.state)
    delete_job(connection, job.id)
    write_audit(connection, actor, "delete", "dispatch job", job.id, job.name)
    return job


def events_of(connection: Connection, job: Job) -> list[DispatchEvent]:
    found = list_events(connection, job.id, limit=_MOST_EVENTS)
    return [
        DispatchEvent(each.id, each.time, each.attempt, each.state, each.reason, list(explain(each.reason)))
        for each in found
    ]


def describe(job: Job, actor: Actor, users: Mapping[str, str], teams: Mapping[str, str]) -> DispatchJob:
    """`users` and `teams` are names by id."""
    return DispatchJob(
        id=job.id,
        name=job.name or job.id,
        type=job.type,
        kind=kind_of(job),
        adapter=job.on,
        state=job.state,
        reason=job.reason,
        reason_parts=list(explain(job.reason)),
        is_unclear=job.tracking.on_hold,
        priority=job.priority,
        owner_id=job.creator if job.creator in users else None,
        owner_name=users.get(job.creator),
        team_id=job.project if job.project in teams else None,
        team_name=teams.get(job.project),
        attempt=job.attempt,
        progress=job.progress,
        message=job.message,
        cluster_status=job.cluster_status,
        external_name=job.external_name,
        external_id=job.external_id,
        hosts=list(job.hosts),
        cancel_requested=job.cancel_requested,
        created=job.created,
        started=job.started,
        ended=job.ended,
        changed=job.changed,
        may=possible_actions(job, actor),
    )


def describe_detail(shown: DispatchJob, job: Job, history: Sequence[DispatchEvent]) -> DispatchJobDetail:
    return DispatchJobDetail(
        **{each.name: getattr(shown, each.name) for each in fields(shown)},
        args=dict(job.args),
        resources={name: value for name, value in asdict(job.resources).items() if value or name == "cpu"},
        labels={name: value for name, value in job.labels.items() if name != NAMESPACE_LABEL},
        key=(job.key or "").removeprefix(f"{job.creator}/") or None,
        retries=job.retry.times,
        timeout=job.timeout,
        next_at=job.next_at,
        metrics=dict(job.metrics),
        result=job.result,
        fault=_fault(job.fault) if job.fault is not None else None,
        namespace=job.labels.get(NAMESPACE_LABEL),
        events=list(history),
    )


def _fault(fault: JobFault) -> DispatchFault:
    return DispatchFault(fault.code, fault.message, fault.origin, fault.hook, fault.exit_code, list(fault.log_tail))


def kind_of(job: Job) -> str:
    """What it is on its cluster."""
    manifest = job.args.get("manifest")
    if isinstance(manifest, Mapping):
        return str(manifest.get("kind") or "container")
    task = job.args.get("task")
    return str(task.get("jobType") or "container") if isinstance(task, Mapping) else "container"


def possible_actions(job: Job, actor: Actor) -> list[str]:
    """What is permitted and makes sense now."""
    over = job.state in ENDED
    sensible = {
        "cancel": not over and job.cancel_requested is None,
        "restart": over,
        "resolve": job.tracking.on_hold,
        "edit": job.state in ("waiting", "restarting", "starting", "preparing"),
        "delete": over,
    }
    subject = subject_of(job)
    return [action for action in _ACTIONS if sensible[action] and may(actor, action, subject)]


def names_needed(found: Collection[Job]) -> tuple[set[str], set[str]]:
    """The ids of the users and teams of some jobs."""
    return {job.creator for job in found}, {job.project for job in found}
