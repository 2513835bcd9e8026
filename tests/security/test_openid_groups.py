"""Users of an OpenID provider who leave it, or one of its groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, update
from yarl import URL

from muster.platform.database.database import Database
from muster.platform.database.tables import now, sessions, users
from muster.platform.permissions import SYSTEM
from muster.platform.settings import OidcSettings, WebSettings
from muster.platform.users.accounts import insert_user
from muster.platform.users.credentials import csrf_token, hash_password
from muster.platform.users.links import insert_link
from muster.platform.users.openid import Person, sign_in_user
from muster.platform.users.sessions import begin_session
from tests.server.platform.served import PASSWORD, Client, Served, serving

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

ISSUER = "https://id.example"
OIDC = OidcSettings(ISSUER, "muster", admin_groups=("ops",), session_hours=12, token_days=30)


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(database, tmp_path / "home", WebSettings(oidc=OIDC)) as running:
        yield running


def person(*groups: str) -> Person:
    return Person(ISSUER, "ann-at-id", "ann", groups=groups)


async def log_in(served: Served, *groups: str) -> Client:
    """As the provider's answer does."""

    def sign_in(connection: Connection) -> str:
        user = sign_in_user(connection, person(*groups), OIDC.admin_groups)
        return begin_session(connection, user, "127.0.0.1", "test", "openid")

    secret = await served.platform.database.write(sign_in)
    client = served.client()
    client.jar.update_cookies({"muster_session": secret, "muster_csrf": csrf_token(secret)}, URL(served.url))
    return client


async def let_pass(served: Served, time: timedelta) -> None:
    def age(connection: Connection) -> None:
        at = now() - time
        connection.execute(update(sessions).values(created=at))
        connection.execute(update(users).where(users.c.issuer != "").values(last_login=at))

    await served.platform.database.write(age)


async def test_session_of_a_former_admin(served: Served) -> None:
    """An admin leaves the admins' group at the provider and goes on with the session from before"""
    ann = await log_in(served, "ops")
    assert (await ann.get("session"))["user"]["role"] == "admin"
    await let_pass(served, timedelta(hours=11))
    await ann.get("session")
    await let_pass(served, timedelta(hours=13))
    (await ann("GET", "session")).refused(401)


async def test_using_a_session_does_not_prolong_it(served: Served) -> None:
    """A user of the provider keeps a session alive by using it, and is never asked for the groups again"""
    ann = await log_in(served, "ops")
    await served.platform.database.write(
        lambda connection: connection.execute(update(sessions).values(last_used=now() - timedelta(hours=5)))
    )
    await ann.get("session")
    await let_pass(served, timedelta(hours=13))
    (await ann("GET", "session")).refused(401)


async def test_admin_token_of_a_former_admin(served: Served) -> None:
    """An admin leaves the admins' group at the provider and goes on with an API token"""
    ann = await log_in(served, "ops")
    secret = (await ann.post("tokens", {"name": "t", "scopes": ["read", "write", "admin"]}))["secret"]
    token = served.client(secret)
    await token.post("teams", {"name": "one"})
    await let_pass(served, timedelta(hours=13))
    (await token("POST", "teams", {"name": "two"})).refused(403)
    await token.get("teams")
    await log_in(served, "ops")
    await token.post("teams", {"name": "two"})


async def test_login_without_the_group(served: Served) -> None:
    """An admin who left the admins' group logs in again"""
    before = await log_in(served, "ops")
    ann = await log_in(served)
    assert (await ann.get("session"))["user"]["role"] == "member"
    (await before("GET", "session")).refused(401)
    (await ann("POST", "teams", {"name": "x"})).refused(403)


async def test_token_of_a_former_user(served: Served) -> None:
    """A user who left the provider goes on with an API token for ever"""
    ann = await log_in(served)
    token = served.client((await ann.post("tokens", {"name": "t", "days": None}))["secret"])
    await let_pass(served, timedelta(days=29))
    await token.get("session")
    await let_pass(served, timedelta(days=31))
    (await token("GET", "session")).refused(401)


async def test_password_of_a_former_user(served: Served) -> None:
    """A user who left the provider logs in with a password that they set before"""
    await log_in(served, "ops")
    hashed = await hash_password(PASSWORD)
    await served.platform.database.write(
        lambda connection: connection.execute(update(users).where(users.c.issuer != "").values(password=hashed))
    )
    reply = await served.client()("POST", "session", {"name": "ann", "password": PASSWORD})
    assert reply.refused(401)["code"] == "login.wrong"


async def test_link_for_a_former_user(served: Served) -> None:
    """A user of the provider gets a password through a one-time link"""
    ann = await log_in(served)
    identifier = (await ann.get("session"))["user"]["id"]
    (await served.admin("POST", "users/ann/link")).refused(409)
    await served.platform.database.write(
        lambda connection: insert_link(connection, identifier, "an older link", timedelta(days=1))
    )
    (await served.client()("POST", "link/use", {"secret": "an older link", "password": PASSWORD})).refused(404)


async def test_a_local_account_of_the_same_name(served: Served) -> None:
    """A user of the provider takes over the local account with the same name"""
    local = await served.platform.database.write(
        lambda connection: insert_user(connection, SYSTEM, "ann", admin=True, email="ann@example.com").id
    )
    ann = await log_in(served)
    me = (await ann.get("session"))["user"]
    assert (me["id"] != local, me["name"], me["role"]) == (True, "ann-2", "member")
