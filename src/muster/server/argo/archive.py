"""The workflow archive. Workflows stay in the store when they end, so the archive consists of those that have ended."""

from __future__ import annotations

from muster.kube.errors import AlreadyExists, BadRequest, NotFound
from muster.kube.objects import Object, labels_of, name_of, namespace_of, uid_of
from muster.kube.selectors import parse_labels
from muster.server.argo.requests import Request
from muster.server.argo.workflows import parse_wanted, select
from muster.server.kubernetes.request import ApiResponse
from muster.workflows.kinds import WORKFLOW
from muster.workflows.logs import is_finished


async def list_all(request: Request) -> ApiResponse:
    wanted = parse_wanted(request.call.query, request.option("namespace"))
    listing = await request.api.list(WORKFLOW, wanted.namespace, labels=wanted.labels)
    page = select([workflow for workflow in listing.items if is_finished(workflow)], wanted)
    metadata: Object = {}
    if page.next_offset is not None:
        metadata["continue"] = str(page.next_offset)
    if wanted.counted:
        metadata["remainingItemCount"] = page.remaining
    fields = request.fields
    items = [request.api.whole(one) for one in page.items] if fields.wants("items.status.nodes") else page.items
    return request.answer(fields.cut({"metadata": metadata, "items": items}))


async def get(request: Request) -> ApiResponse:
    return request.answer(request.api.whole(await _archived(request)))


async def delete(request: Request) -> ApiResponse:
    workflow = await _archived(request)
    await request.api.delete(WORKFLOW, name_of(workflow), namespace_of(workflow), uid=uid_of(workflow))
    return request.answer({})


async def label_keys(request: Request) -> ApiResponse:
    keys = {key for workflow in await _ended(request) for key in labels_of(workflow)}
    return request.answer({"items": sorted(keys)})


async def label_values(request: Request) -> ApiResponse:
    key = request.option("listOptions.labelSelector")
    parse_labels(key)
    if not key or any(sign in key for sign in "=!,() "):
        raise BadRequest(f'listOptions.labelSelector is "{key}"; name one label')
    values = {labels_of(workflow)[key] for workflow in await _ended(request) if key in labels_of(workflow)}
    return request.answer({"items": sorted(values)})


async def retry(request: Request) -> ApiResponse:
    workflow = await _archived(request)
    raise AlreadyExists(f'Workflow "{name_of(workflow)}" already exists on cluster, use argo retry {{name}} instead')


async def archived_name(request: Request) -> tuple[str, str]:
    """Its namespace and name."""
    workflow = await _archived(request)
    return namespace_of(workflow), name_of(workflow)


async def _ended(request: Request) -> list[Object]:
    listing = await request.api.list(WORKFLOW, request.option("namespace"))
    return [workflow for workflow in listing.items if is_finished(workflow)]


async def _archived(request: Request) -> Object:
    uid = request.names["uid"]
    if uid:
        found = await request.api.find_by_uid(uid)
    else:
        found = await request.api.find(request.option("name"), request.option("namespace"))
    if not is_finished(found):
        raise NotFound("not found")
    return found
