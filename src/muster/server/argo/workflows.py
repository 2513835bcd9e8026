"""Workflows: create, submit, list, get, delete, lint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from muster.embedded.api.calls import Answer
from muster.kube.errors import BadRequest
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, namespace_of, timestamp
from muster.server.argo.labels import created_by
from muster.server.argo.linting import require_sound
from muster.server.argo.listing import Wanted, parse_wanted, select
from muster.server.argo.requests import Request
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW, WORKFLOW_TEMPLATE
from muster.workflows.submission import (
    SubmissionError,
    SubmitOptions,
    from_cron,
    from_template,
    source_kind,
    with_options,
)

_SOURCES = {kind.kind: kind for kind in (WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW)}


async def create(request: Request) -> Answer:
    body = await request.body()
    workflow = placed(body.get("workflow"), "workflow", WORKFLOW, request.namespace)
    workflow = created_by(request.api.user, workflow)
    await require_sound(request.api, workflow)
    if (body.get("createOptions") or {}).get("dryRun"):
        return request.answer(workflow)
    stored = await request.api.create(workflow, WORKFLOW, dry_run=bool(body.get("serverDryRun")))
    return request.answer(request.api.whole(stored))


async def submit(request: Request) -> Answer:
    body = await request.body()
    options = body.get("submitOptions") or {}
    try:
        workflow = await _from_resource(
            request, str(body.get("resourceKind") or ""), str(body.get("resourceName") or "")
        )
        workflow = with_options(created_by(request.api.user, workflow), submit_options(options))
    except SubmissionError as error:
        raise BadRequest(str(error)) from None
    workflow = placed(workflow, "workflow", WORKFLOW, request.namespace)
    await require_sound(request.api, workflow)
    if options.get("dryRun"):
        return request.answer(workflow)
    stored = await request.api.create(workflow, WORKFLOW, dry_run=bool(options.get("serverDryRun")))
    return request.answer(stored)


async def get(request: Request) -> Answer:
    found = await request.api.find(request.name, request.namespace, request.option("uid"))
    fields = request.fields
    return request.answer(fields.cut(request.api.whole(found) if fields.wants("status.nodes") else found))


async def list_all(request: Request) -> Answer:
    wanted = parse_wanted(request.call.query, request.namespace)
    return request.answer(await _listed(request, wanted))


async def delete(request: Request) -> Answer:
    api = request.api
    workflow = await api.find(request.name, request.namespace)
    where = (WORKFLOW, name_of(workflow), namespace_of(workflow))
    if request.call.flag("force"):
        await api.patch(*where, {"metadata": {"finalizers": None}})
    await api.delete(*where)
    return request.answer({})


async def lint(request: Request) -> Answer:
    body = await request.body()
    workflow = placed(body.get("workflow"), "workflow", WORKFLOW, request.namespace)
    await require_sound(request.api, workflow, strict=True)
    return request.answer(created_by(request.api.user, workflow))


def placed(obj: Any, field: str, kind: Kind, namespace: str) -> Object:
    """The object in a request, with its kind and namespace, which clients may leave out."""
    if not isinstance(obj, dict):
        raise BadRequest(f"the request has no {field}")
    metadata = dict(meta(obj))
    if kind.namespaced:
        given = metadata.get("namespace") or namespace
        if namespace and given != namespace:
            raise BadRequest(
                f'the namespace of the provided object ("{given}") does not match the namespace of the request '
                f'("{namespace}")'
            )
        metadata["namespace"] = given
    for expected, name in ((kind.api_version, "apiVersion"), (kind.kind, "kind")):
        if obj.get(name) not in (None, "", expected):
            raise BadRequest(f'the request is for a {kind.kind} of {kind.api_version}, but its {name} is "{obj[name]}"')
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def submit_options(given: Mapping[str, Any]) -> SubmitOptions:
    priority = given.get("priority")
    return SubmitOptions(
        name=str(given.get("name") or ""),
        generate_name=str(given.get("generateName") or ""),
        entrypoint=str(given.get("entryPoint") or ""),
        service_account=str(given.get("serviceAccount") or ""),
        parameters=tuple(str(text) for text in given.get("parameters") or ()),
        labels=str(given.get("labels") or ""),
        annotations=str(given.get("annotations") or ""),
        priority=int(priority) if priority is not None else None,
        pod_priority_class=str(given.get("podPriorityClassName") or ""),
        owner_reference=given.get("ownerReference"),
    )


async def _from_resource(request: Request, word: str, name: str) -> Object:
    kind = _SOURCES[source_kind(word)]
    found = await request.api.get(kind, name, request.namespace)
    if kind is CRON_WORKFLOW:
        return from_cron(found, timestamp(datetime.now(UTC)))
    return from_template(name, cluster_scope=kind is CLUSTER_WORKFLOW_TEMPLATE)


async def _listed(request: Request, wanted: Wanted) -> Object:
    api, fields = request.api, request.fields
    listing = await api.list(WORKFLOW, wanted.namespace, labels=wanted.labels)
    page = select(listing.items, wanted)
    items = [api.whole(one) for one in page.items] if fields.wants("items.status.nodes") else page.items
    metadata: Object = {"resourceVersion": listing.resource_version}
    if page.next_offset is not None:
        metadata["continue"] = str(page.next_offset)
    if wanted.counted:
        metadata["remainingItemCount"] = page.remaining
    return {
        "kind": "WorkflowList",
        "apiVersion": WORKFLOW.api_version,
        **fields.cut({"metadata": metadata, "items": items}),
    }
