"""Attacks on the proxy to workspaces, and by workspaces on the platform. docs/workspaces.md has the threat model."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio
from sqlalchemy import Connection, insert

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.encryption import KEY_FILE, KeyRing
from muster.kube.pod_security import WORKFLOW_LABEL
from muster.platform.database.database import Database, sqlite_url
from muster.platform.database.tables import now, runs, versions, workflows
from muster.server.fair_share import FairShares
from muster.server.http_server import ConnectionLimits
from muster.server.proxy.ports import PortListeners
from tests.server.platform.served import PASSWORD, Client, serving
from tests.server.proxy.scene import Scene, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One server for all attacks."""
    folder = tmp_path_factory.mktemp("workspaces")
    shutil.copy(migrated_sqlite, folder / "platform.db")
    database = await Database.open(
        sqlite_url(folder / "platform.db"), keys=KeyRing.load(folder / KEY_FILE), survives_power_cut=False
    )
    try:
        async with serving(database, folder / "home") as served, opened(served) as scene:
            yield scene
    finally:
        await asyncio.to_thread(database.close)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(scene: Scene) -> dict[str, str]:
    """Ann's browser, in which the workspace is open."""
    return await scene.enter(scene.ann)


# Who may open a workspace.

_PATHS = ["/", "/api/contents", "/files/x.html", "/static/lab.js", "/.muster/enter", "/.muster/x", "//", "/%2e%2e/"]


@pytest.mark.parametrize("path", _PATHS)
async def test_nobody(scene: Scene, path: str) -> None:
    """Someone who is not logged in requests a path of a workspace."""
    for method in ("GET", "POST", "OPTIONS"):
        assert (await scene.ask(method, path)).status in {400, 401}


@pytest.mark.parametrize("path", _PATHS)
async def test_another_user(scene: Scene, path: str) -> None:
    """Another user requests a path of a workspace with their token."""
    token = (await scene.ben.post("tokens", {"name": quote(path)}))["secret"]
    page = await scene.ask("GET", path, {"Authorization": f"Bearer {token}"})
    assert page.status == (401 if path == "/.muster/enter" else 403)


async def test_another_user_asks_for_a_link(scene: Scene) -> None:
    """Another user asks for a link to a workspace."""
    (await scene.ben("POST", f"workspaces/{scene.uid}/open", {})).refused(404)


async def _run_token(scene: Scene) -> dict[str, str]:
    from muster.platform.users.tokens import issue_run_token

    own = (await scene.ann.get("session"))["user"]["id"]
    secret = await scene.served.platform.database.write(lambda c: issue_run_token(c, own, "some-run"))
    return {"Authorization": f"Bearer {secret}"}


async def _read_token(scene: Scene) -> dict[str, str]:
    made = await scene.ann.post("tokens", {"name": "reads", "scopes": ["read"]})
    return {"Authorization": f"Bearer {made['secret']}"}


async def _platform_cookie(scene: Scene) -> dict[str, str]:
    return {"Cookie": f"muster_session={scene.ann.cookies['muster_session']}"}


async def _cookie_of_another(scene: Scene) -> dict[str, str]:
    cookie = (await scene.enter(scene.ann))["Cookie"].partition("=")[2]
    return {"Cookie": f"muster_workspace_00000000-0000-0000-0000-000000000000={cookie}"}


async def _ticket_as_cookie(scene: Scene) -> dict[str, str]:
    ticket = (await scene.open(scene.ann)).partition("ticket=")[2].partition("&")[0]
    return {"Cookie": f"muster_workspace_{scene.uid}={ticket}"}


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        pytest.param(_run_token, 403, id="the token of a run"),
        pytest.param(_read_token, 403, id="a token that may only read"),
        pytest.param(_platform_cookie, 401, id="the cookie of the platform"),
        pytest.param(_cookie_of_another, 401, id="the cookie of another workspace"),
        pytest.param(_ticket_as_cookie, 401, id="a ticket as a cookie"),
    ],
)
async def test_a_credential_for_something_else(
    scene: Scene, credential: Callable[[Scene], Awaitable[dict[str, str]]], status: int
) -> None:
    """A workspace is requested with another credential of its owner."""
    headers = await credential(scene)
    assert (await scene.ask("GET", "/", headers)).status == status
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with scene.websocket("/talk", {**headers, "Origin": f"http://{scene.host}"}):
            pass
    assert error.value.status == status


