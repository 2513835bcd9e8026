"""Events from other systems, such as webhooks. WorkflowEventBindings define which of them start a workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from muster.kube.errors import ApiError, BadRequest
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, labels_of, meta, name_of, spec_of
from muster.server.argo.access import AuthorizedCluster, label_creator, require_valid
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import JSON, ApiRequest, ApiResponse, parse_body
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW, WORKFLOW_EVENT_BINDING, WORKFLOW_TEMPLATE
from muster.workflows.lang.environment import build_environment
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.evaluator import evaluate
from muster.workflows.submit import workflow_from_template

_BINDING_LABEL = "workflows.argoproj.io/workflow-event-binding"


def receiver(recorder: EventRecorder | None) -> Callable[[Request], Awaitable[ApiResponse]]:
    """Returns the handler of events. It records on a binding why it could not be followed."""

    async def receive(request: Request) -> ApiResponse:
        """Starts the workflows of all matching bindings. An error in one binding does not affect the others."""
        content = await request.call.body()
        payload = parse_body(content, JSON) if content else None
        scope = {
            "namespace": request.namespace,
            "discriminator": request.names.get("discriminator", ""),
            "metadata": headers_of(request.call),
            "payload": payload,
        }
        failures = []
        for binding in (await request.api.list(WORKFLOW_EVENT_BINDING, request.namespace)).items:
            try:
                await _dispatch(request.api, binding, scope, request.namespace)
            except ApiError as error:
                failures.append(f"{name_of(binding)}: {error.message}")
                if recorder is not None:
                    message = f"failed to dispatch event: {error.message}"
                    recorder.event(binding, "Warning", "WorkflowEventBindingError", message)
        if failures:
            raise ApiError(f"failed to dispatch event: {'; '.join(failures)}")
        return request.answer({})

    return receive


async def list_bindings(request: Request) -> ApiResponse:
    listing = await request.api.list(
        WORKFLOW_EVENT_BINDING, request.namespace, labels=request.option("listOptions.labelSelector")
    )
    return request.answer({
        "kind": "WorkflowEventBindingList",
        "apiVersion": WORKFLOW_EVENT_BINDING.api_version,
        "metadata": {"resourceVersion": listing.resource_version},
        "items": listing.items,
    })  # fmt: skip


async def list_nothing(request: Request) -> ApiResponse:
    """Event sources and sensors, which Argo Events would bring."""
    return request.answer({"metadata": {}, "items": []})


def headers_of(call: ApiRequest) -> dict[str, list[str]]:
    """The headers of the event that expressions may read. Others are hidden: one of them is the token."""
    found: dict[str, list[str]] = {}
    for name, value in call.scope["headers"]:
        if name.startswith(b"x-"):
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return found


def matches_event(binding: Object, scope: Mapping[str, Any]) -> bool:
    """Raises BadRequest if the selector is not valid or not a boolean."""
    selector = str((spec_of(binding).get("event") or {}).get("selector") or "")
    answer = _value(selector, scope, "spec.event.selector")
    if not isinstance(answer, bool):
        raise BadRequest(f"spec.event.selector: the answer is {answer!r}, neither true nor false")
    return answer


def workflow_for_event(binding: Object, scope: Mapping[str, Any]) -> Object:
    """The workflow that the event starts. Raises BadRequest."""
    submit = spec_of(binding)["submit"]
    ref = submit.get("workflowTemplateRef") or {}
    workflow = workflow_from_template(str(ref.get("name") or ""), cluster_scope=bool(ref.get("clusterScope")))
    wanted, metadata = submit.get("metadata") or {}, dict(meta(workflow))
    for field in ("name", "generateName"):
        if wanted.get(field):
            metadata[field] = _text(wanted[field], scope, f"spec.submit.metadata.{field}")
    if metadata.get("name"):
        metadata.pop("generateName")
    for field in ("labels", "annotations"):
        values = {
            key: _text(value, scope, f"spec.submit.metadata.{field}[{key}]")
            for key, value in (wanted.get(field) or {}).items()
        }
        if values:
            metadata[field] = {**(metadata.get(field) or {}), **values}
    metadata["labels"] = {**labels_of({"metadata": metadata}), _BINDING_LABEL: name_of(binding)}
    parameters = [_argument(parameter, scope) for parameter in (submit.get("arguments") or {}).get("parameters") or ()]
    arguments = {"arguments": {"parameters": parameters}} if parameters else {}
    return {**workflow, "metadata": metadata, "spec": {**spec_of(workflow), **arguments}}


async def _dispatch(api: AuthorizedCluster, binding: Object, scope: Mapping[str, Any], namespace: str) -> None:
    submit = spec_of(binding).get("submit")
    if not matches_event(binding, scope) or not submit:
        return
    ref = submit.get("workflowTemplateRef") or {}
    kind = CLUSTER_WORKFLOW_TEMPLATE if ref.get("clusterScope") else WORKFLOW_TEMPLATE
    await api.get(kind, str(ref.get("name") or ""), namespace if kind.namespaced else "")
    workflow = label_creator(api.user, workflow_for_event(binding, scope))
    workflow = {**workflow, "metadata": {**meta(workflow), "namespace": namespace}}
    await require_valid(api, workflow)
    await api.create(workflow, WORKFLOW)


def _argument(parameter: Mapping[str, Any], scope: Mapping[str, Any]) -> Object:
    name = str(parameter.get("name"))
    source = (parameter.get("valueFrom") or {}).get("event")
    if not source:
        raise BadRequest(f'the argument "{name}" has no valueFrom.event: write the expression that gives its value')
    value = _value(str(source), scope, f"the argument {name}")
    return {"name": name, "value": value if isinstance(value, str) else orjson.dumps(value).decode()}


def _text(expression: Any, scope: Mapping[str, Any], where: str) -> str:
    value = _value(str(expression), scope, where)
    if not isinstance(value, str):
        raise BadRequest(f"{where}: must evaluate to a string, not {value!r}")
    return value


def _value(expression: str, scope: Mapping[str, Any], where: str) -> Any:
    try:
        return evaluate(expression, build_environment(scope, expression))
    except ExpressionError as error:
        raise BadRequest(f"{where}: {error}") from None
