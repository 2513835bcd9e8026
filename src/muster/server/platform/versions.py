"""Versions of workflows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.errors import Conflict, Invalid
from muster.platform.graphs.compile import GraphError, parameters_of, to_yaml
from muster.platform.graphs.schema import LONGEST_MANIFEST
from muster.platform.permissions import Actor, may
from muster.platform.workflows.versions import (
    NewVersion,
    StoredVersion,
    Version,
    add_version,
    archive_version,
    copy_version,
    diff_versions,
    document_for,
    document_of,
    find_version,
    get_version,
    list_versions,
)
from muster.platform.workflows.workflows import NewWorkflow, Workflow, get_workflow
from muster.server.platform.graphs import GraphProblem, look_of
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, not_modified, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services

router = APIRouter(tags=["versions"])

_Text = Annotated[str, Field(max_length=10_000)]
_Name = Annotated[str, Field(max_length=200)]


class WorkflowBody(Body):
    name: _Name
    description: _Text = ""
    team: _Name = ""
    """The id or name of a team one is in, which it is shared with."""

    def workflow(self) -> NewWorkflow:
        return NewWorkflow(self.name, self.description, self.team)


class VersionBody(Body):
    name: _Name = ""
    """vN if there is none."""
    description: _Text = ""
    document: dict[str, Any] | None = None
    """A graph document; see /api/v1/graphs/schema."""
    manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)] = ""
    """An Argo Workflow, instead of a document. It becomes a graph if it says nothing that a graph cannot."""

    def version(self) -> NewVersion:
        return NewVersion(self.name, self.description, self.document, self.manifest)


class CopyVersion(Body):
    into: _Name = ""
    """The id or name of the workflow that gets a new version; this one if nothing is said."""
    workflow: WorkflowBody | None = None
    """The new workflow that it becomes the first version of, instead."""
    version: VersionBody = VersionBody()
    """What is to be different."""


class VersionAnswer(Answer):
    id: str
    workflow_id: str
    number: int
    name: str
    description: str
    type: Literal["graph", "yaml"]
    hash: str
    """The same for versions that run the same."""
    nodes: int
    author_id: str
    author_name: str
    copied_from: str
    created: datetime
    archived: datetime | None


class ParameterAnswer(Answer):
    name: str
    description: str
    default: str | None
    required: bool


class WholeVersion(VersionAnswer):
    workflow_name: str
    document: dict[str, Any]
    """Without the values of secret variables for those who do not work on the workflow."""
    parameters: list[ParameterAnswer]
    """What a run of it is asked for."""
    hidden: bool
    """Whether values of secret variables may have been left out."""


class StoredAnswer(Answer):
    workflow_id: str
    workflow_name: str
    revision: int
    """Of the workflow."""
    version: VersionAnswer
    notes: list[GraphProblem]
    """What is worth a second look."""

    @classmethod
    def of(cls, stored: StoredVersion) -> StoredAnswer:
        return cls(
            workflow_id=stored.workflow.id,
            workflow_name=stored.workflow.name,
            revision=stored.workflow.revision,
            version=VersionAnswer.model_validate(stored.version),
            notes=[GraphProblem.of(note) for note in stored.notes],
        )


class ChangeAnswer(Answer):
    action: Literal["added", "removed", "changed"]
    what: str
    name: str
    path: str
    before: Any
    after: Any
    text: str


class DiffAnswer(Answer):
    before: VersionAnswer
    after: VersionAnswer
    changes: list[ChangeAnswer]


@router.get("/workflows/{workflow}/versions", operation_id="list_versions")
async def versions_of_workflow(
    workflow: str,
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    archived: Annotated[Literal["no", "only", "too"], Query(description="Whether archived ones are wanted.")] = "too",
) -> PageOf[VersionAnswer]:
    """Sorted by number, name or author; the newest first."""
    wanted = {"no": False, "only": True, "too": None}[archived]
    page = await here.database.read(
        lambda connection: list_versions(
            connection, get_workflow(connection, who, workflow), paging, q=q, archived=wanted
        )
    )
    return page_of(page, VersionAnswer.model_validate)


@router.post("/workflows/{workflow}/versions", status_code=201, operation_id="create_version")
async def new_version(
    workflow: str, body: VersionBody, here: Here, who: Who, seen: IfMatch, response: Response
) -> StoredAnswer:
    """With If-Match, only if nobody changed the workflow since. Secrets without a value are those of the latest."""
    look, new = look_of(here), body.version()
    stored = await here.database.write(lambda connection: add_version(connection, who, workflow, new, look, seen))
    response.headers["ETag"] = etag(stored.workflow.id, stored.workflow.revision)
    return StoredAnswer.of(stored)


@router.get("/workflows/{workflow}/versions/{version}", operation_id="get_version", response_model=WholeVersion)
async def one_version(workflow: str, version: str, here: Here, who: Who, request: Request) -> WholeVersion | Response:
    """By number, name or id, or `latest`."""
    return await _whole(here, who, request, lambda connection: _found(connection, who, workflow, version))


@router.get("/versions/{version}", operation_id="get_version_by_id", response_model=WholeVersion)
async def version_by_id(version: str, here: Here, who: Who, request: Request) -> WholeVersion | Response:
    return await _whole(here, who, request, lambda connection: get_version(connection, who, version))


@router.get(
    "/workflows/{workflow}/versions/{version}/manifest",
    operation_id="export_version",
    response_class=Response,
    responses={200: {"content": {"application/yaml": {"schema": {"type": "string"}}}}},
)
async def exported_version(workflow: str, version: str, here: Here, who: Who) -> Response:
    """As an Argo Workflow that runs by itself, in YAML. Secrets are not in it."""
    look = look_of(here)

    def read(connection: Connection) -> tuple[str, str]:
        of, found = _found(connection, who, workflow, version)
        document = document_of(connection, found.id)
        try:
            return found.id, to_yaml(document, look(connection, who, document), of.name)
        except GraphError as error:
            raise Conflict(f"what it refers to has changed since: {error}") from None

    identifier, text = await here.database.read(read)
    headers = {"Content-Disposition": f'attachment; filename="{identifier}.yaml"'}
    return Response(text, media_type="application/yaml", headers=headers)


@router.get("/workflows/{workflow}/versions/{version}/diff", operation_id="diff_versions")
async def differences_between_versions(
    workflow: str,
    version: str,
    here: Here,
    who: Who,
    to: Annotated[str, Query(description="The other version: its number, name or id, or latest.")],
    of: Annotated[str, Query(description="The workflow of the other one; this one if nothing is said.")] = "",
) -> DiffAnswer:
    """What has changed from this version to the other one."""

    def read(connection: Connection) -> DiffAnswer:
        (_, before), (_, after) = (
            _found(connection, who, *place) for place in ((workflow, version), (of or workflow, to))
        )
        changes = [ChangeAnswer.model_validate(change.to_json()) for change in diff_versions(connection, before, after)]
        return DiffAnswer(
            before=VersionAnswer.model_validate(before), after=VersionAnswer.model_validate(after), changes=changes
        )

    return await here.database.read(read)


@router.post("/workflows/{workflow}/versions/{version}/copy", status_code=201, operation_id="copy_version")
async def copy_of_version(
    workflow: str, version: str, body: CopyVersion, here: Here, who: Who, response: Response
) -> StoredAnswer:
    """As a new version of this or another workflow, or as the first of a new one. Everything may be changed."""
    if body.workflow is not None and body.into:
        raise Invalid.field("into", "there is a new workflow, too; leave one of them out")
    look, new = look_of(here), body.version.version()
    into = body.workflow.workflow() if body.workflow is not None else body.into or workflow

    def write(connection: Connection) -> StoredVersion:
        return copy_version(connection, who, _found(connection, who, workflow, version), into, new, look)

    stored = await here.database.write(write)
    response.headers["ETag"] = etag(stored.workflow.id, stored.workflow.revision)
    return StoredAnswer.of(stored)


@router.post("/workflows/{workflow}/versions/{version}/archive", operation_id="archive_version")
async def put_version_away(workflow: str, version: str, here: Here, who: Who) -> VersionAnswer:
    """It is not run any more, and is not the latest."""
    return await _archived(here, who, workflow, version, archived=True)


@router.post("/workflows/{workflow}/versions/{version}/restore", operation_id="restore_version")
async def bring_version_back(workflow: str, version: str, here: Here, who: Who) -> VersionAnswer:
    return await _archived(here, who, workflow, version, archived=False)


def _found(connection: Connection, who: Actor, workflow: str, version: str) -> tuple[Workflow, Version]:
    of = get_workflow(connection, who, workflow)
    return of, find_version(connection, of, version)


async def _whole(
    here: Services, who: Actor, request: Request, find: Callable[[Connection], tuple[Workflow, Version]]
) -> WholeVersion | Response:
    """A client that has it need not get it again: a version never changes, only who may see its secrets."""

    def read(connection: Connection) -> tuple[WholeVersion, str]:
        workflow, version = find(connection)
        hidden = not may(who, "reveal", workflow.version_subject)
        tag = etag(version.id, int(version.archived is not None), int(hidden))
        document = document_for(connection, who, workflow, version)
        shown = VersionAnswer.model_validate(version).model_dump()
        parameters = [ParameterAnswer.model_validate(parameter) for parameter in parameters_of(document)]
        whole = WholeVersion(
            **shown, workflow_name=workflow.name, document=document, parameters=parameters, hidden=hidden
        )
        return whole, tag

    whole, tag = await here.database.read(read)
    known = not_modified(request, tag)
    if known is not None:
        return known
    return Response(whole.model_dump_json(), media_type="application/json", headers={"ETag": tag})


async def _archived(here: Services, who: Actor, workflow: str, version: str, *, archived: bool) -> VersionAnswer:
    def write(connection: Connection) -> Version:
        return archive_version(connection, who, *_found(connection, who, workflow, version), archived=archived)

    return VersionAnswer.model_validate(await here.database.write(write))