async def test_a_cookie_at_another_workspace(scene: Scene, browser: dict[str, str]) -> None:
    """The cookie of one workspace is sent to another one, renamed."""
    other = scene.uid.replace(scene.uid[0], "f" if scene.uid[0] != "f" else "e")
    secret = browser["Cookie"].partition("=")[2]
    headers = {"Host": f"{other}.localhost:{scene.port}", "Cookie": f"muster_workspace_{other}={secret}"}
    assert (await scene.ask("GET", "/", headers)).status == 401


async def test_a_ticket_for_another_workspace(scene: Scene) -> None:
    """The ticket for one workspace is used at another; it is spent then."""
    link = urlsplit(await scene.open(scene.ann))
    other = "00000000-0000-0000-0000-000000000000"
    target = f"{link.path}?{link.query}"
    assert (await scene.ask("GET", target, {"Host": f"{other}.localhost:{scene.port}"})).status == 401
    assert (await scene.ask("GET", target)).status == 401


async def test_links_without_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone who is not logged in tries tickets without end, or a link with many parameters."""
    database: Any = scene.served.platform.database

    async def write(function: Any) -> Any:
        raise AssertionError("an outsider makes the database write")

    monkeypatch.setattr(database, "write", write)
    assert (await scene.ask("GET", "/.muster/enter?ticket=guess")).status == 401
    assert (await scene.ask("GET", f"/.muster/enter?{'a=b&' * 1000}")).status == 400


@pytest.mark.parametrize("following", ["//evil.example", "/\\evil.example", "http://evil.example", "/\t/evil", "x"])
async def test_a_link_that_leads_elsewhere(scene: Scene, following: str) -> None:
    """A link to a workspace is made to lead to another site after the login."""
    link = await scene.open(scene.ann)
    target = urlsplit(link.partition("&next=")[0])
    page = await scene.ask("GET", f"{target.path}?{target.query}&next={quote(following, safe='')}")
    assert (page.status, page.headers["Location"]) == (303, "/")


# The end of rights.


async def _sign_out(scene: Scene) -> None:
    (await (await scene.served.log_in("cat"))("DELETE", "session")).ok()


async def test_rights_end(scene: Scene) -> None:
    """A member opens a team's workspace, and signs out, is removed from the team, or is disabled while it is open."""
    admin, platform = scene.served.admin, scene.served.platform
    await scene.served.user("cat")
    await admin.post("teams", {"name": "ml"})
    (await admin("PUT", "teams/ml/members/cat", {"role": "member"})).ok()
    await platform.namespaces.sync()
    team = next(name for name, owner in platform.namespaces._owners.items() if owner.team)
    from muster.kube.builtin import POD
    from muster.kube.objects import uid_of

    pod = await platform.cluster.get(POD, "lab", scene.namespace)
    fields = {"name": "shared", "namespace": team, "annotations": pod["metadata"]["annotations"]}
    shared = await platform.cluster.create({**pod, "metadata": fields, "status": {}})
    there = Scene(scene.served, scene.server, scene.ann, scene.ben, team, uid_of(shared))

    async def leave() -> None:
        (await admin("DELETE", "teams/ml/members/cat")).ok()

    async def disable() -> None:
        (await admin("PATCH", "users/cat", {"disabled": True})).ok()

    for act, status in ((None, 401), (leave, 403), (disable, 401)):
        (await admin("PATCH", "users/cat", {"disabled": False})).ok()
        (await admin("PUT", "teams/ml/members/cat", {"role": "member"})).ok()
        cat = await scene.served.log_in("cat")
        opened = await there.enter(cat)
        async with there.websocket("/talk", opened) as ws:
            await ws.send_str("hello")
            assert await ws.receive_str() == "hello"
            if act is None:
                (await cat("DELETE", "session")).ok()
            else:
                await act()
            async with asyncio.timeout(10):
                assert (await ws.receive()).type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE}
        assert (await there.ask("GET", "/", opened)).status == status


# What the workspace learns.


