"""The nodes of runs: what came in and went out, how they were run, logs, containers and events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection
from starlette.responses import StreamingResponse

from muster.kube.builtin import EVENT, POD
from muster.kube.errors import ApiError
from muster.kube.errors import NotFound as NotThere
from muster.kube.objects import Object, labels_of, name_of
from muster.platform.errors import Conflict, Invalid, NotFound, Unavailable
from muster.platform.graphs.context import with_modules
from muster.platform.graphs.model import Graph, Node, is_graph, read
from muster.platform.graphs.setting import RUN_LABEL
from muster.platform.rules import SYSTEM, Actor
from muster.platform.runs.logs import Line, LogPlace, log_lines, place_of
from muster.platform.runs.node_details import (
    artifact_in,
    event_summary,
    how_it_runs,
    inputs_of,
    outputs_of,
    pod_summary,
    template_of,
)
from muster.platform.runs.ordering import NAMESPACE
from muster.platform.runs.runs import Attempt, Run, RunNode, attempts_of, get_run, nodes_of, parameters_given
from muster.platform.runs.seeing import DONE, ENDED
from muster.platform.workflows.versions import document_of
from muster.server.platform.bodies import Answer
from muster.server.platform.graphs import look_of
from muster.server.platform.identity import Who
from muster.server.platform.runs import NodeAnswer, NodeState, feed_of, keeper_of
from muster.server.platform.state import Here, Platform
from muster.server.platform.streams import Event, event_stream, last_event_id
from muster.workflows.artifacts.problems import ArtifactError, ArtifactMissing

router = APIRouter(prefix="/runs/{run}/nodes/{node}", tags=["runs"])

_MOST_TAIL = 100_000


class AttemptAnswer(Answer):
    number: int
    pod: str
    state: NodeState
    message: str
    exit_code: str
    host: str
    started: datetime | None
    finished: datetime | None


class InputAnswer(Answer):
    name: str
    type: Literal["text", "file"]
    value: str | None
    """The text, or the path."""
    path: str
    origin: str
    """The initial parameter, or NODE.OUTPUT."""
    description: str


class OutputAnswer(Answer):
    name: str
    type: Literal["text", "file"]
    value: str | None
    path: str
    ready: bool
    description: str


class VariableAnswer(Answer):
    name: str
    value: str | None
    """null for one that is secret."""
    secret: bool


class MountAnswer(Answer):
    name: str
    path: str
    read_only: bool


class ContainerAnswer(Answer):
    name: str
    image: str
    state: str
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    started: str | None
    finished: str | None


class PodAnswer(Answer):
    name: str
    phase: str
    host: str
    address: str
    message: str
    containers: list[ContainerAnswer]


class HappeningAnswer(Answer):
    time: str | None
    type: str
    reason: str
    object: str
    message: str
    count: int


class WholeNode(NodeAnswer):
    command: str
    image: str
    working_dir: str
    env: list[VariableAnswer]
    resources: dict[str, str]
    node_selector: dict[str, str]
    mounts: list[MountAnswer]
    retries: int
    """How often it is tried again by itself."""
    inputs: list[InputAnswer]
    outputs: list[OutputAnswer]
    attempt_list: list[AttemptAnswer]


@dataclass(frozen=True, slots=True)
class _Found:
    run: Run
    node: RunNode
    attempts: tuple[Attempt, ...]
    parameters: dict[str, str]
    graph: Graph

    @property
    def drawn(self) -> Node | None:
        return self.graph.node(self.node.name)


@router.get("", operation_id="get_run_node")
async def one_node(run: str, node: str, here: Here, who: Who) -> WholeNode:
    """All about it but logs, containers and events. Secrets are not shown."""
    found = await _found(here, who, run, node)
    workflow, masks = await _workflow(here, run), await keeper_of(here).masks(run)
    inputs = inputs_of(found.drawn, found.graph, workflow, node, found.parameters)
    details = {
        **how_it_runs(found.drawn, workflow, node),
        "inputs": [{"description": "", **given, "origin": given.get("from", "")} for given in inputs],
        "outputs": [{"description": "", **output} for output in outputs_of(found.drawn, workflow, node)],
    }
    return WholeNode(
        **NodeAnswer.model_validate(found.node).model_dump(),
        **masks.anything(details),
        retries=found.drawn.retries if found.drawn else 0,
        attempt_list=[AttemptAnswer.model_validate(attempt) for attempt in found.attempts],
    )


@router.get("/pods", operation_id="list_run_node_pods")
async def pods_of_node(run: str, node: str, here: Here, who: Who) -> list[PodAnswer]:
    """Its Pods with their containers, as far as they are still there."""
    found = await _found(here, who, run, node)
    pods, masks = await _pods(here, found), await keeper_of(here).masks(run)
    return [PodAnswer(**masks.anything(pod_summary(pod))) for pod in pods]


@router.get("/events", operation_id="list_run_node_events")
async def happenings_of_node(run: str, node: str, here: Here, who: Who) -> list[HappeningAnswer]:
    """What Kubernetes tells of its Pods, the oldest first."""
    found = await _found(here, who, run, node)
    masks = await keeper_of(here).masks(run)
    told = []
    for name in dict.fromkeys(
        [a.pod for a in found.attempts if a.pod] + [name_of(p) for p in await _pods(here, found)]
    ):
        page = await here.cluster.list(EVENT, NAMESPACE, fields=f"involvedObject.name={name}")
        told += [HappeningAnswer(**masks.anything(event_summary(event))) for event in page.items]
    return sorted(told, key=lambda each: each.time or "")


@router.get("/outputs/{output}", operation_id="get_run_node_output", response_class=Response)
async def content_of_output(run: str, node: str, output: str, here: Here, who: Who) -> Response:
    """What it gave: the text, or the file or folder as an archive."""
    found = await _found(here, who, run, node)
    workflow = await _workflow(here, run)
    value = next((o for o in outputs_of(found.drawn, workflow, node) if o["name"] == output), None)
    if value is None:
        raise NotFound.of("output", output)
    if not value["ready"]:
        raise Conflict(f'the output "{output}" is not there; the node is {found.node.state}')
    if value["type"] == "text":
        return Response((await keeper_of(here).masks(run)).text(str(value["value"])), media_type="text/plain")
    artifact = artifact_in(workflow, node, output) if workflow is not None else None
    if artifact is None or workflow is None or here.artifacts is None:
        raise NotFound(f'the file of the output "{output}" is not kept any more')
    pieces = here.artifacts.read(workflow, artifact)
    try:
        first = await anext(pieces, b"")
    except ArtifactMissing as error:
        raise NotFound(str(error)) from None
    except ArtifactError as error:
        raise Unavailable(str(error)) from None

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    headers = {
        "Content-Disposition": f'attachment; filename="{output}.tgz"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(content(), media_type="application/gzip", headers=headers)


@router.get("/log", operation_id="get_run_node_log", response_class=Response)
async def log_of_node(
    run: str,
    node: str,
    here: Here,
    who: Who,
    attempt: Annotated[int | None, Query(ge=1, description="Which attempt; the last if left out.")] = None,
    pod: Annotated[str, Query(description="One of a training node's Pods.")] = "",
    container: Annotated[str, Query(description="Another container than the main one.")] = "",
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only the last so many lines.")] = None,
    times: Annotated[bool, Query(description="With the time of each line in front.")] = False,
) -> Response:
    """As text, as far as it has been written."""
    found = await _found(here, who, run, node)
    place, _ = await _place(here, found, attempt, pod, container)
    masks = await keeper_of(here).masks(run)

    def shown(line: Line) -> str:
        return masks.text(f"{line.time} {line.text}" if times else line.text) + "\n"

    async def content() -> AsyncIterator[str]:
        last: deque[Line] = deque(maxlen=tail)
        if place is None:
            return
        async for bunch in log_lines(here.cluster, place, follow=False, ended=_yes):
            if tail is None:
                yield "".join(map(shown, bunch))
            else:
                last.extend(bunch)
        yield "".join(map(shown, last))

    return StreamingResponse(content(), media_type="text/plain; charset=utf-8")


@router.get("/log/events", operation_id="watch_run_node_log", response_class=Response)
async def log_events_of_node(
    run: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    attempt: Annotated[int | None, Query(ge=1, description="Which attempt; the last if left out.")] = None,
    pod: Annotated[str, Query(description="One of a training node's Pods.")] = "",
    container: Annotated[str, Query(description="Another container than the main one.")] = "",
) -> Response:
    """Server-sent events: a `line` for each line, as it is written, and `end` when the attempt is over. Whoever comes
    back with Last-Event-ID misses none and gets none twice."""
    await _found(here, who, run, node)
    wanted = _Wanted(run, node, attempt, pod, container)
    return event_stream(request, _log_events(here, who, wanted, last_event_id(request)))


@dataclass(frozen=True, slots=True)
class _Wanted:
    run: str
    node: str
    attempt: int | None
    pod: str
    container: str


async def _log_events(here: Platform, who: Actor, wanted: _Wanted, last: str) -> AsyncIterator[Event]:
    number, after = _decoded(last)
    found = await _until_begun(here, who, wanted)
    place, attempt = await _place(here, found, number or wanted.attempt, wanted.pod, wanted.container)
    count = attempt.number if attempt is not None else 0
    masks = await keeper_of(here).masks(wanted.run)

    async def ended() -> bool:
        now = await _found(here, who, wanted.run, wanted.node)
        same = next((a for a in now.attempts if a.number == count), None)
        return same is None or same.state in ENDED | DONE

    if place is not None:
        async for bunch in log_lines(here.cluster, place, follow=True, ended=ended, after=after):
            for line in bunch:
                after = line.number
                yield Event(f"{count}.{after}", {"time": line.time, "text": masks.text(line.text)}, "line")
    yield Event(f"{count}.{after}", {"attempt": count}, "end")


async def _until_begun(here: Platform, who: Actor, wanted: _Wanted) -> _Found:
    """Or until it is clear that it never will."""
    feed = feed_of(here)
    place = feed.last
    found = await _found(here, who, wanted.run, wanted.node)
    if found.attempts or found.run.state in ENDED or found.node.state in ENDED | DONE:
        return found
    async for event in feed.after(place):
        if event.data is not None and event.data["id"] != wanted.run:
            continue
        found = await _found(here, who, wanted.run, wanted.node)
        if found.attempts or found.run.state in ENDED or found.node.state in ENDED | DONE:
            break
    return found


async def _found(here: Platform, who: Actor, run_id: str, name: str) -> _Found:
    def look(connection: Connection) -> _Found:
        run = get_run(connection, who, run_id, "inspect")
        node = next((each for each in nodes_of(connection, run_id) if each.name == name), None)
        if node is None:
            raise NotFound(f'the run "{run.name}" has no node "{name}"')
        document = document_of(connection, run.version_id)
        # Who may look into the run sees what its modules give, even those that are not theirs.
        context = look_of(here)(connection, SYSTEM, document)
        graph = with_modules(read(document), context) if is_graph(document) else Graph()
        attempts = attempts_of(connection, run_id, name)
        return _Found(run, node, attempts, parameters_given(connection, run_id), graph)

    return await here.database.read(look)


async def _workflow(here: Platform, run_id: str) -> Object | None:
    try:
        return await keeper_of(here).workflow(run_id)
    except NotThere:
        return None


async def _pods(here: Platform, found: _Found) -> list[Object]:
    """Those of its attempts, and those of its training job."""
    pods: dict[str, Object] = {}
    for attempt in found.attempts:
        try:
            if attempt.pod:
                pods[attempt.pod] = await here.cluster.get(POD, attempt.pod, NAMESPACE)
        except ApiError:
            continue
    if found.node.kind == "training":
        pods |= {name_of(pod): pod for pod in await _training_pods(here, found)}
    return list(pods.values())


async def _training_pods(here: Platform, found: _Found) -> list[Object]:
    task = template_of(await _workflow(here, found.run.id), found.node.name).get("name")
    labels = f"{RUN_LABEL}={found.run.id},muster.dev/task={task}"
    return (await here.cluster.list(POD, NAMESPACE, labels=labels)).items


async def _place(
    here: Platform, found: _Found, number: int | None, pod: str, container: str
) -> tuple[LogPlace | None, Attempt | None]:
    """Where the log is; None if nothing has begun."""
    attempt = found.attempts[-1] if found.attempts else None
    if number is not None:
        attempt = next((each for each in found.attempts if each.number == number), None)
        if attempt is None:
            raise Invalid.field("attempt", f"there is no attempt {number}; there are {len(found.attempts)}")
    if pod and not any(each.pod == pod for each in found.attempts):
        if not any(name_of(each) == pod for each in await _training_pods(here, found)):
            raise Invalid.field("pod", f'"{pod}" is not a Pod of this node')
        return LogPlace(NAMESPACE, pod, container), attempt
    if attempt is None:
        return None, None
    if not attempt.pod:
        replicas = sorted(await _training_pods(here, found), key=_rank)
        return (LogPlace(NAMESPACE, name_of(replicas[0]), container) if replicas else None), attempt
    newest = not any(each.pod == attempt.pod and each.number > attempt.number for each in found.attempts)
    place = place_of(here.folder, found.run.id, attempt.round, NAMESPACE, attempt.pod, container or "main")
    if newest and place.kept is not None and found.run.retries == attempt.round:
        place = place._replace(kept=None)
    return place, attempt


def _rank(pod: Object) -> tuple[bool, str]:
    """The one that speaks for all of a training job first."""
    labels = labels_of(pod)
    leads = labels.get("training.kubeflow.org/job-role") == "master" or "master" in name_of(pod)
    return not leads, name_of(pod)


def _decoded(last: str) -> tuple[int | None, int]:
    """The attempt and the line that the client saw last."""
    attempt, _, line = last.partition(".")
    if not attempt.isdecimal() or not line.isdecimal() or int(attempt) == 0:
        return None, 0
    return int(attempt), int(line)


async def _yes() -> bool:
    return True
