"""Storage roots: host paths or claims that nodes of a graph may mount."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection

from muster.platform.database.queries import AnyRow, PageRequest, as_record
from muster.platform.database.tables import storage_roots
from muster.platform.errors import InvalidProblem
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require
from muster.platform.records import Page, StorageRoot, Subject
from muster.platform.resources.team_resources import TeamResources, check_name, team_column

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
    given = {each.name: getattr(new, each.name) for each in fields(NewRoot)}
    return _ROOTS.create(connection, actor, _checked(connection, given))


def get_root(connection: Connection, id_or_name: str) -> StorageRoot:
    return _ROOTS.get(connection, id_or_name)


def all_roots(connection: Connection) -> list[StorageRoot]:
    return _ROOTS.all(connection)


def list_roots(connection: Connection, wanted: PageRequest, *, q: str = "") -> Page[StorageRoot]:
    return _ROOTS.page(connection, wanted, q, "path", sortable={"path": storage_roots.c.path})


def edit_root(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> StorageRoot:
    """`changes` may contain the fields of `NewRoot`. With a `revision`, fails if the root has another one."""
    root = _ROOTS.get_for(connection, actor, "edit", identifier, revision)
    given = {name: getattr(root, name) for name in ("path", "host_path", "claim")} | dict(changes)
    return _ROOTS.edit(connection, actor, root, _checked(connection, given))


def delete_root(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    """The stored files stay. Versions that mount the root can no longer be run."""
    _ROOTS.delete(connection, actor, _ROOTS.get_for(connection, actor, "delete", identifier, revision))


def _checked(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns. Raises Invalid."""
    wrong = check_name(given["name"]) if "name" in given else []
    if not _is_valid_path(given["path"]):
        wrong.append(field_error("path", "root.path", path=given["path"], example="/nfs/data"))
    if given["host_path"] and not _is_valid_path(given["host_path"]):
        wrong.append(field_error("host_path", "root.path", path=given["host_path"], example="/mnt/data"))
    if given["claim"] and not _CLAIM.fullmatch(given["claim"]):
        wrong.append(field_error("claim", "root.claim", name=given["claim"]))
    if given["claim"] and given["host_path"]:
        wrong.append(field_error("claim", "root.both"))
    if wrong:
        raise InvalidProblem.fields(wrong)
    values = {name: given[name] for name in _PLAIN if name in given}
    return {**values, **team_column(connection, given)}


def _is_valid_path(path: str) -> bool:
    """Absolute, normalized, and not the root directory."""
    return path.startswith("/") and path != "/" and posixpath.normpath(path) == path and path.isprintable()


def _root(row: AnyRow) -> StorageRoot:
    return as_record(row, StorageRoot, usable=False)


_ROOTS = TeamResources(storage_roots, "storage root", "root.taken", _root)
