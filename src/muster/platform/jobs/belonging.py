"""Whose jobs are, as far as the database knows: the runs that made them, and the names of people, teams and runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, or_, select

from muster.platform.jobs.jobs import Belonging
from muster.platform.runs.tables import runs
from muster.platform.users.tables import teams, users

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Names:
    """By id."""

    users: dict[str, str] = field(default_factory=dict)
    teams: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)


def belongings(connection: Connection, run_ids: Iterable[str]) -> dict[str, Belonging]:
    found: dict[str, Belonging] = {}
    for piece in _pieces(run_ids):
        query = select(runs.c.id, runs.c.owner_id, runs.c.team_id).where(runs.c.id.in_(piece))
        found |= {row.id: Belonging(row.owner_id, row.team_id or "") for row in connection.execute(query)}
    return found


def names(connection: Connection, *, of_users: Iterable[str], of_teams: Iterable[str], of_runs: Iterable[str]) -> Names:
    return Names(
        _names(connection, users, of_users), _names(connection, teams, of_teams), _names(connection, runs, of_runs)
    )


def user_ids(connection: Connection, id_or_name: str) -> tuple[str, ...]:
    query = select(users.c.id).where(or_(users.c.id == id_or_name, users.c.name == id_or_name))
    return tuple(connection.execute(query).scalars())


def _names(connection: Connection, table: Table, identifiers: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in _pieces(identifiers):
        query: Any = select(table.c.id, table.c.name).where(table.c.id.in_(piece))
        found |= {row.id: row.name for row in connection.execute(query)}
    return found


def _pieces(identifiers: Iterable[str]) -> Iterable[list[str]]:
    wanted = sorted(set(identifiers) - {""})
    return (wanted[begin : begin + _AT_ONCE] for begin in range(0, len(wanted), _AT_ONCE))
