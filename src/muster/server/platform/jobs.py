"""Routes of training jobs: list, inspect, check, submit, suspend, delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from muster.kube.manifests import dump
from muster.kube.objects import Object, meta
from muster.platform.errors import InvalidProblem, NotFoundProblem
from muster.platform.jobs import submit
from muster.platform.jobs.detail import JobParts, describe_detail, events_about, masks_for, watch_detail
from muster.platform.jobs.jobs import (
    JobFilter,
    RunOwner,
    can_be_suspended,
    check_filter,
    describe_job,
    filter_jobs,
    find_names,
    find_run_owners,
    job_kind_named,
    job_kind_of,
    page_of_jobs,
    subject_of,
    user_ids,
    word_of,
)
from muster.platform.jobs.submit import find_job
from muster.platform.jobs.validation import ManifestFinding
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.jobs import Job, JobDetail, JobState
from muster.platform.records.pods import KubernetesEvent
from muster.platform.runs.node_detail import event_summary
from muster.platform.runs.status import Masks
from muster.platform.status_messages import explain
from muster.server.object_checks import rehearse_manifests
from muster.server.platform.event_feed import Event
from muster.server.platform.pod_usage import PodUsageReport
from muster.server.platform.rest import ApiModel, Moment, Paging, RequestBody, Search, build_record, vars_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, event_stream, last_event_id
from muster.training.registry import JOB_KINDS

_LARGEST = 1_000_000
_MOST_JOBS = 100
"""In one manifest."""
_Manifest = Annotated[str, Field(max_length=_LARGEST)]


class JobBody(RequestBody):
    manifest: _Manifest
    """YAML or JSON of one or more training jobs."""
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of one of your teams, to share them with."""


class ManifestBody(RequestBody):
    manifest: _Manifest


class ManifestProblem(ApiModel):
    line: int
    """From 1; 0 if it is about the whole text."""
    column: int
    path: str
    message: str
    code: str
    """For those who show it in another language: which sentence it is, and what to put into it."""
    arguments: dict[str, Any]
    severity: Literal["error", "warning"]


class ManifestJob(ApiModel):
    kind: str
    api_version: str
    name: str
    namespace: str
    line: int


class CheckedManifest(ApiModel):
    problems: list[ManifestProblem]
    jobs: list[ManifestJob]
    """The jobs that would be created."""


class JobKindRole(ApiModel):
    name: str
    path: list[str]
    """Where the manifest has it: its `replicas` and its `template` are there."""


class JobKindAnswer(ApiModel):
    word: str
    kind: str
    api_version: str
    container: str
    """The name of the training container."""
    roles: list[JobKindRole]
    restart_path: list[str]
    """The path of the restart policy in a role."""
    restart_policies: list[str]
    default_restart: str


router = APIRouter(prefix="/jobs", tags=["jobs"])

_CHANGES = ("suspend", "resume", "delete")
_NOT_IN_EVENTS = frozenset(("owner_id", "owner_name", "team_id", "team_name", "run_id", "run_name", "may"))
"""Fields that depend on the database or on who asks."""
_SETTLE_SECONDS = 0.2
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("", operation_id="list_jobs")
async def list_jobs(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    kind: Annotated[list[str] | None, Query(description="One or more kinds, as `pytorchjob`.")] = None,
    state: Annotated[list[JobState] | None, Query(description="One or more states.")] = None,
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    run: Annotated[str, Query(description="The id of the run that created them.")] = "",
    namespace: str = "",
    since: Annotated[Moment | None, Query(description="Created at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Created before this time.")] = None,
) -> Page[Job]:
    """Lists jobs by created, started, finished, name, kind, state or namespace; the newest first. Jobs created outside
    the platform have no owner and are visible to admins only."""
    owners = await here.database.read(lambda connection: user_ids(connection, owner)) if owner else None
    only = JobFilter(q, tuple(kind or ()), tuple(state or ()), owners, run, namespace, since, until)
    check_filter(only, [word_of(job_kind.kind) for job_kind in JOB_KINDS])
    jobs = list(await here.jobs.jobs())
    runs = await _runs(here, jobs)
    subjects = {job.uid: subject_of(job, runs, here.namespaces.owner_of) for job in jobs}
    visible = [job for job in jobs if may(who, "view", subjects[job.uid])]
    page = page_of_jobs(filter_jobs(visible, only, lambda job: subjects[job.uid].owner), paging)
    return Page(await _answers(here, who, page.items), page.next, page.total)


