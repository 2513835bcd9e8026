"""What virtual clusters and storage roots have in common: admins create them, for one team or for all users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, or_, select, update

from muster.platform.database.queries import AnyRow, PageRequest, contains_words, new_id, select_page
from muster.platform.database.tables import now, teams
from muster.platform.errors import NotFoundProblem, PreconditionFailedProblem, conflict_on_duplicate
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, require
from muster.platform.records import Kind, Page, Subject
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
