"""Actions on a workflow: retry, resubmit, suspend, resume, stop, terminate, set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import orjson

from muster.kube import builtin
from muster.kube.errors import BadRequest
from muster.kube.objects import Object, name_of, namespace_of
from muster.kube.schema import BOOLEAN, STRING, STRINGS, obj, of
from muster.server.argo import workflows
from muster.server.argo.access import UserAction, label_actor, label_creator, require_valid
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import ApiResponse
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import Phase
from muster.workflows.operations import apply, control
from muster.workflows.operations.resubmit import resubmit as resubmitted

_PHASES = ("Succeeded", "Failed", "Error")
ACTION = obj(
    {
        **of(STRING, "name namespace nodeFieldSelector message phase outputParameters uid"),
        **of(BOOLEAN, "restartSuccessful memoized"),
        "parameters": STRINGS,
    },
    keep_unknown=True,
)


async def retry(request: Request) -> ApiResponse:
    body = await request.body(ACTION)
    api = request.api
    workflow = await _get_workflow(request)
    api.require("delete", builtin.POD, namespace_of(workflow))
    api.require("update", WORKFLOW, namespace_of(workflow), name_of(workflow))
    await apply.retry(
        api.cluster,
        workflow,
        restart_successful=bool(body.get("restartSuccessful")),
        node_field_selector=_text(body, "nodeFieldSelector"),
        parameters=_parameters(body),
    )
    return request.answer(await _label_actor(request, workflow, "Retry"))


async def resubmit(request: Request) -> ApiResponse:
    return await _create_resubmission(request, await _get_workflow(request))


async def resubmit_archived(request: Request) -> ApiResponse:
    namespace, name = await workflows.archived_name(request)
    return await _create_resubmission(request, request.api.with_nodes(await request.api.find(name, namespace)))


async def suspend(request: Request) -> ApiResponse:
    return await _update_workflow(request, "Suspend", control.suspend)


async def resume(request: Request) -> ApiResponse:
    selector = _text(await request.body(ACTION), "nodeFieldSelector")
    # As Argo writes it: what Go prints for a map.
    message = f"Resumed by: map[User:{request.api.user.name}]"
    return await _update_workflow(
        request, "Resume", lambda workflow: control.resume(workflow, selector, message=message)
    )


async def stop(request: Request) -> ApiResponse:
    body = await request.body(ACTION)
    selector, message = _text(body, "nodeFieldSelector"), _text(body, "message")
    return await _update_workflow(request, "Stop", lambda workflow: control.stop(workflow, selector, message))


async def terminate(request: Request) -> ApiResponse:
    return await _update_workflow(request, "Terminate", control.terminate)


async def set_node(request: Request) -> ApiResponse:
    body = await request.body(ACTION)
    phase, message = _text(body, "phase"), _text(body, "message")
    if phase and phase not in _PHASES:
        raise BadRequest(f"{phase} is an invalid phase to set to; it must be one of {', '.join(_PHASES)}")
    outputs = _outputs(_text(body, "outputParameters"))
    selector = _text(body, "nodeFieldSelector")
    return await _update_workflow(
        request,
        "Update",
        lambda workflow: control.set_outputs(
            workflow, selector, outputs=outputs, phase=cast(Phase, phase) if phase else None, message=message
        ),
    )


async def _update_workflow(request: Request, deed: UserAction, operation: Callable[[Object], Object]) -> ApiResponse:
    workflow = await _get_workflow(request)
    request.api.require("update", WORKFLOW, namespace_of(workflow), name_of(workflow))
    await apply.write(request.api.cluster, workflow, label_actor(request.api.user, operation(workflow), deed))
    now = await request.api.cluster.get(WORKFLOW, name_of(workflow), namespace_of(workflow))
    return request.answer(request.api.with_nodes(now))


async def _label_actor(request: Request, workflow: Object, deed: UserAction) -> Object:
    """Returns the current workflow with a label that names the user of the action."""
    cluster = request.api.cluster
    where = (WORKFLOW, name_of(workflow), namespace_of(workflow))
    labels = label_actor(request.api.user, {"metadata": {}}, deed)
    return request.api.with_nodes(await cluster.patch(*where, labels))


async def _create_resubmission(request: Request, workflow: Object) -> ApiResponse:
    body = await request.body(ACTION)
    new = resubmitted(workflow, memoized=bool(body.get("memoized")), parameters=_parameters(body))
    new = label_creator(request.api.user, new)
    await require_valid(request.api, new)
    stored = await request.api.create(new, WORKFLOW)
    return request.answer(request.api.with_nodes(stored))


async def _get_workflow(request: Request) -> Object:
    return request.api.with_nodes(await request.api.find(request.name, request.namespace))


def _outputs(text: str) -> dict[str, str]:
    """A JSON object in a string."""
    if not text:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"unable to parse output parameter set request: {error}") from None
    if not isinstance(found, dict):
        raise BadRequest("outputParameters must be an object of names and values, written as JSON")
    return {str(name): str(value) for name, value in found.items()}


def _parameters(body: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(text) for text in body.get("parameters") or ())


def _text(body: dict[str, Any], name: str) -> str:
    return str(body.get(name) or "")