async def test_credentials_are_not_passed_on(scene: Scene, browser: dict[str, str]) -> None:
    """A workspace reads the platform's cookies and tokens in the requests that it gets."""
    cookies = [
        browser["Cookie"], "own=1", "muster_session=secret", "__Host-muster_session=secret", " muster_csrf=secret",
        "MUSTER_session=secret", "muster_workspace_other=secret", "_xsrf=2",
    ]  # fmt: skip
    headers = {**browser, "Cookie": ";".join(cookies), "Authorization": "Bearer mst_wrong"}
    assert (await scene.ask("GET", "/", headers)).status == 401  # a wrong token is not replaced by a cookie
    page = await scene.ask("GET", "/", {**headers, "Authorization": "token own"})
    seen = {name.lower(): value for name, value in page.json["headers"]}
    assert (seen["cookie"], seen["authorization"]) == ("own=1; _xsrf=2", "token own")
    assert b"secret" not in page.body


@pytest.mark.parametrize(
    "name",
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-User", "Forwarded", "X-Real-IP", "Via"],
)
async def test_forged_headers(scene: Scene, browser: dict[str, str], name: str) -> None:
    """A client says in a header who it is, or where the request comes from."""
    page = await scene.ask("GET", "/", {**browser, name: "evil.example"})
    assert page.status == 200
    assert b"evil" not in page.body


async def test_connection_removes_no_guard(scene: Scene, browser: dict[str, str]) -> None:
    """A client names headers in Connection, so that they are removed on the way."""
    page = await scene.ask(
        "GET", "/", {**browser, "Connection": "close, cookie, host, x-forwarded-for, x-own", "X-Own": "1"}
    )
    seen = {name.lower(): value for name, value in page.json["headers"]}
    assert seen["host"] == seen["x-forwarded-host"] == scene.host
    assert "x-own" not in seen


# What the workspace does to its visitors.


@pytest.mark.parametrize(
    "cookie",
    ["muster_session=x; Path=/api/v1", "muster_csrf=x", "__Host-muster_session=x; Secure", "=muster_session=x", "x"],
)
async def test_cookies_of_the_platform(scene: Scene, browser: dict[str, str], cookie: str) -> None:
    """A workspace sets a cookie of the platform."""
    page = await scene.ask("GET", f"/cookies?set={quote(cookie)}", browser)
    assert (page.status, page.set_cookies) == (200, [])


async def test_cookies_for_a_domain(scene: Scene, browser: dict[str, str]) -> None:
    """A workspace sets a cookie for the domain above it, where the platform is."""
    page = await scene.ask("GET", f"/cookies?set={quote('a=b; Domain=localhost; Path=/; domain =x')}", browser)
    assert page.set_cookies == ["a=b; Path=/"]


@pytest.mark.parametrize("name", ["Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To"])
async def test_headers_about_the_host(scene: Scene, browser: dict[str, str], name: str) -> None:
    """A workspace sends a header that concerns the whole host."""
    page = await scene.ask("GET", f"/cookies?{name}=x", browser)
    assert page.status == 200
    assert name not in page.headers


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A: 1\rSet-Cookie: muster_session=x\r\nContent-Length: 0\r\n\r\n", id="CR"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A: 1\x00\r\nContent-Length: 0\r\n\r\n", id="NUL"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 0\r\n\r\n", id="a space in a name"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", id="two lengths"),
        pytest.param(b"no HTTP at all\r\n\r\n", id="no HTTP"),
    ],
)
async def test_responses_that_break_the_rules(scene: Scene, browser: dict[str, str], answer: bytes) -> None:
    """A workspace sends a response with which it could begin another one."""
    scene.server.answers["/raw"] = answer
    page = await scene.ask("GET", "/raw", browser)
    assert page.status == 503
    assert not page.set_cookies


@pytest.mark.parametrize("status", [101, 302, 307, 401])
async def test_where_a_response_leads(scene: Scene, browser: dict[str, str], status: int) -> None:
    """A workspace sends the server elsewhere, with a redirect or another protocol."""
    target = f"http://127.0.0.1:{scene.port}/api/v1/health"
    head = (
        f"HTTP/1.1 {status} X\r\nLocation: {target}\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n"
    )
    scene.server.answers["/lead"] = head.encode()
    if status != 101:
        page = await scene.ask("GET", "/lead", browser)
        assert (page.status, page.body) == (status, b"")
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with scene.websocket("/lead", browser):
            pass
    assert error.value.status in {status, 502}


# Where requests go.


