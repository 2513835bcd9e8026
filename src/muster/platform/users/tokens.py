"""API tokens: for scripts, for the command line, and for what a run does in its owner's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from muster.platform.database.queries import AnyRow, PageRequest, as_record, contains_words, new_id, select_page
from muster.platform.database.tables import api_tokens, now, users
from muster.platform.errors import InvalidProblem, NotFoundProblem
from muster.platform.permissions import FULL, Actor, require, visible
from muster.platform.quotas import check_count
from muster.platform.records.common import Page, Subject
from muster.platform.records.users import ApiToken, Scope, User
from muster.platform.users.audit import write_audit
from muster.platform.users.credentials import API_TOKEN, hash_secret, new_secret
from muster.platform.users.teams import roles_of


@dataclass(frozen=True, slots=True)
class OpenIdLimits:
    """How long what the provider said at the last login counts, for users of an OpenID provider."""

    session: timedelta
    tokens: timedelta
    has_admin_groups: bool = False
    """Whether the provider decides who is an admin."""


NO_LIMITS = OpenIdLimits(timedelta(days=36500), timedelta(days=36500))
TOUCH = timedelta(minutes=10)
"""The precision of the time of last use."""
LOGIN_TOKEN_LIFETIME = timedelta(days=1)
MOST_LOGIN_TOKENS = 50
"""Of one user."""


def create_token(
    connection: Connection,
    actor: Actor,
    name: str,
    *,
    scopes: Iterable[Scope] = ("read", "write"),
    expires: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Creates a token for the actor. Returns it with its secret, which cannot be shown again."""
    require(actor, "create", Subject("token", owner=actor.id))
    wanted = frozenset(scopes)
    if not wanted or not wanted <= FULL:
        raise InvalidProblem.field("scopes", "token.scopes", scopes=sorted(FULL))
    if not wanted <= actor.scopes:
        raise InvalidProblem.field("scopes", "token.more", scopes=sorted(wanted - actor.scopes))
    if "admin" in wanted and not actor.admin:
        raise InvalidProblem.field("scopes", "token.admin")
    if expires is not None and expires <= now():
        raise InvalidProblem.field("expires", "token.past")
    check_count(connection, "user_tokens", and_(api_tokens.c.user_id == actor.id, _is_live(now())), "API tokens")
    token, secret = _insert(connection, actor.id, name, wanted, expires=expires)
    details = {"scopes": sorted(wanted), "expires": expires.isoformat() if expires else None}
    write_audit(connection, actor, "create", "token", token.id, name, details)
    return token, secret


def issue_run_token(connection: Connection, user_id: str, run_id: str, *, expires: datetime | None = None) -> str:
    """Creates the AI_HUB_TOKEN of a run. It can access only this run; `revoke_run_tokens` ends it."""
    return _insert(connection, user_id, f"run {run_id}", frozenset({"run"}), run_id=run_id, expires=expires)[1]


def issue_login_token(connection: Connection, user: User, name: str, address: str) -> str:
    """Creates a token for a client that logs in with a password and cannot keep a cookie. It is valid for a day and has
    no rights of an admin. Of tokens with this name, the oldest beyond MOST_LOGIN_TOKENS are revoked, so that a script
    that logs in every minute does not use up what a user may have."""
    at = now()
    own = and_(api_tokens.c.user_id == user.id, api_tokens.c.name == name, _is_live(at))
    older = select(api_tokens.c.id).where(own).order_by(api_tokens.c.created.desc(), api_tokens.c.id.desc())
    surplus = connection.execute(older.offset(MOST_LOGIN_TOKENS - 1)).scalars().all()
    if surplus:
        connection.execute(update(api_tokens).where(api_tokens.c.id.in_(surplus)).values(revoked=at))
    scopes: frozenset[Scope] = frozenset({"read", "write"})
    token, secret = _insert(connection, user.id, name, scopes, expires=at + LOGIN_TOKEN_LIFETIME)
    actor = Actor(user.id, user.name, address=address, credential=token.id)
    write_audit(connection, actor, "log in", "user", user.id, user.name, {"with": name})
    return secret


def revoke_run_tokens(connection: Connection, run_id: str) -> None:
    """When the run is over."""
    live = and_(api_tokens.c.run_id == run_id, api_tokens.c.revoked.is_(None))
    connection.execute(update(api_tokens).where(live).values(revoked=now()))


def ensure_token(connection: Connection, user_id: str, name: str, secret: str) -> None:
    """Makes this secret, which is stored in the data directory, valid with full rights. A revoked token stays
    revoked."""
    known = connection.execute(select(api_tokens.c.id).where(api_tokens.c.hash == hash_secret(secret))).first()
    if known is None:
        _insert(connection, user_id, name, FULL, secret=secret)


