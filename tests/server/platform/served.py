"""The platform's API as its clients use it: over HTTP, with cookies or a token."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from sqlalchemy import Connection
from yarl import URL

from muster.dispatch.adapter import DispatcherAdapter
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import new_catalogue
from muster.kube.kinds import Kind
from muster.platform.database.database import Database
from muster.platform.permissions import SYSTEM
from muster.platform.settings import WebSettings
from muster.platform.users.accounts import insert_user
from muster.platform.users.credentials import (
    csrf_token,
    hash_password,
    local_token,
    platform_folder,
    prepare_secrets,
    waiting_link,
)
from muster.platform.users.sessions import begin_session
from muster.server.cooker.app import cooker_app, with_cooker
from muster.server.dispatch.settings import CookerSettings, DispatchSettings
from muster.server.http_server import serve_http
from muster.server.pipelines.app import pipelines_app, with_pipelines
from muster.server.platform.app import platform_app
from muster.server.platform.services import Services, create_services
from muster.server.proxy.app import serve_workspaces
from muster.server.settings import Settings

PASSWORD = "correct horse battery"
_hash = ""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any
    headers: Mapping[str, str]

    def ok(self) -> Any:
        assert self.status < 400, self.body
        return self.body

    def refused(self, status: int) -> Any:
        """Checks that the response is a problem, and returns it."""
        assert self.status == status, self.body
        assert self.headers["Content-Type"] == "application/problem+json"
        assert self.body["status"] == status
        return self.body


class Client:
    """A client of the API: a script with a token, or a browser with cookies."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.jar = aiohttp.CookieJar(unsafe=True)

    async def __call__(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, csrf: bool = True
    ) -> Reply:
        sent = {**self._headers, **(headers or {})}
        cookies = self.cookies
        if csrf and "muster_csrf" in cookies:
            sent.setdefault("X-CSRF-Token", cookies["muster_csrf"])
        data = None if body is None else orjson.dumps(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        address = self.url + (path if path.startswith("/") else f"/api/v1/{path}")
        async with (
            aiohttp.ClientSession(cookie_jar=self.jar) as session,
            session.request(method, address, data=data, headers=sent, allow_redirects=False) as response,
        ):
            raw = await response.read()
            said = orjson.loads(raw) if raw and "json" in response.content_type else raw.decode("utf-8", "replace")
            return Reply(response.status, said, response.headers)

    async def get(self, path: str) -> Any:
        return (await self("GET", path)).ok()

    async def post(self, path: str, body: Any = None) -> Any:
        return (await self("POST", path, body)).ok()

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.key: cookie.value for cookie in self.jar}


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    platform: Services
    folder: Path

    @property
    def admin(self) -> Client:
        """A client of the owner of the embedded cluster, on its machine."""
        return self.client(local_token(self.folder))

    def client(self, token: str = "") -> Client:
        return Client(self.url, token)

    @property
    def first_link(self) -> str:
        return waiting_link(self.folder)

    async def user(self, name: str, role: str = "member") -> Client:
        """Creates an account and logs a browser in to it."""
        global _hash
        password = _hash = _hash or await hash_password(PASSWORD)  # hashing is slow on purpose

        def insert(connection: Connection) -> str:
            user = insert_user(connection, SYSTEM, name, admin=role == "admin", password_hash=password)
            return begin_session(connection, user, "127.0.0.1", "test", "password")

        secret = await self.platform.database.write(insert)
        client = self.client()
        client.jar.update_cookies({"muster_session": secret, "muster_csrf": csrf_token(secret)}, URL(self.url))
        return client

    async def log_in(self, name: str) -> Client:
        client = self.client()
        await client.post("session", {"name": name, "password": PASSWORD})
        return client


@asynccontextmanager
async def serving(
    database: Database,
    home: Path,
    web: WebSettings | None = None,
    kinds: Iterable[Kind] = (),
    adapters: Sequence[DispatcherAdapter] = (),
    cooker: CookerSettings | None = None,
    dispatch: DispatchSettings | None = None,
) -> AsyncIterator[Served]:
    """`kinds` are those that the cluster has besides its own, `adapters` those of the dispatcher."""
    catalogue = new_catalogue()
    for kind in kinds:
        catalogue.register(kind)
    folder = platform_folder(home)
    prepare_secrets(folder)
    settings = Settings(
        home,
        AgentSettings(home),
        web=web or WebSettings(),
        cooker=cooker or CookerSettings(),
        dispatch=dispatch or DispatchSettings(),
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with EmbeddedCluster(home / "store", catalogue, durability="process") as cluster:
            platform = await create_services(database, cluster, settings, url, adapters=adapters)
            app = with_cooker(with_pipelines(platform_app(platform), pipelines_app(platform)), cooker_app(platform))
            async with serve_workspaces(platform, app) as served, serve_http(served, listener):
                yield Served(url, platform, folder)
            await platform.dispatch.close()
