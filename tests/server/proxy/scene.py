"""A workspace behind the proxy: a real HTTP and WebSocket server at the address of a Pod, and browsers that open it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import NAMESPACE, POD
from muster.kube.objects import labels_of, name_of, uid_of
from muster.platform.namespaces import OWNER_LABEL
from muster.server.proxy.directory import PORT_ANNOTATION
from tests.server.kubernetes.served import ThisMachine
from tests.server.platform.served import Client, Served


@dataclass(slots=True)
class Page:
    """The answer to a request of a browser or a script."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    set_cookies: list[str]

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(slots=True)
class Scene:
    served: Served
    server: WorkspaceServer
    ann: Client
    """Owns the workspace."""
    ben: Client
    namespace: str
    uid: str

    @property
    def port(self) -> int:
        port = urlsplit(self.served.url).port
        assert port is not None
        return port

    @property
    def host(self) -> str:
        return f"{self.uid}.localhost:{self.port}"

    async def open(self, client: Client, host: str = "", path: str = "") -> str:
        """Asks for a link, as the page of the platform does."""
        headers = {"Host": host} if host else {}
        reply = await client("POST", f"workspaces/{self.uid}/open", {"path": path} if path else {}, headers=headers)
        return str(reply.ok()["url"])

    async def enter(self, client: Client, host: str = "") -> dict[str, str]:
        """Opens the workspace, and returns the headers with which a browser continues."""
        url = urlsplit(await self.open(client, host))
        page = await self.ask("GET", f"{url.path}?{url.query}", {"Host": url.netloc}, port=url.port or 80)
        assert page.status == 303, page.body
        (cookie,) = page.set_cookies
        return {"Host": url.netloc, "Cookie": cookie.partition(";")[0], "Origin": f"http://{url.netloc}"}

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, data: Any = None, port: int = 0
    ) -> Page:
        """A request with exactly these headers."""
        head = {"Host": self.host, **(headers or {})}
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session,
            session.request(
                method,
                URL(f"http://127.0.0.1:{port or self.port}{path}", encoded=True),
                headers=head,
                data=data,
                allow_redirects=False,
            ) as response,
        ):
            body = await response.read()
            return Page(response.status, response.headers, body, response.headers.getall("Set-Cookie", []))

    @asynccontextmanager
    async def websocket(
        self, path: str, headers: Mapping[str, str], **more: Any
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.ws_connect(
                f"http://127.0.0.1:{self.port}{path}", headers={"Host": self.host, **headers}, **more
            ) as ws,
        ):
            yield ws

    async def send_raw(self, data: bytes, port: int = 0, *, only_head: bool = False) -> bytes:
        """Sends bytes, and returns what comes back until the server closes, or the head of the first answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        try:
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(10):
                return await (reader.readuntil(b"\r\n\r\n") if only_head else reader.read())
        finally:
            writer.close()
            await writer.wait_closed()


@dataclass(slots=True)
class WorkspaceServer:
    """What runs in the workspace. It tells what it received."""

    port: int
    seen: list[web.Request] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    """Raw answers by path, for servers that break the rules."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client of `/wait` has disconnected."""


@asynccontextmanager
async def workspace_server() -> AsyncIterator[WorkspaceServer]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = WorkspaceServer(listener.getsockname()[1])

    async def echo(request: web.Request) -> web.StreamResponse:
        server.seen.append(request)
        raw = server.answers.get(request.path)
        if raw is not None:
            assert request.transport is not None
            request.transport.write(raw)
            request.transport.close()
            return web.Response()
        size = 0
        async for piece in request.content.iter_any():
            size += len(piece)
        headers = [(name, value) for name, value in request.headers.items()]
        return web.json_response({"method": request.method, "path": request.raw_path, "headers": headers, "size": size})

    async def download(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(int(request.query["pieces"])):
            await response.write(b"x" * 65536)
        return response

    async def wait(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun\n")
        try:
            await asyncio.Event().wait()
        finally:
            server.left.set()
        return response

    async def talk(request: web.Request) -> web.WebSocketResponse:
        server.seen.append(request)
        socket = web.WebSocketResponse(protocols=("kernel.v1",), max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(message.data)
            elif message.type is aiohttp.WSMsgType.BINARY:
                await socket.send_bytes(message.data)
        return socket

    async def cookies(request: web.Request) -> web.Response:
        response = web.Response(text="ok")
        for value in request.query.getall("set", []):
            response.headers.add("Set-Cookie", value)
        for name, value in request.query.items():
            if name != "set":
                response.headers[name] = value
        return response

    app = web.Application(client_max_size=0)
    app.router.add_get("/download", download)
    app.router.add_get("/wait", wait)
    app.router.add_get("/talk", talk)
    app.router.add_get("/cookies", cookies)
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield server
    finally:
        await runner.cleanup()
        listener.close()


@asynccontextmanager
async def opened(served: Served) -> AsyncIterator[Scene]:
    """A workspace of Ann's; Ben is another user."""
    cluster = served.platform.cluster
    assert isinstance(cluster, EmbeddedCluster)
    cluster.node = ThisMachine()
    ann, ben = await served.user("ann"), await served.user("ben")
    await served.platform.namespaces.sync()
    own = (await ann.get("session"))["user"]["id"]
    spaces = (await cluster.list(NAMESPACE)).items
    namespace = next(name_of(each) for each in spaces if labels_of(each).get(OWNER_LABEL) == own)
    async with workspace_server() as server:
        pod = await cluster.create({
            "apiVersion": "v1",
            "kind": POD.kind,
            "metadata": {"name": "lab", "namespace": namespace, "annotations": {PORT_ANNOTATION: str(server.port)}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        })  # fmt: skip
        yield Scene(served, server, ann, ben, namespace, uid_of(pod))
