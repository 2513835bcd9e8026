"""Routes of workflows, their versions, and graph documents that are not stored yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.errors import ConflictProblem, InvalidProblem
from muster.platform.graphs.argo_import import from_manifest
from muster.platform.graphs.compile import GraphError, parameters_of, to_yaml
from muster.platform.graphs.context import Context
from muster.platform.graphs.model import LONGEST_MANIFEST, Document, is_graph
from muster.platform.graphs.schema import json_schema
from muster.platform.graphs.validation import shape_problems, validate_graph
from muster.platform.permissions import Actor, may, relations, require
from muster.platform.permissions import Relation as RuleWho
from muster.platform.pod_policy import list_usable, pod_allowances
from muster.platform.records.common import Page, Subject
from muster.platform.records.workflows import (
    Change,
    Finding,
    ImportedManifest,
    InitialParameter,
    StoredVersion,
    Version,
    VersionDetail,
    VersionDiff,
    Workflow,
    WorkflowDetail,
)
from muster.platform.users.namespace_names import namespaces_of
from muster.platform.workflows.versions import (
    CheckedVersion,
    ContextLoader,
    NewVersion,
    Stored,
    add_version,
    archive_version,
    check_has_content,
    check_version,
    copy_version,
    create_with_version,
    diff_versions,
    document_for,
    document_in,
    document_of,
    find_version,
    get_version,
    latest_document,
    list_versions,
)
from muster.platform.workflows.workflows import (
    NewWorkflow,
    WorkflowFilter,
    archive_workflow,
    delete_workflow,
    edit_workflow,
    get_workflow,
    list_workflows,
)
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.platform.rest import (
    ApiModel,
    IfMatch,
    Paging,
    RequestBody,
    Search,
    etag,
    json_response,
    not_modified,
    vars_of,
)
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.workflows.task_graph import TaskGraph

graphs_router = APIRouter(prefix="/graphs", tags=["graphs"])


class DocumentBody(RequestBody):
    document: dict[str, Any]


class ManifestBody(RequestBody):
    manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)]


class Findings(ApiModel):
    problems: list[Finding]


def look_of(here: Services) -> ContextLoader:
    """A context loader for a database thread."""
    found = here.load_context
    loop = asyncio.get_running_loop()

    def look(connection: Connection, actor: Actor, document: Document) -> Context:
        context = found(connection, actor, document)
        if is_graph(document) or relations(actor, Subject("workflow")) & RuleWho.ADMIN:
            return context
        # Only manifests need the cluster, which is used on the event loop.
        own = namespaces_of(connection, actor.id, actor.teams)
        sharing = asyncio.run_coroutine_threadsafe(list_usable(here.cluster, own, actor), loop)
        roots = [root for root in context.roots.values() if root.usable]
        return replace(context, allowed=pod_allowances(roots, sharing.result()))

    return look


@graphs_router.get("/schema")
async def graph_schema(who: Who) -> dict[str, Any]:
    """The JSON Schema of graph documents."""
    return json_schema()


@graphs_router.post("/check")
async def check_graph(body: DocumentBody, here: Here, who: Who) -> Findings:
    """Checks a document. With errors it cannot be stored."""
    look = look_of(here)
    wrong = await here.checked(who, shape_problems, body.document)
    if wrong:
        return Findings(problems=wrong)
    context = await here.database.read(lambda connection: look(connection, who, body.document))
    return Findings(problems=await here.checked(who, validate_graph, body.document, context))


@graphs_router.post("/import")
async def import_manifest(body: ManifestBody, here: Here, who: Who) -> ImportedManifest:
    """Returns what an Argo Workflow would be as a version. Stores nothing."""
    look = look_of(here)
    context = await here.database.read(lambda connection: look(connection, who, {"type": "yaml"}))
    return await here.checked(who, from_manifest, body.manifest, context)


versions_router = APIRouter(tags=["versions"])

_Text = Annotated[str, Field(max_length=10_000)]
_Name = Annotated[str, Field(max_length=200)]


class WorkflowBody(RequestBody):
    name: _Name
    description: _Text = ""
    team: _Name = ""
    """The id or name of one of your teams, to share it with."""

    def workflow(self) -> NewWorkflow:
        return NewWorkflow(self.name, self.description, self.team)


class VersionBody(RequestBody):
    name: _Name = ""
    """Defaults to vN."""
    description: _Text = ""
    document: dict[str, Any] | None = None
    """A graph document; see /api/v1/graphs/schema."""
    manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)] = ""
    """An Argo Workflow, instead of a document. It becomes a graph if a graph can express it."""

    def version(self) -> NewVersion:
        return NewVersion(self.name, self.description, self.document, self.manifest)


class CopyVersion(RequestBody):
    into: _Name = ""
    """The id or name of the workflow that gets the new version; defaults to this one."""
    workflow: WorkflowBody | None = None
    """A new workflow that gets it as its first version, instead."""
    version: VersionBody = VersionBody()
    """The fields that differ."""


@versions_router.get("/workflows/{workflow}/versions", operation_id="list_versions")
async def versions_of_workflow(
    workflow: str,
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    archived: Annotated[Literal["no", "only", "too"], Query(description="Whether to include archived ones.")] = "too",
) -> Page[Version]:
    """Lists versions by number, name or author; the newest first."""
    wanted = {"no": False, "only": True, "too": None}[archived]
    return await here.database.read(
        lambda connection: list_versions(
            connection, get_workflow(connection, who, workflow), paging, q=q, archived=wanted
        )
    )


@versions_router.post("/workflows/{workflow}/versions", status_code=201, operation_id="create_version")
async def create_version(
    workflow: str, body: VersionBody, here: Here, who: Who, seen: IfMatch, response: Response
) -> StoredVersion:
    """Adds a version. With If-Match, fails if the workflow changed. Secrets without a value are taken from the latest
    version."""
    look, new = look_of(here), body.version()

    def base(connection: Connection) -> Document | None:
        found = get_workflow(connection, who, workflow)
        require(who, "create", found.version_subject, found.name)
        return latest_document(connection, who, found)

    checked = await _check_version(here, who, new, base)
    stored = await here.database.write(
        lambda connection: add_version(connection, who, workflow, new, look, seen, checked=checked)
    )
    response.headers["ETag"] = etag(stored.workflow.id, stored.workflow.revision)
    return stored.record


@versions_router.get(
    "/workflows/{workflow}/versions/{version}", operation_id="get_version", response_model=VersionDetail
)
async def one_version(workflow: str, version: str, here: Here, who: Who, request: Request) -> VersionDetail | Response:
    """By number, name or id, or `latest`."""
    return await _whole(here, who, request, lambda connection: _find_version(connection, who, workflow, version))


@versions_router.get("/versions/{version}", operation_id="get_version_by_id", response_model=VersionDetail)
async def get_version_by_id(version: str, here: Here, who: Who, request: Request) -> VersionDetail | Response:
    return await _whole(here, who, request, lambda connection: get_version(connection, who, version))


@versions_router.get(
    "/workflows/{workflow}/versions/{version}/manifest",
    operation_id="export_version",
    response_class=Response,
    responses={200: {"content": {"application/yaml": {"schema": {"type": "string"}}}}},
)
async def export_version(workflow: str, version: str, here: Here, who: Who) -> Response:
    """Returns the version as an Argo Workflow in YAML that runs on its own, without secrets."""
    look = look_of(here)

    def read(connection: Connection) -> tuple[str, str]:
        of, found = _find_version(connection, who, workflow, version)
        document = document_of(connection, found.id)
        try:
            return found.id, to_yaml(document, look(connection, who, document), of.name)
        except GraphError as error:
            raise ConflictProblem.of("version.export", detail=str(error)) from None

    identifier, text = await here.database.read(read)
    headers = {**DOWNLOAD_HEADERS, "Content-Disposition": content_disposition(f"{identifier}.yaml")}
    return Response(text, media_type="application/yaml", headers=headers)


@versions_router.get(
    "/workflows/{workflow}/versions/{version}/graph", operation_id="get_version_graph", response_model=TaskGraph
)
async def get_version_graph(workflow: str, version: str, here: Here, who: Who, request: Request) -> Response:
    """Returns the nodes and edges to draw: of a manifest, those of its templates."""

    def read(connection: Connection) -> tuple[str, Document]:
        _, found = _find_version(connection, who, workflow, version)
        return found.id, document_of(connection, found.id)

    identifier, document = await here.database.read(read)
    tag = etag(identifier, "graph")  # a version never changes
    known = not_modified(request, tag)
    if known is not None:
        return known
    _, graph = await here.inspect_version(who, identifier, document)
    return Response(graph, media_type="application/json", headers={"ETag": tag})


@versions_router.get("/workflows/{workflow}/versions/{version}/diff", operation_id="diff_versions")
async def differences_between_versions(
    workflow: str,
    version: str,
    here: Here,
    who: Who,
    to: Annotated[str, Query(description="The other version: its number, name or id, or latest.")],
    of: Annotated[str, Query(description="The workflow of the other version; defaults to this one.")] = "",
) -> VersionDiff:
    """Returns the differences between this version and another one."""

    def read(connection: Connection) -> VersionDiff:
        (_, before), (_, after) = (
            _find_version(connection, who, *place) for place in ((workflow, version), (of or workflow, to))
        )
        changes = [Change(**change.to_json()) for change in diff_versions(connection, before, after)]
        return VersionDiff(before=before, after=after, changes=changes)

    return await here.database.read(read)


@versions_router.post("/workflows/{workflow}/versions/{version}/copy", status_code=201, operation_id="copy_version")
async def copy_of_version(
    workflow: str, version: str, body: CopyVersion, here: Here, who: Who, response: Response
) -> StoredVersion:
    """Copies the version into this or another workflow, or a new one, with changes."""
    if body.workflow is not None and body.into:
        raise InvalidProblem.field("into", "field.either", other="workflow")
    look, new = look_of(here), body.version.version()
    into = body.workflow.workflow() if body.workflow is not None else body.into or workflow

    def base(connection: Connection) -> Document:
        source, copied = _find_version(connection, who, workflow, version)
        require(who, "copy", source.version_subject, source.name)
        return document_for(connection, who, source, copied)

    content = new
    if new.document is None and not new.manifest:
        content = replace(new, document=await here.database.read(base))
    checked = await _check_version(here, who, content, base, "version.")

    def write(connection: Connection) -> Stored:
        source = _find_version(connection, who, workflow, version)
        return copy_version(connection, who, source, into, new, look, checked=checked)

    stored = await here.database.write(write)
    response.headers["ETag"] = etag(stored.workflow.id, stored.workflow.revision)
    return stored.record


@versions_router.post("/workflows/{workflow}/versions/{version}/archive", operation_id="archive_version")
async def put_version_away(workflow: str, version: str, here: Here, who: Who) -> Version:
    """Archives the version: it cannot be run and is never the latest."""
    return await _set_archived(here, who, workflow, version, archived=True)


@versions_router.post("/workflows/{workflow}/versions/{version}/restore", operation_id="restore_version")
async def restore_version(workflow: str, version: str, here: Here, who: Who) -> Version:
    return await _set_archived(here, who, workflow, version, archived=False)


async def _check_version(
    here: Services,
    who: Actor,
    new: NewVersion,
    find_base: Callable[[Connection], Document | None],
    prefix: str = "",
) -> CheckedVersion:
    """Checks a new version outside of any transaction: a large one takes a while. Raises Invalid."""
    check_has_content(new, prefix)
    look, document, notes = look_of(here), new.document, list[Finding]()
    if document is None:
        context = await here.database.read(lambda connection: look(connection, who, {}))
        document, notes = await here.checked(who, document_in, new.manifest, context, prefix)
    given: Document = document or {}
    base, context = await here.database.read(lambda connection: (find_base(connection), look(connection, who, given)))
    checked = await here.checked(who, check_version, given, base, context, prefix)
    return replace(checked, notes=[*notes, *checked.notes])


def _find_version(connection: Connection, who: Actor, workflow: str, version: str) -> tuple[Workflow, Version]:
    of = get_workflow(connection, who, workflow)
    return of, find_version(connection, of, version)


async def _whole(
    here: Services, who: Actor, request: Request, find: Callable[[Connection], tuple[Workflow, Version]]
) -> VersionDetail | Response:
    """Returns a version; 304 if the client has it: a version never changes, only who may see its secrets."""

    def read(connection: Connection) -> tuple[Workflow, Version, Document]:
        workflow, version = find(connection)
        return workflow, version, document_for(connection, who, workflow, version)

    workflow, version, document = await here.database.read(read)
    hidden = not may(who, "reveal", workflow.version_subject)
    tag = etag(version.id, int(version.archived is not None), int(hidden))
    known = not_modified(request, tag)
    if known is not None:
        return known
    if is_graph(document):
        parameters = parameters_of(document)
    else:
        parameters, _ = await here.inspect_version(who, version.id, document)
    whole = VersionDetail(
        **vars_of(version),
        workflow_name=workflow.name,
        document=document,
        parameters=[InitialParameter(*parameter) for parameter in parameters],
        hidden=hidden,
    )
    return json_response(whole, tag)


async def _set_archived(here: Services, who: Actor, workflow: str, version: str, *, archived: bool) -> Version:
    def write(connection: Connection) -> Version:
        return archive_version(connection, who, *_find_version(connection, who, workflow, version), archived=archived)

    return await here.database.write(write)


workflows_router = APIRouter(prefix="/workflows", tags=["workflows"])


class CreateWorkflow(WorkflowBody):
    version: VersionBody
    """Its first."""


class WorkflowChange(RequestBody):
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""
    team: Annotated[str, Field(max_length=200)] | None = None
    """The id or name of one of your teams; null to share it with none."""


@workflows_router.get("", operation_id="list_workflows")
async def all_workflows(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    team: Annotated[str, Query(description="The id or name of a team.")] = "",
    archived: Annotated[Literal["no", "only", "too"], Query(description="Whether to include archived ones.")] = "no",
) -> Page[Workflow]:
    """Sorted by name, created, updated, owner or versions; the one that changed last first."""
    only = WorkflowFilter(q, owner, team, {"no": False, "only": True, "too": None}[archived])
    return await here.database.read(lambda connection: list_workflows(connection, who, paging, only))


@workflows_router.post("", status_code=201, operation_id="create_workflow")
async def new_workflow(body: CreateWorkflow, here: Here, who: Who, response: Response) -> StoredVersion:
    """Creates a workflow with its first version, or nothing."""
    look, new, version = look_of(here), body.workflow(), body.version.version()
    checked = await _check_version(here, who, version, lambda connection: None, "version.")
    stored = await here.database.write(
        lambda connection: create_with_version(connection, who, new, version, look, checked=checked)
    )
    _tag(response, stored.workflow)
    return stored.record


@workflows_router.get("/{workflow}", operation_id="get_workflow")
async def one_workflow(workflow: str, here: Here, who: Who, response: Response) -> WorkflowDetail:
    """By id or name."""
    found = await here.database.read(lambda connection: get_workflow(connection, who, workflow))
    allowed = [action for action in ("edit", "archive", "delete") if may(who, action, found.subject)]
    if may(who, "create", found.version_subject):
        allowed.append("create version")
    _tag(response, found)
    return WorkflowDetail(**vars_of(found), may=allowed)


@workflows_router.patch("/{workflow}", operation_id="edit_workflow")
async def change_workflow(
    workflow: str, body: WorkflowChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> Workflow:
    found = await here.database.write(lambda connection: edit_workflow(connection, who, workflow, body.changes(), seen))
    return _answer(found, response)


@workflows_router.post("/{workflow}/archive", operation_id="archive_workflow")
async def put_workflow_away(workflow: str, here: Here, who: Who, seen: IfMatch, response: Response) -> Workflow:
    """Archives the workflow. It keeps its versions and runs, and gets no new ones."""
    found = await here.database.write(
        lambda connection: archive_workflow(connection, who, workflow, archived=True, revision=seen)
    )
    return _answer(found, response)


@workflows_router.post("/{workflow}/restore", operation_id="restore_workflow")
async def restore_workflow(workflow: str, here: Here, who: Who, seen: IfMatch, response: Response) -> Workflow:
    found = await here.database.write(
        lambda connection: archive_workflow(connection, who, workflow, archived=False, revision=seen)
    )
    return _answer(found, response)


@workflows_router.delete("/{workflow}", status_code=204, operation_id="delete_workflow")
async def drop_workflow(workflow: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Deletes the workflow with all its versions, unless one has runs."""
    await here.database.write(lambda connection: delete_workflow(connection, who, workflow, seen))


def _answer(workflow: Workflow, response: Response) -> Workflow:
    _tag(response, workflow)
    return workflow


def _tag(response: Response, workflow: Workflow) -> None:
    response.headers["ETag"] = etag(workflow.id, workflow.revision)
