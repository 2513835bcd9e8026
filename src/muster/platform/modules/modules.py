"""Modules: names under which versions are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from typing import cast as cast_type

from sqlalchemy import ColumnElement, Connection, Text, and_, case, cast, delete, exists, insert, or_, select, update

from muster.platform.database.columns import now
from muster.platform.database.ids import new_id
from muster.platform.database.paging import Page, PageRequest, mentions, select_page
from muster.platform.database.rows import AnyRow, as_record
from muster.platform.errors import Conflict, Invalid, NotFound, PreconditionFailed, taken
from muster.platform.modules.categories import get_category
from muster.platform.modules.fields import check_name, fault
from muster.platform.modules.states import PUBLIC, STATES, USABLE_BY_ITS_OWNER, State
from muster.platform.modules.tables import categories, module_versions, modules
from muster.platform.rules import Actor, Subject, may, require
from muster.platform.users.audit import record
from muster.platform.users.tables import teams, users
from muster.platform.users.teams import team_to_share_with
from muster.platform.visibility import visible
from muster.platform.workflows.tables import versions as workflow_versions
from muster.platform.workflows.tables import workflows


@dataclass(frozen=True, slots=True)
class Module:
    id: str
    name: str
    description: str
    category_id: str
    category_name: str
    owner_id: str
    owner_name: str
    team_id: str | None
    team_name: str | None
    created: datetime
    updated: datetime
    versions: int
    """The number of the newest that one may see."""
    state: State
    """Of that version."""
    public_number: int
    """Of the version that everybody is offered; 0 if there is none."""
    public_state: str
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("module", self.id, self.owner_id, self.team_id or "", public=self.public_number > 0)

    def seen_by(self, actor: Actor) -> Module:
        """Without what is not published yet for those who have no business with it."""
        if may(actor, "inspect", self.subject):
            return self
        return replace(self, versions=self.public_number, state=cast_type(State, self.public_state))


@dataclass(frozen=True, slots=True)
class NewModule:
    name: str
    category: str
    """Its id or name."""
    description: str = ""
    team: str | None = None
    """The id or name of the team whose leader may review it; None for the only one that the author is in."""


@dataclass(frozen=True, slots=True)
class ModuleFilter:
    q: str = ""
    category: str = ""
    owner: str = ""
    team: str = ""
    state: str = ""
    mine: bool = False
    usable: bool = False
    """Only those of which the actor may use a version in a workflow."""
    published: bool = False
    """Only those of which there is a version for everybody."""


def insert_module(connection: Connection, actor: Actor, new: NewModule) -> Module:
    """Without a version; see `versions.create_module`."""
    require(actor, "create", Subject("module", owner=actor.id))
    check_name(new.name)
    moment, identifier = now(), new_id()
    with taken(fault("name", "module.taken", name=new.name)):
        connection.execute(
            insert(modules).values(
                id=identifier,
                name=new.name,
                description=new.description,
                category_id=_category(connection, actor, new.category),
                owner_id=actor.id,
                team_id=_first_team(connection, actor, new.team),
                created=moment,
                updated=moment,
                versions=0,
                state="building",
                public_number=0,
                public_state="",
                revision=1,
            )
        )
    record(connection, actor, "create", "module", identifier, new.name)
    return get_module(connection, actor, identifier)


def get_module(connection: Connection, actor: Actor, id_or_name: str) -> Module:
    row = connection.execute(_MODULES.where(or_(modules.c.id == id_or_name, modules.c.name == id_or_name))).first()
    if row is None:
        raise NotFound.of("module", id_or_name)
    module = _module(row)
    require(actor, "view", module.subject, id_or_name)
    return module


def list_modules(connection: Connection, actor: Actor, wanted: PageRequest, only: ModuleFilter) -> Page[Module]:
    owner, team = modules.c.owner_id, modules.c.team_id
    query = _MODULES.where(visible(actor, "module", owner=owner, team=team, public=modules.c.public_number > 0))
    state = case(
        (visible(actor, "module", owner=owner, team=team, action="inspect"), modules.c.state),
        else_=modules.c.public_state,
    )
    if only.q:
        query = query.where(mentions(only.q, modules.c.name, modules.c.description))
    if only.category:
        query = query.where(or_(modules.c.category_id == only.category, categories.c.name == only.category))
    if only.owner:
        query = query.where(or_(owner == only.owner, users.c.name == only.owner))
    if only.team:
        query = query.where(or_(team == only.team, teams.c.name == only.team))
    if only.mine:
        query = query.where(owner == actor.id)
    if only.state:
        if only.state not in STATES:
            raise Invalid.field("state", f'"{only.state}" is not one of {", ".join(STATES)}')
        query = query.where(state == only.state)
    if only.published:
        query = query.where(modules.c.public_number > 0)
    if only.usable:
        query = query.where(_has_usable_version(actor))
    sortable = {
        "name": modules.c.name,
        "created": modules.c.created,
        "updated": modules.c.updated,
        "owner": users.c.name,
        "category": categories.c.name,
        "state": state,
    }
    page = select_page(connection, query, wanted, key=modules.c.id, sortable=sortable, usual="-updated")
    return page.map(lambda row: _module(row).seen_by(actor))


def edit_module_row(connection: Connection, actor: Actor, module: Module, changes: Mapping[str, Any]) -> bool:
    """`changes` may hold description, category and team; whether anything is different now. None of it is built."""
    values = {"description": changes["description"]} if "description" in changes else {}
    if "category" in changes:
        values["category_id"] = _category(connection, actor, changes["category"])
    if "team" in changes:
        values["team_id"] = _team(connection, actor, changes["team"] or "", module.team_id)
    changed = {name: value for name, value in values.items() if value != getattr(module, name)}
    if changed:
        update_module(connection, module.id, changed)
        record(connection, actor, "edit", "module", module.id, module.name, changed)
    return bool(changed)


def delete_module(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> tuple[Module, list[str]]:
    """With all its versions, unless a workflow pins one. Answers the images that nobody needs any more; these, and the
    files, are left to `Builds.forget`."""
    module = get_module(connection, actor, identifier)
    require(actor, "delete", module.subject, module.name)
    check_revision(module, revision)
    user = pinned_by(connection, module.name)
    if user:
        raise Conflict(f'the workflow "{user}" uses the module "{module.name}"; deprecate it instead')
    kept_as_image = and_(module_versions.c.built.is_not(None), module_versions.c.folder == "")
    images = connection.execute(
        select(module_versions.c.image).where(module_versions.c.module_id == module.id, kept_as_image)
    ).scalars()
    named = list(images)
    connection.execute(delete(modules).where(modules.c.id == module.id))
    record(connection, actor, "delete", "module", module.id, module.name)
    return module, named


def pinned_by(connection: Connection, name: str) -> str:
    """A workflow with a version that uses the module; '' if there is none."""
    query = (
        select(workflows.c.name, workflow_versions.c.document)
        .join(workflows, workflows.c.id == workflow_versions.c.workflow_id)
        .where(cast(workflow_versions.c.document, Text).contains(f'"{name}"', autoescape=True))
    )
    for workflow, document in connection.execute(query):
        used = (node.get("module") for node in document.get("nodes") or ())
        if any(module and module["name"] == name for module in used):
            return str(workflow)
    return ""


def refresh(connection: Connection, module_id: str) -> None:
    """After a version has come, or has another state: what is known of them together."""
    of = module_versions.c.module_id == module_id
    rows = connection.execute(
        select(module_versions.c.number, module_versions.c.state).where(of).order_by(module_versions.c.number)
    ).all()
    offered = max(
        ((state == "published", number, state) for number, state in rows if state in PUBLIC), default=(False, 0, "")
    )
    values = {"public_number": offered[1], "public_state": offered[2]}
    if rows:
        values |= {"versions": rows[-1].number, "state": rows[-1].state}
    update_module(connection, module_id, values)


def update_module(connection: Connection, module_id: str, values: Mapping[str, Any]) -> None:
    connection.execute(
        update(modules)
        .where(modules.c.id == module_id)
        .values(**values, updated=now(), revision=modules.c.revision + 1)
    )


def check_revision(module: Module, revision: int | None) -> None:
    if revision is not None and revision != module.revision:
        raise PreconditionFailed(f'the module "{module.name}" was changed meanwhile; load it again')


def usable_states(actor: Actor, owner: ColumnElement[Any]) -> ColumnElement[bool]:
    """Of versions: those that the actor may use in something new."""
    public = module_versions.c.state == "published"
    return or_(public, and_(owner == actor.id, module_versions.c.state.in_(USABLE_BY_ITS_OWNER)))


def _has_usable_version(actor: Actor) -> ColumnElement[bool]:
    return exists().where(module_versions.c.module_id == modules.c.id, usable_states(actor, modules.c.owner_id))


def _category(connection: Connection, actor: Actor, id_or_name: str) -> str:
    try:
        return get_category(connection, actor, id_or_name).id
    except NotFound as error:
        wrong = fault("category", "module.category", detail=error.detail)
        raise Invalid(wrong.message, [wrong]) from None


def _first_team(connection: Connection, actor: Actor, asked: str | None) -> str | None:
    if asked is None:
        return next(iter(actor.teams)) if len(actor.teams) == 1 else None
    return _team(connection, actor, asked)


def _team(connection: Connection, actor: Actor, id_or_name: str, now_with: str | None = None) -> str | None:
    """Its leader reviews the module, so it has to be one that the author is in."""
    try:
        return team_to_share_with(connection, actor, id_or_name, now_with)
    except NotFound as error:
        raise Invalid.field("team", error.detail) from None


_MODULES = (
    select(
        modules.c.id,
        modules.c.name,
        modules.c.description,
        modules.c.category_id,
        categories.c.name.label("category_name"),
        modules.c.owner_id,
        users.c.name.label("owner_name"),
        modules.c.team_id,
        teams.c.name.label("team_name"),
        modules.c.created,
        modules.c.updated,
        modules.c.versions,
        modules.c.state,
        modules.c.public_number,
        modules.c.public_state,
        modules.c.revision,
    )
    .join(users, users.c.id == modules.c.owner_id)
    .join(categories, categories.c.id == modules.c.category_id)
    .outerjoin(teams, teams.c.id == modules.c.team_id)
)


def _module(row: AnyRow) -> Module:
    return as_record(row, Module)
