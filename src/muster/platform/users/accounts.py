"""Accounts: create, find, list and edit users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, insert, select, update

from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    find_row,
    new_id,
    select_page,
)
from muster.platform.database.tables import memberships, now, sessions, users
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem, conflict_on_duplicate
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.users import Role, User
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import add_namespace, leave_shared_namespace

NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class UserFilter:
    q: str = ""
    role: Role | None = None
    team: str = ""
    """A team's id."""
    disabled: bool | None = None


def create_user(
    connection: Connection,
    actor: Actor,
    name: str,
    *,
    display_name: str = "",
    email: str = "",
    admin: bool = False,
    password_hash: str | None = None,
) -> User:
    require(actor, "create", Subject("user"))
    return insert_user(
        connection, actor, name, display_name=display_name, email=email, admin=admin, password_hash=password_hash
    )


def insert_user(
    connection: Connection,
    actor: Actor,
    name: str,
    *,
    display_name: str = "",
    email: str = "",
    admin: bool = False,
    password_hash: str | None = None,
    issuer: str = "",
    subject: str | None = None,
) -> User:
    """Creates an account without checking permissions: for the first start, and for users of an OpenID provider."""
    if not NAME.fullmatch(name):
        raise InvalidProblem.field("name", "user.name", name=name)
    identifier = new_id()
    with conflict_on_duplicate(field_error("name", "user.taken", name=name)):
        connection.execute(
            insert(users).values(
                id=identifier,
                name=name,
                display_name=display_name,
                email=email,
                admin=admin,
                disabled=False,
                password=password_hash,
                issuer=issuer,
                subject=subject,
                created=now(),
                revision=1,
            )
        )
    add_namespace(connection, user=identifier, name=name)
    details = {"admin": admin, **({"issuer": issuer} if issuer else {})}
    write_audit(connection, actor, "create", "user", identifier, name, details)
    return get_user(connection, identifier)


def get_user(connection: Connection, id_or_name: str) -> User:
    row = find_row(connection, _USERS, users, id_or_name)
    if row is None:
        raise NotFoundProblem.named("user", id_or_name)
    return _user(row)


def list_users(connection: Connection, wanted: PageRequest, only: UserFilter) -> Page[User]:
    query = _USERS
    if only.q:
        query = query.where(contains_words(only.q, users.c.name, users.c.display_name))
    if only.role == "admin":
        query = query.where(users.c.admin)
    elif only.role is not None:
        query = query.where(~users.c.admin, _LEADS if only.role == "leader" else ~_LEADS)
    if only.team:
        query = query.where(users.c.id.in_(select(memberships.c.user_id).where(memberships.c.team_id == only.team)))
    if only.disabled is not None:
        query = query.where(users.c.disabled == only.disabled)
    sortable = {"name": users.c.name, "created": users.c.created, "display_name": func.lower(users.c.display_name)}
    page = select_page(connection, query, wanted, key=users.c.id, sortable=sortable, usual="name")
    return page.map(_user)


def edit_user(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> User:
    """`changes` may contain display_name, email, admin, disabled. A new role and disabling end the sessions. With a
    `revision`, fails if the account has another one."""
    user = get_user(connection, identifier)
    PreconditionFailedProblem.check("account", user.name, user.revision, revision)
    changed = {name: value for name, value in changes.items() if value != getattr(user, name)}
    for action in sorted({_action(name, value) for name, value in changed.items()}):
        require(actor, action, user.subject, user.name)
    if not changed:
        return user
    connection.execute(update(users).where(users.c.id == user.id).values(**changed, revision=user.revision + 1))
    if changed.get("disabled") or "admin" in changed:
        connection.execute(sessions.delete().where(sessions.c.user_id == user.id))
    if changed.get("admin") is False:
        leave_shared_namespace(connection, user.id, user.name)
    write_audit(connection, actor, "edit", "user", user.id, user.name, changed)
    return get_user(connection, user.id)


def password_hash_of(connection: Connection, identifier: str) -> str | None:
    return connection.execute(select(users.c.password).where(users.c.id == identifier)).scalar_one_or_none()


def set_password(
    connection: Connection, actor: Actor, user: User, password_hash: str, *, keep_session: str = ""
) -> None:
    """Sets the password and ends the user's other sessions."""
    connection.execute(
        update(users).where(users.c.id == user.id).values(password=password_hash, revision=users.c.revision + 1)
    )
    connection.execute(sessions.delete().where(sessions.c.user_id == user.id, sessions.c.id != keep_session))
    write_audit(connection, actor, "change password", "user", user.id, user.name)


def rehash_password(connection: Connection, user: User, password_hash: str) -> None:
    """Stores a stronger hash of the same password. Sessions go on."""
    connection.execute(update(users).where(users.c.id == user.id).values(password=password_hash))


def free_name(wished: str, used: Iterable[str]) -> str:
    """A free account name similar to a given one: `Ann Lee@x` becomes ann-lee, or ann-lee-2 if that is taken."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", wished.lower().partition("@")[0]).strip("._-")[:56].strip("._-") or "user"
    others = set(used)
    if plain not in others:
        return plain
    return next(name for number in range(2, len(others) + 3) if (name := f"{plain}-{number}") not in others)


def names_like(connection: Connection, wished: str) -> list[str]:
    """Existing names that a new account like `wished` could collide with."""
    start = free_name(wished, ())
    return list(
        connection.execute(select(users.c.name).where(users.c.name.startswith(start, autoescape=True))).scalars()
    )


_LEADS = (
    select(memberships.c.user_id)
    .where(memberships.c.user_id == users.c.id, memberships.c.role == "leader")
    .correlate(users)
    .exists()
)
_USERS = select(
    users.c.id,
    users.c.name,
    users.c.display_name,
    users.c.email,
    case((users.c.admin, "admin"), (_LEADS, "leader"), else_="member").label("role"),
    users.c.disabled,
    users.c.password.is_not(None).label("has_password"),
    (users.c.issuer != "").label("openid"),
    users.c.created,
    users.c.last_login,
    users.c.revision,
)


def _user(row: AnyRow) -> User:
    return as_record(row, User)


def _action(changed: str, value: Any) -> str:
    if changed == "admin":
        return "set role"
    if changed == "disabled":
        return "disable" if value else "enable"
    return "edit"
