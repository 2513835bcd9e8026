"""Accounts, teams, tokens and the audit log, for users with and without permission."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.platform.database.tables import api_tokens, now
from muster.platform.users.tokens import issue_run_token, revoke_run_tokens
from tests.server.platform.served import PASSWORD, Client, Served


async def identifier(client: Client) -> str:
    return str((await client.get("session"))["user"]["id"])


async def test_a_new_account_gets_a_link_to_set_the_password(served: Served) -> None:
    made = await served.admin.post("users", {"name": "bob", "display_name": "Bob", "email": "b@example.com"})
    assert made["user"]["role"] == "member"
    secret = made["link"].removeprefix(f"{served.url}/welcome#")
    bob = served.client()
    assert await bob.post("link", {"secret": secret}) == {"name": "bob"}
    await bob.post("link/use", {"secret": secret, "password": PASSWORD})
    assert (await bob.get("session"))["user"]["email"] == "b@example.com"


async def test_a_reset_voids_older_links_and_keeps_the_old_password_until_it_is_used(served: Served) -> None:
    await served.user("bob")
    first, second = [(await served.admin.post("users/bob/link"))["link"].rpartition("#")[2] for _ in range(2)]
    (await served.client()("POST", "link", {"secret": first})).refused(404)
    await served.log_in("bob")
    await served.client().post("link/use", {"secret": second, "password": "another good passphrase"})
    (await served.client()("POST", "session", {"name": "bob", "password": PASSWORD})).refused(401)


async def test_names_are_unique(served: Served) -> None:
    await served.user("bob")
    problem = (await served.admin("POST", "users", {"name": "bob"})).refused(409)
    assert problem["errors"][0]["field"] == "name"
    assert problem["detail"] == 'there is already an account "bob"'


async def test_admins_see_more_of_a_user_than_others(served: Served) -> None:
    ann, _ = await served.user("ann"), await served.user("bob")
    private = {"email", "last_login", "has_password", "openid"}
    assert {field for field, value in (await ann.get("users/bob")).items() if value is None} == private
    assert (await ann.get("users/ann"))["has_password"] is True
    assert (await served.admin.get("users/bob"))["has_password"] is True
    listed = (await ann.get("users"))["items"]
    assert [user["name"] for user in listed if user["email"] is not None] == ["ann"]


async def test_only_admins_manage_accounts(served: Served) -> None:
    ann = await served.user("ann")
    bob = await served.user("bob")
    for method, path, body in [
        ("POST", "users", {"name": "eve"}),
        ("PATCH", "users/bob", {"display_name": "Bobby"}),
        ("PATCH", "users/ann", {"role": "admin"}),
        ("PATCH", "users/bob", {"disabled": True}),
        ("POST", "users/bob/link", None),
        ("POST", "users/ann/link", None),
        ("POST", "teams", {"name": "crew"}),
    ]:
        (await ann(method, path, body)).refused(403)
    (await ann("PATCH", "users/ann", {"display_name": "Ann"})).ok()
    (await served.admin("PATCH", "users/bob", {"role": "admin"})).ok()
    (await bob("GET", "session")).refused(401)
    bob = await served.log_in("bob")
    (await bob("PATCH", "users/ann", {"display_name": "Anna"})).ok()
    (await bob("PATCH", "users/bob", {"role": "member"})).refused(403)
    (await bob("PATCH", "users/bob", {"disabled": True})).refused(403)


async def test_a_disabled_account_is_logged_out_at_once_and_can_be_enabled(served: Served) -> None:
    bob = await served.user("bob")
    token = served.client((await bob.post("tokens", {"name": "t"}))["secret"])
    await token.get("session")
    (await served.admin("PATCH", "users/bob", {"disabled": True})).ok()
    (await bob("GET", "session")).refused(401)
    (await token("GET", "session")).refused(401)
    (await served.client()("POST", "session", {"name": "bob", "password": PASSWORD})).refused(401)
    (await served.admin("PATCH", "users/bob", {"disabled": False})).ok()
    await token.get("session")
    (await bob("GET", "session")).refused(401)
    await served.log_in("bob")


async def test_concurrent_changes_do_not_overwrite_each_other(served: Served) -> None:
    await served.user("bob")
    reply = await served.admin("GET", "users/bob")
    seen = {"If-Match": reply.headers["ETag"]}
    changed = await served.admin("PATCH", "users/bob", {"display_name": "Bob"}, headers=seen)
    assert changed.ok()["display_name"] == "Bob"
    (await served.admin("PATCH", "users/bob", {"display_name": "Bert"}, headers=seen)).refused(412)
    newer = {"If-Match": changed.headers["ETag"]}
    (await served.admin("PATCH", "users/bob", {"display_name": "Bert"}, headers=newer)).ok()
    (await served.admin("PATCH", "users/bob", {"email": "x"}, headers={"If-Match": "nonsense"})).refused(400)


async def test_users_are_filtered_sorted_and_paged(served: Served) -> None:
    for name in ("ann", "bob", "cleo", "dan"):
        await served.user(name, "admin" if name == "cleo" else "member")
    (await served.admin("PATCH", "users/dan", {"disabled": True})).ok()
    await served.admin.post("teams", {"name": "crew"})
    (await served.admin("PUT", "teams/crew/members/bob", {"role": "leader"})).ok()
    (await served.admin("PUT", "teams/crew/members/dan", {})).ok()
    crew = (await served.admin.get("teams/crew"))["id"]
    own = (await served.admin.get("session"))["user"]["name"]
    for query, expected in {
        "role=leader": ["bob"],
        "role=member": ["ann", "dan"],
        f"team={crew}": ["bob", "dan"],
        "disabled=true": ["dan"],
        "q=cl": ["cleo"],
        "disabled=false&role=member": ["ann"],
        "sort=-name": sorted(["ann", "bob", "cleo", "dan", own], reverse=True),
    }.items():
        assert [user["name"] for user in (await served.admin.get(f"users?{query}"))["items"]] == expected, query
    first = await served.admin.get("users?limit=3")
    rest = await served.admin.get(f"users?limit=3&cursor={first['next']}")
    assert [u["name"] for u in first["items"] + rest["items"]] == sorted(["ann", "bob", "cleo", "dan", own])
    assert (first["total"], rest["next"]) == (5, None)


async def test_leaders_manage_only_their_own_team(served: Served) -> None:
    ann, bob, eve = [await served.user(name) for name in ("ann", "bob", "eve")]
    for team in ("crew", "others"):
        await served.admin.post("teams", {"name": team, "description": "of us"})
    (await served.admin("PUT", "teams/crew/members/ann", {"role": "leader"})).ok()
    (await bob("PUT", "teams/crew/members/bob", {})).refused(403)
    (await ann("PUT", "teams/others/members/bob", {})).refused(403)
    (await ann("PUT", "teams/crew/members/bob", {})).ok()
    (await ann("PATCH", "teams/crew", {"description": "the best"})).ok()
    (await bob("PATCH", "teams/crew", {"description": "mine"})).refused(403)
    (await ann("DELETE", "teams/crew")).refused(403)
    me = await bob.get("session")
    crew = await eve.get("teams/crew")
    assert me["teams"] == {crew["id"]: "member"}
    assert (crew["members"], crew["description"]) == (2, "the best")
    members = (await eve.get("teams/crew/members"))["items"]
    assert [(member["name"], member["role"]) for member in members] == [("ann", "leader"), ("bob", "member")]
    assert [team["name"] for team in (await eve.get(f"teams?member={await identifier(bob)}"))["items"]] == ["crew"]
    (await eve("DELETE", "teams/crew/members/bob")).refused(403)
    (await bob("DELETE", "teams/crew/members/bob")).ok()
    (await ann("DELETE", "teams/crew/members/bob")).refused(404)
    (await served.admin("DELETE", "teams/crew")).ok()
    assert (await ann.get("session"))["teams"] == {}
    (await eve("GET", "teams/crew")).refused(404)


async def test_a_token_is_shown_once_and_can_be_revoked(served: Served) -> None:
    ann = await served.user("ann")
    made = await ann.post("tokens", {"name": "ci", "days": 1})
    assert made["secret"].startswith("mst_")
    assert made["secret"].endswith(made["token"]["hint"])
    script = served.client(made["secret"])
    assert (await script.get("session"))["via"] == "token"
    listed = await ann.get("tokens")
    assert made["secret"] not in str(listed)
    assert [token["name"] for token in listed["items"]] == ["ci"]
    assert listed["items"][0]["last_used"] is not None
    (await ann("DELETE", f"tokens/{made['token']['id']}")).ok()
    (await script("GET", "session")).refused(401)
    assert (await ann.get("tokens"))["items"] == []
    assert len((await ann.get("tokens?all=true"))["items"]) == 1


async def test_tokens_are_stored_as_hashes(served: Served) -> None:
    ann = await served.user("ann")
    secret = (await ann.post("tokens", {"name": "ci"}))["secret"]
    rows = await served.platform.database.read(lambda connection: connection.execute(api_tokens.select()).all())
    assert secret not in str(rows)


async def test_tokens_of_other_users_are_not_visible(served: Served) -> None:
    ann, eve = await served.user("ann"), await served.user("eve")
    made = await ann.post("tokens", {"name": "ci"})
    assert (await eve.get("tokens"))["items"] == []
    (await eve("DELETE", f"tokens/{made['token']['id']}")).refused(404)
    assert [token["user_name"] for token in (await served.admin.get("tokens?user=ann"))["items"]] == ["ann"]
    (await served.admin("DELETE", f"tokens/{made['token']['id']}")).ok()


async def test_a_token_is_limited_to_its_scopes(served: Served) -> None:
    boss = await served.user("boss", "admin")
    reader = served.client((await boss.post("tokens", {"name": "r", "scopes": ["read"]}))["secret"])
    writer = served.client((await boss.post("tokens", {"name": "w"}))["secret"])
    chief = served.client((await boss.post("tokens", {"name": "a", "scopes": ["read", "write", "admin"]}))["secret"])
    assert "scope" in (await reader("POST", "teams", {"name": "x"})).refused(403)["detail"]
    (await writer("POST", "teams", {"name": "x"})).refused(403)
    (await chief("POST", "teams", {"name": "x"})).ok()
    refused = (await writer("POST", "tokens", {"name": "more", "scopes": ["read", "admin"]})).refused(422)
    assert "more rights than its own" in refused["detail"]
    ann = await served.user("ann")
    (await ann("POST", "tokens", {"name": "x", "scopes": ["admin"]})).refused(422)


async def test_a_token_expires(served: Served) -> None:
    ann = await served.user("ann")
    made = await ann.post("tokens", {"name": "ci"})
    past = now() - timedelta(seconds=1)
    await served.platform.database.write(
        lambda connection: connection.execute(api_tokens.update().values(expires=past))
    )
    (await served.client(made["secret"])("GET", "session")).refused(401)


async def test_the_token_of_a_run_is_limited_and_ends_with_the_run(served: Served) -> None:
    ann = await served.user("ann")
    user = await identifier(ann)
    database = served.platform.database
    run = served.client(await database.write(lambda connection: issue_run_token(connection, user, "run-1")))
    assert (await run.get("session"))["scopes"] == ["run"]
    await run.get("users")
    for method, path, body in [
        ("POST", "tokens", {"name": "x"}),
        ("PATCH", "users/ann", {"email": "x"}),
        ("POST", "users", {"name": "x"}),
    ]:
        (await run(method, path, body)).refused(403)
    (await run("GET", "tokens")).refused(403)
    (await run("GET", "audit")).refused(403)
    assert (await ann.get("tokens"))["items"] == [], "tokens of runs are not in the audit log"
    await database.write(lambda connection: revoke_run_tokens(connection, "run-1"))
    (await run("GET", "session")).refused(401)


async def test_every_change_is_in_the_audit_log_without_secrets(served: Served) -> None:
    await served.admin.post("users", {"name": "bob", "password": PASSWORD})
    bob = await served.log_in("bob")
    secret = (await bob.post("tokens", {"name": "ci"}))["secret"]
    await served.admin.post("teams", {"name": "crew"})
    (await served.admin("PUT", "teams/crew/members/bob", {"role": "leader"})).ok()
    (await served.admin("PATCH", "users/bob", {"disabled": True})).ok()
    entries = (await served.admin.get("audit?sort=at"))["items"]
    admin = (await served.admin.get("session"))["user"]["name"]
    assert [(e["actor_name"], e["via"], e["action"], e["kind"], e["subject_name"]) for e in entries] == [
        ("system", "system", "create", "user", admin),
        (admin, "token", "create", "user", "bob"),
        ("bob", "session", "log in", "user", "bob"),
        ("bob", "session", "create", "token", "ci"),
        (admin, "token", "create", "team", "crew"),
        (admin, "token", "set member", "team", "crew"),
        (admin, "token", "edit", "user", "bob"),
    ]
    assert entries[1]["address"] == "127.0.0.1"
    assert entries[5]["details"] == {"user": "bob", "role": "leader"}
    assert entries[6]["details"] == {"disabled": True}
    for hidden in (PASSWORD, secret, "argon2"):
        assert hidden not in str(entries)
    about_bob = await served.admin.get(f"audit?kind=user&subject={entries[1]['subject_id']}")
    assert about_bob["total"] == 3


@pytest.mark.parametrize("path", ["audit", "audit?actor=boss", "audit?kind=user"])
async def test_users_see_their_own_audit_entries(served: Served, path: str) -> None:
    boss, ann = await served.user("boss", "admin"), await served.user("ann")
    (await ann("PATCH", "users/ann", {"email": "x"})).ok()
    (await boss("PATCH", "users/ann", {"email": "y"})).ok()
    assert {entry["actor_name"] for entry in (await ann.get(path))["items"]} <= {"ann"}
