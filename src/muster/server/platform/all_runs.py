"""The list of everything that ran: runs of the platform, Workflows of other clients, pipeline runs and training jobs.

Four lists in one order. Runs and pipeline runs are pages of the database, Workflows and jobs are in memory; all of them
are asked with the same cursor, and the first of all of them are the page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, get_args

from fastapi import APIRouter, Query, Request, Response

from muster.kube.objects import Object
from muster.pipelines.records import RUN as PIPELINE_RUN
from muster.pipelines.runs import RecentFilter, RecentRun, list_recent
from muster.platform.argo.workflows import WorkflowFilter, find_managed, list_actions, matches, subject_of
from muster.platform.database.queries import PageRequest, merge_pages, paginate
from muster.platform.errors import InvalidProblem
from muster.platform.jobs.jobs import JobFilter, filter_jobs, find_names, user_ids
from muster.platform.jobs.jobs import subject_of as job_subject
from muster.platform.permissions import Actor, may
from muster.platform.records.argo import AnyRun, AnyRunState, ArgoWorkflow, Origin
from muster.platform.records.common import Page, Subject
from muster.platform.records.jobs import Job
from muster.platform.records.runs import Run
from muster.platform.runs.runs import STATES as RUN_STATES
from muster.platform.runs.runs import RunFilter, list_runs
from muster.server.platform.event_feed import Event, EventFeed
from muster.server.platform.jobs import allowed_actions
from muster.server.platform.rest import Moment, Paging, Search, TagFilter, json_response
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, event_stream, last_event_id

router = APIRouter(prefix="/runs/all", tags=["runs"])

ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)
_ORDERS: Final = ("created", "-created")
_RUN_ACTIONS: Final = ("stop", "retry", "copy", "delete")
_PIPELINE_ACTIONS: Final = ("stop", "retry", "copy", "archive", "delete")


@dataclass(frozen=True, slots=True)
class _Filter:
    q: str
    states: tuple[AnyRunState, ...]
    origins: frozenset[Origin]
    workflow: str
    tags: tuple[str, ...]
    schedule: str
    namespace: str
    owner: str
    since: datetime | None
    until: datetime | None


@router.get("", operation_id="list_all_runs", response_model=Page[AnyRun])
async def everything(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[list[AnyRunState] | None, Query(description="One or more states.")] = None,
    origin: Annotated[list[Origin] | None, Query(description="One or more origins.")] = None,
    workflow: Annotated[str, Query(description="The id or name of a workflow: only its runs.")] = "",
    tag: TagFilter = None,
    schedule: Annotated[
        str, Query(description="The name of a CronWorkflow, or the id of a recurring run: only what it started.")
    ] = "",
    namespace: Annotated[str, Query(description="With a CronWorkflow: its namespace.")] = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    since: Annotated[Moment | None, Query(description="Created at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Created before this time.")] = None,
) -> Response:
    """Lists everything that ran, by created; the newest first. Users see the Workflows, pipeline runs and jobs of
    their own namespace and of their teams, and the states of all runs of the platform."""
    if paging.sort and paging.sort not in _ORDERS:
        raise InvalidProblem.field("sort", "page.sort", sort=paging.sort, choices=["created"])
    wanted = _origins(frozenset(origin or ORIGINS), workflow or bool(tag), schedule, namespace)
    only = _Filter(q, tuple(state or ()), wanted, workflow, tuple(tag or ()), schedule, namespace, owner, since, until)
    pages = [
        page
        for page in (
            await _platform_runs(here, who, paging, only),
            await _pipeline_runs(here, who, paging, only),
            await _workflows(here, who, paging, only),
            await _jobs(here, who, paging, only),
        )
        if page is not None
    ]
    merged = merge_pages(pages, paging, key=_key, value_of=lambda run: run.created, usual="-created")
    return json_response(merged)


@router.get("/events", operation_id="watch_all_runs", response_class=Response, responses=EVENTS)
async def watch_all_runs(here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: `changed` whenever something in the list of everything that ran has changed, from now on or
    after Last-Event-ID. Load the list again."""
    return event_stream(request, _changes(here.all_runs_feed, who, last_event_id(request)))


def _origins(wanted: frozenset[Origin], workflow: str | bool, schedule: str, namespace: str) -> frozenset[Origin]:
    """Without those that have no such thing as what is asked for."""
    if workflow:
        wanted &= {"workflow"}
    if schedule:
        wanted &= {"cron"} if namespace else {"cron", "pipeline"}
    return wanted


def _key(run: AnyRun) -> str:
    # Times of Kubernetes are whole seconds; what follows the first piece of a uid tells the rest, where the cluster is
    # ours.
    return run.id if run.origin in ("workflow", "pipeline") else run.id[9:]


