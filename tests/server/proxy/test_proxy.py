"""A user opens a workspace in a browser: the link, the cookie, requests, WebSockets, large bodies, a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.platform.database.database import Database
from muster.platform.settings import WebSettings
from muster.server.proxy.directory import PORT_ANNOTATION
from tests.server.platform.served import serving
from tests.server.proxy.scene import Scene, opened

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    async with serving(database, tmp_path / "home") as served, opened(served) as scene:
        yield scene


async def test_a_workspace_is_opened_by_a_link_that_works_once(scene: Scene) -> None:
    link = urlsplit(await scene.open(scene.ann, path="/lab?reset"))
    assert link.netloc == scene.host
    page = await scene.ask("GET", f"{link.path}?{link.query}", {"Host": link.netloc})
    assert (page.status, page.headers["Location"]) == (303, "/lab?reset")
    assert page.headers["Referrer-Policy"] == "no-referrer"
    (cookie,) = page.set_cookies
    assert cookie.startswith(f"muster_workspace_{scene.uid}=")
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {each.strip() for each in cookie.split(";")}
    assert "domain" not in cookie.lower()
    again = await scene.ask("GET", f"{link.path}?{link.query}", {"Host": link.netloc})
    assert again.status == 401
    ticket = parse_qs(link.query)["ticket"][0]
    assert ticket not in (await scene.ann.get("audit"))["items"].__repr__()


async def test_requests_reach_the_server_as_they_were_sent(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)
    path = "/files/a%2Fb//../c%20d;x?q=%C3%A9&r=a+b"
    page = await scene.ask("PUT", path, {**browser, "X-Own": "yes", "Content-Type": "text/x"}, b"hello")
    assert page.status == 200
    assert (page.json["method"], page.json["path"], page.json["size"]) == ("PUT", path, 5)
    headers = {name.lower(): value for name, value in page.json["headers"]}
    assert headers["host"] == headers["x-forwarded-host"] == scene.host
    assert (headers["x-own"], headers["content-type"], headers["content-length"]) == ("yes", "text/x", "5")
    assert (headers["x-forwarded-proto"], headers["x-forwarded-for"]) == ("http", "127.0.0.1")
    assert (await scene.ask("HEAD", "/x", browser)).status == 200
    assert (await scene.ask("DELETE", "/x", browser)).json["method"] == "DELETE"


async def test_scripts_use_an_api_token(scene: Scene) -> None:
    made = await scene.ann.post("tokens", {"name": "script"})
    page = await scene.ask("POST", "/api/contents", {"Authorization": f"Bearer {made['secret']}"}, b"{}")
    assert page.status == 200
    assert "authorization" not in {name.lower() for name, _ in page.json["headers"]}


async def test_large_bodies_are_streamed(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(320):
            yield b"x" * 65536

    page = await scene.ask("POST", "/upload", browser, pieces())
    assert page.json["size"] == 320 * 65536  # more than the platform's own API takes
    page = await scene.ask("GET", "/download?pieces=320", browser)
    assert len(page.body) == 320 * 65536


async def test_websockets_carry_messages_both_ways(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)
    async with scene.websocket("/talk?session_id=1", browser, protocols=("kernel.v1",), max_msg_size=0) as ws:
        assert ws.protocol == "kernel.v1"
        await ws.send_str("1 + 1")
        assert await ws.receive_str() == "1 + 1"
        large = b"x" * 20_000_000
        await ws.send_bytes(large)
        assert await ws.receive_bytes() == large
        await ws.close(code=4000)
    request = scene.server.seen[-1]
    assert (request.path_qs, request.headers["Origin"]) == ("/talk?session_id=1", f"http://{scene.host}")
    assert "Cookie" not in request.headers


async def test_a_websocket_that_the_server_refuses(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with scene.websocket("/no-such-socket", browser):
            pass
    assert error.value.status == 200 or error.value.status >= 400


async def test_a_request_ends_when_the_browser_leaves(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{scene.port}/wait", headers=browser) as response,
    ):
        assert await response.content.readline() == b"begun\n"
    async with asyncio.timeout(10):
        await scene.server.left.wait()


async def test_a_workspace_that_does_not_listen_says_so(scene: Scene) -> None:
    browser = await scene.enter(scene.ann)
    patch = {"metadata": {"annotations": {PORT_ANNOTATION: "1"}}}
    await scene.served.platform.cluster.patch(POD, "lab", scene.namespace, patch)
    page = await scene.ask("GET", "/", {**browser, "Accept": "text/html"})
    assert page.status == 503
    assert b'http-equiv="refresh"' in page.body
    assert (await scene.ask("GET", "/", browser)).json["code"] == "workspace.stopped"


async def test_a_browser_with_another_name_of_the_platform_gets_a_port(database: Database, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with serving(database, home, WebSettings(host="127.0.0.1")) as served, opened(served) as scene:
        browser = await scene.enter(scene.ann, host="10.0.0.5:8265")
        assert urlsplit(browser["Origin"]).hostname == "10.0.0.5"
        port = urlsplit(browser["Origin"]).port or 0
        page = await scene.ask("GET", "/", browser, port=port)
        assert (page.status, page.headers["Cache-Control"]) == (200, "no-store")
        uid = scene.uid
    assert uid in (home / "workspace-ports.json").read_text()
