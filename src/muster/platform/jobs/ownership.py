"""Who owns a job: the run that created it, and the names of users, teams and runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, or_, select

from muster.platform.database.tables import runs, teams, users
from muster.platform.jobs.jobs import RunOwner

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Names:
    """By id."""

    users: dict[str, str] = field(default_factory=dict)
    teams: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)


def find_run_owners(connection: Connection, run_ids: Iterable[str]) -> dict[str, RunOwner]:
    found: dict[str, RunOwner] = {}
    for piece in _pieces(run_ids):
        query = select(runs.c.id, runs.c.owner_id, runs.c.team_id).where(runs.c.id.in_(piece))
        found |= {row.id: RunOwner(row.owner_id, row.team_id or "") for row in connection.execute(query)}
    return found


def find_names(
    connection: Connection, *, of_users: Iterable[str], of_teams: Iterable[str], of_runs: Iterable[str | None]
) -> Names:
    return Names(
        _names(connection, users, of_users), _names(connection, teams, of_teams), _names(connection, runs, of_runs)
    )


def user_ids(connection: Connection, id_or_name: str) -> tuple[str, ...]:
    query = select(users.c.id).where(or_(users.c.id == id_or_name, users.c.name == id_or_name))
    return tuple(connection.execute(query).scalars())


def _names(connection: Connection, table: Table, identifiers: Iterable[str | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in _pieces(identifiers):
        query: Any = select(table.c.id, table.c.name).where(table.c.id.in_(piece))
        found |= {row.id: row.name for row in connection.execute(query)}
    return found


def _pieces(identifiers: Iterable[str | None]) -> Iterable[list[str]]:
    wanted = sorted({each for each in identifiers if each})
    return (wanted[begin : begin + _AT_ONCE] for begin in range(0, len(wanted), _AT_ONCE))
