"""Workflows and the workflow archive: create, submit, list, get, delete, lint.

A workflow that has ended stays in the store, so the archive lists the ended workflows of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from muster.kube.errors import AlreadyExists, BadRequest, NotFound, is_count
from muster.kube.kinds import Kind, Schema
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of, parse_time, status_of, timestamp, uid_of
from muster.kube.schema import BOOLEAN, OBJECT_META, STRING, STRINGS, obj, of
from muster.kube.schema_validation import validate
from muster.kube.selectors import parse_labels
from muster.server.argo.access import label_creator, require_valid
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import ApiResponse
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW, WORKFLOW_TEMPLATE
from muster.workflows.logs import is_finished
from muster.workflows.submit import (
    SubmissionError,
    SubmitOptions,
    apply_options,
    source_kind,
    workflow_from_cron,
    workflow_from_template,
)

_NAME_FILTERS = ("Exact", "Contains", "Prefix", "NotEquals")


class ListQuery(NamedTuple):
    namespace: str = ""
    labels: str = ""
    name: str = ""
    name_filter: str = "Exact"
    prefix: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    created_after: datetime | None = None
    finished_before: datetime | None = None
    limit: int = 0
    offset: int = 0
    counted: bool = False
    """Whether the number of remaining items is requested."""


class Page(NamedTuple):
    items: list[Object]
    next_offset: int | None
    remaining: int


def parse_list_query(query: Mapping[str, str], namespace: str = "") -> ListQuery:
    wanted = ListQuery(
        namespace=namespace,
        labels=query.get("listOptions.labelSelector", ""),
        name_filter=query.get("nameFilter") or "Exact",
        prefix=query.get("namePrefix", ""),
        created_after=_time(query, "createdAfter"),
        finished_before=_time(query, "finishedBefore"),
        limit=_number(query, "listOptions.limit"),
        offset=_number(query, "listOptions.continue"),
    )
    if wanted.name_filter not in _NAME_FILTERS:
        raise BadRequest(f'nameFilter is "{wanted.name_filter}"; it must be one of {", ".join(_NAME_FILTERS)}')
    for requirement in query.get("listOptions.fieldSelector", "").split(","):
        if requirement:
            wanted = _apply_requirement(wanted, requirement)
    return wanted


def select_page(workflows: Sequence[Object], wanted: ListQuery) -> Page:
    """Those that still run come first, the newest first; then what has finished, the last to finish first."""
    chosen = [workflow for workflow in workflows if _matches(workflow, wanted)]
    chosen.sort(key=_creation_time, reverse=True)
    chosen.sort(key=_finish_time, reverse=True)
    chosen.sort(key=lambda workflow: bool(_finish_time(workflow)))
    end = wanted.offset + wanted.limit if wanted.limit else len(chosen)
    remaining = max(len(chosen) - end, 0)
    return Page(chosen[wanted.offset : end], end if remaining else None, remaining)


def _apply_requirement(wanted: ListQuery, requirement: str) -> ListQuery:
    for start, field in (
        ("metadata.namespace=", "namespace"),
        ("metadata.name!=", "other_name"),
        ("metadata.name==", "name"),
        ("metadata.name=", "name"),
        ("spec.startedAt>", "started_after"),
        ("spec.startedAt<", "started_before"),
        ("ext.showRemainingItemCount=", "count"),
    ):
        if not requirement.startswith(start):
            continue
        value = requirement[len(start) :]
        match field:
            case "namespace":
                if wanted.namespace not in ("", value):
                    raise BadRequest(f'the namespaces "{wanted.namespace}" and "{value}" contradict each other')
                return wanted._replace(namespace=value)
            case "other_name":
                return wanted._replace(name=value, name_filter="NotEquals")
            case "name":
                return wanted._replace(name=value)
            case "count":
                return wanted._replace(counted=value.lower() in ("true", "1", "t"))
            case "started_after":
                return wanted._replace(started_after=_moment(value, requirement))
            case _:
                return wanted._replace(started_before=_moment(value, requirement))
    raise BadRequest(f"unsupported requirement {requirement}: workflows are selected by metadata.name and labels")


def _matches(workflow: Object, wanted: ListQuery) -> bool:
    name = name_of(workflow)
    if wanted.prefix and not name.startswith(wanted.prefix):
        return False
    if wanted.name:
        match wanted.name_filter:
            case "Contains":
                fits = wanted.name in name
            case "Prefix":
                fits = name.startswith(wanted.name)
            case "NotEquals":
                fits = name != wanted.name
            case _:
                fits = name == wanted.name
        if not fits:
            return False
    started, finished = str(status_of(workflow).get("startedAt") or ""), _finish_time(workflow)
    return (
        _is_after(started, wanted.started_after)
        and _is_before(started, wanted.started_before)
        and _is_after(_creation_time(workflow), wanted.created_after)
        and _is_before(finished, wanted.finished_before)
    )


def _is_after(time: str, than: datetime | None) -> bool:
    return than is None or (bool(time) and parse_time(time) > than)


def _is_before(time: str, than: datetime | None) -> bool:
    return than is None or (bool(time) and parse_time(time) < than)


def _creation_time(workflow: Object) -> str:
    return str(meta(workflow).get("creationTimestamp") or "")


def _finish_time(workflow: Object) -> str:
    return str(status_of(workflow).get("finishedAt") or "")


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    return _moment(query[name], name) if query.get(name) else None


def _moment(text: str, where: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        raise BadRequest(f'{where}: "{text}" is not a time such as 2026-01-31T12:00:00Z') from None


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not is_count(text):
        raise BadRequest(f'{name} is "{text}"; it must be a number')
    return int(text)


_NUMBER: Schema = {"x-kubernetes-int-or-string": True}
CREATE_OPTIONS = obj({"dryRun": STRINGS}, keep_unknown=True)
CREATE = obj({"serverDryRun": BOOLEAN, "createOptions": CREATE_OPTIONS}, keep_unknown=True)
SUBMIT = obj(
    {
        **of(STRING, "namespace resourceKind resourceName"),
        "submitOptions": obj(
            {
                **of(STRING, "name generateName entryPoint serviceAccount labels annotations podPriorityClassName"),
                **of(BOOLEAN, "dryRun serverDryRun"),
                "parameters": STRINGS,
                "priority": _NUMBER,
                "ownerReference": obj({**of(STRING, "apiVersion kind name uid")}, keep_unknown=True),
            },
            keep_unknown=True,
        ),
    },
    keep_unknown=True,
)
_SOURCES = {kind.kind: kind for kind in (WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW)}


async def create(request: Request) -> ApiResponse:
    body = await request.body(CREATE)
    workflow = object_from_body(body.get("workflow"), "workflow", WORKFLOW, request.namespace)
    workflow = label_creator(request.api.user, workflow)
    await require_valid(request.api, workflow)
    if (body.get("createOptions") or {}).get("dryRun"):
        return request.answer(workflow)
    stored = await request.api.create(workflow, WORKFLOW, dry_run=bool(body.get("serverDryRun")))
    return request.answer(request.api.with_nodes(stored))


async def submit(request: Request) -> ApiResponse:
    body = await request.body(SUBMIT)
    options = body.get("submitOptions") or {}
    try:
        workflow = await _from_resource(
            request, str(body.get("resourceKind") or ""), str(body.get("resourceName") or "")
        )
        workflow = apply_options(label_creator(request.api.user, workflow), submit_options(options))
    except SubmissionError as error:
        raise BadRequest(str(error)) from None
    workflow = object_from_body(workflow, "workflow", WORKFLOW, request.namespace)
    await require_valid(request.api, workflow)
    if options.get("dryRun"):
        return request.answer(workflow)
    stored = await request.api.create(workflow, WORKFLOW, dry_run=bool(options.get("serverDryRun")))
    return request.answer(stored)


async def get(request: Request) -> ApiResponse:
    found = await request.api.find(request.name, request.namespace, request.option("uid"))
    fields = request.fields
    return request.answer(fields.cut(request.api.with_nodes(found) if fields.wants("status.nodes") else found))


async def list_all(request: Request) -> ApiResponse:
    wanted = parse_list_query(request.call.query, request.namespace)
    return request.answer(await _list_page(request, wanted))


async def delete(request: Request) -> ApiResponse:
    api = request.api
    workflow = await api.find(request.name, request.namespace)
    where = (WORKFLOW, name_of(workflow), namespace_of(workflow))
    if request.call.flag("force"):
        await api.patch(*where, {"metadata": {"finalizers": None}})
    await api.delete(*where)
    return request.answer({})


async def lint(request: Request) -> ApiResponse:
    body = await request.body()
    workflow = object_from_body(body.get("workflow"), "workflow", WORKFLOW, request.namespace)
    await require_valid(request.api, workflow, strict=True)
    return request.answer(label_creator(request.api.user, workflow))


def object_from_body(obj: Any, field: str, kind: Kind, namespace: str) -> Object:
    """The object in a request, with its kind and namespace, which clients may leave out."""
    if not isinstance(obj, dict):
        raise BadRequest(f"the request has no {field}")
    causes = validate(obj.get("metadata") or {}, OBJECT_META, f"{field}.metadata")
    if causes:
        raise BadRequest(f"{causes[0].field}: {causes[0].message}", causes=causes)
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
    return SubmitOptions(
        name=str(given.get("name") or ""),
        generate_name=str(given.get("generateName") or ""),
        entrypoint=str(given.get("entryPoint") or ""),
        service_account=str(given.get("serviceAccount") or ""),
        parameters=tuple(str(text) for text in given.get("parameters") or ()),
        labels=str(given.get("labels") or ""),
        annotations=str(given.get("annotations") or ""),
        priority=_priority(given.get("priority")),
        pod_priority_class=str(given.get("podPriorityClassName") or ""),
        owner_reference=given.get("ownerReference"),
    )


def _priority(given: Any) -> int | None:
    """A number, or one as text, as Go writes large ones."""
    if given is None:
        return None
    try:
        found = int(given)
    except ValueError:
        raise BadRequest(f'submitOptions.priority is "{given}"; it must be a number') from None
    if not -(2**31) <= found < 2**31:
        raise BadRequest(f"submitOptions.priority is {found}; it must fit into 32 bits")
    return found


async def _from_resource(request: Request, word: str, name: str) -> Object:
    kind = _SOURCES[source_kind(word)]
    found = await request.api.get(kind, name, request.namespace)
    if kind is CRON_WORKFLOW:
        return workflow_from_cron(found, timestamp(datetime.now(UTC)))
    return workflow_from_template(name, cluster_scope=kind is CLUSTER_WORKFLOW_TEMPLATE)


async def _list_page(request: Request, wanted: ListQuery) -> Object:
    api, fields = request.api, request.fields
    listing = await api.list(WORKFLOW, wanted.namespace, labels=wanted.labels)
    page = select_page(listing.items, wanted)
    items = [api.with_nodes(one) for one in page.items] if fields.wants("items.status.nodes") else page.items
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


async def list_archived(request: Request) -> ApiResponse:
    wanted = parse_list_query(request.call.query, request.option("namespace"))
    listing = await request.api.list(WORKFLOW, wanted.namespace, labels=wanted.labels)
    page = select_page([workflow for workflow in listing.items if is_finished(workflow)], wanted)
    metadata: Object = {}
    if page.next_offset is not None:
        metadata["continue"] = str(page.next_offset)
    if wanted.counted:
        metadata["remainingItemCount"] = page.remaining
    fields = request.fields
    items = [request.api.with_nodes(one) for one in page.items] if fields.wants("items.status.nodes") else page.items
    return request.answer(fields.cut({"metadata": metadata, "items": items}))


async def get_archived(request: Request) -> ApiResponse:
    return request.answer(request.api.with_nodes(await _find_archived(request)))


async def delete_archived(request: Request) -> ApiResponse:
    workflow = await _find_archived(request)
    await request.api.delete(WORKFLOW, name_of(workflow), namespace_of(workflow), uid=uid_of(workflow))
    return request.answer({})


async def label_keys(request: Request) -> ApiResponse:
    keys = {key for workflow in await _list_ended(request) for key in labels_of(workflow)}
    return request.answer({"items": sorted(keys)})


async def label_values(request: Request) -> ApiResponse:
    key = request.option("listOptions.labelSelector")
    parse_labels(key)
    if not key or any(sign in key for sign in "=!,() "):
        raise BadRequest(f'listOptions.labelSelector is "{key}"; name one label')
    values = {labels_of(workflow)[key] for workflow in await _list_ended(request) if key in labels_of(workflow)}
    return request.answer({"items": sorted(values)})


async def retry_archived(request: Request) -> ApiResponse:
    workflow = await _find_archived(request)
    raise AlreadyExists(f'Workflow "{name_of(workflow)}" already exists on cluster, use argo retry {{name}} instead')


async def archived_name(request: Request) -> tuple[str, str]:
    """Its namespace and name."""
    workflow = await _find_archived(request)
    return namespace_of(workflow), name_of(workflow)


async def _list_ended(request: Request) -> list[Object]:
    listing = await request.api.list(WORKFLOW, request.option("namespace"))
    return [workflow for workflow in listing.items if is_finished(workflow)]


async def _find_archived(request: Request) -> Object:
    uid = request.names["uid"]
    if uid:
        found = await request.api.find_by_uid(uid)
    else:
        found = await request.api.find(request.option("name"), request.option("namespace"))
    if not is_finished(found):
        raise NotFound("not found")
    return found
