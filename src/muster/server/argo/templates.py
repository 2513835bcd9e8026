"""Workflow templates, cluster workflow templates and cron workflows."""

from __future__ import annotations

from dataclasses import dataclass

from muster.kube.errors import BadRequest, is_count
from muster.kube.kinds import Kind
from muster.kube.objects import meta, name_of, version_of
from muster.server.argo.access import label_actor, label_creator, require_valid
from muster.server.argo.requests import Request
from muster.server.argo.workflows import CREATE, object_from_body
from muster.server.kubernetes.request import ApiResponse
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_TEMPLATE


@dataclass(frozen=True, slots=True)
class Service:
    """The same operations for each of the kinds."""

    kind: Kind
    field: str
    """Where in a request's body the object is."""

    async def create(self, request: Request) -> ApiResponse:
        body = await request.body(CREATE)
        obj = object_from_body(body.get(self.field), self.field, self.kind, request.namespace)
        obj = label_creator(request.api.user, obj)
        await require_valid(request.api, obj)
        dry_run = bool((body.get("createOptions") or {}).get("dryRun"))
        return request.answer(await request.api.create(obj, self.kind, dry_run=dry_run))

    async def get(self, request: Request) -> ApiResponse:
        return request.answer(await request.api.get(self.kind, request.name, request.namespace))

    async def list_all(self, request: Request) -> ApiResponse:
        listing = await request.api.list(
            self.kind,
            request.namespace,
            labels=request.option("listOptions.labelSelector"),
            fields=request.option("listOptions.fieldSelector"),
        )
        pattern = request.option("namePattern")
        items = sorted((obj for obj in listing.items if pattern in name_of(obj)), key=name_of)
        limit, after = request.option("listOptions.limit"), request.option("listOptions.continue")
        if (limit and not is_count(limit)) or (after and not is_count(after)):
            raise BadRequest("listOptions.limit and listOptions.continue must be numbers")
        begin = int(after or 0)
        end = begin + int(limit) if int(limit or 0) else len(items)
        metadata = {"resourceVersion": listing.resource_version}
        if end < len(items):
            metadata["continue"] = str(end)
        return request.answer({
            "kind": f"{self.kind.kind}List",
            "apiVersion": self.kind.api_version,
            "metadata": metadata,
            "items": items[begin:end],
        })  # fmt: skip

    async def update(self, request: Request) -> ApiResponse:
        body = await request.body()
        obj = object_from_body(body.get(self.field), self.field, self.kind, request.namespace)
        name = name_of(obj) or request.name
        if request.name and name != request.name:
            raise BadRequest(f'the request is for "{request.name}", but the object\'s name is "{name}"')
        obj = label_actor(request.api.user, {**obj, "metadata": {**meta(obj), "name": name}}, "Update")
        await require_valid(request.api, obj)
        if not version_of(obj):
            now = await request.api.get(self.kind, name, request.namespace)
            obj = {**obj, "metadata": {**meta(obj), "resourceVersion": version_of(now)}}
        return request.answer(await request.api.update(obj, self.kind))

    async def delete(self, request: Request) -> ApiResponse:
        await request.api.delete(self.kind, request.name, request.namespace)
        return request.answer({})

    async def lint(self, request: Request) -> ApiResponse:
        body = await request.body()
        obj = object_from_body(body.get(self.field), self.field, self.kind, request.namespace)
        await require_valid(request.api, obj, strict=True)
        return request.answer(obj)


WORKFLOW_TEMPLATES = Service(WORKFLOW_TEMPLATE, "template")
CLUSTER_WORKFLOW_TEMPLATES = Service(CLUSTER_WORKFLOW_TEMPLATE, "template")
CRON_WORKFLOWS = Service(CRON_WORKFLOW, "cronWorkflow")


async def suspend_cron(request: Request) -> ApiResponse:
    return await _set_suspend(request, True)


async def resume_cron(request: Request) -> ApiResponse:
    return await _set_suspend(request, False)


async def _set_suspend(request: Request, suspend: bool) -> ApiResponse:
    patch = {"spec": {"suspend": suspend or None}}  # as Argo writes it: what is not suspended has no such field
    return request.answer(await request.api.patch(CRON_WORKFLOW, request.name, request.namespace, patch))
