"""Routes of Workflows that are no runs of the platform: those of `muster submit`, argo, kubectl and CronWorkflows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.builtin import EVENT, POD
from muster.kube.errors import ApiError, Cause
from muster.kube.manifests import dump
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of, spec_of, uid_of
from muster.kube.pod_security import find_foreign_metadata, run_in_name
from muster.platform.argo.nodes import drawn_nodes, find_artifact, node_detail, parameters_of
from muster.platform.argo.workflows import (
    CREATOR_LABEL,
    describe_workflow,
    find_managed,
    list_actions,
    may_be_managed,
    subject_of,
    with_owner,
)
from muster.platform.errors import ConflictProblem, InvalidProblem, NotFoundProblem, Problem, UnavailableProblem
from muster.platform.jobs.detail import masks_for
from muster.platform.jobs.jobs import find_names
from muster.platform.permissions import Actor, Relation, relations, require
from muster.platform.records.argo import ArgoNodeDetail, ArgoWorkflow, ArgoWorkflowDetail
from muster.platform.records.common import Subject
from muster.platform.records.pods import KubernetesEvent, PodSummary
from muster.platform.runs.logs import LogSource, read_log_lines, read_log_text
from muster.platform.runs.node_detail import event_summary, pod_summary
from muster.platform.runs.status import DONE
from muster.platform.runs.status import ENDED as NODE_ENDED
from muster.platform.status_messages import explain
from muster.platform.users.audit import write_audit
from muster.server.argo.access import label_value
from muster.server.object_checks import rehearse_write
from muster.server.platform.event_feed import Event
from muster.server.platform.logs import line_after, line_events, text_response
from muster.server.platform.pod_usage import PodUsageReport
from muster.server.platform.rest import build_record, json_response, vars_of
from muster.server.platform.run_nodes import artifact_response
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, event_stream, last_event_id
from muster.server.workers import SMALL_BYTES
from muster.workflows.kinds import WORKFLOW
from muster.workflows.operations import control
from muster.workflows.operations.resubmit import resubmit
from muster.workflows.operations.retry import retry as plan_retry
from muster.workflows.task_graph import TaskGraph, run_graph, to_json

router = APIRouter(prefix="/argo-workflows/{namespace}/{name}", tags=["argo workflows"])

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
_MOST_TAIL = 100_000
_SETTLE_SECONDS = 0.5
"""A Workflow changes up to ten times a second."""

_Attempt = Annotated[int | None, Query(ge=1, description="The number of the attempt; defaults to the last.")]
_Container = Annotated[str, Query(description="A container other than the main one.")]


@router.get("", operation_id="get_argo_workflow")
async def get_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflowDetail:
    """Returns a Workflow with the nodes that are drawn."""
    return await _whole(here, who, await visible_workflow(here, who, namespace, name))


@router.get("/yaml", operation_id="get_argo_workflow_yaml", response_class=Response, responses=_TEXT)
async def get_argo_workflow_yaml(namespace: str, name: str, here: Here, who: Who) -> Response:
    """Returns the manifest as the cluster has it, without its status and without secrets."""
    workflow = await visible_workflow(here, who, namespace, name)
    metadata = {key: value for key, value in meta(workflow).items() if key != "managedFields"}
    shown: Object = {key: workflow[key] for key in ("apiVersion", "kind") if key in workflow}
    masks = await masks_for(here.cluster, workflow)
    shown = {**shown, "metadata": metadata, "spec": spec_of(workflow)}
    text = await asyncio.to_thread(lambda: dump(masks.anything(shown)))
    return Response(text, media_type="text/plain; charset=utf-8")


@router.get("/graph", operation_id="get_argo_workflow_graph", response_model=TaskGraph)
async def get_argo_workflow_graph(namespace: str, name: str, here: Here, who: Who) -> Response:
    """Returns the nodes and edges to draw: those of the templates, with the iterations and attempts that were made. The
    names of nodes without others inside are the paths in `node_states`."""
    workflow = await here.backend.with_nodes(await visible_workflow(here, who, namespace, name))
    masks = await masks_for(here.cluster, workflow)
    return json_response(await asyncio.to_thread(lambda: masks.anything(to_json(run_graph(workflow)))))


@router.get("/events", operation_id="watch_argo_workflow", response_class=Response, responses=EVENTS)
async def watch_argo_workflow(namespace: str, name: str, here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: the Workflow as it is now, then after every change (`workflow`), until it is deleted
    (`gone`)."""
    await visible_workflow(here, who, namespace, name)
    check = partial(visible_workflow, here, who, namespace, name)
    return event_stream(request, _changes(here, who, namespace, name), check)


