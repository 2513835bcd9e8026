"""Routes of schedules: CronWorkflows and recurring runs of pipelines in one list; CronWorkflows are created, paused,
started and deleted here, recurring runs with the API of Kubeflow Pipelines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import orjson
from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.errors import ApiError
from muster.kube.manifests import Document, ManifestError, dump, load_manifests
from muster.kube.objects import Object, meta, name_of, namespace_of, spec_of, timestamp, uid_of
from muster.pipelines.records import RecurringRun
from muster.pipelines.recurring_runs import list_all_recurring_runs, read_trigger
from muster.pipelines.ticks import next_tick
from muster.platform.argo.schedules import (
    MOST_SCHEDULES,
    NEXT_TIMES,
    NewSchedule,
    cron_workflow,
    describe_schedule,
    is_workflow,
    list_actions,
    next_times,
    parse_schedules,
    subject_of,
)
from muster.platform.database.queries import paginate
from muster.platform.errors import InvalidProblem, NotFoundProblem, UnavailableProblem
from muster.platform.jobs.detail import masks_for
from muster.platform.jobs.jobs import find_names
from muster.platform.jobs.validation import SOURCE, cluster_findings, unreadable_finding
from muster.platform.permissions import Actor, may, require
from muster.platform.records.argo import ArgoWorkflow, Schedule, ScheduleKind, ScheduleState
from muster.platform.records.common import Page, Subject
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import namespace_of as namespace_for
from muster.platform.users.teams import team_to_share_with
from muster.server.object_checks import TemplateKey, lint_workflow
from muster.server.platform.argo_workflows import (
    check_metadata,
    cluster_problem,
    create_object,
    describe_all,
    with_creator,
)
from muster.server.platform.rest import ApiModel, Paging, RequestBody, Search
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.workers import SMALL_BYTES
from muster.workflows.cron.schedule import ScheduleError
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_TEMPLATE
from muster.workflows.submit import workflow_from_cron

P = ParamSpec("P")
T = TypeVar("T")
router = APIRouter(prefix="/schedules", tags=["schedules"])

_LARGEST = 1_000_000
_MOST_ROUNDS = 20
"""Templates that refer to templates."""
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_Cron = Annotated[str, Field(max_length=200)]


class ScheduleBody(RequestBody):
    manifest: Annotated[str, Field(max_length=_LARGEST)]
    """YAML or JSON of the Workflow to start, or of a CronWorkflow."""
    name: Annotated[str, Field(max_length=253)] = ""
    """Its name; defaults to that of the CronWorkflow in the manifest."""
    schedules: Annotated[list[_Cron], Field(max_length=MOST_SCHEDULES)] = Field(default_factory=list)
    """Cron expressions, as `0 9 * * 1-5` or `@every 1h`; default to those of the manifest."""
    timezone: Annotated[str, Field(max_length=100)] = ""
    """As `Asia/Shanghai`; defaults to that of the manifest, or of the server."""
    concurrency: Literal["", "Allow", "Forbid", "Replace"] = ""
    """What to do if the last run has not ended: start another, start none, or replace it."""
    suspended: bool = False
    """Create it paused."""
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of one of your teams, to share it with."""


class NextTimes(ApiModel):
    times: list[datetime]


@router.get("", operation_id="list_schedules")
async def list_schedules(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    kind: Annotated[ScheduleKind | None, Query(description="CronWorkflows or recurring runs only.")] = None,
    state: Annotated[list[ScheduleState] | None, Query(description="One or more states.")] = None,
) -> Page[Schedule]:
    """Lists schedules by created, name or next; the newest first. Users see those of their own namespace and of their
    teams."""
    found: list[Schedule] = []
    if kind in (None, "cron"):
        found += await _cron_workflows(here, who)
    if kind in (None, "pipeline"):
        found += await _recurring_runs(here, who)
    words = q.lower().split()
    wanted = [
        each
        for each in found
        if (not state or each.state in state)
        and all(word in f"{each.namespace}/{each.name}/{each.source}".lower() for word in words)
    ]
    never = datetime.max.replace(tzinfo=UTC)
    sortable: Mapping[str, Any] = {
        "created": lambda each: each.created,
        "name": lambda each: each.name,
        "next": lambda each: each.next[0] if each.next else never,
    }
    return paginate(wanted, paging, key=lambda each: each.id, sortable=sortable, usual="-created")


