"""Logins to workspaces.

A workspace has an origin of its own, so that its pages cannot act on the platform, and the cookie of the platform is
not sent there. A user who opens one gets a ticket: it is valid for seconds, for one workspace, and once. The origin of
the workspace exchanges it for a cookie, which is valid as long as the session (or the token) that opened the workspace.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, delete, insert, select

from muster.platform.database.tables import api_tokens, now, sessions, workspace_sessions
from muster.platform.permissions import Actor
from muster.platform.users.credentials import hash_secret, new_secret
from muster.platform.users.sessions import SESSION_LIFETIME, find_session_actor, touch_session
from muster.platform.users.tokens import NO_LIMITS, OpenIdLimits, find_token_actor, touch_token

TICKET_LIFETIME = timedelta(seconds=30)
MOST_LOGINS = 100
"""Of one session or token. The oldest end."""


def issue_ticket(connection: Connection, actor: Actor, workspace: str) -> str:
    """Returns the secret of a new ticket. `workspace` is the uid of its object."""
    at = now()
    connection.execute(delete(workspace_sessions).where(workspace_sessions.c.expires < at))
    return _insert(connection, workspace, _credential(actor), is_ticket=True)


def has_ticket(connection: Connection, secret: str) -> bool:
    """Whether there is such a ticket, valid or not."""
    mine = workspace_sessions.c.hash == hash_secret(secret)
    return connection.execute(select(mine).where(mine, workspace_sessions.c.is_ticket)).first() is not None


def redeem_ticket(connection: Connection, secret: str, workspace: str) -> str | None:
    """Exchanges a ticket for the secret of a cookie. None if it was used before, has expired, or is for another
    workspace."""
    mine = workspace_sessions.c.hash == hash_secret(secret)
    row = connection.execute(select(workspace_sessions).where(mine, workspace_sessions.c.is_ticket)).first()
    if row is None or connection.execute(delete(workspace_sessions).where(mine)).rowcount != 1:
        return None
    if row.workspace != workspace or row.expires < now():
        return None
    credential = {"session_id": row.session_id, "token_id": row.token_id}
    own = [getattr(workspace_sessions.c, name) == value for name, value in credential.items() if value]
    newest = select(workspace_sessions.c.hash).where(*own).order_by(workspace_sessions.c.expires.desc())
    for old in connection.execute(newest.offset(MOST_LOGINS - 1)).scalars().all():
        connection.execute(delete(workspace_sessions).where(workspace_sessions.c.hash == old))
    return _insert(connection, workspace, credential, is_ticket=False)


def workspace_actor(
    connection: Connection, secret: str, workspace: str, address: str, openid: OpenIdLimits = NO_LIMITS
) -> tuple[Actor, bool] | None:
    """Returns the user behind the cookie of this workspace, and whether `touch_workspace_login` is due."""
    row = connection.execute(
        select(workspace_sessions).where(
            workspace_sessions.c.hash == hash_secret(secret),
            workspace_sessions.c.workspace == workspace,
            ~workspace_sessions.c.is_ticket,
            workspace_sessions.c.expires > now(),
        )
    ).first()
    if row is None:
        return None
    if row.session_id:
        return find_session_actor(connection, sessions.c.id == row.session_id, address, openid)
    return find_token_actor(connection, api_tokens.c.id == row.token_id, address, openid)


def touch_workspace_login(connection: Connection, actor: Actor) -> None:
    """Working in a workspace keeps the session alive."""
    (touch_session if actor.via == "session" else touch_token)(connection, actor.credential)


def _credential(actor: Actor) -> dict[str, str | None]:
    if actor.via not in {"session", "token"}:
        raise ValueError(f"{actor.via} cannot open a workspace")
    return {
        "session_id": actor.credential if actor.via == "session" else None,
        "token_id": actor.credential if actor.via == "token" else None,
    }


def _insert(connection: Connection, workspace: str, credential: dict[str, str | None], *, is_ticket: bool) -> str:
    secret = new_secret()
    expires = now() + (TICKET_LIFETIME if is_ticket else SESSION_LIFETIME)
    connection.execute(
        insert(workspace_sessions).values(
            hash=hash_secret(secret), workspace=workspace, is_ticket=is_ticket, expires=expires, **credential
        )
    )
    return secret