@router.get("/kinds", operation_id="list_job_kinds")
async def list_job_kinds(who: Who) -> list[JobKindAnswer]:
    """Lists the kinds of training jobs, and where their manifests have what a form asks for."""
    return [
        JobKindAnswer(
            word=word_of(job_kind.kind),
            kind=job_kind.kind.kind,
            api_version=job_kind.kind.api_version,
            container=job_kind.container,
            roles=[JobKindRole(name=name, path=list(path)) for name, path in job_kind.layout.roles.items()],
            restart_path=list(job_kind.layout.restart),
            restart_policies=list(job_kind.layout.restart_policies),
            default_restart=job_kind.layout.default_restart,
        )
        for job_kind in JOB_KINDS
    ]


async def _rehearse(here: Services, who: Actor, manifest: str) -> None:
    """Raises if checking or creating these jobs would block the server for long."""
    count = await here.checked(who, rehearse_manifests, manifest)
    if count > _MOST_JOBS:
        raise InvalidProblem.field("manifest", "job.many", count=count, most=_MOST_JOBS)


@router.post("/validate", operation_id="check_jobs")
async def check_jobs(body: ManifestBody, here: Here, who: Who) -> CheckedManifest:
    """Checks a manifest. Creates nothing."""
    await _rehearse(here, who, body.manifest)
    looked = await submit.check_manifest(here.database, here.cluster, here.namespaces, who, body.manifest)
    jobs = [
        ManifestJob(
            kind=str(document.object.get("kind")),
            api_version=str(document.object.get("apiVersion")),
            name=str(meta(document.object).get("name") or f"{meta(document.object).get('generateName')}*"),
            namespace=str(meta(document.object).get("namespace") or looked.namespace),
            line=document.line(),
        )
        for document in looked.documents
    ]
    return CheckedManifest(problems=[_problem(each) for each in looked.told], jobs=jobs)


@router.post("", status_code=201, operation_id="create_jobs")
async def create_jobs(body: JobBody, here: Here, who: Who) -> list[Job]:
    """Creates all jobs of a manifest, or none if one of them is not valid."""
    await _rehearse(here, who, body.manifest)
    made = await submit.submit(here.database, here.cluster, here.namespaces, who, body.manifest, body.team)
    jobs = [describe_job(job_kind, obj) for obj in made if (job_kind := job_kind_of(obj))]
    return await _answers(here, who, jobs)