@router.get("/times", operation_id="preview_schedule")
async def preview_schedule(
    who: Who,
    schedule: Annotated[list[_Cron], Query(max_length=MOST_SCHEDULES, description="Cron expressions.")],
    timezone: Annotated[str, Query(max_length=100)] = "",
) -> NextTimes:
    """Returns the next times of cron expressions."""

    def search() -> list[datetime]:
        return list(islice(next_times(parse_schedules(schedule, timezone), datetime.now(UTC)), NEXT_TIMES))

    try:
        return NextTimes(times=await asyncio.to_thread(search))
    except ScheduleError as error:
        raise InvalidProblem.field("schedules", "schedule.text", detail=str(error)) from None


@router.post("", status_code=201, operation_id="create_schedule")
async def create_schedule(body: ScheduleBody, here: Here, who: Who, response: Response) -> Schedule:
    """Creates a CronWorkflow in the namespace of the team, or else of the user."""
    require(who, "create", Subject("schedule", owner=who.id))
    document = await _one_document(here, who, body.manifest)
    team = await here.database.read(lambda connection: team_to_share_with(connection, who, body.team)) or ""
    namespace = await here.database.read(lambda connection: namespace_for(connection, user=who.id, team=team))
    new = NewSchedule(body.name, body.schedules, body.timezone, body.concurrency, body.suspended)
    cron = with_creator(who, cron_workflow(document.object, new, namespace))
    _check_form(cron)
    try:
        await here.namespaces.ensure(namespace)
        check_metadata(who, workflow_from_cron(cron, ""))
        await _lint(here, who, document, cron)
        made = await create_object(here, who, cron)
    except cluster_errors.AlreadyExists as error:
        raise InvalidProblem.field("name", "schedule.text", detail=error.message) from None
    except cluster_errors.Invalid as error:
        raise _invalid(document, error) from None
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "create", made)
    response.headers["Location"] = f"/api/v1/schedules/{namespace}/{name_of(made)}"
    (answer,) = await _answers(here, who, [made])
    return answer


@router.get("/{namespace}/{name}", operation_id="get_schedule")
async def get_schedule(namespace: str, name: str, here: Here, who: Who) -> Schedule:
    """Returns a CronWorkflow. What it started is in the list of everything that ran."""
    (answer,) = await _answers(here, who, [await visible_cron(here, who, namespace, name)])
    return answer


@router.get("/{namespace}/{name}/yaml", operation_id="get_schedule_yaml", response_class=Response, responses=_TEXT)
async def get_schedule_yaml(namespace: str, name: str, here: Here, who: Who) -> Response:
    """Returns the manifest as the cluster has it, without its status and without secrets."""
    cron = await visible_cron(here, who, namespace, name)
    metadata = {key: value for key, value in meta(cron).items() if key != "managedFields"}
    shown = {"apiVersion": cron["apiVersion"], "kind": cron["kind"], "metadata": metadata, "spec": spec_of(cron)}
    masks = await masks_for(here.cluster, cron)
    text = await asyncio.to_thread(lambda: dump(masks.anything(shown)))
    return Response(text, media_type="text/plain; charset=utf-8")


@router.post("/{namespace}/{name}/pause", operation_id="pause_schedule")
async def pause_schedule(namespace: str, name: str, here: Here, who: Who) -> Schedule:
    """Pauses the schedule: it starts nothing until it is resumed. What runs continues."""
    return await _set_suspended(here, who, namespace, name, True)


@router.post("/{namespace}/{name}/resume", operation_id="resume_schedule")
async def resume_schedule(namespace: str, name: str, here: Here, who: Who) -> Schedule:
    return await _set_suspended(here, who, namespace, name, False)


@router.post("/{namespace}/{name}/run", status_code=201, operation_id="run_schedule")
async def run_schedule(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflow:
    """Starts its Workflow now, outside of the schedule."""
    cron = await visible_cron(here, who, namespace, name, "run")
    workflow = workflow_from_cron(cron, timestamp())
    workflow = {**workflow, "metadata": {**meta(workflow), "namespace": namespace}}
    try:
        made = await create_object(here, who, with_creator(who, workflow))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "run", cron)
    (answer,) = await describe_all(here, who, [made])
    return answer