async def _platform_runs(here: Services, who: Actor, paging: PageRequest, only: _Filter) -> Page[AnyRun] | None:
    states = tuple(state for state in only.states if state in RUN_STATES)
    if "workflow" not in only.origins or (only.states and not states):
        return None
    among = RunFilter(only.q, states, only.workflow, "", only.owner, "", only.since, only.until, only.tags)
    page = await here.database.read(lambda connection: list_runs(connection, who, paging, among))
    return page.map(lambda run: _of_run(who, run))


def _of_run(who: Actor, run: Run) -> AnyRun:
    over = run.state in ("succeeded", "failed", "stopped")
    possible = {
        "stop": not over and run.stopping is None,
        "retry": run.state in ("failed", "stopped"),
        "copy": True,
        "delete": True,
    }
    return AnyRun(
        origin="workflow",
        id=run.id,
        name=run.name,
        namespace=run.namespace,
        kind="",
        state=run.state,
        stopping=run.stopping is not None and not over,
        message=run.message,
        source=run.workflow_name,
        source_id=run.workflow_id,
        version=str(run.version_number),
        version_name=run.version_name,
        tags=run.tags,
        scheduled=False,
        owner_id=run.owner_id,
        owner_name=run.owner_name,
        team_id=run.team_id,
        team_name=run.team_name,
        done=run.done,
        nodes=run.nodes,
        created=run.created,
        started=run.started,
        finished=run.finished,
        may=[action for action in _RUN_ACTIONS if possible[action] and may(who, action, run.subject)],
    )


async def _pipeline_runs(here: Services, who: Actor, paging: PageRequest, only: _Filter) -> Page[AnyRun] | None:
    if "pipeline" not in only.origins:
        return None
    among = RecentFilter(only.q, only.states, only.owner, only.schedule, only.since, only.until)
    page = await here.database.read(lambda connection: list_recent(connection, who, paging, among))
    return page.map(lambda recent: _of_pipeline_run(who, recent))


def _of_pipeline_run(who: Actor, recent: RecentRun) -> AnyRun:
    run = recent.run
    over = run.state in ("SUCCEEDED", "FAILED")
    allowed = {
        "stop": not over and run.state != "CANCELING" and bool(may(who, "stop", run.subject)),
        "retry": run.state == "FAILED" and bool(may(who, "retry", run.subject)),
        "copy": bool(may(who, "create", Subject(PIPELINE_RUN, owner=who.id))),
        "archive": over and bool(may(who, "archive", run.subject)),
        "delete": bool(may(who, "delete", run.subject)),
    }
    return AnyRun(
        origin="pipeline",
        id=run.id,
        name=run.name,
        namespace=run.namespace,
        kind="",
        state=recent.state,
        stopping=run.state == "CANCELING",
        message=run.error,
        source=recent.pipeline_name,
        source_id=run.pipeline_id if recent.pipeline_name else "",
        version=run.version_id,
        version_name="",
        tags=[],
        scheduled=bool(run.recurring_run_id),
        owner_id=run.owner_id,
        owner_name=recent.owner_name,
        team_id=run.team_id,
        team_name=recent.team_name,
        done=None,
        nodes=None,
        created=run.created,
        started=run.created,
        finished=run.finished,
        may=[action for action in _PIPELINE_ACTIONS if allowed[action]],
    )


async def _workflows(here: Services, who: Actor, paging: PageRequest, only: _Filter) -> Page[AnyRun] | None:
    if not only.origins & {"argo", "cron"}:
        return None
    owners = await _owner_ids(here, only.owner)
    among = WorkflowFilter(only.q, only.states, only.schedule, only.namespace, owners, only.since, only.until)
    objects = await here.argo_workflows.workflows()
    visible: dict[str, bool] = {}
    found: list[tuple[ArgoWorkflow, Subject]] = []
    for uid in list(objects):
        workflow = here.argo_workflows.described(uid)
        subject = subject_of(workflow.namespace, uid, here.namespaces.owner_of)
        if workflow.namespace not in visible:  # the same for everything in it
            visible[workflow.namespace] = bool(may(who, "view", subject))
        if not visible[workflow.namespace] or ("cron" if workflow.schedule else "argo") not in only.origins:
            continue
        if matches(workflow, among, subject):
            found.append((workflow, subject))
    managed = await managed_workflows(here, [workflow.uid for workflow, _ in found])
    subjects = {workflow.uid: subject for workflow, subject in found}
    rest = [workflow for workflow, _ in found if workflow.uid not in managed]
    page = paginate(rest, paging, key=lambda w: w.uid[9:], sortable={"created": lambda w: w.created}, usual="-created")
    shown = [subjects[workflow.uid] for workflow in page.items]
    users, team_names = await _names(here, shown)
    return page.map(
        lambda workflow: _of_workflow(
            who, workflow, objects.get(workflow.uid), subjects[workflow.uid], users, team_names
        )
    )


