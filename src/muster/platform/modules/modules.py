"""Modules, the categories they are grouped by, and the states that their versions pass through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias
from typing import cast as cast_type

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    and_,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

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
from muster.platform.database.tables import categories, module_versions, modules, now, teams, users, workflows
from muster.platform.database.tables import versions as workflow_versions
from muster.platform.errors import (
    ConflictProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
    conflict_on_duplicate,
)
from muster.platform.messages import field_error
from muster.platform.modules.validation import check_name
from muster.platform.permissions import Actor, may, require, visible
from muster.platform.quotas import check_count
from muster.platform.records.common import Page, Subject
from muster.platform.records.modules import Category, Module, ModuleState
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import team_to_share_with

State: TypeAlias = ModuleState
Step: TypeAlias = Literal[
    "built", "fail", "stop", "retry", "ask review", "withdraw", "approve", "reject", "deprecate", "restore"
]

STATES: Final[tuple[State, ...]] = (
    "building", "build failed", "private", "in review", "rejected", "published", "deprecated",
)  # fmt: skip

STEPS: Final[Mapping[tuple[State, Step], State]] = {
    ("building", "built"): "private",
    ("building", "fail"): "build failed",
    ("building", "stop"): "build failed",
    ("build failed", "retry"): "building",
    ("private", "ask review"): "in review",
    ("in review", "withdraw"): "private",
    ("in review", "approve"): "published",
    ("in review", "reject"): "rejected",
    ("rejected", "ask review"): "in review",
    ("published", "deprecate"): "deprecated",
    ("deprecated", "restore"): "published",
}

PUBLIC: Final[frozenset[State]] = frozenset({"published", "deprecated"})
"""Visible to all users."""
USABLE_BY_ITS_OWNER: Final[frozenset[State]] = frozenset({"private", "in review", "rejected", "published"})

_WORDS: Final[Mapping[Step, str]] = {
    "built": "finished",
    "fail": "given up",
    "stop": "stopped",
    "retry": "built again",
    "ask review": "reviewed",
    "withdraw": "withdrawn from review",
    "approve": "approved",
    "reject": "rejected",
    "deprecate": "deprecated",
    "restore": "published again",
}


def next_state(state: State, step: Step, name: str) -> State:
    """Returns the state after a step. Raises Conflict if the step is not possible; the message names the states in
    which it is."""
    following = STEPS.get((state, step))
    if following is not None:
        return following
    fitting = " or ".join(f'"{start}"' for start, possible in STEPS if possible == step)
    raise ConflictProblem.of("module.step", name=name, state=state, states=fitting, step=_WORDS[step])


def steps_from(state: State) -> list[Step]:
    return [step for start, step in STEPS if start == state]


_LONGEST_NAME = 100


def create_category(connection: Connection, actor: Actor, name: str, description: str = "") -> Category:
    require(actor, "create", Subject("category"))
    _check_name(name)
    identifier = new_id()
    with conflict_on_duplicate(field_error("name", "category.taken", name=name)):
        connection.execute(
            insert(categories).values(id=identifier, name=name, description=description, created=now(), revision=1)
        )
    write_audit(connection, actor, "create", "category", identifier, name)
    return get_category(connection, actor, identifier)


def get_category(connection: Connection, actor: Actor, id_or_name: str) -> Category:
    require(actor, "view", Subject("category"))
    row = find_row(connection, _CATEGORIES, categories, id_or_name)
    if row is None:
        raise NotFoundProblem.named("category", id_or_name)
    return as_record(row, Category)


def list_categories(connection: Connection, actor: Actor, wanted: PageRequest, q: str = "") -> Page[Category]:
    require(actor, "view", Subject("category"))
    query = _CATEGORIES.where(contains_words(q, categories.c.name, categories.c.description)) if q else _CATEGORIES
    sortable = {"name": categories.c.name, "created": categories.c.created, "modules": _COUNT}
    page = select_page(connection, query, wanted, key=categories.c.id, sortable=sortable, usual="name")
    return page.map(lambda row: as_record(row, Category))


def edit_category(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> Category:
    """`changes` may contain name and description. With a `revision`, fails if the category has another one."""
    category = get_category(connection, actor, identifier)
    require(actor, "edit", Subject("category", category.id))
    PreconditionFailedProblem.check("category", category.name, category.revision, revision)
    changed = {name: value for name, value in changes.items() if value != getattr(category, name)}
    if not changed:
        return category
    if "name" in changed:
        _check_name(changed["name"])
    with conflict_on_duplicate(field_error("name", "category.taken", name=changed.get("name"))):
        connection.execute(
            update(categories).where(categories.c.id == category.id).values(**changed, revision=category.revision + 1)
        )
    write_audit(connection, actor, "edit", "category", category.id, category.name, changed)
    return get_category(connection, actor, category.id)


def delete_category(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    category = get_category(connection, actor, identifier)
    require(actor, "delete", Subject("category", category.id))
    PreconditionFailedProblem.check("category", category.name, category.revision, revision)
    with conflict_on_duplicate(field_error("", "category.full", name=category.name)):
        connection.execute(delete(categories).where(categories.c.id == category.id))
    write_audit(connection, actor, "delete", "category", category.id, category.name)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= _LONGEST_NAME or name.strip() != name or not name.isprintable() or "/" in name:
        raise InvalidProblem.field("name", "category.name", name=name, most=_LONGEST_NAME)


_COUNT = select(func.count()).where(modules.c.category_id == categories.c.id).scalar_subquery()
_CATEGORIES = select(
    categories.c.id,
    categories.c.name,
    categories.c.description,
    categories.c.created,
    categories.c.revision,
    _COUNT.label("modules"),
)


MODULE_ACTIONS: Final = ("use", "inspect", "edit", "ask review", "deprecate", "delete")


@dataclass(frozen=True, slots=True)
class NewModule:
    name: str
    category: str
    """Its id or name."""
    description: str = ""
    team: str | None = None
    """The id or name of the team whose leader may review it; None for the author's team, if there is only one."""