@router.post("/stop", operation_id="stop_argo_workflow")
async def stop_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflowDetail:
    """Stops the Workflow: no node starts any more, running nodes are stopped, and exit handlers run."""
    return await _changed(here, who, namespace, name, "stop", control.stop)


@router.post("/suspend", operation_id="suspend_argo_workflow")
async def suspend_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflowDetail:
    """Suspends the Workflow: no node starts until it is resumed. Running nodes continue."""
    return await _changed(here, who, namespace, name, "suspend", control.suspend)


@router.post("/resume", operation_id="resume_argo_workflow")
async def resume_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflowDetail:
    """Resumes the Workflow and its suspended nodes."""
    return await _changed(here, who, namespace, name, "resume", control.resume)


@router.post("/retry", operation_id="retry_argo_workflow")
async def retry_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> ArgoWorkflowDetail:
    """Retries the Workflow from the nodes that failed or did not finish. The logs of these nodes are deleted."""
    workflow = await here.backend.with_nodes(await visible_workflow(here, who, namespace, name, "retry"))
    try:
        after = await here.backend.retry(workflow, plan_retry(workflow))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "retry", workflow)
    return await _whole(here, who, after)


@router.post("/resubmit", status_code=201, operation_id="resubmit_argo_workflow")
async def resubmit_argo_workflow(namespace: str, name: str, here: Here, who: Who, response: Response) -> ArgoWorkflow:
    """Creates a new Workflow with the manifest and the parameters of this one."""
    workflow = await visible_workflow(here, who, namespace, name, "copy")
    try:
        made = await create_object(here, who, with_creator(who, without_owner(resubmit(workflow))))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "copy", made)
    response.headers["Location"] = f"/api/v1/argo-workflows/{namespace}/{name_of(made)}"
    (answer,) = await describe_all(here, who, [made])
    return answer


@router.delete("", status_code=204, operation_id="delete_argo_workflow")
async def delete_argo_workflow(namespace: str, name: str, here: Here, who: Who) -> None:
    """Deletes the Workflow with its Pods and logs. A running Workflow is stopped."""
    workflow = await visible_workflow(here, who, namespace, name, "delete")
    try:
        await here.cluster.delete(WORKFLOW, name, namespace, uid=uid_of(workflow))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, "delete", workflow)


@router.get("/nodes/{node}", operation_id="get_argo_node")
async def get_argo_node(namespace: str, name: str, node: str, here: Here, who: Who) -> ArgoNodeDetail:
    """Returns a node with its attempts, inputs, outputs and template. Secrets are not shown."""
    workflow, found = await _node(here, who, namespace, name, node)
    masks = await masks_for(here.cluster, workflow)
    return replace(
        found,
        message=masks.text(found.message),
        attempts=[replace(attempt, message=masks.text(attempt.message)) for attempt in found.attempts],
        inputs=[replace(given, value=given.value and masks.text(given.value)) for given in found.inputs],
        outputs=[replace(made, value=made.value and masks.text(made.value)) for made in found.outputs],
        definition=masks.anything(found.definition),
    )


@router.get("/nodes/{node}/pods", operation_id="list_argo_node_pods")
async def list_argo_node_pods(namespace: str, name: str, node: str, here: Here, who: Who) -> list[PodSummary]:
    """Lists the node's existing Pods with their containers."""
    workflow, found = await _node(here, who, namespace, name, node)
    masks = await masks_for(here.cluster, workflow)
    pods = []
    for pod in await _pods(here, workflow, found):
        told = masks.anything(pod_summary(pod))
        pods.append(build_record(PodSummary, {**told, "message_parts": explain(told["message"])}))
    return pods


