"""Logging in and out."""

from __future__ import annotations

import pytest

from muster.platform.users.login_limits import PER_PAIR
from tests.server.platform.served import PASSWORD, Served


async def test_the_first_link_creates_an_admin_and_works_once(served: Served) -> None:
    browser = served.client()
    secret = served.first_link
    name = (await browser.post("link", {"secret": secret}))["name"]
    weak = (await browser("POST", "link/use", {"secret": secret, "password": name * 20})).refused(422)
    assert weak["errors"][0]["field"] == "password"
    assert (await browser.post("link/use", {"secret": secret, "password": PASSWORD}))["role"] == "admin"
    me = await browser.get("session")
    assert (me["user"]["name"], me["user"]["role"], me["via"]) == (name, "admin", "session")
    assert served.first_link == "", "it is shown once only"
    for path, body in (("link", {}), ("link/use", {"password": PASSWORD})):
        (await served.client()("POST", path, {"secret": secret, **body})).refused(404)
    shell = await served.admin.get("session")
    assert shell["user"]["id"] == me["user"]["id"], "the same user in the shell"
    assert (await served.log_in(name)).cookies.keys() == {"muster_session", "muster_csrf", "muster_device"}


async def test_cookies_are_not_readable_by_scripts_and_other_sites(served: Served) -> None:
    await served.user("ann")
    ann = await served.log_in("ann")
    cookies = {cookie.key: cookie for cookie in ann.jar}
    assert cookies["muster_session"]["httponly"] is True
    assert cookies["muster_csrf"]["httponly"] == ""
    assert cookies["muster_device"]["httponly"] is True
    for name, path in {"muster_session": "/", "muster_csrf": "/", "muster_device": "/api/v1"}.items():
        assert (cookies[name]["samesite"], cookies[name]["path"], cookies[name]["secure"]) == ("lax", path, "")


async def test_changes_need_the_csrf_token(served: Served) -> None:
    ann = await served.user("ann")
    assert "muster_csrf" in (await ann("POST", "tokens", {"name": "t"}, csrf=False)).refused(403)["detail"]
    wrong = {"X-CSRF-Token": "0" * 64}
    (await ann("POST", "tokens", {"name": "t"}, csrf=False, headers=wrong)).refused(403)
    other = await served.user("bob")
    wrong = {"X-CSRF-Token": other.cookies["muster_csrf"]}
    (await ann("POST", "tokens", {"name": "t"}, csrf=False, headers=wrong)).refused(403)
    await ann.post("tokens", {"name": "t"})


async def test_logging_out_ends_the_session_on_the_server(served: Served) -> None:
    ann = await served.user("ann")
    stolen = {"Cookie": f"muster_session={ann.cookies['muster_session']}"}
    (await served.client()("GET", "session", headers=stolen)).ok()
    (await ann("DELETE", "session")).ok()
    assert "muster_session" not in ann.cookies
    (await served.client()("GET", "session", headers=stolen)).refused(401)


async def test_users_list_and_end_their_sessions(served: Served) -> None:
    first = await served.user("ann")
    second = await served.log_in("ann")
    listed = await first.get("sessions?sort=created")
    assert listed["total"] == 2
    bob = await served.user("bob")
    (await bob("DELETE", f"sessions/{listed['items'][1]['id']}")).refused(404)
    (await first("DELETE", f"sessions/{listed['items'][1]['id']}")).ok()
    (await second("GET", "session")).refused(401)
    await first.get("session")


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong password"), ("nobody", PASSWORD), ("", ""), ("ANN", PASSWORD)]
)
async def test_a_wrong_name_and_a_wrong_password_get_the_same_error(served: Served, name: str, password: str) -> None:
    await served.user("ann")
    reply = await served.client()("POST", "session", {"name": name, "password": password})
    assert reply.refused(401)["detail"] == "the name or the password is wrong"


async def test_an_id_cannot_be_used_as_a_name(served: Served) -> None:
    ann = await served.user("ann")
    identifier = (await ann.get("session"))["user"]["id"]
    (await served.client()("POST", "session", {"name": identifier, "password": PASSWORD})).refused(401)


async def test_failed_logins_are_slowed_down_for_that_account_only(served: Served) -> None:
    await served.user("ann")
    await served.user("bob")
    guesser = served.client()
    for _ in range(PER_PAIR):
        (await guesser("POST", "session", {"name": "ann", "password": "guess"})).refused(401)
    reply = await guesser("POST", "session", {"name": "ann", "password": PASSWORD})
    assert "too many failed attempts" in reply.refused(429)["detail"]
    assert int(reply.headers["Retry-After"]) > 200
    await served.log_in("bob")


async def test_a_new_password_ends_all_other_sessions(served: Served) -> None:
    here, elsewhere = await served.user("ann"), await served.log_in("ann")
    new = "another good passphrase"
    wrong = (await here("POST", "password", {"old": "not it", "new": new})).refused(422)
    assert wrong["errors"][0]["field"] == "old"
    weak = (await here("POST", "password", {"old": PASSWORD, "new": "short"})).refused(422)
    assert weak["errors"][0]["field"] == "new"
    await here.post("password", {"old": PASSWORD, "new": new})
    await here.get("session")
    (await elsewhere("GET", "session")).refused(401)
    (await served.client()("POST", "session", {"name": "ann", "password": PASSWORD})).refused(401)
    await served.client().post("session", {"name": "ann", "password": new})


async def test_a_token_cannot_change_the_password(served: Served) -> None:
    ann = await served.user("ann")
    secret = (await ann.post("tokens", {"name": "t"}))["secret"]
    reply = await served.client(secret)("POST", "password", {"old": PASSWORD, "new": "another good passphrase"})
    reply.refused(401)
