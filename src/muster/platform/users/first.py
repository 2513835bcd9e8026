"""The first start: an account for the person whose box this is, a link for their browser, a token for their shell.

Both secrets are files in the box's home that only they can read. The link's file is emptied once it was used.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from sqlalchemy import Connection, insert, select

from muster.platform.rules import SYSTEM
from muster.platform.users.accounts import free_name, get_user, insert_user
from muster.platform.users.credentials import API_TOKEN, hashed, new_secret
from muster.platform.users.links import insert_link
from muster.platform.users.tables import links, settings, users
from muster.platform.users.tokens import keep_token

LINK_FILE, TOKEN_FILE = "first-link", "local-token"
_LOCAL_ADMIN = "local admin"


def prepare_secrets(folder: Path) -> str:
    """Makes the files that are missing; answers the secret of the link if it waits to be used, else ''."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _ensure(folder / TOKEN_FILE, API_TOKEN)
    return _ensure(folder / LINK_FILE, "")


def settle(connection: Connection, folder: Path) -> None:
    """Makes the secrets work: for a new account that is named after the person, if there is no account yet."""
    admin_id = connection.execute(select(settings.c.value).where(settings.c.key == _LOCAL_ADMIN)).scalar_one_or_none()
    if admin_id is None:
        if connection.execute(select(users.c.id).limit(1)).first() is not None:
            return
        admin_id = insert_user(connection, SYSTEM, _person(), admin=True).id
        connection.execute(insert(settings).values(key=_LOCAL_ADMIN, value=admin_id))
    keep_token(connection, admin_id, "this machine", (folder / TOKEN_FILE).read_text().strip())
    link = (folder / LINK_FILE).read_text().strip()
    known = connection.execute(select(links.c.id).where(links.c.hash == hashed(link))).first()
    if link and known is None and not get_user(connection, admin_id).has_password:
        insert_link(connection, admin_id, link, None)


def forget_used_link(connection: Connection, folder: Path) -> None:
    """A link that no longer opens anything is not shown again."""
    link = (folder / LINK_FILE).read_text().strip()
    waiting = select(links.c.id).where(links.c.hash == hashed(link), links.c.used.is_(None))
    if link and connection.execute(waiting).first() is None:
        (folder / LINK_FILE).write_text("")


def _ensure(path: Path, prefix: str) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        secret = new_secret(prefix)
        # Whole or not at all: a process that dies in between must not leave an empty file, which means `used`.
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret)
        draft.rename(path)
        return secret


def _person() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        name = ""
    return "admin" if name in {"", "root"} else free_name(name, ())
