"""Routes of metrics: the scalars that runs, nodes and jobs write, from event files and log lines.

The rules are those of logs: who may read the log of a node or a job may see its metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import orjson
from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.operations import AgentFiles
from muster.kube.objects import Object, annotations_of, name_of, uid_of
from muster.kube.pod_security import METRICS_PATTERN_ANNOTATION
from muster.platform.errors import ForbiddenProblem, InvalidProblem, NotFoundProblem
from muster.platform.jobs.detail import pods_of, trainer_containers
from muster.platform.jobs.jobs import ENDED as JOB_ENDED
from muster.platform.jobs.jobs import job_kind_named
from muster.platform.permissions import Actor
from muster.platform.records.metrics import MetricProblem, Metrics
from muster.platform.runs.logs import LogSource
from muster.platform.runs.runs import get_run, nodes_of
from muster.platform.runs.status import DONE, ENDED, Masks
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.platform.jobs import masks_of, visible_job
from muster.server.platform.logs import leader_first, log_place
from muster.server.platform.metric_cache import MetricLog, SourceProblem, SourceSeries
from muster.server.platform.run_nodes import FoundNode, find_node, node_pods, training_pods
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import download
from muster.workspaces.metric_lines import MAX_PATTERN_LENGTH, check_pattern
from muster.workspaces.metric_series import NamedSeries, downsample, to_csv, to_number
from muster.workspaces.mounted_files import event_folders_of

MAX_COMPARED: Final = 20
"""Runs, nodes and jobs in one comparison."""
MAX_LOGS: Final = 8
"""Of one job or node. Most replicas print the same; the leader comes first."""
MAX_NODES: Final = 50
"""Of one run, the first that started."""
MAX_SERIES: Final = 2000
MAX_POINTS: Final = 200_000
"""In one answer."""
_FEWEST_POINTS = 50
_LEADERS = ("-master-", "-chief-", "-launcher")

router = APIRouter(tags=["metrics"])


_Pattern = Annotated[
    str,
    Query(
        max_length=MAX_PATTERN_LENGTH,
        description="A regular expression (RE2) for log lines, in place of the one that the job or node sets. Named "
        "groups are metrics; `step` is the step.",
    ),
]
_Points = Annotated[int, Query(ge=_FEWEST_POINTS, le=5000, description="The most points of each series.")]
_Since = Annotated[
    str, Query(max_length=100, description="The cursor of the last answer: only series with new points.")
]
_Format = Annotated[Literal["json", "csv"], Query(description="`csv` returns all stored points as a table.")]
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Metrics, "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@dataclass(frozen=True, slots=True)
class _Options:
    pattern: str = ""
    points: int = 500
    since: str = ""
    format: Literal["json", "csv"] = "json"

    def __post_init__(self) -> None:
        problem = check_pattern(self.pattern) if self.pattern else ""
        if problem:
            raise InvalidProblem.field("pattern", "metrics.pattern", detail=problem)


class Subject(NamedTuple):
    """Something that writes metrics."""

    id: str
    name: str
    run: str
    pods: Sequence[Object]
    logs: Sequence[MetricLog]
    pattern: str
    masks: Masks
    is_live: bool


@router.get("/runs/{run}/metrics", operation_id="get_run_metrics", response_class=Response, responses=_ANSWERS)
async def get_run_metrics(
    run: str,
    request: Request,
    here: Here,
    who: Who,
    pattern: _Pattern = "",
    points: _Points = 500,
    since: _Since = "",
    format: _Format = "json",
) -> Response:
    """Returns the scalars that the nodes of a run have written to event files and logs so far."""
    options = _Options(pattern, points, since, format)
    return await _answer(request, here, who, partial(_run_subjects, here, who, run), options, run)


@router.get(
    "/runs/{run}/nodes/{node}/metrics", operation_id="get_run_node_metrics", response_class=Response, responses=_ANSWERS
)
async def get_run_node_metrics(
    run: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    pattern: _Pattern = "",
    points: _Points = 500,
    since: _Since = "",
    format: _Format = "json",
) -> Response:
    """Returns the scalars that a node has written to event files and logs so far, in its last attempt."""
    options = _Options(pattern, points, since, format)
    return await _answer(request, here, who, partial(_node_subjects, here, who, run, node), options, node)


@router.get(
    "/jobs/{namespace}/{kind}/{name}/metrics",
    operation_id="get_job_metrics",
    response_class=Response,
    responses=_ANSWERS,
)
async def get_job_metrics(
    namespace: str,
    kind: str,
    name: str,
    request: Request,
    here: Here,
    who: Who,
    pattern: _Pattern = "",
    points: _Points = 500,
    since: _Since = "",
    format: _Format = "json",
) -> Response:
    """Returns the scalars that the Pods of a job have written to event files and logs so far."""
    options = _Options(pattern, points, since, format)
    return await _answer(request, here, who, partial(_job_subjects, here, who, namespace, kind, name), options, name)


@router.get("/metrics", operation_id="compare_metrics", response_class=Response, responses=_ANSWERS)
async def compare_metrics(
    request: Request,
    here: Here,
    who: Who,
    of: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MAX_COMPARED,
            description="`run:ID`, `node:RUN/NODE` or `job:NAMESPACE/KIND/NAME`; up to 20.",
        ),
    ],
    pattern: _Pattern = "",
    points: _Points = 500,
    since: _Since = "",
    format: _Format = "json",
) -> Response:
    """Returns the scalars of several runs, nodes and jobs. One that was deleted, or that you may not see, is listed in
    `problems`."""
    options = _Options(pattern, points, since, format)
    finders = {each: _finder(here, who, each) for each in of}
    return await _answer(request, here, who, partial(_find_all, finders), options, "compare")


_Found = tuple[list[Subject], list[MetricProblem]]
_Finder = Callable[[], Awaitable[_Found]]


def _finder(here: Services, who: Actor, subject: str) -> _Finder:
    kind, _, rest = subject.partition(":")
    parts = rest.split("/")
    if kind == "run" and rest and len(parts) == 1:
        return partial(_run_subjects, here, who, rest)
    if kind == "node" and "/" in rest and all(rest.partition("/")):
        run, _, node = rest.partition("/")
        return partial(_node_subjects, here, who, run, node)
    if kind == "job" and len(parts) == 3 and all(parts):
        return partial(_job_subjects, here, who, *parts)
    raise InvalidProblem.field("of", "metrics.subject", given=subject)


async def _find_all(finders: dict[str, _Finder]) -> _Found:
    subjects: list[Subject] = []
    problems: list[MetricProblem] = []
    for subject, find in finders.items():
        try:
            found, more = await find()
        except (NotFoundProblem, ForbiddenProblem) as problem:
            problems.append(MetricProblem(subject, "", problem.detail))
            continue
        subjects += found
        problems += more
    return subjects, problems


async def _run_subjects(here: Services, who: Actor, run_id: str) -> _Found:
    def started(connection: Connection) -> list[str]:
        get_run(connection, who, run_id, "inspect")
        nodes = [node for node in nodes_of(connection, run_id) if node.attempts]
        return [node.name for node in sorted(nodes, key=lambda node: str(node.started or ""))]

    names = await here.database.read(started)
    subjects = [await _node_subject(here, await find_node(here, who, run_id, name)) for name in names[:MAX_NODES]]
    problems = []
    if len(names) > MAX_NODES:
        text = f"only the first {MAX_NODES} of {len(names)} nodes are shown; look at a single node for its metrics"
        problems.append(MetricProblem(f"run:{run_id}", "", text))
    return subjects, problems


async def _node_subjects(here: Services, who: Actor, run: str, node: str) -> _Found:
    return [await _node_subject(here, await find_node(here, who, run, node))], []


async def _node_subject(here: Services, found: FoundNode) -> Subject:
    run, node = found.run, found.node
    pods = await node_pods(here, found)
    place, attempt = await log_place(here, found, None, "", "")
    logs = []
    if attempt is not None and attempt.pod and place is not None:
        logs = [MetricLog(attempt.pod, place, f"{run.id}/{attempt.number}")]
        pods = [pod for pod in pods if name_of(pod) == attempt.pod]
    elif attempt is not None:
        replicas = sorted(await training_pods(here, found), key=leader_first)
        logs = [_pod_log(pod, LogSource(run.namespace, name_of(pod))) for pod in replicas[:MAX_LOGS]]
    return Subject(
        f"node:{run.id}/{node.name}",
        node.name,
        run.name,
        pods,
        logs,
        _pattern_of(pods),
        await here.runs.masks(run.id),
        node.state not in ENDED | DONE and run.state not in ENDED,
    )


async def _job_subjects(here: Services, who: Actor, namespace: str, kind: str, name: str) -> _Found:
    job, obj = await visible_job(here, who, namespace, kind, name)
    job_kind = job_kind_named(job.word)
    assert job_kind is not None
    containers = trainer_containers(job_kind, job_kind.read(obj))
    pods = await pods_of(here.cluster, obj)
    uids = {name_of(pod): uid_of(pod) for pod in pods}
    leaders = sorted(containers, key=lambda pod: not any(word in pod for word in _LEADERS))
    logs = [
        MetricLog(pod, LogSource(namespace, pod, containers[pod], controller=job.uid), uids.get(pod, job.uid))
        for pod in leaders[:MAX_LOGS]
    ]
    subject = Subject(
        f"job:{namespace}/{job.word}/{name}",
        name,
        "",
        pods,
        logs,
        _pattern_of([obj, *pods]),
        await masks_of(here, job, obj),
        job.state not in JOB_ENDED,
    )
    return [subject], []


def _pod_log(pod: Object, place: LogSource) -> MetricLog:
    return MetricLog(name_of(pod), place, uid_of(pod))


def _pattern_of(objects: Sequence[Object]) -> str:
    return next((text for obj in objects if (text := annotations_of(obj).get(METRICS_PATTERN_ANNOTATION))), "")


class _Read(NamedTuple):
    subject: Subject
    series: list[SourceSeries]
    problems: list[SourceProblem]


async def _read(here: Services, who: Actor, subject: Subject, pattern: str) -> _Read:
    """Reads what is new in the subject's files and logs."""
    cache, run = here.metrics, partial(here.checked, who)
    series: list[SourceSeries] = []
    problems: list[SourceProblem] = []
    if not pattern and subject.pattern:
        wrong = check_pattern(subject.pattern)
        if wrong:
            problems.append(SourceProblem(METRICS_PATTERN_ANNOTATION, wrong))
        pattern = "" if wrong else subject.pattern
    if isinstance(here.cluster, EmbeddedCluster):  # the volumes of another cluster are on other machines
        files = AgentFiles(here.settings.agent)
        folders = [each for pod in subject.pods for each in await event_folders_of(here.cluster, files, pod)]
        found = await cache.find_files(folders)
        more, wrongs = await cache.read_files(run, found.files)
        series, problems = series + more, problems + wrongs
        if not found.is_complete:
            problems.append(SourceProblem("", "a mounted folder contains too many files to look at all of them"))
    for log in subject.logs:
        more, wrongs = await cache.read_log(run, here.cluster, log, pattern, subject.masks)
        series, problems = series + more, problems + wrongs
    return _Read(subject, series, problems)