@router.get("/events", operation_id="watch_jobs", response_class=Response, responses=EVENTS)
async def watch_jobs(here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: every job that changes (`job`) or is deleted (`gone`), from now on or after Last-Event-ID.
    `reset` says that events were missed: load the list again."""
    return event_stream(request, _changes(here, who, last_event_id(request)))


@router.get("/{namespace}/{kind}/{name}", operation_id="get_job")
async def get_job(namespace: str, kind: str, name: str, here: Here, who: Who) -> JobDetail:
    """Returns a job with its members, and why it waits or failed."""
    return await _whole(here, who, namespace, kind, name)


@router.get("/{namespace}/{kind}/{name}/yaml", operation_id="get_job_yaml", response_class=Response, responses=_TEXT)
async def get_job_yaml(namespace: str, kind: str, name: str, here: Here, who: Who) -> Response:
    """Returns the manifest as the cluster has it, without secrets."""
    job, obj = await visible_job(here, who, namespace, kind, name)
    shown = {**obj, "metadata": {k: v for k, v in meta(obj).items() if k != "managedFields"}}
    masks = await masks_of(here, job, obj)
    text = await asyncio.to_thread(lambda: dump(masks.anything(shown)))
    return Response(text, media_type="text/plain; charset=utf-8")


@router.get("/{namespace}/{kind}/{name}/usage", operation_id="get_job_usage")
async def get_job_usage(namespace: str, kind: str, name: str, here: Here, who: Who) -> PodUsageReport:
    """Returns the CPU and memory that the job's Pods use or have used, also of those that no longer exist."""
    detail = await _whole(here, who, namespace, kind, name)
    pods = [member.pod for role in detail.roles for member in role.members]
    return here.pod_usage.report(here.pod_usage.history.find(namespace, pods), detail.created)


@router.get("/{namespace}/{kind}/{name}/happenings", operation_id="list_job_events")
async def list_job_events(namespace: str, kind: str, name: str, here: Here, who: Who) -> list[KubernetesEvent]:
    """Lists the events of the job, its Pods and its PodGroup, the oldest first."""
    job, obj = await visible_job(here, who, namespace, kind, name)
    masks = await masks_of(here, job, obj)
    told = await events_about(here.cluster, obj)
    return [build_record(KubernetesEvent, masks.anything(event_summary(event))) for event in told]


@router.get("/{namespace}/{kind}/{name}/events", operation_id="watch_job", response_class=Response, responses=EVENTS)
async def watch_job(namespace: str, kind: str, name: str, here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: the job as it is now, then after every change (`job`), until it is deleted (`gone`)."""
    await visible_job(here, who, namespace, kind, name)
    return event_stream(request, _job_changes(here, who, namespace, kind, name))  # it looks at the job every time


@router.post("/{namespace}/{kind}/{name}/suspend", operation_id="suspend_job")
async def suspend_job(namespace: str, kind: str, name: str, here: Here, who: Who) -> JobDetail:
    """Suspends the job. Its Pods are deleted; files in storage stay."""
    job, _ = await visible_job(here, who, namespace, kind, name, "suspend")
    await submit.set_suspended(here.database, here.cluster, who, job, True)
    return await _whole(here, who, namespace, kind, name)


@router.post("/{namespace}/{kind}/{name}/resume", operation_id="resume_job")
async def resume_job(namespace: str, kind: str, name: str, here: Here, who: Who) -> JobDetail:
    """Resumes the job. It starts from the beginning."""
    job, _ = await visible_job(here, who, namespace, kind, name, "resume")
    await submit.set_suspended(here.database, here.cluster, who, job, False)
    return await _whole(here, who, namespace, kind, name)


@router.delete("/{namespace}/{kind}/{name}", status_code=204, operation_id="delete_job")
async def delete_job(namespace: str, kind: str, name: str, here: Here, who: Who) -> None:
    """Deletes the job with its Pods and logs. A running job is stopped."""
    job, _ = await visible_job(here, who, namespace, kind, name, "delete")
    await submit.delete(here.database, here.cluster, who, job)


async def visible_job(
    here: Services, who: Actor, namespace: str, kind: str, name: str, action: str = "view"
) -> tuple[Job, Object]:
    """Finds a job and checks that the user may do this to it."""
    job, obj = await find_job(here.cluster, kind, namespace, name)
    runs = await _runs(here, [job])
    require(who, action, subject_of(job, runs, here.namespaces.owner_of), f"{namespace}/{name}")
    return job, obj


async def masks_of(here: Services, job: Job, obj: Object) -> Masks:
    return await here.runs.masks(job.run_id) if job.run_id else await masks_for(here.cluster, obj)


async def _whole(here: Services, who: Actor, namespace: str, kind: str, name: str) -> JobDetail:
    job, obj = await visible_job(here, who, namespace, kind, name)
    looked = await describe_detail(here.cluster, obj)
    (answer,) = await _answers(here, who, [job])
    masks = await masks_of(here, job, obj)
    return build_record(JobDetail, {**vars_of(answer), **_with_parts(masks.anything(_details(looked)))})


def _details(looked: JobParts) -> dict[str, Any]:
    roles = [asdict(role) for role in looked.roles]
    return {
        "roles": roles,
        "conditions": [
            {
                "type": str(each.get("type")),
                "status": str(each.get("status")),
                "reason": str(each.get("reason") or ""),
                "message": str(each.get("message") or ""),
                "since": each.get("lastTransitionTime") or None,
            }
            for each in looked.conditions
        ],
        "group": asdict(looked.group) if looked.group is not None else None,
        "gang": looked.gang,
        "reasons": [{**reason._asdict(), "text": str(reason)} for reason in looked.reasons],
        "restarts": sum(member["restarts"] for role in roles for member in role["members"]),
    }


def _with_parts(details: dict[str, Any]) -> dict[str, Any]:
    """With the parts of every message. They are found after secrets are masked."""
    for role in details["roles"]:
        for member in role["members"]:
            member["message_parts"] = explain(member["message"])
    for condition in details["conditions"]:
        condition["message_parts"] = explain(condition["message"])
    for reason in details["reasons"]:
        reason["detail_parts"] = explain(reason["detail"])
    if details["group"] is not None:
        details["group"]["message_parts"] = explain(details["group"]["message"])
    return details


async def _answers(here: Services, who: Actor, jobs: Sequence[Job]) -> list[Job]:
    runs = await _runs(here, jobs)
    subjects = [subject_of(job, runs, here.namespaces.owner_of) for job in jobs]
    known = await here.database.read(
        lambda connection: find_names(
            connection,
            of_users=[subject.owner for subject in subjects],
            of_teams=[subject.team for subject in subjects],
            of_runs=[job.run_id for job in jobs],
        )
    )
    return [
        replace(
            job,
            owner_id=subject.owner or None,
            owner_name=known.users.get(subject.owner),
            team_id=subject.team or None,
            team_name=known.teams.get(subject.team),
            run_name=known.runs.get(job.run_id or ""),
            may=allowed_actions(who, job, subject),
        )
        for job, subject in zip(jobs, subjects, strict=True)
    ]


def allowed_actions(who: Actor, job: Job, subject: Subject) -> list[str]:
    """The actions that are permitted and possible now."""
    job_kind = job_kind_named(job.word)
    pauses = job_kind is not None and can_be_suspended(job_kind) and job.state not in ("succeeded", "failed")
    sensible = {
        "suspend": pauses and job.state != "suspended",
        "resume": pauses and job.state == "suspended",
        "delete": not job.deleting,
    }
    return [action for action in _CHANGES if sensible[action] and may(who, action, subject)]


async def _runs(here: Services, jobs: Iterable[Job]) -> dict[str, RunOwner]:
    """The owners of the runs that created these jobs."""
    known = here.run_owners
    unknown = {job.run_id for job in jobs if job.run_id and job.run_id not in known}
    if unknown:
        known |= await here.database.read(lambda connection: find_run_owners(connection, unknown))
    return known


async def _changes(here: Services, who: Actor, last: str) -> AsyncIterator[Event]:
    async for event in here.job_feed.after(last):
        job: Job | None = event.data
        if job is None:
            yield event
        elif may(who, "view", subject_of(job, await _runs(here, [job]), here.namespaces.owner_of)):
            told = {name: value for name, value in vars_of(job).items() if name not in _NOT_IN_EVENTS}
            yield Event(event.id, told, event.name)


async def _job_changes(here: Services, who: Actor, namespace: str, kind: str, name: str) -> AsyncIterator[Event]:
    _, obj = await visible_job(here, who, namespace, kind, name)
    number = 0
    async with watch_detail(here.cluster, obj) as news:
        while True:
            news.clear()
            try:
                whole = await _whole(here, who, namespace, kind, name)
            except NotFoundProblem:
                yield Event(str(number), None, "gone")
                return
            number += 1
            yield Event(str(number), whole, "job")
            await news.wait()
            await asyncio.sleep(_SETTLE_SECONDS)  # changes come in bursts


def _problem(told: ManifestFinding) -> ManifestProblem:
    return ManifestProblem(
        line=told.line,
        column=told.column,
        path=told.path,
        message=told.message,
        code=told.code,
        arguments=dict(told.arguments),
        severity="warning" if told.is_warning else "error",
    )