@router.get("/nodes/{node}/usage", operation_id="get_argo_node_usage")
async def get_argo_node_usage(namespace: str, name: str, node: str, here: Here, who: Who) -> PodUsageReport:
    """Returns the CPU and memory that the node's Pods use or have used, also of those that no longer exist."""
    workflow, found = await _node(here, who, namespace, name, node)
    pods = [attempt.pod for attempt in found.attempts if attempt.pod]
    series = here.pod_usage.history.find(namespace, pods)
    return here.pod_usage.report(series, meta(workflow).get("creationTimestamp"))


@router.get("/nodes/{node}/happenings", operation_id="list_argo_node_events")
async def list_argo_node_events(namespace: str, name: str, node: str, here: Here, who: Who) -> list[KubernetesEvent]:
    """Lists the events of the node's Pods, the oldest first."""
    workflow, found = await _node(here, who, namespace, name, node)
    masks = await masks_for(here.cluster, workflow)
    told = []
    for pod in dict.fromkeys(attempt.pod for attempt in found.attempts if attempt.pod):
        page = await here.cluster.list(EVENT, namespace, fields=f"involvedObject.name={pod}")
        told += [build_record(KubernetesEvent, masks.anything(event_summary(event))) for event in page.items]
    return sorted(told, key=lambda each: each.time or "")


@router.get("/nodes/{node}/log", operation_id="get_argo_node_log", response_class=Response, responses=_TEXT)
async def get_argo_node_log(
    namespace: str,
    name: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    attempt: _Attempt = None,
    container: _Container = "",
    tail: Annotated[int | None, Query(ge=0, le=_MOST_TAIL, description="Only this many lines at the end.")] = None,
    times: Annotated[bool, Query(description="Put its time in front of each line.")] = False,
) -> Response:
    """Returns what has been written so far, as text."""
    workflow, found = await _node(here, who, namespace, name, node)
    source, _ = _log_source(workflow, found, attempt, container)
    check = partial(visible_workflow, here, who, namespace, name)
    return text_response(request, here, check, source, await masks_for(here.cluster, workflow), tail, times)


@router.get("/nodes/{node}/log/events", operation_id="watch_argo_node_log", response_class=Response, responses=EVENTS)
async def watch_argo_node_log(
    namespace: str,
    name: str,
    node: str,
    request: Request,
    here: Here,
    who: Who,
    attempt: _Attempt = None,
    container: _Container = "",
    bunches: Annotated[bool, Query(description="Many lines in one event, called `lines`, and no times.")] = False,
) -> Response:
    """Server-sent events: a `line` for each line as it is written, and `end` when the attempt is over. With Last-Event-
    ID the stream continues without gaps or repeats."""
    workflow, found = await _node(here, who, namespace, name, node)
    source, number = _log_source(workflow, found, attempt, container)
    reads = partial(_node, here, who, namespace, name, node)
    events = _log_events(here, workflow, source, number, reads, last_event_id(request), bunches)
    return event_stream(request, events, partial(visible_workflow, here, who, namespace, name))


@router.get(
    "/nodes/{node}/outputs/{output}", operation_id="get_argo_node_output", response_class=Response, responses=_FILE
)
async def get_argo_node_output(
    namespace: str, name: str, node: str, output: str, request: Request, here: Here, who: Who
) -> Response:
    """Returns an artifact that the node wrote: the file, or the folder as an archive."""
    workflow, _ = await _node(here, who, namespace, name, node)
    artifact = find_artifact(workflow, node, output)
    if artifact is None:
        raise NotFoundProblem.named("output", output)
    check = partial(visible_workflow, here, who, namespace, name)
    return await artifact_response(request, here, check, workflow, artifact, str(artifact.get("path") or ""))


