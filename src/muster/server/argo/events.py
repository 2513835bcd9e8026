"""Events from other systems, such as webhooks. WorkflowEventBindings define which of them start a workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from muster.kube.errors import ApiError, BadRequest
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, meta, name_of, spec_of
from muster.server.argo.access import AuthorizedCluster, label_creator, require_valid
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import JSON, ApiRequest, ApiResponse, parse_body
from muster.workflows.event_bindings import BindingResult, evaluate_bindings
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW, WORKFLOW_EVENT_BINDING, WORKFLOW_TEMPLATE


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
        bindings = (await request.api.list(WORKFLOW_EVENT_BINDING, request.namespace)).items
        results = await _evaluate(request.api, bindings, scope) if bindings else []
        for binding, result in zip(bindings, results, strict=True):
            try:
                await _submit(request.api, binding, result, request.namespace)
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


async def _evaluate(
    api: AuthorizedCluster, bindings: Sequence[Object], scope: Mapping[str, Any]
) -> list[BindingResult]:
    if api.workers is None:
        return evaluate_bindings(bindings, scope)
    return await api.workers.run(api.user.name, evaluate_bindings, bindings, scope)


async def _submit(api: AuthorizedCluster, binding: Object, result: BindingResult, namespace: str) -> None:
    if result.problem:
        raise BadRequest(result.problem)
    if result.workflow is None:
        return
    ref = spec_of(binding)["submit"].get("workflowTemplateRef") or {}
    kind = CLUSTER_WORKFLOW_TEMPLATE if ref.get("clusterScope") else WORKFLOW_TEMPLATE
    await api.get(kind, str(ref.get("name") or ""), namespace if kind.namespaced else "")
    workflow = label_creator(api.user, result.workflow)
    workflow = {**workflow, "metadata": {**meta(workflow), "namespace": namespace}}
    await require_valid(api, workflow)
    await api.create(workflow, WORKFLOW)
