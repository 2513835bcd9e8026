"""Categories: how modules are grouped. Admins make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from muster.platform.database.columns import now
from muster.platform.database.ids import new_id
from muster.platform.database.paging import Page, PageRequest, mentions, select_page
from muster.platform.database.rows import as_record
from muster.platform.errors import Invalid, NotFound, PreconditionFailed, taken
from muster.platform.modules.tables import categories, modules
from muster.platform.rules import Actor, Subject, require
from muster.platform.sentences import fault
from muster.platform.users.audit import record

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Category:
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    modules: int
    """How many are in it, those that one may not see included."""


def create_category(connection: Connection, actor: Actor, name: str, description: str = "") -> Category:
    require(actor, "create", Subject("category"))
    _check_name(name)
    identifier = new_id()
    with taken(fault("name", "category.taken", name=name)):
        connection.execute(
            insert(categories).values(id=identifier, name=name, description=description, created=now(), revision=1)
        )
    record(connection, actor, "create", "category", identifier, name)
    return get_category(connection, actor, identifier)


def get_category(connection: Connection, actor: Actor, id_or_name: str) -> Category:
    require(actor, "view", Subject("category"))
    found = _CATEGORIES.where(or_(categories.c.id == id_or_name, categories.c.name == id_or_name))
    row = connection.execute(found).first()
    if row is None:
        raise NotFound.of("category", id_or_name)
    return as_record(row, Category)


def list_categories(connection: Connection, actor: Actor, wanted: PageRequest, q: str = "") -> Page[Category]:
    require(actor, "view", Subject("category"))
    query = _CATEGORIES.where(mentions(q, categories.c.name, categories.c.description)) if q else _CATEGORIES
    sortable = {"name": categories.c.name, "created": categories.c.created, "modules": _COUNT}
    page = select_page(connection, query, wanted, key=categories.c.id, sortable=sortable, usual="name")
    return page.map(lambda row: as_record(row, Category))


def edit_category(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> Category:
    """`changes` may hold name and description. With a `revision`, only if nobody changed it since."""
    category = get_category(connection, actor, identifier)
    require(actor, "edit", Subject("category", category.id))
    _check_revision(category, revision)
    changed = {name: value for name, value in changes.items() if value != getattr(category, name)}
    if not changed:
        return category
    if "name" in changed:
        _check_name(changed["name"])
    with taken(fault("name", "category.taken", name=changed.get("name"))):
        connection.execute(
            update(categories).where(categories.c.id == category.id).values(**changed, revision=category.revision + 1)
        )
    record(connection, actor, "edit", "category", category.id, category.name, changed)
    return get_category(connection, actor, category.id)


def delete_category(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    category = get_category(connection, actor, identifier)
    require(actor, "delete", Subject("category", category.id))
    _check_revision(category, revision)
    with taken(fault("", "category.full", name=category.name)):
        connection.execute(delete(categories).where(categories.c.id == category.id))
    record(connection, actor, "delete", "category", category.id, category.name)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= _LONGEST_NAME or name.strip() != name or not name.isprintable() or "/" in name:
        raise Invalid.fields([fault("name", "category.name", name=name, most=_LONGEST_NAME)])


def _check_revision(category: Category, revision: int | None) -> None:
    if revision is not None and revision != category.revision:
        raise PreconditionFailed(f'the category "{category.name}" was changed meanwhile; load it again')


_COUNT = select(func.count()).where(modules.c.category_id == categories.c.id).scalar_subquery()
_CATEGORIES = select(
    categories.c.id,
    categories.c.name,
    categories.c.description,
    categories.c.created,
    categories.c.revision,
    _COUNT.label("modules"),
)
