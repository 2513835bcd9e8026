"""Logins to workspaces: tickets work once, cookies last as long as what opened the workspace."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Connection, update

from muster.platform.database.database import Database
from muster.platform.database.tables import now, workspace_sessions
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.users.accounts import insert_user
from muster.platform.users.sessions import begin_session, end_session, session_actor
from muster.platform.users.tokens import create_token, token_actor
from muster.platform.users.workspace_sessions import MOST_LOGINS, issue_ticket, redeem_ticket, workspace_actor


def _log_in(connection: Connection) -> Actor:
    user = insert_user(connection, SYSTEM, "ann")
    found = session_actor(connection, begin_session(connection, user, "", "", "password"), "")
    assert found is not None
    return found[0]


async def test_a_ticket_becomes_a_cookie_once(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = _log_in(connection)
        ticket = issue_ticket(connection, ann, "lab")
        assert workspace_actor(connection, ticket, "lab", "") is None
        cookie = redeem_ticket(connection, ticket, "lab")
        assert cookie is not None
        assert redeem_ticket(connection, ticket, "lab") is None
        assert redeem_ticket(connection, cookie, "lab") is None
        assert workspace_actor(connection, cookie, "other", "") is None
        found = workspace_actor(connection, cookie, "lab", "1.2.3.4")
        assert found is not None
        assert (found[0].id, found[0].credential, found[0].address) == (ann.id, ann.credential, "1.2.3.4")
        end_session(connection, ann, ann.credential)
        assert workspace_actor(connection, cookie, "lab", "") is None

    await database.write(story)


async def test_a_ticket_expires_and_is_for_one_workspace(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = _log_in(connection)
        ticket = issue_ticket(connection, ann, "lab")
        assert redeem_ticket(connection, ticket, "other") is None
        assert redeem_ticket(connection, ticket, "lab") is None
        late = issue_ticket(connection, ann, "lab")
        connection.execute(update(workspace_sessions).values(expires=now() - timedelta(seconds=1)))
        assert redeem_ticket(connection, late, "lab") is None

    await database.write(story)


async def test_a_token_opens_a_workspace_with_its_scopes(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = _log_in(connection)
        made = token_actor(connection, create_token(connection, ann, "cli", scopes=("read",))[1], "")
        assert made is not None
        cookie = redeem_ticket(connection, issue_ticket(connection, made[0], "lab"), "lab")
        assert cookie is not None
        found = workspace_actor(connection, cookie, "lab", "")
        assert found is not None
        assert found[0].scopes == {"read"}

    await database.write(story)


async def test_the_oldest_logins_of_a_session_end(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = _log_in(connection)
        cookies = [
            redeem_ticket(connection, issue_ticket(connection, ann, "lab"), "lab") for _ in range(MOST_LOGINS + 2)
        ]
        alive = [workspace_actor(connection, str(cookie), "lab", "") is not None for cookie in cookies]
        assert alive == [False, False, *[True] * MOST_LOGINS]

    await database.write(story)


async def test_the_platform_itself_opens_none(database: Database) -> None:
    with pytest.raises(ValueError, match="system cannot open a workspace"):
        await database.write(lambda connection: issue_ticket(connection, SYSTEM, "lab"))
