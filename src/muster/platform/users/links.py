"""Links that let somebody choose a password, once: for the first admin, for new accounts, for whoever forgot it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, insert, or_, select, update

from muster.platform.database.columns import now
from muster.platform.database.ids import new_id
from muster.platform.errors import NotFound
from muster.platform.rules import Actor, require
from muster.platform.users.accounts import User, get_user, set_password
from muster.platform.users.audit import record
from muster.platform.users.credentials import hashed, new_secret
from muster.platform.users.tables import links

LASTS = timedelta(days=3)
GONE = "this link was used already, or is too old; ask an admin for another one"


def create_link(connection: Connection, actor: Actor, user_id: str) -> str:
    """The secret of a new link. Older links of that account are good for nothing any more."""
    user = get_user(connection, user_id)
    require(actor, "reset password", user.subject, user.name)
    secret = new_secret()
    _void(connection, user.id)
    insert_link(connection, user.id, secret, LASTS)
    record(connection, actor, "reset password", "user", user.id, user.name)
    return secret


def insert_link(connection: Connection, user_id: str, secret: str, lasts: timedelta | None) -> None:
    at = now()
    connection.execute(
        insert(links).values(
            id=new_id(), user_id=user_id, hash=hashed(secret), created=at, expires=at + lasts if lasts else None
        )
    )


def link_user(connection: Connection, secret: str) -> User:
    """Whose password the link is for."""
    user_id = connection.execute(
        select(links.c.user_id).where(
            links.c.hash == hashed(secret),
            links.c.used.is_(None),
            or_(links.c.expires.is_(None), links.c.expires > now()),
        )
    ).scalar_one_or_none()
    if user_id is None:
        raise NotFound(GONE)
    user = get_user(connection, user_id)
    if user.disabled:
        raise NotFound(GONE)
    return user


def use_link(connection: Connection, secret: str, password_hash: str, address: str) -> User:
    user = link_user(connection, secret)
    _void(connection, user.id)
    set_password(connection, Actor(user.id, user.name, via="link", address=address), user, password_hash)
    return user


def _void(connection: Connection, user_id: str) -> None:
    connection.execute(update(links).where(links.c.user_id == user_id, links.c.used.is_(None)).values(used=now()))
