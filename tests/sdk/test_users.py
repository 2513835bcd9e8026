"""The client against the real API."""

from __future__ import annotations

import asyncio

import pytest

from muster.platform.users.credentials import local_token
from muster.sdk import Muster, PlatformError
from tests.server.platform.served import Served

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def test_every_method_for_accounts_teams_and_tokens(served: Served) -> None:
    def story() -> None:
        muster = Muster(served.url, local_token(served.folder))
        me = muster.users.me()
        ann, link = muster.users.create("ann", email="a@example.com")
        assert link is not None
        assert link.startswith(f"{served.url}/welcome#")
        assert muster.users.edit("ann", display_name="Ann").display_name == "Ann"
        assert muster.users.get(ann.id).revision == 2
        assert muster.users.reset_password("ann") != link
        crew = muster.teams.create("crew")
        muster.teams.set_member("crew", "ann", "leader")
        assert [(m.name, m.role) for m in muster.teams.members("crew")] == [("ann", "leader")]
        assert [u.name for u in muster.users.list(team=crew.id)] == ["ann"]
        assert [t.name for t in muster.teams.list(member=ann.id)] == ["crew"]
        assert muster.teams.edit("crew", description="us").description == "us"
        muster.teams.remove_member("crew", "ann")
        assert muster.teams.get("crew").members == 0
        muster.teams.delete("crew")
        token, secret = muster.tokens.create("t", days=None)
        assert token.expires is None
        assert Muster(served.url, secret).users.me().user == me.user
        assert muster.tokens.revoke(token.id).revoked is not None
        with pytest.raises(PlatformError, match="was revoked") as caught:
            Muster(served.url, secret).users.me()
        assert (caught.value.status, caught.value.type) == (401, "unauthenticated")
        assert "t" not in [t.name for t in muster.tokens.list()]
        assert "t" in [t.name for t in muster.tokens.list(all=True)]
        assert [e.action for e in muster.audit.list(kind="token")] == ["revoke", "create"]
        muster.users.edit("ann", disabled=True)
        assert [u.name for u in muster.users.list(disabled=True)] == ["ann"]

    await asyncio.to_thread(story)
