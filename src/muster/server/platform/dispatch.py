"""Routes of the dispatcher's jobs: of every adapter, in one list."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.dispatch.lifecycle import MOST_METRICS
from muster.dispatch.model import Job, Line
from muster.platform.errors import InvalidProblem, UnauthenticatedProblem
from muster.platform.jobs.jobs import find_names, user_ids
from muster.platform.permissions import Actor, may
from muster.platform.records.common import Page
from muster.platform.records.dispatch import DispatchAdapter, DispatchJob, DispatchJobDetail, DispatchState
from muster.platform.users.teams import get_team
from muster.server.dispatch import jobs as stored
from muster.server.dispatch.jobs import MOST_PRIORITY, DispatchFilter
from muster.server.dispatch.progress import Progress
from muster.server.dispatch.submit import NO_RESOURCES, NewJob, check_manifest, read_resources, submit_job
from muster.server.dispatch.types import CONTAINER, MANIFEST
from muster.server.platform.event_feed import Event
from muster.server.platform.rest import Moment, Paging, RequestBody, Search
from muster.server.platform.security import Who, take_rate
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, download, event_stream, last_event_id

router = APIRouter(prefix="/dispatch", tags=["dispatch"])
open_router = APIRouter(prefix="/dispatch", tags=["dispatch"])
"""For programs of jobs, which have no user but a token of their own."""

_LARGEST = 1_000_000
_MOST_TAIL = 100_000
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_Priority = Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
_Word = Annotated[str, Field(max_length=4096)]
_PRINTABLE = r"^[^\x00]*$"


class MountBody(RequestBody):
    path: Annotated[str, Field(max_length=4096, pattern=r"^/")]
    source: _Word = ""
    kind: Literal["hostpath", "claim", "pfs", "bos", "cfs"] = "hostpath"
    name: Annotated[str, Field(max_length=253)] = ""
    read_only: bool = False


class ResourcesBody(RequestBody):
    cpu: Annotated[float, Field(ge=0, le=1e6)] = 1
    memory: Annotated[str, Field(max_length=50, pattern=r"^\d{1,12}(\.\d{1,6})?([kMGTP]|[KMGTP]i)?$")] = "1Gi"
    gpu: Annotated[float, Field(ge=0, le=1e6)] = 0
    gpu_type: Annotated[str, Field(max_length=100)] = ""
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 1
    rdma: bool = False


class DispatchJobBody(RequestBody):
    name: Annotated[str, Field(min_length=1, max_length=128)]
    adapter: Annotated[str, Field(max_length=100)] = ""
    """Where it runs; '' for the default."""
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of one of your teams, to share it with."""
    image: Annotated[str, Field(max_length=1000)] = ""
    command: Annotated[tuple[_Word, ...], Field(max_length=1000)] = ()
    env: Annotated[dict[str, Annotated[str, Field(max_length=100_000)]], Field(max_length=1000, default_factory=dict)]
    working_dir: _Word = ""
    mounts: Annotated[tuple[MountBody, ...], Field(max_length=100)] = ()
    manifest: Annotated[str, Field(max_length=_LARGEST)] = ""
    """YAML or JSON of one training job, instead of an image."""
    resources: ResourcesBody = ResourcesBody()
    priority: _Priority = 0
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    timeout: Annotated[float | None, Field(gt=0, le=366 * 86400.0)] = None
    key: Annotated[str, Field(max_length=200)] = ""
    """The same key is the same job, however often you submit it."""


class DispatchJobChanges(RequestBody):
    priority: _Priority


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Metric = Annotated[str, Field(min_length=1, max_length=100, pattern=_PRINTABLE)]


class ProgressBody(RequestBody):
    progress: Annotated[float | None, Field(ge=0, le=1)] = None
    message: Annotated[str, Field(max_length=500, pattern=_PRINTABLE)] = ""
    metrics: Annotated[dict[_Metric, _Finite], Field(max_length=MOST_METRICS, default_factory=dict)]


class Resolution(RequestBody):
    how: Literal["again", "fail", "adopt"]
    external_id: Annotated[str, Field(max_length=500)] = ""
    """For `adopt`: what the cluster calls the job."""


@router.get("/adapters", operation_id="list_dispatch_adapters")
async def adapters(here: Here, who: Who) -> list[DispatchAdapter]:
    """Lists the clusters that jobs can run on."""
    return here.dispatch.adapters()


@router.get("/jobs", operation_id="list_dispatch_jobs")
async def list_dispatch_jobs(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[list[DispatchState] | None, Query(description="One or more states.")] = None,
    adapter: Annotated[list[str] | None, Query(description="One or more adapters.")] = None,
    type: Annotated[list[str] | None, Query(description="One or more types.")] = None,
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    team: Annotated[str, Query(description="The id or name of a team.")] = "",
    since: Annotated[Moment | None, Query(description="Created at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Created before this time.")] = None,
) -> Page[DispatchJob]:
    """Lists jobs by created, name, state, adapter or priority; the newest first. Jobs that another program submitted
    have no owner and are visible to admins only."""

    def look(connection: Connection) -> Page[Job]:
        only = DispatchFilter(
            q,
            tuple(state or ()),
            tuple(adapter or ()),
            tuple(type or ()),
            user_ids(connection, owner) if owner else None,
            get_team(connection, team).id if team else "",
            since,
            until,
        )
        return stored.page_of_jobs(connection, who, only, paging)

    page = await here.database.read(look)
    return Page(await describe_jobs(here, who, page.items), page.next, page.total)


