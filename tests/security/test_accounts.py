"""Attacks on accounts: guessing, locking out, and rights that outlive their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.platform.database.database import Database
from muster.platform.settings import OidcSettings, WebSettings
from muster.platform.users import credentials
from muster.platform.users.login_limits import PER_ACCOUNT, PER_PAIR, PER_SECRET, find_place, remember_device
from muster.platform.users.openid import Attempt, local_path
from tests.server.platform.served import PASSWORD, Client, Reply, Served, serving

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

PROXY = WebSettings(url="https://muster.example", trusted_proxies=("127.0.0.1",))


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(database, tmp_path / "home") as running:
        yield running


@pytest.fixture
async def proxied(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A platform behind a proxy, so that a test can be at many addresses."""
    async with serving(database, tmp_path / "home", PROXY) as running:
        yield running


async def guess(client: Client, name: str, password: str = "a wrong guess", *, address: str = "") -> Reply:
    headers = {"X-Forwarded-For": address} if address else {}
    return await client("POST", "session", {"name": name, "password": password}, headers=headers, csrf=False)


@pytest.fixture
def instant_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are compared without the effort that real hashes take."""

    async def compare(password: str, stored: str | None, *, is_known: bool = True) -> bool:
        await asyncio.sleep(0.01)
        return stored is not None and password == PASSWORD

    monkeypatch.setattr("muster.server.platform.sessions.verify_password", compare)


@pytest.mark.usefixtures("instant_hashes")
async def test_parallel_guesses(served: Served) -> None:
    """A stranger sends 200 guesses at once, before the first failure is counted"""
    await served.user("ann")
    replies = await asyncio.gather(*(guess(served.client(), "ann") for _ in range(200)))
    assert [reply.status for reply in replies].count(401) == PER_PAIR
    assert {reply.status for reply in replies} == {401, 429}


@pytest.mark.usefixtures("instant_hashes")
async def test_parallel_guesses_from_many_addresses(proxied: Served) -> None:
    """A stranger with 200 addresses guesses the password of one account"""
    await proxied.user("ann")
    guesses = (guess(proxied.client(), "ann", address=f"203.0.113.{number}") for number in range(200))
    assert [reply.status for reply in await asyncio.gather(*guesses)].count(401) == PER_ACCOUNT


@pytest.mark.usefixtures("instant_hashes")
async def test_lock_out_with_known_browser(proxied: Served) -> None:
    """A stranger locks the owner out of their account: a browser that was used before still gets in"""
    await proxied.user("ann")
    owner = proxied.client()
    (await guess(owner, "ann", PASSWORD, address="198.51.100.1")).ok()
    device = {"Cookie": f"muster_device={_device_cookie(owner)}", "X-Forwarded-For": "198.51.100.77"}
    for number in range(PER_ACCOUNT + PER_PAIR):
        await guess(proxied.client(), "ann", address=f"203.0.113.{number}")
    (await guess(proxied.client(), "ann", PASSWORD, address="198.51.100.77")).refused(429)
    (await proxied.client()("POST", "session", {"name": "ann", "password": PASSWORD}, headers=device)).ok()


@pytest.mark.usefixtures("instant_hashes")
async def test_lock_out_with_known_address(proxied: Served) -> None:
    """A stranger locks the owner out of their account: an address with an earlier login still gets in"""
    await proxied.user("ann")
    (await guess(proxied.client(), "ann", PASSWORD, address="198.51.100.1")).ok()
    for number in range(PER_ACCOUNT + PER_PAIR):
        await guess(proxied.client(), "ann", address=f"203.0.113.{number}")
    (await guess(proxied.client(), "ann", PASSWORD, address="198.51.100.1")).ok()


@pytest.mark.usefixtures("instant_hashes")
async def test_forged_forwarded_header(served: Served) -> None:
    """A stranger pretends to have many addresses with X-Forwarded-For"""
    await served.user("ann")
    guesses = [await guess(served.client(), "ann", address=f"203.0.113.{number}") for number in range(PER_PAIR + 1)]
    assert [reply.status for reply in guesses].count(401) == PER_PAIR


@pytest.mark.usefixtures("instant_hashes")
async def test_forged_forwarded_header_through_proxy(proxied: Served) -> None:
    """A stranger behind the proxy puts made-up addresses in front of the one that the proxy adds"""
    await proxied.user("ann")
    said = [f"198.51.100.{number}, 203.0.113.5" for number in range(PER_PAIR + 1)]
    guesses = [await guess(proxied.client(), "ann", address=each) for each in said]
    assert [reply.status for reply in guesses].count(401) == PER_PAIR


@pytest.mark.usefixtures("instant_hashes")
async def test_one_ipv6_network(proxied: Served) -> None:
    """A stranger uses a new address of their IPv6 network for each guess"""
    await proxied.user("ann")
    guesses = [await guess(proxied.client(), "ann", address=f"2001:db8::{number:x}") for number in range(PER_PAIR + 1)]
    assert [reply.status for reply in guesses].count(401) == PER_PAIR


@pytest.mark.usefixtures("instant_hashes")
async def test_own_login_resets_nothing(served: Served) -> None:
    """A member logs in to their own account between guesses, to reset the count"""
    await served.user("ann")
    await served.user("mallory")
    found = []
    for _ in range(PER_PAIR + 2):
        found.append((await guess(served.client(), "ann")).status)
        (await guess(served.client(), "mallory", PASSWORD)).ok()
    assert found.count(401) == PER_PAIR


@pytest.mark.usefixtures("instant_hashes")
async def test_unknown_accounts_look_the_same(served: Served) -> None:
    """A stranger finds out which accounts exist by the answers"""
    await served.user("ann")
    known = [await guess(served.client(), "ann") for _ in range(PER_PAIR + 1)]
    unknown = [await guess(served.client(), "nobody") for _ in range(PER_PAIR + 1)]

    def told(reply: Reply) -> tuple[object, ...]:
        return reply.status, reply.body["code"], sorted(reply.headers)

    assert [told(reply) for reply in known] == [told(reply) for reply in unknown]


async def test_hashes_do_not_pile_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers with many addresses keep the password hashes busy; a known user still gets a turn"""
    monkeypatch.setattr(credentials, "_waiting", credentials._MOST_WAITING_STRANGERS)
    await served.user("ann")
    refused = (await guess(served.client(), "ann")).refused(429)
    assert refused["code"] == "login.busy"
    ann = (await served.admin.get("users/ann"))["id"]
    secret = await served.platform.database.write(lambda connection: remember_device(connection, ann, "", "192.0.2.1"))
    known = {"Cookie": f"muster_device={secret}"}
    (await served.client()("POST", "session", {"name": "ann", "password": PASSWORD}, headers=known)).ok()


