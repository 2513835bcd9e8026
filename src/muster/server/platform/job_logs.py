"""What the members of training jobs have written: as text, and as it is written."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from muster.kube import errors as cluster_errors
from muster.kube.builtin import POD
from muster.kube.objects import Object, controller_of, name_of, status_of, uid_of
from muster.platform.errors import NotFound
from muster.platform.jobs.detail import trainer_containers
from muster.platform.jobs.jobs import ENDED, Job, job_kind_named
from muster.platform.permissions import Actor
from muster.platform.runs.logs import LogLine, LogSource, read_log_lines
from muster.server.platform.jobs import masks_of, visible_job
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, Event, event_stream, last_event_id

router = APIRouter(prefix="/jobs/{namespace}/{kind}/{name}/pods/{pod}", tags=["jobs"])

_MOST_TAIL = 100_000
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_Container = Annotated[str, Query(description="Another container than the one that trains.")]


@router.get("/log", operation_id="get_job_log", response_class=Response, responses=_TEXT)
async def log_of_member(
    namespace: str,
    kind: str,
    name: str,
    pod: str,
    here: Here,
    who: Who,
    container: _Container = "",
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only the last so many lines.")] = None,
    times: Annotated[bool, Query(description="With the time of each line in front.")] = False,
) -> Response:
    """As text, as far as it has been written."""
    found = await _member(here, who, _Wanted(namespace, kind, name, pod, container))
    masks = await masks_of(here, found.job, found.object)

    def shown(line: LogLine) -> str:
        return masks.text(f"{line.time} {line.text}" if times else line.text) + "\n"

    async def content() -> AsyncIterator[str]:
        last: deque[LogLine] = deque(maxlen=tail)
        if found.pod is None:
            return
        async for bunch in read_log_lines(here.cluster, found.place, follow=False, ended=_yes):
            if tail is None:
                yield "".join(map(shown, bunch))
            else:
                last.extend(bunch)
        yield "".join(map(shown, last))

    return StreamingResponse(content(), media_type="text/plain; charset=utf-8")


@router.get("/log/events", operation_id="watch_job_log", response_class=Response, responses=EVENTS)
async def log_events_of_member(
    namespace: str,
    kind: str,
    name: str,
    pod: str,
    request: Request,
    here: Here,
    who: Who,
    container: _Container = "",
) -> Response:
    """Server-sent events: a `line` for each line, as it is written, and `end` when the Pod is over. Whoever comes back
    with Last-Event-ID misses none and gets none twice."""
    wanted = _Wanted(namespace, kind, name, pod, container)
    await _member(here, who, wanted)
    return event_stream(request, _log_events(here, who, wanted, last_event_id(request)))


@dataclass(frozen=True, slots=True)
class _Wanted:
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
    """None if it is not there: not yet, or not any more."""
    place: LogSource

    @property
    def over(self) -> bool:
        if self.pod is None:
            return self.job.state in ENDED
        return status_of(self.pod).get("phase") in ("Succeeded", "Failed")


async def _log_events(here: Services, who: Actor, wanted: _Wanted, last: str) -> AsyncIterator[Event]:
    found = await _member(here, who, wanted)
    masks = await masks_of(here, found.job, found.object)
    uid = uid_of(found.pod) if found.pod is not None else ""
    after = _line_after(last, uid)

    async def ended() -> bool:
        nonlocal uid, found
        # Looked at again each time: its Pod may be another one by now, and must not be somebody else's.
        found = await _member(here, who, wanted)
        uid = uid_of(found.pod) if found.pod is not None else uid
        return found.over

    async for bunch in read_log_lines(here.cluster, found.place, follow=True, ended=ended, after=after):
        for line in bunch:
            after = line.number
            yield Event(f"{uid}.{after}", {"time": line.time, "text": masks.text(line.text)}, "line")
    yield Event(f"{uid}.{after}", {"pod": wanted.pod}, "end")


async def _member(here: Services, who: Actor, wanted: _Wanted) -> _Member:
    """A Pod that the job has or will have, and nobody else's of that name."""
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
        raise NotFound(f'the {job.kind} "{name_of(obj)}" has no Pod "{wanted.pod}"')
    container = wanted.container or known.get(wanted.pod, "")
    return _Member(job, obj, pod, LogSource(wanted.namespace, wanted.pod, container))


def _line_after(last: str, uid: str) -> int:
    """The line that the client saw last, if it was of this Pod."""
    of, _, line = last.rpartition(".")
    return int(line) if uid and of == uid and line.isdecimal() else 0


async def _yes() -> bool:
    return True