def _raw(target: str, host: str, cookie: str, more: str = "", method: str = "GET") -> bytes:
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: http://{host}\r\n{more}"
        "Connection: close\r\n\r\n"
    ).encode()


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/x", "/../../x", "/..%2f..%2fx", "/%2e%2e/x", "/x/..;/y", "/\\evil.example", "/@evil.example/",
        "/x?next=//evil.example", "/x#@evil.example", "http://evil.example/x", "http://127.0.0.1:1/x", "///", "/:80/",
    ],
)  # fmt: skip
async def test_paths_stay_in_the_workspace(scene: Scene, browser: dict[str, str], target: str) -> None:
    """A client writes a path that a proxy could read as another host."""
    before = len(scene.server.seen)
    said = await scene.send_raw(_raw(target, scene.host, browser["Cookie"]))
    assert said.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404"))
    if said.startswith(b"HTTP/1.1 200"):
        assert len(scene.server.seen) == before + 1
        assert scene.server.seen[-1].headers["Host"] == scene.host


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
async def test_methods(scene: Scene, browser: dict[str, str], method: str) -> None:
    """A client asks the proxy for a tunnel, or for its own headers."""
    target = "evil.example:80" if method == "CONNECT" else "/"
    before = len(scene.server.seen)
    said = await scene.send_raw(_raw(target, scene.host, browser["Cookie"], method=method))
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or said == b""
    assert len(scene.server.seen) == before


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", id="a length and chunks"),
        pytest.param("Content-Length: 5\r\nContent-Length: 6\r\n", id="two lengths"),
        pytest.param("Transfer-Encoding: xchunked\r\n", id="an unknown encoding"),
        pytest.param("Transfer-Encoding : chunked\r\n", id="a space before the colon"),
        pytest.param("Content-Length: +5\r\n", id="a signed length"),
        pytest.param("X: a\rContent-Length: 5\r\n", id="a bare CR"),
    ],
)
async def test_smuggled_requests(scene: Scene, browser: dict[str, str], more: str) -> None:
    """A client hides a second request in the body of the first."""
    before = len(scene.server.seen)
    hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    said = await scene.send_raw(_raw("/smuggle", scene.host, browser["Cookie"], more, "POST") + hidden.encode())
    assert b" 400 " in said.partition(b"\r\n")[0], said[:200]
    assert all(request.path != "/hidden" for request in scene.server.seen[before:])


@pytest.mark.parametrize("host", ["evil.example", "localhost", "x.localhost", "[::1]", "a b", "%2e", "127.0.0.1:x"])
async def test_other_hosts_are_the_platform(scene: Scene, browser: dict[str, str], host: str) -> None:
    """A client sends the cookie of a workspace with the name of another host."""
    before = len(scene.server.seen)
    await scene.send_raw(_raw("/", host, browser["Cookie"]))
    assert len(scene.server.seen) == before


@pytest.mark.parametrize("protocol", ["h2c", "websocket, h2c", "TLS/1.0"])
async def test_other_protocols(scene: Scene, browser: dict[str, str], protocol: str) -> None:
    """A client changes to another protocol than WebSocket."""
    more = f"Upgrade: {protocol}\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP\r\n"
    request = _raw("/h2c", scene.host, browser["Cookie"], more).replace(b"Connection: close\r\n", b"")
    said = await scene.send_raw(request, only_head=True)
    assert not said.startswith(b"HTTP/1.1 101")
    seen = [request for request in scene.server.seen if request.path == "/h2c"]
    assert all("Upgrade" not in each.headers and "HTTP2-Settings" not in each.headers for each in seen)


# Pages of other origins, with the user's cookies.

