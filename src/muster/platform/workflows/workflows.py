"""Workflows: named pipelines, each with its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    find_row,
    new_id,
    record_columns,
    select_page,
)
from muster.platform.database.tables import now, teams, users, workflows
from muster.platform.errors import (
    ConflictProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
    conflict_on_duplicate,
)
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require, visible
from muster.platform.quotas import check_budget, check_count
from muster.platform.records.common import Page, Subject
from muster.platform.records.workflows import Workflow
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import team_to_share_with

LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    name: str
    description: str = ""
    team: str = ""
    """The id or name of the team it is shared with."""


@dataclass(frozen=True, slots=True)
class WorkflowFilter:
    q: str = ""
    owner: str = ""
    """The id or name of a user."""
    team: str = ""
    """The id or name of a team."""
    archived: bool | None = False
    """None for both."""


def create_workflow(connection: Connection, actor: Actor, new: NewWorkflow) -> Workflow:
    """Without a version; see `versions.create_with_version`."""
    require(actor, "create", Subject("workflow", owner=actor.id))
    _check_name(new.name)
    check_count(connection, "user_workflows", workflows.c.owner_id == actor.id, "workflows")
    moment, identifier = now(), new_id()
    with conflict_on_duplicate(field_error("name", "workflow.taken", name=new.name)):
        connection.execute(
            insert(workflows).values(
                id=identifier,
                name=new.name,
                description=new.description,
                owner_id=actor.id,
                team_id=team_to_share_with(connection, actor, new.team),
                created=moment,
                updated=moment,
                versions=0,
                revision=1,
            )
        )
    write_audit(connection, actor, "create", "workflow", identifier, new.name)
    return get_workflow(connection, actor, identifier)


def get_workflow(connection: Connection, actor: Actor, id_or_name: str) -> Workflow:
    row = find_row(connection, _WORKFLOWS, workflows, id_or_name)
    if row is None:
        raise NotFoundProblem.named("workflow", id_or_name)
    workflow = _workflow(row)
    require(actor, "view", workflow.subject, id_or_name)
    return workflow


def list_workflows(connection: Connection, actor: Actor, wanted: PageRequest, only: WorkflowFilter) -> Page[Workflow]:
    query = _WORKFLOWS.where(visible(actor, "workflow", owner=workflows.c.owner_id, team=workflows.c.team_id))
    if only.q:
        query = query.where(contains_words(only.q, workflows.c.name, workflows.c.description))
    if only.owner:
        query = query.where(or_(workflows.c.owner_id == only.owner, users.c.name == only.owner))
    if only.team:
        query = query.where(or_(workflows.c.team_id == only.team, teams.c.name == only.team))
    if only.archived is not None:
        query = query.where(workflows.c.archived.is_not(None) if only.archived else workflows.c.archived.is_(None))
    sortable = {
        "name": func.lower(workflows.c.name),
        "created": workflows.c.created,
        "updated": workflows.c.updated,
        "owner": users.c.name,
        "versions": workflows.c.versions,
    }
    page = select_page(connection, query, wanted, key=workflows.c.id, sortable=sortable, usual="-updated")
    return page.map(_workflow)


def edit_workflow(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> Workflow:
    """`changes` may contain name, description and team. With a `revision`, fails if the workflow has another one."""
    workflow = get_workflow(connection, actor, identifier)
    require(actor, "edit", workflow.subject, workflow.name)
    PreconditionFailedProblem.check("workflow", workflow.name, workflow.revision, revision)
    values = {name: changes[name] for name in ("name", "description") if name in changes}
    if "name" in values:
        _check_name(values["name"])
    if "team" in changes:
        values["team_id"] = team_to_share_with(connection, actor, changes["team"] or "", workflow.team_id)
    changed = {name: value for name, value in values.items() if value != getattr(workflow, name)}
    if not changed:
        return workflow
    with conflict_on_duplicate(field_error("name", "workflow.taken", name=changed.get("name"))):
        _update(connection, workflow, changed)
    write_audit(connection, actor, "edit", "workflow", workflow.id, workflow.name, changed)
    return get_workflow(connection, actor, workflow.id)


def archive_workflow(
    connection: Connection, actor: Actor, identifier: str, *, archived: bool, revision: int | None = None
) -> Workflow:
    """Archives or restores a workflow. An archived workflow keeps its versions and runs, and gets no new ones."""
    workflow = get_workflow(connection, actor, identifier)
    require(actor, "archive", workflow.subject, workflow.name)
    PreconditionFailedProblem.check("workflow", workflow.name, workflow.revision, revision)
    if (workflow.archived is not None) == archived:
        return workflow
    _update(connection, workflow, {"archived": now() if archived else None})
    write_audit(connection, actor, "archive" if archived else "restore", "workflow", workflow.id, workflow.name)
    return get_workflow(connection, actor, workflow.id)


def delete_workflow(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    """Deletes the workflow with all its versions, unless it has runs."""
    workflow = get_workflow(connection, actor, identifier)
    require(actor, "delete", workflow.subject, workflow.name)
    PreconditionFailedProblem.check("workflow", workflow.name, workflow.revision, revision)
    with conflict_on_duplicate(field_error("", "workflow.runs", name=workflow.name)):
        connection.execute(delete(workflows).where(workflows.c.id == workflow.id))
    write_audit(connection, actor, "delete", "workflow", workflow.id, workflow.name)


def check_not_archived(workflow: Workflow) -> None:
    if workflow.archived is not None:
        raise ConflictProblem.of("workflow.archived", name=workflow.name)


def count_version(connection: Connection, workflow: Workflow) -> int:
    """Reserves and returns the number of the next version."""
    check_budget(connection, "workflow_versions", workflow.versions, "versions")
    _update(connection, workflow, {"versions": workflow.versions + 1})
    return workflow.versions + 1


def _update(connection: Connection, workflow: Workflow, values: Mapping[str, Any]) -> None:
    connection.execute(
        update(workflows)
        .where(workflows.c.id == workflow.id)
        .values(**values, updated=now(), revision=workflow.revision + 1)
    )


_WORKFLOWS = (
    select(*record_columns(Workflow, workflows, owner_name=users.c.name, team_name=teams.c.name))
    .join(users, users.c.id == workflows.c.owner_id)
    .outerjoin(teams, teams.c.id == workflows.c.team_id)
)


def _workflow(row: AnyRow) -> Workflow:
    return as_record(row, Workflow)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME or name.strip() != name or not name.isprintable() or "/" in name:
        raise InvalidProblem.field("name", "workflow.name", name=name, most=LONGEST_NAME)
