from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, ArtifactUnreachable, public_url
from tests.http_server import serve_http
from tests.workflows.artifacts.conftest import SCOPE, WORKFLOW, Shop


class Site:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"/hello.txt": b"hello"}
        self.seen: list[web.BaseRequest] = []
        self.wants = ""
        """The Authorization header that is required."""
        self.answer = b""
        """The answer of another OAuth server."""
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        if request.path == "/token":
            form = await request.post()
            return web.json_response({"access_token": "t-" + str(form["scope"])})
        if request.path == "/answer":
            return web.Response(body=self.answer)
        if self.wants and request.headers.get("Authorization") != self.wants:
            return web.Response(status=401)
        if request.method == "PUT":
            self.files[request.path] = await request.read()
            return web.Response(status=201)
        if request.path not in self.files:
            return web.Response(status=404)
        if request.method == "DELETE":
            del self.files[request.path]
            return web.Response(status=204)
        return web.Response(body=self.files[request.path])


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serve_http(site.handle) as port:
        site.url = f"http://127.0.0.1:{port}"
        yield site


def http(site: Site, path: str, **more: Any) -> dict[str, Any]:
    return {"name": "a", "path": "/a", "http": {"url": f"{site.url}{path}", **more}}


async def test_a_file_is_fetched_with_headers(shop: Shop, site: Site) -> None:
    artifact = http(site, "/hello.txt", headers=[{"name": "X-Who", "value": "me"}])
    assert (await shop.fetched(artifact)).read_text() == "hello"
    assert site.seen[0].headers["X-Who"] == "me"
    assert await shop.read(artifact) == b"hello"


async def test_a_file_is_sent_and_deleted(shop: Shop, site: Site) -> None:
    artifact = {**http(site, "/new.txt"), "archive": {"none": {}}}
    await shop.artifacts.save(WORKFLOW, artifact, shop.file("new"), SCOPE)
    assert site.files["/new.txt"] == b"new"
    await shop.artifacts.delete(WORKFLOW, artifact)
    assert "/new.txt" not in site.files
    await shop.artifacts.delete(WORKFLOW, artifact)


@pytest.mark.parametrize("kind", ["http", "artifactory"])
async def test_user_and_password_come_from_secrets(shop: Shop, site: Site, kind: str) -> None:
    await shop.secret("login", user="anna", password="pass-word")
    site.wants = f"Basic {base64.b64encode(b'anna:pass-word').decode()}"
    login = {"usernameSecret": {"name": "login", "key": "user"}, "passwordSecret": {"name": "login", "key": "password"}}
    more = {"auth": {"basicAuth": login}} if kind == "http" else login
    assert (await shop.fetched({"name": "a", kind: {"url": f"{site.url}/hello.txt", **more}})).read_text() == "hello"


async def test_a_token_is_asked_for(shop: Shop, site: Site) -> None:
    await shop.secret("oauth", id="me", secret="s", url=f"{site.url}/token")
    site.wants = "Bearer t-read write"
    oauth = {
        "clientIDSecret": {"name": "oauth", "key": "id"}, "clientSecretSecret": {"name": "oauth", "key": "secret"},
        "tokenURLSecret": {"name": "oauth", "key": "url"}, "scopes": ["read", "write"],
    }  # fmt: skip
    assert (await shop.fetched(http(site, "/hello.txt", auth={"oauth2": oauth}))).read_text() == "hello"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"access_token=t%201&token_type=bearer", ""),  # Go's OAuth library reads a form, too, and so Argo does
        (b'{"access_token": "t 1"}', ""),
        (b"<html>", "did not return an access_token"),
        (b"[1]", "did not return an access_token"),
        (b"\xff", "did not return an access_token"),
        (b"access_token=" + b"x" * (1 << 20), "more than 1 MB"),
    ],
)
async def test_answers_of_oauth_servers(shop: Shop, site: Site, answer: bytes, problem: str) -> None:
    await shop.secret("oauth", id="me", secret="s", url=f"{site.url}/answer")
    site.answer, site.wants = answer, "Bearer t 1"
    oauth = {
        "clientIDSecret": {"name": "oauth", "key": "id"}, "clientSecretSecret": {"name": "oauth", "key": "secret"},
        "tokenURLSecret": {"name": "oauth", "key": "url"},
    }  # fmt: skip
    artifact = http(site, "/hello.txt", auth={"oauth2": oauth})
    if problem:
        with pytest.raises(ArtifactError, match=problem):
            await shop.fetched(artifact)
    else:
        assert (await shop.fetched(artifact)).read_text() == "hello"


async def test_the_url_of_a_token_may_name_a_service(shop: Shop, site: Site) -> None:
    port = int(site.url.rpartition(":")[2])
    await shop.service("tokens", "127.0.0.1", 80, port)
    await shop.secret("oauth", id="me", secret="s", url="http://tokens/token\n")
    site.wants = "Bearer t-read"
    oauth = {
        "clientIDSecret": {"name": "oauth", "key": "id"}, "clientSecretSecret": {"name": "oauth", "key": "secret"},
        "tokenURLSecret": {"name": "oauth", "key": "url"}, "scopes": ["read"],
    }  # fmt: skip
    artifact = {"name": "a", "path": "/a", "http": {"url": "http://tokens/hello.txt", "auth": {"oauth2": oauth}}}
    assert (await shop.fetched(artifact)).read_text() == "hello"


async def test_trouble_is_told_apart(shop: Shop, site: Site) -> None:
    with pytest.raises(ArtifactMissing):
        await shop.fetched(http(site, "/none"))
    site.wants = "something else"
    with pytest.raises(ArtifactError, match="HTTP 401"):
        await shop.fetched(http(site, "/hello.txt"))
    with pytest.raises(ArtifactUnreachable, match="cannot connect"):
        await shop.fetched({"name": "a", "http": {"url": "http://127.0.0.1:1/x"}})
    with pytest.raises(ArtifactError, match="is not a URL"):
        await shop.fetched({"name": "a", "http": {"url": "file:///etc/passwd"}})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/p", "https://h/p"),
        ("https://me:secret@h:1/p?sig=abc#f", "https://h:1/p"),
        ("http://[", "(no address)"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    assert public_url(url) == shown
