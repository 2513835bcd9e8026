"""Virtual clusters (named shares of the nodes that are handed out in SKUs) and storage roots (host paths or claims that
nodes of a graph may mount). Admins create them, for one team or for all users.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import ceil
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, or_, select, update

from muster.kube.quantity import QuantityError, parse_quantity
from muster.kube.selectors import parse_toleration
from muster.platform.database.queries import AnyRow, PageRequest, as_record, contains_words, new_id, select_page
from muster.platform.database.tables import now, storage_roots, teams, virtual_clusters
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem, conflict_on_duplicate
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, require
from muster.platform.records.common import Kind, Page, Subject
from muster.platform.records.resources import StorageRoot, VirtualCluster
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import get_team

_LONGEST_NAME = 100


class _TeamRecord(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def subject(self) -> Subject: ...


R = TypeVar("R", bound=_TeamRecord)


class TeamResources(Generic[R]):
    """The records of one table. `read` makes a record of a row; `taken` is the message for a name that exists."""

    def __init__(self, table: Table, kind: Kind, taken: str, read: Callable[[AnyRow], R]) -> None:
        self._table, self._kind, self._taken, self._read = table, kind, taken, read
        self._query = select(table, teams.c.name.label("team_name")).outerjoin(teams, teams.c.id == table.c.team_id)

    def create(self, connection: Connection, actor: Actor, values: Mapping[str, Any]) -> R:
        """`values` are columns that have been checked."""
        identifier, moment = new_id(), now()
        with conflict_on_duplicate(field_error("name", self._taken, name=values["name"])):
            connection.execute(
                insert(self._table).values(id=identifier, created=moment, updated=moment, revision=1, **values)
            )
        write_audit(connection, actor, "create", self._kind, identifier, values["name"], values)
        return self.get(connection, identifier)

    def get(self, connection: Connection, id_or_name: str) -> R:
        columns = self._table.c
        row = connection.execute(self._query.where(or_(columns.id == id_or_name, columns.name == id_or_name))).first()
        if row is None:
            raise NotFoundProblem.named(self._kind, id_or_name)
        return self._read(row)

    def get_for(self, connection: Connection, actor: Actor, action: str, id_or_name: str, revision: int | None) -> R:
        """The record, if the actor may do this to it and it has this revision."""
        record = self.get(connection, id_or_name)
        require(actor, action, record.subject, record.name)
        PreconditionFailedProblem.check(self._kind, record.name, record.revision, revision)
        return record

    def all(self, connection: Connection) -> list[R]:
        """All of them, by name."""
        return [self._read(row) for row in connection.execute(self._query.order_by(self._table.c.name))]

    def page(
        self,
        connection: Connection,
        wanted: PageRequest,
        q: str,
        *more: str,
        sortable: Mapping[str, ColumnElement[Any]],
    ) -> Page[R]:
        """One page. The words of `q` are searched in name, description and the columns named by `more`."""
        columns = self._table.c
        query = self._query
        if q:
            query = query.where(contains_words(q, columns.name, columns.description, *(columns[name] for name in more)))
        order = {"name": func.lower(columns.name), "created": columns.created, **sortable}
        page = select_page(connection, query, wanted, key=columns.id, sortable=order, usual="name")
        return page.map(self._read)

    def edit(self, connection: Connection, actor: Actor, record: R, values: Mapping[str, Any]) -> R:
        """Stores those `values` that differ from the record."""
        changed = {name: value for name, value in values.items() if value != getattr(record, name)}
        if not changed:
            return record
        with conflict_on_duplicate(field_error("name", self._taken, name=changed.get("name"))):
            connection.execute(
                update(self._table)
                .where(self._table.c.id == record.id)
                .values(**changed, updated=now(), revision=record.revision + 1)
            )
        write_audit(connection, actor, "edit", self._kind, record.id, record.name, changed)
        return self.get(connection, record.id)

    def delete(self, connection: Connection, actor: Actor, record: R) -> None:
        connection.execute(delete(self._table).where(self._table.c.id == record.id))
        write_audit(connection, actor, "delete", self._kind, record.id, record.name)


def check_name(name: str) -> list[FieldError]:
    if 0 < len(name) <= _LONGEST_NAME and name.strip() == name and name.isprintable() and "/" not in name:
        return []
    return [field_error("name", "resource.name", name=name, most=_LONGEST_NAME)]


def team_column(connection: Connection, given: Mapping[str, Any]) -> dict[str, str | None]:
    """The column of the team, if one is given by id or name; '' is for all users."""
    if "team" not in given:
        return {}
    return {"team_id": get_team(connection, given["team"]).id if given["team"] else None}


GPU = "nvidia.com/gpu"
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SHORT = {"gpu": GPU}


def read_sku(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the amounts by resource, without zeros. `gpu` stands for nvidia.com/gpu. The SKU must be valid."""
    found = {_SHORT.get(name, name): str(amount) for name, amount in given.items()}
    return {name: amount for name, amount in found.items() if parse_quantity(amount) > 0}