@router.post("/jobs", status_code=201, operation_id="create_dispatch_job")
async def create_dispatch_job(body: DispatchJobBody, here: Here, who: Who) -> DispatchJob:
    """Submits a job: an image with a command, or the manifest of a training job."""
    adapter = here.dispatch.adapter_for(body.adapter)
    if bool(body.manifest) == bool(body.image and body.command):
        raise InvalidProblem.field("image", "dispatch.what")
    if body.manifest:
        if not adapter.takes_manifests:
            known = [each.name for each in here.dispatch.adapters() if each.takes_manifests]
            raise InvalidProblem.field("adapter", "dispatch.manifest", adapter=adapter.name, adapters=known)
        args: dict[str, Any] = {"manifest": await check_manifest(here, who, body.manifest, body.team)}
    else:
        args = {
            "image": body.image,
            "command": body.command,
            "env": body.env,
            "mounts": [mount.model_dump() for mount in body.mounts],
            "working_dir": body.working_dir,
        }
    resources = read_resources(body.resources.model_dump())
    new = NewJob(
        name=body.name,
        type=MANIFEST if body.manifest else CONTAINER,
        args=args,
        adapter=adapter.name,
        team=body.team,
        priority=body.priority,
        resources=NO_RESOURCES if body.manifest else resources,
        retries=body.retries,
        timeout=body.timeout,
        key=body.key,
    )
    (answer,) = await describe_jobs(here, who, [await submit_job(here, who, new)])
    return answer


