"""Routes of logs: of the nodes of runs, and of the members of jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from muster.kube import errors as cluster_errors
from muster.kube.builtin import POD
from muster.kube.objects import Object, controller_of, labels_of, name_of, status_of, uid_of
from muster.platform.errors import InvalidProblem, NotFoundProblem
from muster.platform.jobs.detail import trainer_containers
from muster.platform.jobs.jobs import ENDED as JOB_ENDED
from muster.platform.jobs.jobs import job_kind_named
from muster.platform.permissions import Actor
from muster.platform.records.jobs import Job
from muster.platform.runs.logs import LogLine, LogSource, find_log_source, read_log_lines, read_log_text
from muster.platform.runs.runs import Attempt
from muster.platform.runs.status import DONE, ENDED, Masks
from muster.server.platform.event_feed import Event
from muster.server.platform.jobs import masks_of, visible_job
from muster.server.platform.run_nodes import FoundNode, find_node, training_pods
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, Check, download, event_stream, last_event_id

run_logs_router = APIRouter(prefix="/runs/{run}/nodes/{node}", tags=["runs"])

_MOST_TAIL = 100_000
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@run_logs_router.get("/log", operation_id="get_run_node_log", response_class=Response, responses=_TEXT)
async def get_run_node_log(
    run: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    attempt: Annotated[int | None, Query(ge=1, description="The number of the attempt; defaults to the last.")] = None,
    pod: Annotated[str, Query(description="One of a training node's Pods.")] = "",
    container: Annotated[str, Query(description="A container other than the main one.")] = "",
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only this many lines at the end.")] = None,
    times: Annotated[bool, Query(description="Put its time in front of each line.")] = False,
) -> Response:
    """Returns what has been written so far, as text."""
    found = await find_node(here, who, run, node)
    source, _ = await log_place(here, found, attempt, pod, container)
    masks = await here.runs.masks(run)

    check = partial(find_node, here, who, run, node)
    return text_response(request, here, check, source, masks, tail, times)


@run_logs_router.get("/log/events", operation_id="watch_run_node_log", response_class=Response, responses=EVENTS)
async def watch_run_node_log(
    run: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    attempt: Annotated[int | None, Query(ge=1, description="The number of the attempt; defaults to the last.")] = None,
    pod: Annotated[str, Query(description="One of a training node's Pods.")] = "",
    container: Annotated[str, Query(description="A container other than the main one.")] = "",
    bunches: Annotated[bool, Query(description="Many lines in one event, called `lines`, and no times.")] = False,
) -> Response:
    """Server-sent events: a `line` for each line as it is written, and `end` when the attempt is over. With Last-Event-
    ID the stream continues without gaps or repeats."""
    await find_node(here, who, run, node)
    wanted = _Wanted(run, node, attempt, pod, container, bunches)
    events = _log_events(here, who, wanted, last_event_id(request))
    return event_stream(request, events, partial(find_node, here, who, run, node))


@dataclass(frozen=True, slots=True)
class _Wanted:
    run: str
    node: str
    attempt: int | None
    pod: str
    container: str
    bunches: bool


async def _log_events(here: Services, who: Actor, wanted: _Wanted, last: str) -> AsyncIterator[Event]:
    number, after = _decoded(last)
    found = await _until_begun(here, who, wanted)
    place, attempt = await log_place(here, found, number or wanted.attempt, wanted.pod, wanted.container)
    count = attempt.number if attempt is not None else 0
    masks = await here.runs.masks(wanted.run)

    async def ended() -> bool:
        now = await find_node(here, who, wanted.run, wanted.node)
        same = next((a for a in now.attempts if a.number == count), None)
        return same is None or same.state in ENDED | DONE

    if place is not None and wanted.bunches:
        async for text in read_log_text(here.cluster, place, follow=True, ended=ended, after=after):
            after = text.last
            yield Event(f"{count}.{after}", {"text": masks.text(text.text)}, "lines")
    elif place is not None:
        lines = read_log_lines(here.cluster, place, follow=True, ended=ended, after=after)
        async for event in line_events(lines, masks, lambda number: f"{count}.{number}"):
            after = int(event.id.rpartition(".")[2])
            yield event
    yield Event(f"{count}.{after}", {"attempt": count}, "end")


async def _until_begun(here: Services, who: Actor, wanted: _Wanted) -> FoundNode:
    """Waits until the node starts, or until it is certain that it never will."""
    feed = here.run_feed
    place = feed.last
    found = await find_node(here, who, wanted.run, wanted.node)
    if found.attempts or found.run.state in ENDED or found.node.state in ENDED | DONE:
        return found
    async for event in feed.after(place):
        if event.data is not None and event.data.run.id != wanted.run:
            continue
        found = await find_node(here, who, wanted.run, wanted.node)
        if found.attempts or found.run.state in ENDED or found.node.state in ENDED | DONE:
            break
    return found


async def log_place(
    here: Services, found: FoundNode, number: int | None, pod: str, container: str
) -> tuple[LogSource | None, Attempt | None]:
    """Returns the source of the log; None if nothing has started."""
    attempt = found.attempts[-1] if found.attempts else None
    if number is not None:
        attempt = next((each for each in found.attempts if each.number == number), None)
        if attempt is None:
            raise InvalidProblem.field("attempt", "run.attempt", number=number, count=len(found.attempts))
    if pod and not any(each.pod == pod for each in found.attempts):
        if not any(name_of(each) == pod for each in await training_pods(here, found)):
            raise InvalidProblem.field("pod", "run.pod", pod=pod)
        return LogSource(found.run.namespace, pod, container), attempt
    if attempt is None:
        return None, None
    if not attempt.pod:
        replicas = sorted(await training_pods(here, found), key=leader_first)
        leader = LogSource(found.run.namespace, name_of(replicas[0]), container) if replicas else None
        return leader, attempt
    newest = not any(each.pod == attempt.pod and each.number > attempt.number for each in found.attempts)
    place = find_log_source(
        here.folder, found.run.id, attempt.round, found.run.namespace, attempt.pod, container or "main"
    )
    if newest and place.kept is not None and found.run.retries == attempt.round:
        place = place._replace(kept=None)
    return here.runs.complete_log_source(found.run.id, attempt.round, place, is_current=newest), attempt


def leader_first(pod: Object) -> tuple[bool, str]:
    """Sorts the leading replica of a training job first."""
    labels = labels_of(pod)
    leads = labels.get("training.kubeflow.org/job-role") == "master" or "master" in name_of(pod)
    return not leads, name_of(pod)


def _decoded(last: str) -> tuple[int | None, int]:
    """The attempt and line that the client saw last."""
    attempt, _, line = last.partition(".")
    if not attempt.isdecimal() or not line.isdecimal() or int(attempt) == 0:
        return None, 0
    return int(attempt), int(line)


async def _yes() -> bool:
    return True


job_logs_router = APIRouter(prefix="/jobs/{namespace}/{kind}/{name}/pods/{pod}", tags=["jobs"])

_Container = Annotated[str, Query(description="A container other than the training container.")]


@job_logs_router.get("/log", operation_id="get_job_log", response_class=Response, responses=_TEXT)
async def get_job_log(
    namespace: str,
    kind: str,
    name: str,
    pod: str,
    request: Request,
    here: Here,
    who: Who,
    container: _Container = "",
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only this many lines at the end.")] = None,
    times: Annotated[bool, Query(description="Put its time in front of each line.")] = False,
) -> Response:
    """Returns what has been written so far, as text."""
    found = await _member(here, who, _JobLogQuery(namespace, kind, name, pod, container))
    masks = await masks_of(here, found.job, found.object)

    check = partial(visible_job, here, who, namespace, kind, name)
    return text_response(request, here, check, found.place, masks, tail, times)


@job_logs_router.get("/log/events", operation_id="watch_job_log", response_class=Response, responses=EVENTS)
async def watch_job_log(
    namespace: str,
    kind: str,
    name: str,
    pod: str,
    request: Request,
    here: Here,
    who: Who,
    container: _Container = "",
) -> Response:
    """Server-sent events: a `line` for each line as it is written, and `end` when the Pod has ended. With Last-Event-ID
    the stream continues without gaps or repeats."""
    wanted = _JobLogQuery(namespace, kind, name, pod, container)
    await _member(here, who, wanted)
    events = _job_log_events(here, who, wanted, last_event_id(request))
    return event_stream(request, events, partial(visible_job, here, who, namespace, kind, name))


@dataclass(frozen=True, slots=True)
class _JobLogQuery:
    namespace: str
    kind: str
    name: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class _Member:
    job: Job
    object: Object
    pod: Object | None
    """None if it does not exist yet, or no longer."""
    place: LogSource

    @property
    def over(self) -> bool:
        if self.pod is None:
            return self.job.state in JOB_ENDED
        return status_of(self.pod).get("phase") in ("Succeeded", "Failed")


async def _job_log_events(here: Services, who: Actor, wanted: _JobLogQuery, last: str) -> AsyncIterator[Event]:
    found = await _member(here, who, wanted)
    masks = await masks_of(here, found.job, found.object)
    uid = uid_of(found.pod) if found.pod is not None else ""
    after = line_after(last, uid)

    async def ended() -> bool:
        nonlocal uid, found
        # Read again each time: the Pod may have been replaced, and must belong to this job.
        found = await _member(here, who, wanted)
        uid = uid_of(found.pod) if found.pod is not None else uid
        return found.over

    lines = read_log_lines(here.cluster, found.place, follow=True, ended=ended, after=after)
    async for event in line_events(lines, masks, lambda number: f"{uid}.{number}"):
        after = int(event.id.rpartition(".")[2])
        yield event
    yield Event(f"{uid}.{after}", {"pod": wanted.pod}, "end")


async def _member(here: Services, who: Actor, wanted: _JobLogQuery) -> _Member:
    """Finds a Pod that the job has or will have."""
    job, obj = await visible_job(here, who, wanted.namespace, wanted.kind, wanted.name)
    job_kind = job_kind_named(job.word)
    assert job_kind is not None
    try:
        pod: Object | None = await here.cluster.get(POD, wanted.pod, wanted.namespace)
    except cluster_errors.NotFound:
        pod = None
    known = trainer_containers(job_kind, job_kind.read(obj))
    own = pod is not None and (controller_of(pod) or {}).get("uid") == job.uid
    if not own and (pod is not None or wanted.pod not in known):
        raise NotFoundProblem.of("job.pod", kind=job.kind, job=name_of(obj), pod=wanted.pod)
    container = wanted.container or known.get(wanted.pod, "")
    return _Member(job, obj, pod, LogSource(wanted.namespace, wanted.pod, container, controller=job.uid))


def line_after(last: str, uid: str) -> int:
    """The line that the client saw last, if it is from this Pod."""
    of, _, line = last.rpartition(".")
    return int(line) if uid and of == uid and line.isdecimal() else 0


def text_response(
    request: Request,
    here: Services,
    check: Check,
    source: LogSource | None,
    masks: Masks,
    tail: int | None,
    times: bool,
) -> Response:
    """What has been written so far. With `tail`, the last lines; with `times`, each after its time."""

    def format_line(line: LogLine) -> str:
        return masks.text(f"{line.time} {line.text}" if times else line.text) + "\n"

    async def content() -> AsyncIterator[bytes]:
        if source is None:
            return
        if tail is None and not times:
            async for chunk in read_log_text(here.cluster, source, follow=False, ended=_yes):
                yield masks.text(chunk.text).encode()
            return
        last: deque[LogLine] = deque(maxlen=tail)
        async for lines in read_log_lines(here.cluster, source, follow=False, ended=_yes):
            if tail is None:
                yield "".join(map(format_line, lines)).encode()
            else:
                last.extend(lines)
        yield "".join(map(format_line, last)).encode()

    return download(request, content(), check, media_type="text/plain; charset=utf-8")


async def line_events(
    lines: AsyncIterator[list[LogLine]], masks: Masks, event_id: Callable[[int], str]
) -> AsyncIterator[Event]:
    async for chunk in lines:
        for line in chunk:
            yield Event(event_id(line.number), {"time": line.time, "text": masks.text(line.text)}, "line")
