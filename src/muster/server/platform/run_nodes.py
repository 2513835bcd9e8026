"""Routes of the nodes of runs: inputs, outputs, execution, Pods and events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.builtin import EVENT, POD
from muster.kube.objects import Object, labels_of, name_of
from muster.kube.pod_security import RUN_LABEL, TASK_LABEL
from muster.platform.errors import ConflictProblem, NotFoundProblem, UnavailableProblem
from muster.platform.graphs.context import with_modules
from muster.platform.graphs.model import Graph, Node, is_graph, read
from muster.platform.graphs.templates import item_label
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.records.pods import KubernetesEvent, PodSummary
from muster.platform.records.runs import Run, RunNode, RunNodeDetail
from muster.platform.runs.node_detail import (
    artifact_in,
    describe_condition,
    describe_execution,
    event_summary,
    inputs_of,
    item_of,
    outputs_of,
    pod_summary,
    template_of,
)
from muster.platform.runs.runs import Attempt, attempts_of, get_run, nodes_of, parameters_given
from muster.platform.runs.status import split_iteration
from muster.platform.status_messages import explain
from muster.platform.workflows.versions import document_of
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.platform.pod_usage import PodUsageReport
from muster.server.platform.rest import build_record, vars_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import Check, download
from muster.server.platform.workflows import look_of
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing
from muster.workflows.artifacts.single_file import HEAD_BYTES, find_single_file, unpack_single_file

_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/octet-stream": {"schema": {"type": "string"}},
            "application/gzip": {"schema": {"type": "string"}},
        }
    }
}
router = APIRouter(prefix="/runs/{run}/nodes/{node}", tags=["runs"])


@dataclass(frozen=True, slots=True)
class FoundNode:
    run: Run
    node: RunNode
    attempts: tuple[Attempt, ...]
    parameters: dict[str, str]
    graph: Graph

    @property
    def drawn(self) -> Node | None:
        """The node of the graph; that of an iteration is its loop."""
        loop, _ = split_iteration(self.node.name) or ("", 0)
        return self.graph.node(self.node.name) or self.graph.node(loop)


@router.get("", operation_id="get_run_node")
async def get_run_node(run: str, node: str, here: Here, who: Who) -> RunNodeDetail:
    """Returns everything about a node except logs, Pods and events. Secrets are not shown."""
    found = await find_node(here, who, run, node)
    workflow, masks = await _workflow(here, run), await here.runs.masks(run)
    inputs = inputs_of(found.drawn, found.graph, workflow, node, found.parameters)
    details = {
        **describe_execution(found.drawn, workflow, node),
        "inputs": [{"description": "", **given, "origin": given.get("from", "")} for given in inputs],
        "outputs": [{"description": "", **output} for output in outputs_of(found.drawn, workflow, node)],
        "condition": describe_condition(found.drawn, workflow, found.parameters, found.graph),
    }
    return build_record(
        RunNodeDetail,
        {
            **vars_of(found.node),
            **masks.anything(details),
            "retries": found.drawn.retries if found.drawn else 0,
            "timeout": found.drawn.timeout if found.drawn else "",
            "attempt_list": [vars_of(attempt) for attempt in found.attempts],
        },
    )


@router.get("/pods", operation_id="list_run_node_pods")
async def list_run_node_pods(run: str, node: str, here: Here, who: Who) -> list[PodSummary]:
    """Lists the node's existing Pods with their containers."""
    found = await find_node(here, who, run, node)
    pods, masks = await node_pods(here, found), await here.runs.masks(run)
    return [build_record(PodSummary, _with_diagnosis(masks.anything(pod_summary(pod)))) for pod in pods]


@router.get("/usage", operation_id="get_run_node_usage")
async def get_run_node_usage(run: str, node: str, here: Here, who: Who) -> PodUsageReport:
    """Returns the CPU and memory that the node's Pods use or have used, also of those that no longer exist."""
    found = await find_node(here, who, run, node)
    task = str(template_of(await _workflow(here, run), node).get("name") or "") if found.node.kind == "training" else ""
    pods = [attempt.pod for attempt in found.attempts if attempt.pod]
    series = here.pod_usage.history.find(found.run.namespace, pods, run=run, task=task)
    return here.pod_usage.report(series, found.run.created)


@router.get("/events", operation_id="list_run_node_events")
async def list_run_node_events(run: str, node: str, here: Here, who: Who) -> list[KubernetesEvent]:
    """Lists the events of the node's Pods, the oldest first."""
    found = await find_node(here, who, run, node)
    masks = await here.runs.masks(run)
    told = []
    for name in dict.fromkeys(
        [a.pod for a in found.attempts if a.pod] + [name_of(p) for p in await node_pods(here, found)]
    ):
        page = await here.cluster.list(EVENT, found.run.namespace, fields=f"involvedObject.name={name}")
        told += [build_record(KubernetesEvent, masks.anything(event_summary(event))) for event in page.items]
    return sorted(told, key=lambda each: each.time or "")