async def visible_workflow(here: Services, who: Actor, namespace: str, name: str, action: str = "view") -> Object:
    """Finds a Workflow that is no run, and checks that the user may do this to it. Its nodes may be missing."""
    try:
        workflow = await here.cluster.get(WORKFLOW, name, namespace)
    except cluster_errors.NotFound:
        raise NotFoundProblem.named("argo workflow", f"{namespace}/{name}") from None
    except cluster_errors.Unavailable as error:
        raise UnavailableProblem(error.message) from None
    require(who, action, subject_of(namespace, uid_of(workflow), here.namespaces.owner_of), f"{namespace}/{name}")
    if may_be_managed(workflow):
        managed = await here.database.read(lambda connection: find_managed(connection, [workflow]))
        if managed:
            # The rules of runs and pipelines decide about it, so it can be changed only there.
            raise NotFoundProblem.of("argo.managed", name=f"{namespace}/{name}")
    return workflow


async def create_object(here: Services, who: Actor, obj: Object) -> Object:
    """Creates an object that a user wrote. A large one is first checked by a worker, to learn how long that takes.
    Raises ApiError."""
    check_metadata(who, obj)
    if len(orjson.dumps(obj)) > SMALL_BYTES:
        await here.checked(who, rehearse_write, str(obj["apiVersion"]), str(obj["kind"]), {}, None, obj, None)
    return await here.cluster.create(obj)


def check_metadata(who: Actor, obj: Object) -> None:
    """Raises Invalid by the rules of the Kubernetes API: in the namespaces of members, labels and annotations of the
    platform and names of runs are not for users."""
    if relations(who, Subject("argo workflow")) & Relation.ADMIN:
        return
    causes = [Cause(each.field, str(each), "FieldValueForbidden") for each in find_foreign_metadata(None, obj)]
    if run_in_name(name_of(obj)):
        causes.append(Cause("metadata.name", "the name is reserved for runs"))
    if causes:
        raise cluster_errors.Invalid("; ".join(cause.message for cause in causes), causes=causes)


async def describe_all(here: Services, who: Actor, workflows: Iterable[Object]) -> list[ArgoWorkflow]:
    listed = list(workflows)
    subjects = [subject_of(namespace_of(each), uid_of(each), here.namespaces.owner_of) for each in listed]
    known = await here.database.read(
        lambda connection: find_names(
            connection, of_users=[s.owner for s in subjects], of_teams=[s.team for s in subjects], of_runs=()
        )
    )
    return [
        replace(
            with_owner(describe_workflow(each), subject, known.users, known.teams),
            may=list_actions(who, each, subject),
        )
        for each, subject in zip(listed, subjects, strict=True)
    ]


async def _whole(here: Services, who: Actor, workflow: Object) -> ArgoWorkflowDetail:
    (answer,) = await describe_all(here, who, [workflow])
    nodes = drawn_nodes(await here.backend.with_nodes(workflow))
    masks = await masks_for(here.cluster, workflow)
    spec = spec_of(workflow)
    return ArgoWorkflowDetail(
        **{**vars_of(answer), "message": masks.text(answer.message)},
        parameters=[replace(each, value=each.value and masks.text(each.value)) for each in parameters_of(workflow)],
        node_states=[replace(node, message=masks.text(node.message)) if node.message else node for node in nodes],
        service_account=str(spec.get("serviceAccountName") or ""),
        priority=int(spec.get("priority") or 0),
    )


async def _changes(here: Services, who: Actor, namespace: str, name: str) -> AsyncIterator[Event]:
    number, place = 0, here.argo_feed.last
    workflow = await visible_workflow(here, who, namespace, name)
    uid = uid_of(workflow)
    yield Event("0", await _whole(here, who, workflow), "workflow")
    async for event in here.argo_feed.after(place):
        if event.data is not None and event.data.id != uid:
            continue
        number += 1
        await asyncio.sleep(_SETTLE_SECONDS)
        try:
            workflow = await visible_workflow(here, who, namespace, name)
        except NotFoundProblem:
            yield Event(str(number), None, "gone")
            return
        yield Event(str(number), await _whole(here, who, workflow), "workflow")