@dataclass(frozen=True, slots=True)
class ModuleFilter:
    q: str = ""
    category: str = ""
    owner: str = ""
    team: str = ""
    state: str = ""
    mine: bool = False
    usable: bool = False
    """Only modules of which the actor may use a version."""
    published: bool = False
    """Only modules with a public version."""


def insert_module(connection: Connection, actor: Actor, new: NewModule) -> Module:
    """Without a version; see `versions.create_module`."""
    require(actor, "create", Subject("module", owner=actor.id))
    check_name(new.name)
    check_count(connection, "user_modules", modules.c.owner_id == actor.id, "modules")
    moment, identifier = now(), new_id()
    with conflict_on_duplicate(field_error("name", "module.taken", name=new.name)):
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
    write_audit(connection, actor, "create", "module", identifier, new.name)
    return get_module(connection, actor, identifier)


def get_module(connection: Connection, actor: Actor, id_or_name: str) -> Module:
    row = find_row(connection, _MODULES, modules, id_or_name)
    if row is None:
        raise NotFoundProblem.named("module", id_or_name)
    module = _module(row)
    require(actor, "view", module.subject, id_or_name)
    return module


def visible_module(module: Module, actor: Actor) -> Module:
    """The module as the actor may see it: unpublished versions are for users who work on it."""
    allowed = [action for action in MODULE_ACTIONS if may(actor, action, module.subject)]
    if "inspect" in allowed:
        return replace(module, may=allowed)
    state = cast_type(State, module.public_state)
    return replace(module, versions=module.public_number, state=state, may=allowed)