async def test_planted_device_cookie(database: Database, served: Served) -> None:
    """A stranger plants a device cookie they know, to have a count of their own after the owner's login"""
    await served.user("ann")
    ann = (await served.admin.get("users/ann"))["id"]
    planted = "known to the stranger"
    fresh = await database.write(lambda connection: remember_device(connection, ann, planted, "192.0.2.1"))
    place = await database.read(lambda connection: find_place(connection, ann, planted, "203.0.113.1"))
    assert (place.device, place.is_known) == ("", False)
    assert (await database.read(lambda connection: find_place(connection, ann, fresh, "203.0.113.1"))).device


async def test_device_of_another_account(database: Database, served: Served) -> None:
    """A member uses the device cookie of their own account for guesses on another one"""
    for name in ("ann", "mallory"):
        await served.user(name)
    ann, mallory = [(await served.admin.get(f"users/{name}"))["id"] for name in ("ann", "mallory")]
    secret = await database.write(lambda connection: remember_device(connection, mallory, "", "203.0.113.1"))
    place = await database.read(lambda connection: find_place(connection, ann, secret, "203.0.113.1"))
    assert (place.device, place.is_known) == ("", False)


async def test_guessing_links(served: Served) -> None:
    """A stranger guesses one-time links"""
    client = served.client()
    found = [(await client("POST", "link", {"secret": f"{number:064}"})).status for number in range(PER_SECRET + 1)]
    assert (found.count(404), found[-1]) == (PER_SECRET, 429)