@router.delete("/{namespace}/{name}", status_code=204, operation_id="delete_schedule")
async def delete_schedule(namespace: str, name: str, here: Here, who: Who) -> None:
    """Deletes the CronWorkflow, with the Workflows that it started."""
    cron = await visible_cron(here, who, namespace, name, "delete")
    try:
        await here.cluster.delete(CRON_WORKFLOW, name, namespace, uid=uid_of(cron))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "delete", cron)


async def visible_cron(here: Services, who: Actor, namespace: str, name: str, action: str = "view") -> Object:
    """Finds a CronWorkflow and checks that the user may do this to it."""
    try:
        cron = await here.cluster.get(CRON_WORKFLOW, name, namespace)
    except cluster_errors.NotFound:
        raise NotFoundProblem.named("schedule", f"{namespace}/{name}") from None
    except cluster_errors.Unavailable as error:
        raise UnavailableProblem(error.message) from None
    require(who, action, subject_of(namespace, uid_of(cron), here.namespaces.owner_of), f"{namespace}/{name}")
    return cron


async def _cron_workflows(here: Services, who: Actor) -> list[Schedule]:
    try:
        crons = (await here.cluster.list(CRON_WORKFLOW)).items
    except cluster_errors.NotFound:
        return []  # a cluster without Argo
    except ApiError as error:
        raise cluster_problem(error) from None
    visible = [c for c in crons if may(who, "view", subject_of(namespace_of(c), uid_of(c), here.namespaces.owner_of))]
    return await _answers(here, who, visible)


async def _answers(here: Services, who: Actor, crons: Collection[Object]) -> list[Schedule]:
    now = datetime.now(UTC)
    subjects = [subject_of(namespace_of(each), uid_of(each), here.namespaces.owner_of) for each in crons]
    known = await here.database.read(
        lambda connection: find_names(
            connection, of_users=[s.owner for s in subjects], of_teams=[s.team for s in subjects], of_runs=()
        )
    )
    # A schedule that is due once in years is searched day by day, so this is not for the event loop.
    described = await asyncio.to_thread(lambda: [describe_schedule(each, now) for each in crons])
    return [
        replace(
            schedule,
            owner_id=subject.owner or None,
            owner_name=known.users.get(subject.owner),
            team_id=subject.team or None,
            team_name=known.teams.get(subject.team),
            may=list_actions(who, schedule, subject),
        )
        for schedule, subject in zip(described, subjects, strict=True)
    ]


async def _recurring_runs(here: Services, who: Actor) -> list[Schedule]:
    rows = await here.database.read(lambda connection: list_all_recurring_runs(connection, who))
    return await asyncio.to_thread(lambda: [_of_recurring(who, *row) for row in rows])


def _of_recurring(
    who: Actor, found: RecurringRun, pipeline: str, owner: str, team: str | None, active: int
) -> Schedule:
    trigger = read_trigger(found.trigger)
    times: list[datetime] = []
    at = next_tick(trigger, found.created, found.last_tick) if found.enabled else None
    while at is not None and len(times) < NEXT_TIMES:
        times.append(at)
        at = next_tick(trigger, found.created, at)
    state: ScheduleState = "paused" if not found.enabled else "failed" if found.error else "active"
    if found.enabled and not times:
        state = "ended"
    edits = bool(may(who, "edit", found.subject))
    allowed = {
        "pause": found.enabled and edits,
        "resume": not found.enabled and edits,
        "delete": bool(may(who, "delete", found.subject)),
    }
    return Schedule(
        kind="pipeline",
        id=found.id,
        namespace=found.namespace,
        name=found.name,
        state=state,
        message=found.error,
        schedules=[trigger.cron or f"@every {int(trigger.interval.total_seconds())}s"],
        timezone="UTC",
        next=times,
        last=found.last_tick,
        active=active,
        source=pipeline,
        created=found.created,
        owner_id=found.owner_id,
        owner_name=owner or None,
        team_id=found.team_id,
        team_name=team,
        may=[action for action, is_allowed in allowed.items() if is_allowed],
    )


