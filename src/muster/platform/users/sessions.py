"""Sessions: a browser that somebody has logged in with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from muster.platform.database.columns import now
from muster.platform.database.ids import new_id
from muster.platform.database.paging import Page, PageRequest, select_page
from muster.platform.database.rows import as_record
from muster.platform.errors import NotFound
from muster.platform.rules import FULL, Actor, require
from muster.platform.users.accounts import User
from muster.platform.users.audit import record
from muster.platform.users.credentials import hashed, new_secret
from muster.platform.users.tables import sessions, users
from muster.platform.users.teams import roles_of

LASTS = timedelta(days=14)
"""So long after it was last used."""
TOUCH = timedelta(hours=1)
"""How exactly it is known when it was last used."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    created: datetime
    last_used: datetime
    expires: datetime
    address: str
    browser: str


def begin_session(connection: Connection, user: User, address: str, browser: str, how: str) -> str:
    """Answers the secret for the cookie. `how` is what the audit log says: password, link or openid."""
    secret, at, identifier = new_secret(), now(), new_id()
    connection.execute(delete(sessions).where(sessions.c.expires < at))
    connection.execute(
        insert(sessions).values(
            id=identifier,
            user_id=user.id,
            hash=hashed(secret),
            created=at,
            last_used=at,
            expires=at + LASTS,
            address=address,
            browser=browser[:300],
        )
    )
    connection.execute(update(users).where(users.c.id == user.id).values(last_login=at))
    actor = Actor(user.id, user.name, address=address, credential=identifier)
    record(connection, actor, "log in", "user", user.id, user.name, {"with": how})
    return secret


def session_actor(connection: Connection, secret: str, address: str) -> tuple[Actor, bool] | None:
    """Whose session it is, and whether it is time to `touch` it."""
    row = connection.execute(
        select(sessions.c.id, sessions.c.last_used, users.c.id.label("user_id"), users.c.name, users.c.admin)
        .join(users, users.c.id == sessions.c.user_id)
        .where(sessions.c.hash == hashed(secret), sessions.c.expires > now(), ~users.c.disabled)
    ).first()
    if row is None:
        return None
    teams = roles_of(connection, row.user_id)
    actor = Actor(row.user_id, row.name, bool(row.admin), teams, FULL, "", "session", row.id, address)
    return actor, now() - row.last_used > TOUCH


def touch_session(connection: Connection, identifier: str) -> None:
    at = now()
    connection.execute(update(sessions).where(sessions.c.id == identifier).values(last_used=at, expires=at + LASTS))


def end_session(connection: Connection, actor: Actor, identifier: str) -> None:
    row = connection.execute(
        select(sessions.c.user_id, users.c.name)
        .join(users, users.c.id == sessions.c.user_id)
        .where(sessions.c.id == identifier)
    ).first()
    if row is None or row.user_id != actor.id:
        raise NotFound.of("session", identifier)
    connection.execute(delete(sessions).where(sessions.c.id == identifier))
    record(connection, actor, "log out", "user", row.user_id, row.name)


def list_sessions(connection: Connection, actor: Actor, user: User, wanted: PageRequest) -> Page[Session]:
    require(actor, "inspect", user.subject, user.name)
    query = select(
        sessions.c.id,
        sessions.c.created,
        sessions.c.last_used,
        sessions.c.expires,
        sessions.c.address,
        sessions.c.browser,
    ).where(sessions.c.user_id == user.id, sessions.c.expires > now())
    sortable = {"created": sessions.c.created, "last_used": sessions.c.last_used}
    page = select_page(connection, query, wanted, key=sessions.c.id, sortable=sortable, usual="-last_used")
    return page.map(lambda row: as_record(row, Session))
