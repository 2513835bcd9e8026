"""The first start: an account for the person whose box this is, which their link and their token open."""

from __future__ import annotations

import getpass
from pathlib import Path

from sqlalchemy import Connection, insert, select

from muster.platform.rules import SYSTEM
from muster.platform.users.accounts import free_name, get_user, insert_user
from muster.platform.users.credentials import hashed
from muster.platform.users.links import insert_link
from muster.platform.users.local_secrets import forget_link, local_token, waiting_link
from muster.platform.users.tables import links, settings, users
from muster.platform.users.tokens import keep_token

_LOCAL_ADMIN = "local admin"


def settle(connection: Connection, folder: Path) -> None:
    """Makes the secrets of this folder work: for a new account that is named after the person, if there is no account
    yet; else for the one that was made then. A database whose first account came otherwise knows no such person."""
    admin_id = connection.execute(select(settings.c.value).where(settings.c.key == _LOCAL_ADMIN)).scalar_one_or_none()
    if admin_id is None:
        if connection.execute(select(users.c.id).limit(1)).first() is not None:
            return
        admin_id = insert_user(connection, SYSTEM, _person(), admin=True).id
        connection.execute(insert(settings).values(key=_LOCAL_ADMIN, value=admin_id))
    keep_token(connection, admin_id, "this machine", local_token(folder))
    link = waiting_link(folder)
    known = connection.execute(select(links.c.id).where(links.c.hash == hashed(link))).first()
    if link and known is None and not get_user(connection, admin_id).has_password:
        insert_link(connection, admin_id, link, None)


def forget_used_link(connection: Connection, folder: Path) -> None:
    """A link that no longer opens anything is not shown again."""
    link = waiting_link(folder)
    unused = select(links.c.id).where(links.c.hash == hashed(link), links.c.used.is_(None))
    if link and connection.execute(unused).first() is None:
        forget_link(folder)


def _person() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        name = ""
    return "admin" if name in {"", "root"} else free_name(name, ())