def sku_faults(given: Mapping[str, Any], field: str = "sku") -> list[FieldError]:
    found = []
    seen: set[str] = set()
    for name, amount in given.items():
        where, full = f"{field}.{name}", _SHORT.get(name, name)
        if not _RESOURCE.fullmatch(full) or full in seen:
            found.append(field_error(where, "sku.resource"))
            continue
        seen.add(full)
        try:
            value = parse_quantity(str(amount))
        except QuantityError as error:
            found.append(field_error(where, "sku.amount", detail=str(error)))
            continue
        if value < 0:
            found.append(field_error(where, "sku.negative", amount=amount))
        elif full not in ("cpu", "memory") and value.denominator != 1:
            found.append(field_error(where, "sku.whole", amount=amount))
    if not found and not read_sku(given):
        found.append(field_error(field, "sku.empty"))
    return found


def selector_faults(given: Mapping[str, str], field: str = "node_selector") -> list[FieldError]:
    return [
        field_error(f"{field}.{name}", "cluster.selector")
        for name, value in given.items()
        if not _RESOURCE.fullmatch(name) or not _LABEL.fullmatch(value)
    ]


def toleration_faults(given: Sequence[str]) -> list[FieldError]:
    return [
        field_error("tolerations", "cluster.toleration", taint=taint)
        for taint in given
        if parse_toleration(taint) is None
    ]


def count_skus(amounts: Mapping[str, Any], sku: Mapping[str, str]) -> int:
    """The number of SKUs needed for these amounts."""
    parts = (parse_quantity(amounts.get(name, 0)) / parse_quantity(amount) for name, amount in sku.items())
    return max((ceil(part) for part in parts), default=0)


MOST_SKUS = 1_000_000


@dataclass(frozen=True, slots=True)
class NewCluster:
    name: str
    sku: Mapping[str, Any]
    """{"gpu": 1, "cpu": "10", "memory": "80G"}, or any other resource by its full name."""
    description: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None
    team: str = ""
    tolerations: Sequence[str] = ()
    """Taints, as `kubectl taint` writes them."""


def create_cluster(connection: Connection, actor: Actor, new: NewCluster) -> VirtualCluster:
    require(actor, "create", Subject("virtual cluster"))
    given = {each.name: getattr(new, each.name) for each in fields(NewCluster)}
    return _CLUSTERS.create(connection, actor, _validate_cluster(connection, given))


def get_cluster(connection: Connection, id_or_name: str) -> VirtualCluster:
    return _CLUSTERS.get(connection, id_or_name)


def all_clusters(connection: Connection) -> list[VirtualCluster]:
    return _CLUSTERS.all(connection)


def list_clusters(connection: Connection, wanted: PageRequest, *, q: str = "") -> Page[VirtualCluster]:
    return _CLUSTERS.page(connection, wanted, q, sortable={"total": func.coalesce(virtual_clusters.c.total, 0)})


def edit_cluster(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> VirtualCluster:
    """`changes` may contain the fields of `NewCluster`. With a `revision`, fails if the cluster has another one.
    Existing runs keep their SKU; the new total applies to them, too."""
    cluster = _CLUSTERS.get_for(connection, actor, "edit", identifier, revision)
    return _CLUSTERS.edit(connection, actor, cluster, _validate_cluster(connection, changes))


def delete_cluster(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> VirtualCluster:
    """Versions that use it can no longer be run."""
    cluster = _CLUSTERS.get_for(connection, actor, "delete", identifier, revision)
    _CLUSTERS.delete(connection, actor, cluster)
    return cluster


def _validate_cluster(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns. Raises Invalid."""
    wrong: list[FieldError] = []
    if "name" in given:
        wrong += check_name(given["name"])
    if "sku" in given:
        wrong += sku_faults(given["sku"])
    if "node_selector" in given:
        wrong += selector_faults(given["node_selector"])
    if "tolerations" in given:
        wrong += toleration_faults(given["tolerations"])
    total = given.get("total")
    if total is not None and not 0 <= total <= MOST_SKUS:
        wrong.append(field_error("total", "cluster.total", total=total, most=MOST_SKUS))
    if wrong:
        raise InvalidProblem.fields(wrong)
    values = {name: given[name] for name in ("name", "description", "total", "node_selector") if name in given}
    if "tolerations" in given:
        values["tolerations"] = list(given["tolerations"])
    if "sku" in given:
        values["sku"] = read_sku(given["sku"])
    return {**values, **team_column(connection, given)}


def _cluster(row: AnyRow) -> VirtualCluster:
    return as_record(row, VirtualCluster, used=0, available=0, largest=0, usable=False)


_CLUSTERS = TeamResources(virtual_clusters, "virtual cluster", "cluster.taken", _cluster)


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
    return _ROOTS.create(connection, actor, _validate_root(connection, given))


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
    return _ROOTS.edit(connection, actor, root, _validate_root(connection, given))


def delete_root(connection: Connection, actor: Actor, identifier: str, revision: int | None = None) -> None:
    """The stored files stay. Versions that mount the root can no longer be run."""
    _ROOTS.delete(connection, actor, _ROOTS.get_for(connection, actor, "delete", identifier, revision))


def _validate_root(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
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