async def managed_workflows(here: Services, uids: Collection[str]) -> frozenset[str]:
    """Those that belong to runs of the platform or of pipelines."""
    watch = here.argo_workflows
    objects = await watch.workflows()
    unknown = [uid for uid in uids if uid in objects and watch.is_managed(uid) is None]
    if unknown:
        asked = [objects[uid] for uid in unknown]
        watch.remember_managed(unknown, await here.database.read(lambda connection: find_managed(connection, asked)))
    return frozenset(uid for uid in uids if uid in objects and watch.is_managed(uid))


def _of_workflow(
    who: Actor,
    workflow: ArgoWorkflow,
    obj: Object | None,
    subject: Subject,
    users: dict[str, str],
    teams: dict[str, str],
) -> AnyRun:
    return AnyRun(
        origin="cron" if workflow.schedule else "argo",
        id=workflow.uid,
        name=workflow.name,
        namespace=workflow.namespace,
        kind="",
        state=workflow.state,
        stopping=False,
        message=workflow.message,
        source=workflow.schedule or workflow.template,
        source_id="",
        version="",
        version_name="",
        tags=[],
        scheduled=bool(workflow.schedule),
        owner_id=subject.owner or None,
        owner_name=users.get(subject.owner),
        team_id=subject.team or None,
        team_name=teams.get(subject.team),
        done=workflow.done,
        nodes=workflow.nodes,
        created=workflow.created,
        started=workflow.started,
        finished=workflow.finished,
        may=list_actions(who, obj, subject) if obj is not None else [],
    )


async def _jobs(here: Services, who: Actor, paging: PageRequest, only: _Filter) -> Page[AnyRun] | None:
    """Training jobs that no run and no Workflow created: those are nodes of what created them."""
    if "job" not in only.origins:
        return None
    owners = await _owner_ids(here, only.owner)
    jobs = [job for job in await here.jobs.jobs() if not job.workflow]
    subjects = {job.uid: job_subject(job, {}, here.namespaces.owner_of) for job in jobs}
    visible = [
        job
        for job in jobs
        if may(who, "view", subjects[job.uid]) and (not only.states or _job_state(job) in only.states)
    ]
    among = JobFilter(only.q, owners=owners, since=only.since, until=only.until)
    rest = filter_jobs(visible, among, lambda job: subjects[job.uid].owner)
    page = paginate(rest, paging, key=lambda j: j.uid[9:], sortable={"created": lambda j: j.created}, usual="-created")
    users, teams = await _names(here, [subjects[job.uid] for job in page.items])
    return page.map(lambda job: _of_job(who, job, subjects[job.uid], users, teams))


def _job_state(job: Job) -> AnyRunState:
    return "running" if job.state == "restarting" else job.state


def _of_job(who: Actor, job: Job, subject: Subject, users: dict[str, str], teams: dict[str, str]) -> AnyRun:
    return AnyRun(
        origin="job",
        id=job.uid,
        name=job.name,
        namespace=job.namespace,
        kind=job.word,
        state=_job_state(job),
        stopping=job.deleting,
        message="",
        source=job.kind,
        source_id="",
        version="",
        version_name="",
        tags=[],
        scheduled=False,
        owner_id=subject.owner or None,
        owner_name=users.get(subject.owner),
        team_id=subject.team or None,
        team_name=teams.get(subject.team),
        done=None,
        nodes=None,
        created=job.created,
        started=job.started,
        finished=job.finished,
        may=allowed_actions(who, job, subject),
    )


async def _owner_ids(here: Services, owner: str) -> tuple[str, ...] | None:
    return await here.database.read(lambda connection: user_ids(connection, owner)) if owner else None


async def _names(here: Services, subjects: Collection[Subject]) -> tuple[dict[str, str], dict[str, str]]:
    known = await here.database.read(
        lambda connection: find_names(
            connection, of_users=[s.owner for s in subjects], of_teams=[s.team for s in subjects], of_runs=()
        )
    )
    return known.users, known.teams


async def _changes(feed: EventFeed, who: Actor, last: str) -> AsyncIterator[Event]:
    async for event in feed.after(last):
        subject: Subject | None = event.data
        if subject is None or may(who, "view", subject):
            yield Event(event.id, None, "changed")
