"""Storage roots: host paths or claims that nodes of a graph may mount."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from muster.platform.database.queries import AnyRow, PageRequest, as_record, contains_words, new_id, select_page
from muster.platform.database.tables import now, storage_roots, teams
from muster.platform.errors import Invalid, NotFound, PreconditionFailed, conflict_on_duplicate
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require
from muster.platform.records import Page, StorageRoot, Subject
from muster.platform.resources.virtual_clusters import name_faults
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import get_team

_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PLAIN = ("name", "description", "path", "host_path", "claim", "read_only")


@dataclass(frozen=True, slots=True)
class NewRoot:
    name: str
    path: str
    description: str = ""
    host_path: str = ""
    claim: str = ""
    read_only: bool = False
    team: str = ""


def create_root(connection: Connection, actor: Actor, new: NewRoot) -> StorageRoot:
    require(actor, "create", Subject("storage root"))
    given = {name: getattr(new, name) for name in (*_PLAIN, "team")}
    values = _checked(connection, given)
    identifier, moment = new_id(), now()
    with conflict_on_duplicate(field_error("name", "root.taken", name=new.name)):
        connection.execute(
            insert(storage_roots).values(id=identifier, created=moment, updated=moment, revision=1, **values)
        )
    write_audit(connection, actor, "create", "storage root", identifier, new.name, values)
    return get_root(connection, identifier)


def get_root(connection: Connection, id_or_name: str) -> StorageRoot:
    table = storage_roots.c
    row = connection.execute(_ROOTS.where(or_(table.id == id_or_name, table.name == id_or_name))).first()
    if row is None:
        raise NotFound.named("storage root", id_or_name)
    return _root(row)


def all_roots(connection: Connection) -> list[StorageRoot]:
    return [_root(row) for row in connection.execute(_ROOTS.order_by(storage_roots.c.name))]


def list_roots(connection: Connection, wanted: PageRequest, *, q: str = "") -> Page[StorageRoot]:
    table = storage_roots.c
    query = _ROOTS.where(contains_words(q, table.name, table.description, table.path)) if q else _ROOTS
    sortable = {"name": func.lower(table.name), "created": table.created, "path": table.path}
    return select_page(connection, query, wanted, key=table.id, sortable=sortable, usual="name").map(_root)


def edit_root(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> StorageRoot:
    """`changes` may hold what `NewRoot` has. With a `revision`, only if nobody changed it since."""
    root = get_root(connection, identifier)
    require(actor, "edit", root.subject, root.name)
    PreconditionFailed.check("storage root", root.name, root.revision, revision)
    told = {name: getattr(root, name) for name in ("path", "host_path", "claim")} | dict(changes)
    values = _checked(connection, told)
    changed = {name: value for name, value in values.items() if value != getattr(root, name)}
    if not changed:
        return root
    with conflict_on_duplicate(field_error("name", "root.taken", name=changed.get("name"))):
        connection.execute(
            update(storage_roots)
            .where(storage_roots.c.id == root.id)
            .values(**changed, updated=now(), revision=root.revision + 1)
        )
    write_audit(connection, actor, "edit", "storage root", root.id, root.name, changed)
    return get_root(connection, root.id)


def delete_root(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    """Nothing that is stored there goes; versions that mount it cannot be run any more."""
    root = get_root(connection, identifier)
    require(actor, "delete", root.subject, root.name)
    PreconditionFailed.check("storage root", root.name, root.revision, revision)
    connection.execute(delete(storage_roots).where(storage_roots.c.id == root.id))
    write_audit(connection, actor, "delete", "storage root", root.id, root.name)


def _checked(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
    """As columns. Raises Invalid."""
    wrong = name_faults(given["name"]) if "name" in given else []
    if not _is_place(given["path"]):
        wrong.append(field_error("path", "root.path", path=given["path"], example="/nfs/data"))
    if given["host_path"] and not _is_place(given["host_path"]):
        wrong.append(field_error("host_path", "root.path", path=given["host_path"], example="/mnt/data"))
    if given["claim"] and not _CLAIM.fullmatch(given["claim"]):
        wrong.append(field_error("claim", "root.claim", name=given["claim"]))
    if given["claim"] and given["host_path"]:
        wrong.append(field_error("claim", "root.both"))
    if wrong:
        raise Invalid.fields(wrong)
    values = {name: given[name] for name in _PLAIN if name in given}
    if "team" in given:
        values["team_id"] = get_team(connection, given["team"]).id if given["team"] else None
    return values


def _is_place(path: str) -> bool:
    """Written in full, in the one way there is to write it; and not the whole machine."""
    return path.startswith("/") and path != "/" and posixpath.normpath(path) == path and path.isprintable()


_ROOTS = select(storage_roots, teams.c.name.label("team_name")).outerjoin(teams, teams.c.id == storage_roots.c.team_id)


def _root(row: AnyRow) -> StorageRoot:
    return as_record(row, StorageRoot, usable=False)