def list_modules(connection: Connection, actor: Actor, wanted: PageRequest, only: ModuleFilter) -> Page[Module]:
    owner, team = modules.c.owner_id, modules.c.team_id
    query = _MODULES.where(visible(actor, "module", owner=owner, team=team, public=modules.c.public_number > 0))
    state = case(
        (visible(actor, "module", owner=owner, team=team, action="inspect"), modules.c.state),
        else_=modules.c.public_state,
    )
    if only.q:
        query = query.where(contains_words(only.q, modules.c.name, modules.c.description))
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
            raise InvalidProblem.field("state", "filter.value", value=only.state, choices=list(STATES))
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
    return page.map(lambda row: visible_module(_module(row), actor))


def edit_module_row(connection: Connection, actor: Actor, module: Module, changes: Mapping[str, Any]) -> bool:
    """`changes` may contain description, category and team. Returns whether anything changed. Nothing is built."""
    values = {"description": changes["description"]} if "description" in changes else {}
    if "category" in changes:
        values["category_id"] = _category(connection, actor, changes["category"])
    if "team" in changes:
        values["team_id"] = _team(connection, actor, changes["team"] or "", module.team_id)
    changed = {name: value for name, value in values.items() if value != getattr(module, name)}
    if changed:
        update_module(connection, module.id, changed)
        write_audit(connection, actor, "edit", "module", module.id, module.name, changed)
    return bool(changed)


def delete_module(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> tuple[Module, list[str]]:
    """Deletes a module with all its versions, unless a workflow uses one. Returns the images that are no longer needed;
    `Builds.forget` deletes them and the files."""
    module = get_module(connection, actor, identifier)
    require(actor, "delete", module.subject, module.name)
    PreconditionFailedProblem.check("module", module.name, module.revision, revision)
    user = pinned_by(connection, module.name)
    if user:
        raise ConflictProblem.of("module.used", workflow=user, name=module.name)
    kept_as_image = and_(module_versions.c.built.is_not(None), module_versions.c.folder == "")
    images = connection.execute(
        select(module_versions.c.image).where(module_versions.c.module_id == module.id, kept_as_image)
    ).scalars()
    named = list(images)
    connection.execute(delete(modules).where(modules.c.id == module.id))
    write_audit(connection, actor, "delete", "module", module.id, module.name)
    return module, named


def pinned_by(connection: Connection, name: str) -> str:
    """The name of a workflow that uses the module; '' if there is none."""
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
    """Updates the summary of a module after one of its versions changed."""
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


def usable_states(actor: Actor, owner: ColumnElement[Any]) -> ColumnElement[bool]:
    """A condition on versions: the actor may use them in something new."""
    public = module_versions.c.state == "published"
    return or_(public, and_(owner == actor.id, module_versions.c.state.in_(USABLE_BY_ITS_OWNER)))


def _has_usable_version(actor: Actor) -> ColumnElement[bool]:
    return exists().where(module_versions.c.module_id == modules.c.id, usable_states(actor, modules.c.owner_id))


def _category(connection: Connection, actor: Actor, id_or_name: str) -> str:
    try:
        return get_category(connection, actor, id_or_name).id
    except NotFoundProblem as error:
        wrong = field_error("category", "module.category", detail=error.detail)
        raise InvalidProblem(wrong.message, [wrong]) from None


def _first_team(connection: Connection, actor: Actor, asked: str | None) -> str | None:
    if asked is None:
        return next(iter(actor.teams)) if len(actor.teams) == 1 else None
    return _team(connection, actor, asked)


def _team(connection: Connection, actor: Actor, id_or_name: str, now_with: str | None = None) -> str | None:
    """The team must be one of the author's, because its leader reviews the module."""
    try:
        return team_to_share_with(connection, actor, id_or_name, now_with)
    except NotFoundProblem as error:
        raise InvalidProblem.field("team", "module.team", detail=error.detail) from None


_MODULES = (
    select(
        *record_columns(
            Module, modules, category_name=categories.c.name, owner_name=users.c.name, team_name=teams.c.name
        )
    )
    .join(users, users.c.id == modules.c.owner_id)
    .join(categories, categories.c.id == modules.c.category_id)
    .outerjoin(teams, teams.c.id == modules.c.team_id)
)


def _module(row: AnyRow) -> Module:
    return as_record(row, Module, may=[])