async def _changed(
    here: Services, who: Actor, namespace: str, name: str, action: str, operation: Callable[[Object], Object]
) -> ArgoWorkflowDetail:
    workflow = await here.backend.with_nodes(await visible_workflow(here, who, namespace, name, action))
    try:
        after = await here.backend.write(workflow, operation(workflow))
    except ApiError as error:
        raise cluster_problem(error) from None
    await _note(here, who, action, workflow)
    return await _whole(here, who, after)


async def _node(here: Services, who: Actor, namespace: str, name: str, node: str) -> tuple[Object, ArgoNodeDetail]:
    workflow = await here.backend.with_nodes(await visible_workflow(here, who, namespace, name))
    found = node_detail(workflow, node)
    if found is None:
        raise NotFoundProblem.of("run.node", run=name, name=node)
    return workflow, found


async def _pods(here: Services, workflow: Object, node: ArgoNodeDetail) -> list[Object]:
    pods = []
    for attempt in node.attempts:
        if not attempt.pod:
            continue
        try:
            pods.append(await here.cluster.get(POD, attempt.pod, namespace_of(workflow)))
        except ApiError:
            continue
    return pods


def _log_source(
    workflow: Object, node: ArgoNodeDetail, number: int | None, container: str
) -> tuple[LogSource | None, int]:
    """The source of the log, and the number of the attempt; None if nothing has started."""
    attempt = node.attempts[-1] if node.attempts else None
    if number is not None:
        attempt = next((each for each in node.attempts if each.number == number), None)
        if attempt is None:
            raise InvalidProblem.field("attempt", "run.attempt", number=number, count=len(node.attempts))
    if attempt is None or not attempt.pod:
        return None, 0
    return LogSource(namespace_of(workflow), attempt.pod, container or "main"), attempt.number


async def _log_events(
    here: Services,
    workflow: Object,
    source: LogSource | None,
    number: int,
    read_node: Callable[[], Any],
    last: str,
    bunches: bool,
) -> AsyncIterator[Event]:
    after = line_after(last, str(number))
    masks = await masks_for(here.cluster, workflow)

    async def ended() -> bool:
        _, node = await read_node()
        same = next((each for each in node.attempts if each.number == number), None)
        return same is None or same.state in NODE_ENDED | DONE

    if source is not None and bunches:
        async for text in read_log_text(here.cluster, source, follow=True, ended=ended, after=after):
            after = text.last
            yield Event(f"{number}.{after}", {"text": masks.text(text.text)}, "lines")
    elif source is not None:
        lines = read_log_lines(here.cluster, source, follow=True, ended=ended, after=after)
        async for event in line_events(lines, masks, lambda line: f"{number}.{line}"):
            after = int(event.id.rpartition(".")[2])
            yield event
    yield Event(f"{number}.{after}", {"attempt": number}, "end")


def without_owner(obj: Object) -> Object:
    """What a user starts does not end with the CronWorkflow whose Workflow it repeats."""
    return {**obj, "metadata": {key: value for key, value in meta(obj).items() if key != "ownerReferences"}}


def with_creator(who: Actor, obj: Object) -> Object:
    labels: Mapping[str, str] = {**labels_of(obj), CREATOR_LABEL: label_value(f"muster:{who.name}")}
    return {**obj, "metadata": {**meta(obj), "labels": labels}}


async def _note(here: Services, who: Actor, action: str, workflow: Object) -> None:
    def write(connection: Connection) -> None:
        where = {"namespace": namespace_of(workflow)}
        write_audit(connection, who, action, "argo workflow", uid_of(workflow), name_of(workflow), where)

    await here.database.write(write)


def cluster_problem(error: ApiError) -> Problem:
    if isinstance(error, cluster_errors.NotFound):
        return NotFoundProblem(error.message)
    if isinstance(error, cluster_errors.Unavailable):
        return UnavailableProblem(error.message)
    return ConflictProblem(error.message)
