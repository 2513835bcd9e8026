"""Workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.workflows.versions import create_with_version
from muster.platform.workflows.workflows import (
    Workflow,
    WorkflowFilter,
    archive_workflow,
    delete_workflow,
    edit_workflow,
    get_workflow,
    list_workflows,
)
from muster.server.platform.graphs import look_of
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here
from muster.server.platform.versions import StoredAnswer, VersionBody, WorkflowBody

router = APIRouter(prefix="/workflows", tags=["workflows"])


class CreateWorkflow(WorkflowBody):
    version: VersionBody
    """Its first."""


class WorkflowChange(Body):
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""
    team: Annotated[str, Field(max_length=200)] | None = None
    """The id or name of a team one is in; null to share it with none."""


class WorkflowAnswer(Answer):
    id: str
    name: str
    description: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    created: datetime
    updated: datetime
    archived: datetime | None
    versions: int
    revision: int


@router.get("", operation_id="list_workflows")
async def all_workflows(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    team: Annotated[str, Query(description="The id or name of a team.")] = "",
    archived: Annotated[Literal["no", "only", "too"], Query(description="Whether archived ones are wanted.")] = "no",
) -> PageOf[WorkflowAnswer]:
    """Sorted by name, created, updated, owner or versions; the one that changed last first."""
    only = WorkflowFilter(q, owner, team, {"no": False, "only": True, "too": None}[archived])
    page = await here.database.read(lambda connection: list_workflows(connection, who, paging, only))
    return page_of(page, WorkflowAnswer.model_validate)


@router.post("", status_code=201, operation_id="create_workflow")
async def new_workflow(body: CreateWorkflow, here: Here, who: Who, response: Response) -> StoredAnswer:
    """With its first version: both, or neither."""
    look, new, version = look_of(here), body.workflow(), body.version.version()
    stored = await here.database.write(lambda connection: create_with_version(connection, who, new, version, look))
    _tag(response, stored.workflow)
    return StoredAnswer.of(stored)


@router.get("/{workflow}", operation_id="get_workflow")
async def one_workflow(workflow: str, here: Here, who: Who, response: Response) -> WorkflowAnswer:
    """By id or name."""
    found = await here.database.read(lambda connection: get_workflow(connection, who, workflow))
    return _answer(found, response)


@router.patch("/{workflow}", operation_id="edit_workflow")
async def change_workflow(
    workflow: str, body: WorkflowChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> WorkflowAnswer:
    found = await here.database.write(lambda connection: edit_workflow(connection, who, workflow, body.changes(), seen))
    return _answer(found, response)


@router.post("/{workflow}/archive", operation_id="archive_workflow")
async def put_workflow_away(workflow: str, here: Here, who: Who, seen: IfMatch, response: Response) -> WorkflowAnswer:
    """It keeps its versions and runs, and gets no new ones."""
    found = await here.database.write(
        lambda connection: archive_workflow(connection, who, workflow, archived=True, revision=seen)
    )
    return _answer(found, response)


@router.post("/{workflow}/restore", operation_id="restore_workflow")
async def bring_workflow_back(workflow: str, here: Here, who: Who, seen: IfMatch, response: Response) -> WorkflowAnswer:
    found = await here.database.write(
        lambda connection: archive_workflow(connection, who, workflow, archived=False, revision=seen)
    )
    return _answer(found, response)


@router.delete("/{workflow}", status_code=204, operation_id="delete_workflow")
async def drop_workflow(workflow: str, here: Here, who: Who, seen: IfMatch) -> None:
    """With all its versions, unless one of them was ever run."""
    await here.database.write(lambda connection: delete_workflow(connection, who, workflow, seen))


def _answer(workflow: Workflow, response: Response) -> WorkflowAnswer:
    _tag(response, workflow)
    return WorkflowAnswer.model_validate(workflow)


def _tag(response: Response, workflow: Workflow) -> None:
    response.headers["ETag"] = etag(workflow.id, workflow.revision)
