"""The names of the namespaces of users and teams.

They are stored, because teams can be renamed and because not every account name is a valid name of a namespace.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from hashlib import sha256

from sqlalchemy import Connection, delete, insert, select, union

from muster.platform.database.pipeline_tables import experiments, pipeline_runs, pipelines, recurring_runs
from muster.platform.database.tables import namespaces

SHARED_NAMESPACE = "default"
"""The namespace of the person whose box it is, of runs from before namespaces, and of what admins share."""

_LONGEST = 63
_DIGEST = 10


def choose_name(prefix: str, name: str, identifier: str, taken: Container[str]) -> str:
    """Returns `user-ann` for ann. A name that is no valid label, too long or taken gets digits of its id appended."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    wanted = f"{prefix}-{plain}"
    if plain == name and len(wanted) <= _LONGEST and wanted not in taken:
        return wanted
    base = wanted[: _LONGEST - _DIGEST - 1].rstrip("-")
    salt = identifier
    while (found := f"{base}-{sha256(salt.encode()).hexdigest()[:_DIGEST]}") in taken:
        salt += "'"
    return found


def add_namespace(connection: Connection, *, user: str = "", team: str = "", name: str) -> str:
    """Stores the namespace of a new user or team, by id. Returns its name: not that of a deleted team of which there
    are still pipelines or runs, because these belong to their owners now."""
    prefix, identifier = ("user", user) if user else ("team", team)
    names = (each.c.namespace for each in (experiments, pipelines, pipeline_runs, recurring_runs))
    taken = set(connection.execute(union(select(namespaces.c.name), *map(select, names))).scalars())
    chosen = choose_name(prefix, name, identifier, taken)
    connection.execute(insert(namespaces).values(name=chosen, user_id=user or None, team_id=team or None))
    return chosen


def namespace_of(connection: Connection, *, user: str = "", team: str | None = None) -> str:
    """Returns the namespace of a team, or else of a user."""
    which = namespaces.c.team_id == team if team else namespaces.c.user_id == user
    return str(connection.execute(select(namespaces.c.name).where(which)).scalar_one())


def namespaces_of(connection: Connection, user: str, teams: Iterable[str]) -> list[str]:
    """Returns the namespaces of a user and of teams."""
    which = (namespaces.c.user_id == user) | namespaces.c.team_id.in_(list(teams))
    return list(connection.execute(select(namespaces.c.name).where(which)).scalars())


def use_shared_namespace(connection: Connection, user: str) -> None:
    """Makes `default` the namespace of this user, as on a laptop. Does nothing if another user has it."""
    if connection.execute(select(namespaces.c.name).where(namespaces.c.name == SHARED_NAMESPACE)).first() is None:
        connection.execute(delete(namespaces).where(namespaces.c.user_id == user))
        connection.execute(insert(namespaces).values(name=SHARED_NAMESPACE, user_id=user))


def leave_shared_namespace(connection: Connection, user: str, name: str) -> None:
    """Gives the user a namespace of their own, if they have `default`: they are no admin any more."""
    which = (namespaces.c.user_id == user) & (namespaces.c.name == SHARED_NAMESPACE)
    if connection.execute(delete(namespaces).where(which)).rowcount:
        add_namespace(connection, user=user, name=name)