async def _answer(
    request: Request, here: Services, who: Actor, find: _Finder, options: _Options, name: str
) -> Response:
    subjects, problems = await find()
    read = [await _read(here, who, subject, options.pattern) for subject in subjects]
    if options.format == "csv":
        headers = {**DOWNLOAD_HEADERS, "Content-Disposition": content_disposition(f"{name}-metrics.csv")}
        return download(request, _csv(read), find, media_type="text/csv; charset=utf-8", headers=headers)
    cache = here.metrics
    epoch, _, version = options.since.rpartition(".")
    after = int(version) if epoch == cache.epoch and version.isdecimal() else -1
    cursor = f"{cache.epoch}.{cache.version}"
    content = await asyncio.to_thread(_to_json, read, problems, options.points, after, cursor)
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def _to_json(read: list[_Read], problems: list[MetricProblem], most: int, after: int, cursor: str) -> bytes:
    """The answer. It may have many points, so this runs on a thread and without a model."""
    every = [(each.subject, series) for each in read for series in each.series]
    shown = every[:MAX_SERIES]
    if len(shown) < len(every):
        text = f"only the first {MAX_SERIES} of {len(every)} series are shown"
        problems = [*problems, MetricProblem("", "", text)]
    most = max(min(most, MAX_POINTS // max(len(shown), 1)), _FEWEST_POINTS)
    return orjson.dumps(
        {
            "series": [
                {
                    "subject": subject.id,
                    "name": subject.name,
                    "run": subject.run,
                    "source": subject.masks.text(series.source),
                    "tag": subject.masks.text(series.tag),
                    "count": series.written,
                    "points": [
                        (step, moment, to_number(value)) for step, moment, value in downsample(series.points, most)
                    ],
                }
                for subject, series in shown
                if series.version > after
            ],
            "problems": [asdict(problem) for problem in problems]
            + [
                {
                    "subject": each.subject.id,
                    "source": each.subject.masks.text(problem.source),
                    "message": problem.message,
                }
                for each in read
                for problem in each.problems
            ],
            "patterns": {each.subject.id: each.subject.pattern for each in read if each.subject.pattern},
            "cursor": cursor,
            "live": any(each.subject.is_live for each in read),
        }
    )


async def _csv(read: list[_Read]) -> AsyncIterator[bytes]:
    yield "".join(to_csv([])).encode()
    for each in read:
        masks = each.subject.masks
        for series in each.series:
            named = NamedSeries(each.subject.id, masks.text(series.source), masks.text(series.tag), series.points)
            yield await asyncio.to_thread(_csv_rows, named)


def _csv_rows(series: NamedSeries) -> bytes:
    _, *rows = to_csv([series])
    return "".join(rows).encode()
