"""One-time links to choose a password, and the first admin's account on a new installation."""

from __future__ import annotations

import getpass
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, insert, or_, select, update

from muster.platform.database.queries import new_id
from muster.platform.database.tables import links, now, settings, users
from muster.platform.errors import NotFoundProblem
from muster.platform.permissions import SYSTEM, Actor, require
from muster.platform.records.users import User
from muster.platform.users.accounts import free_name, get_user, insert_user, set_password
from muster.platform.users.audit import write_audit
from muster.platform.users.credentials import forget_link, hash_secret, local_token, new_secret, waiting_link
from muster.platform.users.namespace_names import use_shared_namespace
from muster.platform.users.tokens import ensure_token

LINK_LIFETIME = timedelta(days=3)


def create_link(connection: Connection, actor: Actor, user_id: str) -> str:
    """Creates a link and returns its secret. Older links of the account become invalid."""
    user = get_user(connection, user_id)
    require(actor, "reset password", user.subject, user.name)
    secret = new_secret()
    _void(connection, user.id)
    insert_link(connection, user.id, secret, LINK_LIFETIME)
    write_audit(connection, actor, "reset password", "user", user.id, user.name)
    return secret


def insert_link(connection: Connection, user_id: str, secret: str, lasts: timedelta | None) -> None:
    at = now()
    connection.execute(
        insert(links).values(
            id=new_id(), user_id=user_id, hash=hash_secret(secret), created=at, expires=at + lasts if lasts else None
        )
    )


def link_user(connection: Connection, secret: str) -> User:
    """The user whose password the link sets."""
    user_id = connection.execute(
        select(links.c.user_id).where(
            links.c.hash == hash_secret(secret),
            links.c.used.is_(None),
            or_(links.c.expires.is_(None), links.c.expires > now()),
        )
    ).scalar_one_or_none()
    if user_id is None:
        raise NotFoundProblem.of("link.gone")
    user = get_user(connection, user_id)
    if user.disabled:
        raise NotFoundProblem.of("link.gone")
    return user


def use_link(connection: Connection, secret: str, password_hash: str, address: str) -> User:
    user = link_user(connection, secret)
    _void(connection, user.id)
    set_password(connection, Actor(user.id, user.name, via="link", address=address), user, password_hash)
    return user


def _void(connection: Connection, user_id: str) -> None:
    connection.execute(update(links).where(links.c.user_id == user_id, links.c.used.is_(None)).values(used=now()))


_LOCAL_ADMIN = "local admin"


def ensure_local_admin(connection: Connection, folder: Path, *, shared_namespace: bool = True) -> None:
    """Makes the secrets in this folder valid: for a new admin account named after the operating system user, if there
    is no account yet; else for the account that was created then. If the first account was created in another way,
    nothing happens. With `shared_namespace`, the account uses the namespace `default`, as on a laptop."""
    admin_id = connection.execute(select(settings.c.value).where(settings.c.key == _LOCAL_ADMIN)).scalar_one_or_none()
    if admin_id is None:
        if connection.execute(select(users.c.id).limit(1)).first() is not None:
            return
        admin_id = insert_user(connection, SYSTEM, _person(), admin=True).id
        connection.execute(insert(settings).values(key=_LOCAL_ADMIN, value=admin_id))
    if shared_namespace and get_user(connection, admin_id).role == "admin":
        use_shared_namespace(connection, admin_id)
    ensure_token(connection, admin_id, "this machine", local_token(folder))
    link = waiting_link(folder)
    known = connection.execute(select(links.c.id).where(links.c.hash == hash_secret(link))).first()
    if link and known is None and not get_user(connection, admin_id).has_password:
        insert_link(connection, admin_id, link, None)


def forget_used_link(connection: Connection, folder: Path) -> None:
    """Deletes the link file once the link is used."""
    link = waiting_link(folder)
    unused = select(links.c.id).where(links.c.hash == hash_secret(link), links.c.used.is_(None))
    if link and connection.execute(unused).first() is None:
        forget_link(folder)


def _person() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        name = ""
    return "admin" if name in {"", "root"} else free_name(name, ())
