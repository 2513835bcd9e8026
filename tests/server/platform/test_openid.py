"""Logging in with a real provider, which runs in its own process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import orjson
import pytest

from muster.platform.database.database import Database
from muster.platform.settings import OidcSettings, WebSettings
from tests.http_server import reserve_port
from tests.server.platform.served import Client, Served, serving

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

ANN = {"sub": "ann-at-id", "preferred_username": "Ann", "name": "Ann Lee", "email": "ann@example.com", "groups": ["ml"]}


@pytest.fixture
async def issuer() -> AsyncIterator[str]:
    port = reserve_port()
    users = ["--user-claims", orjson.dumps(ANN).decode()]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true", *users,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(60):
            while True:
                try:
                    async with session.get(f"{url}/.well-known/openid-configuration"):
                        break
                except aiohttp.ClientError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
        yield url
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
async def single(database: Database, issuer: str, tmp_path: Path) -> AsyncIterator[Served]:
    oidc = OidcSettings(issuer, "muster", "not checked by this provider", title="Example", admin_groups=("ml",))
    async with serving(database, tmp_path / "home", WebSettings(oidc=oidc)) as running:
        yield running


async def consent(url: str, subject: str) -> str:
    """Logs in at the provider, and returns where the browser is sent next."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data={"sub": subject}, allow_redirects=False) as response,
    ):
        assert response.status == 302, await response.text()
        return response.headers["Location"]


def local(served: Served, url: str) -> str:
    assert url.startswith(f"{served.url}/api/v1/openid/callback?")
    return url.removeprefix(served.url)


async def begin(browser: Client, return_to: str = "/runs") -> str:
    reply = await browser("GET", f"openid/login?{urlencode({'return_to': return_to})}")
    assert reply.status == 302, reply.body
    return reply.headers["Location"]


async def test_a_user_logs_in_through_the_provider(single: Served) -> None:
    browser = single.client()
    assert (await browser.get("login-options"))["openid"] == "Example"
    back = await consent(await begin(browser), "ann-at-id")
    reply = await browser("GET", local(single, back))
    assert (reply.status, reply.headers["Location"]) == (302, "/runs")
    assert browser.cookies.keys() == {"muster_session", "muster_csrf", "muster_device"}
    me = (await browser.get("session"))["user"]
    assert (me["name"], me["display_name"], me["email"]) == ("ann", "Ann Lee", "ann@example.com")
    assert (me["role"], me["openid"], me["has_password"]) == ("admin", True, False)
    entries = (await browser.get("audit?action=log in".replace(" ", "%20")))["items"]
    assert [entry["details"] for entry in entries] == [{"with": "openid"}]

    again = single.client()
    (await again("GET", local(single, await consent(await begin(again), "ann-at-id"))))
    assert (await again.get("session"))["user"]["id"] == me["id"]


async def test_a_code_works_once_and_only_in_the_browser_that_requested_it(single: Served) -> None:
    browser, thief = single.client(), single.client()
    back = local(single, await consent(await begin(browser), "ann-at-id"))
    assert "did not start here" in (await thief("GET", back)).refused(401)["detail"]
    await begin(thief)
    assert "did not start here" in (await thief("GET", back)).refused(401)["detail"], "with its own login"
    assert (await browser("GET", back)).status == 302
    (await browser("GET", back)).refused(401)


async def test_a_refusal_at_the_provider_is_reported(single: Served) -> None:
    browser = single.client()
    state = parse_qs(urlsplit(await begin(browser)).query)["state"][0]
    said = urlencode({"state": state, "error": "access_denied", "error_description": "not today"})
    assert (await browser("GET", f"openid/callback?{said}")).refused(401)[
        "detail"
    ] == "Example refused the login: not today"
    made_up = urlencode({"state": state, "code": "made-up"})
    assert "Example refused" in (await browser("GET", f"openid/callback?{made_up}")).refused(401)["detail"]


async def test_an_unavailable_provider_is_named(database: Database, tmp_path: Path) -> None:
    oidc = OidcSettings("http://127.0.0.1:1", "muster", title="Example")
    async with serving(database, tmp_path / "home", WebSettings(oidc=oidc)) as served:
        problem = (await served.client()("GET", "openid/login")).refused(503)
        assert "Example cannot be reached at http://127.0.0.1:1/.well-known" in problem["detail"]


async def test_a_remote_provider_needs_https(database: Database, tmp_path: Path) -> None:
    oidc = OidcSettings("http://id.example", "muster")
    async with serving(database, tmp_path / "home", WebSettings(oidc=oidc)) as served:
        assert "https" in (await served.client()("GET", "openid/login")).refused(503)["detail"]


async def test_without_a_provider_this_login_is_missing(served: Served) -> None:
    assert (await served.client().get("login-options"))["openid"] is None
    (await served.client()("GET", "openid/login")).refused(404)