async def _set_suspended(here: Services, who: Actor, namespace: str, name: str, suspended: bool) -> Schedule:
    await visible_cron(here, who, namespace, name, "edit")
    try:
        after = await here.cluster.patch(CRON_WORKFLOW, name, namespace, {"spec": {"suspend": suspended}})
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "pause" if suspended else "resume", after)
    (answer,) = await _answers(here, who, [after])
    return answer


async def _one_document(here: Services, who: Actor, text: str) -> Document:
    """Reads the manifest, in a process with limits first. Raises Invalid."""
    try:
        count = await _checked(here, who, len(text), _count_documents, text)
        documents = await asyncio.to_thread(load_manifests, text, SOURCE, named=False) if count == 1 else []
    except ManifestError as error:
        raise InvalidProblem.fields([unreadable_finding(error).to_error()]) from None
    if len(documents) != 1 or not is_workflow(documents[0].object):
        raise InvalidProblem.field("manifest", "schedule.manifest")
    return documents[0]


async def _checked(
    here: Services, who: Actor, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Checks a small text in a thread, and a large one in a process with limits: all checks take linear time."""
    if size <= SMALL_BYTES:
        return await asyncio.to_thread(function, *args, **kwargs)
    return await here.checked(who, function, *args, **kwargs)


def _count_documents(text: str) -> int:
    try:
        return len(load_manifests(text, SOURCE, named=False))
    except ManifestError:
        return 1  # reading it again tells why


def _check_form(cron: Object) -> None:
    """Raises Invalid for what the form asks for."""
    spec = spec_of(cron)
    if not name_of(cron):
        raise InvalidProblem.field("name", "schedule.name")
    texts = [str(each) for each in spec.get("schedules") or [spec.get("schedule")] if each]
    try:
        parse_schedules(texts, str(spec.get("timezone") or ""))
    except ScheduleError as error:
        raise InvalidProblem.field("schedules", "schedule.text", detail=str(error)) from None


async def _lint(here: Services, who: Actor, document: Document, cron: Object) -> None:
    """Raises Invalid with what argo lint would report."""
    templates: dict[TemplateKey, Object | None] = {}
    for _ in range(_MOST_ROUNDS):
        size = len(orjson.dumps([cron, *templates.values()]))
        args = (CRON_WORKFLOW.api_version, CRON_WORKFLOW.kind, cron, False, templates)
        found = await _checked(here, who, size, lint_workflow, *args)
        if not found.missing:
            break
        for name, cluster_scope in found.missing:
            kind = CLUSTER_WORKFLOW_TEMPLATE if cluster_scope else WORKFLOW_TEMPLATE
            try:
                where = "" if cluster_scope else namespace_of(cron)
                templates[name, cluster_scope] = await here.cluster.get(kind, name, where)
            except cluster_errors.NotFound:
                templates[name, cluster_scope] = None
    if found.causes:
        raise _invalid(document, cluster_errors.Invalid("the manifest is not valid", causes=found.causes))


def _invalid(document: Document, error: ApiError) -> InvalidProblem:
    """Points to the lines of the manifest."""
    named = next((cause for cause in error.causes if cause.field == "metadata.name"), None)
    if named is not None:
        return InvalidProblem.field("name", "schedule.text", detail=named.message)
    is_cron = document.object.get("kind") == CRON_WORKFLOW.kind
    causes = [cause if is_cron else cause._replace(field=_in_workflow(cause.field)) for cause in error.causes]
    return InvalidProblem.fields([each.to_error() for each in cluster_findings(document, causes, error.message)])


def _in_workflow(path: str) -> str:
    """Where a field of the CronWorkflow is in the Workflow that it was made from."""
    inside = "spec.workflowSpec"
    return f"spec{path.removeprefix(inside)}" if path.startswith(inside) else path


async def _note(here: Services, who: Actor, action: str, cron: Object) -> None:
    def write(connection: Connection) -> None:
        where = {"namespace": namespace_of(cron)}
        write_audit(connection, who, action, "schedule", uid_of(cron), name_of(cron), where)

    await here.database.write(write)
