"""Sessions of browsers, and the user behind a session cookie or an API token."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest, as_record, new_id, select_page
from muster.platform.database.tables import now, sessions, users
from muster.platform.errors import NotFoundProblem
from muster.platform.permissions import FULL, Actor, require
from muster.platform.quotas import budgets_of
from muster.platform.records.common import Page
from muster.platform.records.users import Session, User
from muster.platform.users.audit import write_audit
from muster.platform.users.credentials import hash_secret, new_secret
from muster.platform.users.teams import roles_of
from muster.platform.users.tokens import NO_LIMITS, OpenIdLimits, token_actor, touch_token

SESSION_LIFETIME = timedelta(days=14)
"""So long after it was last used."""
TOUCH = timedelta(hours=1)
"""How exactly it is known when it was last used."""


def begin_session(connection: Connection, user: User, address: str, browser: str, how: str) -> str:
    """Creates a session and returns the secret for the cookie. `how` is for the audit log: password, link or openid."""
    secret, at, identifier = new_secret(), now(), new_id()
    connection.execute(delete(sessions).where(sessions.c.expires < at))
    own = sessions.c.user_id == user.id
    kept = budgets_of(connection).user_sessions - 1
    oldest = select(sessions.c.id).where(own).order_by(sessions.c.last_used.desc(), sessions.c.id.desc()).offset(kept)
    for old in connection.execute(oldest.limit(1000)).scalars().all():
        connection.execute(delete(sessions).where(sessions.c.id == old))
    connection.execute(
        insert(sessions).values(
            id=identifier,
            user_id=user.id,
            hash=hash_secret(secret),
            created=at,
            last_used=at,
            expires=at + SESSION_LIFETIME,
            address=address,
            browser=browser[:300],
        )
    )
    connection.execute(update(users).where(users.c.id == user.id).values(last_login=at))
    actor = Actor(user.id, user.name, address=address, credential=identifier)
    write_audit(connection, actor, "log in", "user", user.id, user.name, {"with": how})
    return secret


def session_actor(
    connection: Connection, secret: str, address: str, openid: OpenIdLimits = NO_LIMITS
) -> tuple[Actor, bool] | None:
    """Returns the user of the session, and whether `touch_session` is due."""
    return find_session_actor(connection, sessions.c.hash == hash_secret(secret), address, openid)


def find_session_actor(
    connection: Connection, which: ColumnElement[bool], address: str, openid: OpenIdLimits = NO_LIMITS
) -> tuple[Actor, bool] | None:
    """The same for a session that was found in another way."""
    row = connection.execute(
        select(sessions.c.id, sessions.c.last_used, users.c.id.label("user_id"), users.c.name, users.c.admin)
        .join(users, users.c.id == sessions.c.user_id)
        .where(
            which,
            sessions.c.expires > now(),
            ~users.c.disabled,
            or_(users.c.issuer == "", sessions.c.created > now() - openid.session),
        )
    ).first()
    if row is None:
        return None
    teams = roles_of(connection, row.user_id)
    actor = Actor(row.user_id, row.name, bool(row.admin), teams, FULL, "", "session", row.id, address)
    return actor, now() - row.last_used > TOUCH


def touch_session(connection: Connection, identifier: str) -> None:
    at = now()
    connection.execute(
        update(sessions).where(sessions.c.id == identifier).values(last_used=at, expires=at + SESSION_LIFETIME)
    )


def end_session(connection: Connection, actor: Actor, identifier: str) -> None:
    row = connection.execute(
        select(sessions.c.user_id, users.c.name)
        .join(users, users.c.id == sessions.c.user_id)
        .where(sessions.c.id == identifier)
    ).first()
    if row is None or row.user_id != actor.id:
        raise NotFoundProblem.named("session", identifier)
    connection.execute(delete(sessions).where(sessions.c.id == identifier))
    write_audit(connection, actor, "log out", "user", row.user_id, row.name)


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
    return page.map(lambda row: as_record(row, Session, current=False))


_KEPT = 1000
_SECONDS = 5.0
"""How late a server that shares the database may notice revoked rights. Changes of this server apply at once."""


class Identities:
    """Finds users by session or token, with a short cache."""

    def __init__(self, database: Database, openid: OpenIdLimits = NO_LIMITS) -> None:
        self._database = database
        self._openid = openid
        self._known: OrderedDict[str, tuple[Actor, int, float]] = OrderedDict()

    async def of_session(self, secret: str, address: str) -> Actor | None:
        return await self._of(secret, address, session_actor, touch_session)

    async def of_token(self, secret: str, address: str) -> Actor | None:
        return await self._of(secret, address, token_actor, touch_token)

    async def _of(
        self,
        secret: str,
        address: str,
        find: Callable[[Connection, str, str, OpenIdLimits], tuple[Actor, bool] | None],
        touch: Callable[[Connection, str], None],
    ) -> Actor | None:
        return await self.find(
            f"{find.__name__} {hash_secret(secret)}",
            address,
            lambda connection, openid: find(connection, secret, address, openid),
            lambda connection, actor: touch(connection, actor.credential),
        )

    async def find(
        self,
        key: str,
        address: str,
        find: Callable[[Connection, OpenIdLimits], tuple[Actor, bool] | None],
        touch: Callable[[Connection, Actor], None],
    ) -> Actor | None:
        """Finds a user in any other way. `key` stands for all that `find` depends on, except the client's address."""
        writes = self._database.writes
        known = self._known.get(key)
        if known is not None and known[1] == writes and time.monotonic() < known[2]:
            return known[0] if known[0].address == address else replace(known[0], address=address)
        found = await self._database.read(lambda connection: find(connection, self._openid))
        if found is None:
            return None
        actor, stale = found
        if stale:
            await self._database.write(lambda connection: touch(connection, actor))
        self._known[key] = (actor, writes, time.monotonic() + _SECONDS)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return actor