@pytest.mark.usefixtures("instant_hashes")
async def test_guessing_the_old_password_with_a_stolen_session(served: Served) -> None:
    """A thief of a session guesses the old password; the owner's other session can still change it"""
    ann = await served.user("ann")
    (await guess(owner := served.client(), "ann", PASSWORD)).ok()
    change = {"old": "a wrong guess", "new": "another good passphrase"}
    guesses = [(await ann("POST", "password", change)).status for _ in range(PER_PAIR + 1)]
    assert guesses == [422] * PER_PAIR + [429]
    await owner.post("password", {**change, "old": PASSWORD})


@pytest.mark.parametrize("cookie", ["MQ==", "bnVsbA==", "e30=", "W10=", "not base64", "WzFd"])
async def test_malformed_openid_cookie(database: Database, tmp_path: Path, cookie: str) -> None:
    """A stranger sends a malformed cookie to the OpenID callback"""
    web = WebSettings(oidc=OidcSettings("http://127.0.0.1:9", "muster"))
    async with serving(database, tmp_path / "home", web) as served:
        headers = {"Cookie": f"muster_login={cookie}"}
        (await served.client()("GET", "openid/callback?state=s&code=c", headers=headers)).refused(401)


async def test_openid_answer_of_another_provider(database: Database, tmp_path: Path) -> None:
    """A hostile provider sends the browser back with a code for the configured one (mix-up)"""
    web = WebSettings(oidc=OidcSettings("http://127.0.0.1:9", "muster"))
    async with serving(database, tmp_path / "home", web) as served:
        headers = {"Cookie": f"muster_login={Attempt('s', 'n', 'v', '/').encode()}"}
        reply = await served.client()("GET", "openid/callback?state=s&code=c&iss=https://evil.example", headers=headers)
        assert reply.refused(401)["code"] == "openid.other"


@pytest.mark.usefixtures("instant_hashes")
async def test_lock_out_of_openid(database: Database, tmp_path: Path) -> None:
    """A stranger keeps all users of a network from logging in with OpenID: a browser that was used before gets in"""
    web = WebSettings(oidc=OidcSettings("http://127.0.0.1:9", "muster"))
    async with serving(database, tmp_path / "home", web) as served:
        await served.user("ann")
        (await guess(owner := served.client(), "ann", PASSWORD)).ok()
        answer, attempt = "openid/callback?state=x&code=c", Attempt("s", "n", "v", "/").encode()
        stranger = [
            (await served.client()("GET", answer, headers={"Cookie": f"muster_login={attempt}"})).status
            for _ in range(PER_SECRET + 1)
        ]
        assert stranger == [401] * PER_SECRET + [429]
        known = {"Cookie": f"muster_login={attempt}; muster_device={_device_cookie(owner)}"}
        assert (await served.client()("GET", answer, headers=known)).refused(401)["code"] == "openid.other"
        made_up = {"Cookie": f"muster_login={attempt}; muster_device=made-up"}
        (await served.client()("GET", answer, headers=made_up)).refused(429)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example", "//evil.example", "/\\\\evil.example", "\\\\evil.example", "/\tevil.x", "/\n/x",
        "javascript:alert(1)", "///evil.example", " //evil.example", "evil.example", "",
    ],
    ids=lambda target: f"A link sends the user to another site after the login: {target!r}",
)  # fmt: skip
@pytest.mark.usefixtures("database_url")
async def test_open_redirect(target: str) -> None:
    assert local_path(target) == "/"
    assert Attempt.decode(Attempt("s", "n", "v", target).encode()).return_to == "/"


def _device_cookie(client: Client) -> str:
    return client.cookies["muster_device"]