@router.get("/jobs/events", operation_id="watch_dispatch_jobs", response_class=Response, responses=EVENTS)
async def watch_dispatch_jobs(here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: every job that changes (`job`), from now on or after Last-Event-ID. `reset` says that events
    were missed: load the list again."""
    return event_stream(request, _changes(here, who, last_event_id(request)))


@router.get("/jobs/{job}", operation_id="get_dispatch_job")
async def get_dispatch_job(job: str, here: Here, who: Who) -> DispatchJobDetail:
    """Returns a job with its history."""
    return await _detail(here, who, job)


@router.get("/jobs/{job}/events", operation_id="watch_dispatch_job", response_class=Response, responses=EVENTS)
async def watch_dispatch_job(job: str, here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: the job as it is now, then after every change (`job`), until it is deleted (`gone`)."""
    await get_visible_job(here, who, job)
    return event_stream(request, _job_changes(here, who, job), partial(get_visible_job, here, who, job))


@router.patch("/jobs/{job}", operation_id="edit_dispatch_job")
async def edit_job(job: str, body: DispatchJobChanges, here: Here, who: Who) -> DispatchJobDetail:
    """Changes the priority. It matters as long as the job waits, here or in the queue of AIHC."""
    await here.database.write(lambda connection: stored.edit_job(connection, who, job, body.priority))
    return await _detail(here, who, job)


@router.post("/jobs/{job}/cancel", operation_id="cancel_dispatch_job")
async def cancel_job(
    job: str,
    here: Here,
    who: Who,
    grace: Annotated[float, Query(ge=0, le=86400, description="Seconds before it is killed.")] = 30,
) -> DispatchJobDetail:
    """Stops the job. It returns at once; the state says when the job has ended."""
    await here.database.write(lambda connection: stored.cancel_job(connection, who, job, grace))
    return await _detail(here, who, job)


@router.post("/jobs/{job}/restart", operation_id="restart_dispatch_job")
async def restart_job(job: str, here: Here, who: Who) -> DispatchJobDetail:
    """Starts a job again that has ended."""
    await here.database.write(lambda connection: stored.restart_job(connection, who, job))
    return await _detail(here, who, job)


@router.post("/jobs/{job}/resolve", operation_id="resolve_dispatch_job")
async def resolve_job(job: str, body: Resolution, here: Here, who: Who) -> DispatchJobDetail:
    """Decides about a job whose start is unclear, after someone has looked on the cluster: start it `again`, let it
    `fail`, or `adopt` the job that the cluster has."""
    if body.how == "adopt" and not body.external_id:
        raise InvalidProblem.field("external_id", "field.missing")
    await here.database.write(lambda connection: stored.resolve_job(connection, who, job, body.how, body.external_id))
    return await _detail(here, who, job)


@open_router.post("/jobs/{job}/progress", status_code=204, operation_id="report_dispatch_progress")
async def report_dispatch_progress(job: str, body: ProgressBody, request: Request, here: Here) -> None:
    """Reports the progress of a job, by its own program. The address and the token, which is sent as `Authorization:
    Bearer`, are the variables MUSTER_PROGRESS_URL and MUSTER_PROGRESS_TOKEN of the job."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedProblem.of("login.header").with_headers({"WWW-Authenticate": "Bearer"})
    await here.dispatch.check_program(job, token.strip())
    take_rate(here, f"job {job}")
    await here.dispatch.report(job, Progress(body.progress, body.message, body.metrics))


@router.delete("/jobs/{job}", status_code=204, operation_id="delete_dispatch_job")
async def delete_job(job: str, here: Here, who: Who) -> None:
    """Deletes a job that has ended, with its history and its log."""
    await here.dispatch.delete(who, job)


@router.get("/jobs/{job}/log", operation_id="get_dispatch_job_log", response_class=Response, responses=_TEXT)
async def get_dispatch_job_log(
    job: str,
    request: Request,
    here: Here,
    who: Who,
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only this many lines at the end.")] = None,
    times: Annotated[bool, Query(description="Put its time in front of each line.")] = False,
) -> Response:
    """Returns what has been written so far, as text."""
    found = await get_visible_job(here, who, job)

    async def content() -> AsyncIterator[bytes]:
        last: deque[str] = deque(maxlen=tail)
        async for line in here.dispatch.logs(found.id, tail=tail):
            text = f"{format_line(line, found)}\n"
            if times and line.time:
                text = f"{line.time.isoformat()} {text}"
            if tail is None:
                yield text.encode()
            else:
                last.append(text)
        yield "".join(last).encode()

    check = partial(get_visible_job, here, who, job)
    return download(request, content(), check, media_type="text/plain; charset=utf-8")


@router.get("/jobs/{job}/log/events", operation_id="watch_dispatch_job_log", response_class=Response, responses=EVENTS)
async def watch_dispatch_job_log(job: str, request: Request, here: Here, who: Who) -> Response:
    """Server-sent events: a `line` for each line as it is written, and `end` when the attempt has ended. With Last-
    Event-ID the stream continues without gaps or repeats."""
    await get_visible_job(here, who, job)
    events = _log_events(here, who, job, last_event_id(request))
    return event_stream(request, events, partial(get_visible_job, here, who, job))


async def get_visible_job(here: Services, who: Actor, identifier: str) -> Job:
    return await here.database.read(lambda connection: stored.find_job(connection, who, identifier))


async def describe_jobs(here: Services, who: Actor, found: Sequence[Job]) -> list[DispatchJob]:
    known = await here.database.read(
        lambda connection: find_names(
            connection,
            of_users=[job.creator for job in found],
            of_teams=[job.project for job in found],
            of_runs=(),
        )
    )
    return [stored.describe(job, who, known.users, known.teams) for job in found]


def format_line(line: Line, job: Job) -> str:
    """As the dispatcher keeps it when the job has ended."""
    return f"{line.source} | {line.text}" if line.source and job.resources.nodes > 1 else line.text


async def _detail(here: Services, who: Actor, identifier: str) -> DispatchJobDetail:
    job, history = await here.database.read(
        lambda connection: (
            found := stored.find_job(connection, who, identifier),
            stored.events_of(connection, found),
        )
    )
    (answer,) = await describe_jobs(here, who, [job])
    return stored.describe_detail(answer, job, history)


async def _changes(here: Services, who: Actor, last: str) -> AsyncIterator[Event]:
    async for event in here.dispatch.changes_after(last):
        job: Job | None = event.data
        if job is None:
            yield event
        elif may(who, "view", stored.subject_of(job)):
            (answer,) = await describe_jobs(here, who, [job])
            yield Event(event.id, answer, event.name)


async def _job_changes(here: Services, who: Actor, identifier: str) -> AsyncIterator[Event]:
    place = here.dispatch.feed.last
    number = 1
    yield Event("1", await _detail(here, who, identifier), "job")
    async for event in here.dispatch.changes_after(place):
        job: Job | None = event.data
        if job is not None and job.id != identifier:
            continue
        number += 1
        if event.name == "gone":
            yield Event(str(number), None, "gone")
            return
        yield Event(str(number), await _detail(here, who, identifier), "job")


async def _log_events(here: Services, who: Actor, identifier: str, last: str) -> AsyncIterator[Event]:
    """Event ids are `attempt.line`. A client that comes back gets the lines after that one."""
    job = await get_visible_job(here, who, identifier)
    attempt, _, line = last.partition(".")
    seen = int(line) if attempt == str(job.attempt) and line.isdecimal() and len(line) < 19 else 0
    number = 0
    async for each in here.dispatch.logs(identifier, follow=True):
        number += 1
        if number > seen:
            time = each.time.isoformat() if each.time else None
            yield Event(f"{job.attempt}.{number}", {"time": time, "text": format_line(each, job)}, "line")
    yield Event(f"{job.attempt}.{number}", {"attempt": job.attempt}, "end")