_OTHER_PAGES = [
    pytest.param({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, id="another workspace, no-cors"),
    pytest.param({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, id="another site, no-cors"),
    pytest.param({"Sec-Fetch-Site": "same-site", "Origin": "http://x.localhost:1"}, id="another workspace, CORS"),
    pytest.param({"Origin": "http://10.0.0.5:8301"}, id="another port, without Sec-Fetch-Site"),
    pytest.param({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, id="a sandboxed frame"),
    pytest.param(
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, id="a frame"
    ),
]


@pytest.mark.parametrize("headers", _OTHER_PAGES)
async def test_pages_of_others_use_a_workspace(scene: Scene, browser: dict[str, str], headers: dict[str, str]) -> None:
    """A page of another origin sends requests to a workspace with the user's cookie."""
    sent = {"Cookie": browser["Cookie"], **headers}
    for method in ("GET", "POST"):
        assert (await scene.ask(method, "/api/kernels", sent)).status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with scene.websocket("/talk", sent):
            pass
    assert error.value.status == 403


@pytest.mark.parametrize("headers", _OTHER_PAGES)
async def test_pages_of_others_use_the_platform(scene: Scene, headers: dict[str, str]) -> None:
    """A page of another origin, such as a workspace, calls the platform's API with the user's cookie."""
    for path in ("session", "runs/events", "jobs/events", "runs", "openapi.json"):
        (await scene.ann("GET", path, headers=headers)).refused(403)
    (await scene.ann("POST", "tokens", {"name": "stolen"}, headers=headers)).refused(403)
    (await scene.ann("POST", f"workspaces/{scene.uid}/open", {}, headers=headers)).refused(403)


async def test_a_second_session_cookie(scene: Scene) -> None:
    """A page at another port of the host adds a session cookie, so that the user works in another account."""
    evil = await scene.served.log_in("ben")
    mine, other = scene.ann.cookies["muster_session"], evil.cookies["muster_session"]
    said = await scene.ask(
        "GET",
        "/api/v1/session",
        {"Host": f"127.0.0.1:{scene.port}", "Cookie": f"muster_session={other}; muster_session={mine}"},
    )
    assert (said.status, said.json["code"]) == (401, "login.cookies")


async def test_the_platform_on_a_host_of_a_workspace(scene: Scene) -> None:
    """A user logs in on the host of a workspace, where its scripts could read everything."""
    page = await scene.ask("POST", "/api/v1/session", None, b'{"name": "ann", "password": "%s"}' % PASSWORD.encode())
    assert page.status == 401
    assert page.json["code"] == "workspace.login"
    assert not page.set_cookies


async def test_too_many_websockets(scene: Scene, browser: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A page opens WebSockets without end."""
    from dataclasses import replace

    streams: Any = scene.served.platform.streams
    monkeypatch.setattr(streams, "_budgets", replace(streams._budgets, user_streams=2))
    async with scene.websocket("/talk", browser), scene.websocket("/talk", browser):
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            async with scene.websocket("/talk", browser):
                pass
        assert error.value.status == 429


async def test_a_server_of_somebody_else(
    scene: Scene, browser: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Pod of another user listens at the address of a workspace, to get its requests and its token."""
    cluster = scene.served.platform.cluster
    assert isinstance(cluster, EmbeddedCluster)
    monkeypatch.setattr(cluster.node, "foreign_ports", {scene.server.port})
    before = len(scene.server.seen)
    assert (await scene.ask("GET", "/", browser)).status == 503
    assert len(scene.server.seen) == before


async def test_the_culler_talks_to_a_server_of_somebody_else(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pod of another user listens at the address of a notebook, and waits for the culler to send the token."""
    from muster.kube.objects import timestamp
    from muster.server.embedded_server import _workspace_address
    from muster.workspaces.culler import Culler
    from muster.workspaces.images import WorkspaceSettings
    from muster.workspaces.kinds import NOTEBOOK
    from muster.workspaces.plan import build_pod, build_secret, notebook_pod_spec

    cluster = scene.served.platform.cluster
    assert isinstance(cluster, EmbeddedCluster)
    cluster.catalogue.register(NOTEBOOK)
    container = {"name": "nb", "image": "lab", "ports": [{"containerPort": scene.server.port}]}
    notebook = await cluster.create({
        "apiVersion": NOTEBOOK.api_version,
        "kind": NOTEBOOK.kind,
        "metadata": {"name": "nb", "namespace": scene.namespace},
        "spec": {"template": {"spec": {"containers": [container]}}},
    })  # fmt: skip
    await cluster.create(build_secret(notebook, "its token"))
    pod = await cluster.create(build_pod(notebook, notebook_pod_spec(notebook)))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp()}
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
    await cluster.update({**pod, "status": status}, subresource="status")

    address_of = partial(_workspace_address, cluster)
    culler = Culler(cluster, _NoEvents(), WorkspaceSettings(), address_of=address_of)
    async with aiohttp.ClientSession() as session:
        await culler.look(session)
        asked = [request for request in scene.server.seen if request.path == "/api/kernels"]
        assert [request.headers["Authorization"] for request in asked] == ["token its token"]
        monkeypatch.setattr(cluster.node, "foreign_ports", {scene.server.port})
        before = len(scene.server.seen)
        await culler.look(session)
        assert len(scene.server.seen) == before


class _NoEvents:
    def event(self, *args: Any) -> None:
        """Nobody reads them."""


async def test_workspaces_that_do_not_exist(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member requests workspaces that do not exist without end; each is looked for among all Pods."""
    token = (await scene.ben.post("tokens", {"name": "many"}))["secret"]
    monkeypatch.setattr(scene.served.platform.rates, "take", lambda user, now: 3.0)
    headers = {"Host": f"{uuid4()}.localhost:{scene.port}", "Authorization": f"Bearer {token}"}
    assert (await scene.ask("GET", "/", headers)).status == 429
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with scene.websocket("/talk", headers):
            pass
    assert error.value.status == 429


async def test_all_ports(tmp_path: Path) -> None:
    """A member opens as many workspaces as there are ports, and deletes them: others still get one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    existing = {"a", "b", "c"}

    async def exists(uid: str) -> bool:
        return uid in existing

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Nobody connects."""

    def listeners() -> PortListeners:
        return PortListeners(
            app, "127.0.0.1", range(port, port + 1), tmp_path / "ports.json", ConnectionLimits(), exists
        )

    ports = listeners()
    assert await ports.port_of("a") == port
    existing.remove("a")
    assert await ports.port_of("b") == await ports.port_of("b") == port
    assert await ports.port_of("c") == port, "all are in use: the one that was opened longest ago is given up"
    await ports.close()
    again = listeners()
    await again.start()
    assert again._open == {"c": port}
    await again.close()


# Terminals.


async def test_a_terminal_in_the_run_of_a_team_mate(scene: Scene) -> None:
    """A member opens a terminal in a Pod of a team mate's run, where the token of the run is."""
    served, platform = scene.served, scene.served.platform
    dan, eve = await served.user("dan"), await served.user("eve")
    await served.admin.post("teams", {"name": "runs"})
    for name in ("dan", "eve"):
        (await served.admin("PUT", f"teams/runs/members/{name}", {"role": "leader"})).ok()
    team = (await served.admin.get("teams/runs"))["id"]
    await platform.namespaces.sync()
    namespace = next(name for name, owner in platform.namespaces._owners.items() if owner.team == team)
    run, owner = "0" * 26, (await dan.get("session"))["user"]["id"]
    await platform.database.write(lambda connection: _insert_run(connection, run, owner, team))
    pod = await platform.cluster.create({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"run-{run}-train", "namespace": namespace, "labels": {WORKFLOW_LABEL: f"run-{run}"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    })  # fmt: skip
    await platform.cluster.update({**pod, "status": {"phase": "Running"}}, subresource="status")

    async def status_for(client: Client) -> int:
        url = f"{served.url}/api/v1/pods/{namespace}/run-{run}-train/terminal"
        async with aiohttp.ClientSession(cookie_jar=client.jar) as session:
            try:
                async with session.ws_connect(url, headers={"Origin": served.url}):
                    return 101
            except aiohttp.WSServerHandshakeError as error:
                return error.status

    assert [await status_for(client) for client in (dan, eve, scene.ben)] == [101, 403, 403]


def _insert_run(connection: Connection, run: str, owner: str, team: str) -> None:
    at = now()
    connection.execute(
        insert(workflows).values(
            id="w1", name="w", description="", owner_id=owner, created=at, updated=at, versions=1, revision=1
        )
    )
    connection.execute(
        insert(versions).values(
            id="v1", workflow_id="w1", number=1, name="v1", description="", type="graph", document="{}", hash="",
            nodes=1, author_id=owner, copied_from="", created=at,
        )
    )  # fmt: skip
    connection.execute(
        insert(runs).values(
            id=run, name="r", workflow_id="w1", version_id="v1", owner_id=owner, team_id=team, parameters={},
            copied_from="", state="running", message="", nodes=0, done=0, retries=0, created=at, seen="", revision=1,
        )
    )  # fmt: skip


async def test_downloads_wait_for_the_share_of_their_user(
    scene: Scene, browser: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member downloads from their workspace without end, over many connections"""
    waited: list[str] = []

    async def wait_for_share(self: FairShares, user: str) -> None:
        waited.append(user)

    monkeypatch.setattr(FairShares, "wait_for_share", wait_for_share)
    page = await scene.ask("GET", "/download?pieces=20", browser)
    assert len(page.body) == 20 * 65536
    assert waited.count("muster:ann") > 1