@router.get("/outputs/{output}", operation_id="get_run_node_output", response_class=Response, responses=_FILE)
async def get_run_node_output(run: str, node: str, output: str, request: Request, here: Here, who: Who) -> Response:
    """Returns an output: the text, the file, or the folder as an archive."""
    found = await find_node(here, who, run, node)
    workflow = await _workflow(here, run)
    value = next((o for o in outputs_of(found.drawn, workflow, node) if o["name"] == output), None)
    if value is None:
        raise NotFoundProblem.named("output", output)
    if not value["ready"]:
        raise ConflictProblem.of("run.output", name=output, state=found.node.state)
    if value["type"] == "text":
        text = (await here.runs.masks(run)).text(str(value["value"]))
        return Response(text, media_type="text/plain", headers=DOWNLOAD_HEADERS)
    artifact = artifact_in(workflow, node, output) if workflow is not None else None
    if artifact is None or workflow is None:
        raise NotFoundProblem.of("run.file", name=output)
    check = partial(find_node, here, who, run, node)
    return await artifact_response(request, here, check, workflow, artifact, str(value["path"]))


async def artifact_response(
    request: Request, here: Services, check: Check, workflow: Object, artifact: dict[str, Any], path: str
) -> Response:
    """A stored artifact: the file as it is, or the folder as an archive."""
    output = str(artifact.get("name"))
    if here.artifacts is None:
        raise NotFoundProblem.of("run.file", name=output)
    pieces, head = here.artifacts.read(workflow, artifact), b""
    try:
        while len(head) < HEAD_BYTES and (piece := await anext(pieces, b"")):
            head += piece
    except ArtifactMissing as error:
        raise NotFoundProblem.of("run.artifact", detail=str(error)) from None
    except ArtifactError as error:
        raise UnavailableProblem.of("run.artifact", detail=str(error)) from None

    async def content() -> AsyncIterator[bytes]:
        yield head
        async for piece in pieces:
            yield piece

    file = find_single_file(head)
    if file is None:
        headers = {**DOWNLOAD_HEADERS, "Content-Disposition": content_disposition(f"{output}.tgz")}
        return download(request, content(), check, media_type="application/gzip", headers=headers)
    headers = {
        **DOWNLOAD_HEADERS,
        "Content-Disposition": content_disposition(PurePosixPath(path).name or file.name),
        "Content-Length": str(file.size),
    }
    unpacked = unpack_single_file(content(), file)
    return download(request, unpacked, check, media_type="application/octet-stream", headers=headers)


def _with_diagnosis(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "message_parts": explain(pod["message"])}


async def find_node(here: Services, who: Actor, run_id: str, name: str) -> FoundNode:
    refers_to = look_of(here)

    def look(connection: Connection) -> FoundNode:
        run = get_run(connection, who, run_id, "inspect")
        node = next((each for each in nodes_of(connection, run_id) if each.name == name), None)
        if node is None:
            raise NotFoundProblem.of("run.node", run=run.name, name=name)
        document = document_of(connection, run.version_id)
        # A user who may inspect the run sees the outputs of all its modules.
        context = refers_to(connection, SYSTEM, document)
        graph = with_modules(read(document), context) if is_graph(document) else Graph()
        attempts = attempts_of(connection, run_id, name)
        return FoundNode(run, node, attempts, parameters_given(connection, run_id), graph)

    return await here.database.read(look)


async def _workflow(here: Services, run_id: str) -> Object | None:
    try:
        return await here.runs.workflow(run_id)
    except cluster_errors.NotFound:
        return None


async def node_pods(here: Services, found: FoundNode) -> list[Object]:
    """The Pods of its attempts and of its training job."""
    pods: dict[str, Object] = {}
    for attempt in found.attempts:
        try:
            if attempt.pod:
                pods[attempt.pod] = await here.cluster.get(POD, attempt.pod, found.run.namespace)
        except cluster_errors.ApiError:
            continue
    if found.node.kind == "training":
        pods |= {name_of(pod): pod for pod in await training_pods(here, found)}
    return list(pods.values())


async def training_pods(here: Services, found: FoundNode) -> list[Object]:
    workflow = await _workflow(here, found.run.id)
    task = str(template_of(workflow, found.node.name).get("name"))
    item = item_of(found.drawn, workflow, found.node.name)
    is_loop = found.drawn is not None and found.drawn.loop is not None
    wanted = (
        TASK_LABEL if is_loop and item is None else f"{TASK_LABEL}={task if item is None else item_label(task, item)}"
    )
    pods = (await here.cluster.list(POD, found.run.namespace, labels=f"{RUN_LABEL}={found.run.id},{wanted}")).items
    return [pod for pod in pods if item is not None or labels_of(pod)[TASK_LABEL].partition(".")[0] == task]