def token_actor(
    connection: Connection, secret: str, address: str, openid: OpenIdLimits = NO_LIMITS
) -> tuple[Actor, bool] | None:
    """Returns the user of the token, and whether `touch_token` is due. A user of an OpenID provider must have logged in
    recently: the provider may have removed them, or taken them out of a group."""
    return find_token_actor(connection, api_tokens.c.hash == hash_secret(secret), address, openid)


def find_token_actor(
    connection: Connection, which: ColumnElement[bool], address: str, openid: OpenIdLimits = NO_LIMITS
) -> tuple[Actor, bool] | None:
    """The same for a token that was found in another way."""
    at = now()
    row = connection.execute(
        select(
            api_tokens.c.id,
            api_tokens.c.scopes,
            api_tokens.c.run_id,
            api_tokens.c.last_used,
            users.c.id.label("user_id"),
            users.c.name,
            users.c.admin,
            users.c.issuer,
            users.c.last_login,
        )
        .join(users, users.c.id == api_tokens.c.user_id)
        .where(
            which,
            api_tokens.c.revoked.is_(None),
            or_(api_tokens.c.expires.is_(None), api_tokens.c.expires > at),
            ~users.c.disabled,
        )
    ).first()
    if row is None:
        return None
    age = at - row.last_login if row.last_login is not None else timedelta.max
    if row.issuer and not row.run_id and age > openid.tokens:
        return None
    is_admin = row.admin and not (row.issuer and openid.has_admin_groups and age > openid.session)
    teams = roles_of(connection, row.user_id)
    scopes: frozenset[Scope] = frozenset(row.scopes)
    actor = Actor(row.user_id, row.name, bool(is_admin), teams, scopes, row.run_id or "", "token", row.id, address)
    return actor, row.last_used is None or at - row.last_used > TOUCH


def touch_token(connection: Connection, identifier: str) -> None:
    connection.execute(update(api_tokens).where(api_tokens.c.id == identifier).values(last_used=now()))


def get_token(connection: Connection, identifier: str) -> ApiToken:
    row = connection.execute(_TOKENS.where(api_tokens.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named("token", identifier)
    return _token(row)


def list_tokens(
    connection: Connection, actor: Actor, wanted: PageRequest, *, user: str = "", q: str = "", live: bool = True
) -> Page[ApiToken]:
    """The tokens of a user, or all that the actor may see, without those of runs."""
    query = _TOKENS.where(visible(actor, "token", owner=api_tokens.c.user_id), api_tokens.c.run_id.is_(None))
    if user:
        query = query.where(api_tokens.c.user_id == user)
    if q:
        query = query.where(contains_words(q, api_tokens.c.name))
    if live:
        query = query.where(
            api_tokens.c.revoked.is_(None), or_(api_tokens.c.expires.is_(None), api_tokens.c.expires > now())
        )
    sortable = {"name": api_tokens.c.name, "created": api_tokens.c.created}
    page = select_page(connection, query, wanted, key=api_tokens.c.id, sortable=sortable, usual="-created")
    return page.map(_token)


def revoke_token(connection: Connection, actor: Actor, identifier: str) -> ApiToken:
    token = get_token(connection, identifier)
    require(actor, "revoke", token.subject, token.id)
    if token.revoked is None:
        connection.execute(update(api_tokens).where(api_tokens.c.id == token.id).values(revoked=now()))
        write_audit(connection, actor, "revoke", "token", token.id, token.name, {"user": token.user_name})
    return get_token(connection, identifier)


def _is_live(at: datetime) -> ColumnElement[bool]:
    unexpired = or_(api_tokens.c.expires.is_(None), api_tokens.c.expires > at)
    return and_(api_tokens.c.revoked.is_(None), api_tokens.c.run_id.is_(None), unexpired)


def _insert(
    connection: Connection,
    user_id: str,
    name: str,
    scopes: frozenset[Scope],
    *,
    run_id: str | None = None,
    expires: datetime | None = None,
    secret: str = "",
) -> tuple[ApiToken, str]:
    secret = secret or new_secret(API_TOKEN)
    identifier = new_id()
    connection.execute(
        insert(api_tokens).values(
            id=identifier,
            user_id=user_id,
            name=name,
            hash=hash_secret(secret),
            hint=secret[-4:],
            scopes=sorted(scopes),
            run_id=run_id,
            created=now(),
            expires=expires,
        )
    )
    return get_token(connection, identifier), secret


_TOKENS = select(
    api_tokens.c.id,
    api_tokens.c.user_id,
    users.c.name.label("user_name"),
    api_tokens.c.name,
    api_tokens.c.hint,
    api_tokens.c.scopes,
    api_tokens.c.created,
    api_tokens.c.last_used,
    api_tokens.c.expires,
    api_tokens.c.revoked,
).join(users, users.c.id == api_tokens.c.user_id)


def _token(row: AnyRow) -> ApiToken:
    return as_record(row, ApiToken, scopes=list(row.scopes))
