"""The proxy as an ASGI application: who may open a workspace, and what is passed on to its server.

Every request is authenticated and authorised by itself, by the cookie of this workspace or by a token of the platform,
and goes to the address of the workspace's Pod. A client chooses the path below that address, and nothing else.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import aiohttp
from multidict import CIMultiDict
from sqlalchemy.exc import DBAPIError
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from yarl import URL

from muster.kube.budgets import setting_name
from muster.kube.errors import ApiError
from muster.platform.errors import (
    BadRequestProblem,
    ForbiddenProblem,
    NotFoundProblem,
    Problem,
    TooManyRequestsProblem,
    UnauthenticatedProblem,
    UnavailableProblem,
)
from muster.platform.namespaces import user_name
from muster.platform.permissions import Actor, may
from muster.platform.users.credentials import API_TOKEN, hash_secret
from muster.platform.users.login_limits import forwarded_client
from muster.platform.users.sessions import SESSION_LIFETIME
from muster.platform.users.workspace_sessions import has_ticket, redeem_ticket, touch_workspace_login, workspace_actor
from muster.server.fair_share import FairShares, Turn
from muster.server.http_server import limits_from
from muster.server.platform.problems import problem_of, problem_response
from muster.server.platform.services import Services
from muster.server.proxy.directory import Workspace, WorkspaceAddress, WorkspaceDirectory
from muster.server.proxy.headers import COOKIE_PREFIX, RawHeaders, read_cookies, request_headers, response_headers
from muster.server.proxy.origins import ENTER, is_below_domain, is_own_page, workspace_of_host
from muster.server.proxy.ports import PortListeners
from muster.server.proxy.tunnel import TUNNEL, UpstreamError, connect

log = logging.getLogger(__name__)

RECHECK_SECONDS = 5.0
"""How late a long request notices a change of rights that another server made."""
_SHORT_SECONDS = 0.2
_CONNECT_SECONDS = 10.0
_HANDSHAKE_SECONDS = 60.0
_MOST_CONNECTIONS = 256
"""To one Pod, for requests. WebSockets count as streams of their user."""
_BUFFER = 256 * 1024
_TARGET = re.compile(rb"/[\x21-\x7e]*")
_QUERY = re.compile(rb"[\x21-\x7e]*")


class WorkspaceProxy:
    """`scope["workspace"]` has the uid of the workspace that a request is for."""

    def __init__(self, services: Services, directory: WorkspaceDirectory, shares: FairShares) -> None:
        self._here, self._directory, self._shares = services, directory, shares
        self._https = services.url.startswith("https:")
        self._client: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["headers"] = [(name.lower(), value) for name, value in scope["headers"]]
        try:
            if scope["type"] == "http" and scope["path"] == ENTER:
                await (await self._enter(scope))(scope, receive, send)
            elif scope["type"] == "http":
                await self._forward(scope, receive, send)
            else:
                await self._tunnel(scope, receive, send)
        except (Problem, ApiError, DBAPIError) as error:
            problem = problem_of(error, f"{scope.get('method', 'CONNECT')} {scope['path']}")
            await _refuse(problem, scope, receive, send, self._here.url)

    async def _enter(self, scope: Scope) -> Response:
        """Exchanges the ticket for a cookie, and leads away from the address with the ticket in it."""
        if scope["method"] != "GET" or _header(scope, "sec-fetch-dest") not in {"", "document"}:
            raise BadRequestProblem.of("workspace.enter")
        uid = scope["workspace"]
        try:
            given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=10)
        except ValueError:
            raise BadRequestProblem.of("workspace.enter") from None
        ticket, following = given.get("ticket", [""])[0], given.get("next", ["/"])[0]
        # Anyone may ask: only a ticket that exists is worth a write.
        is_known = await self._here.database.read(lambda connection: has_ticket(connection, ticket))
        redeem = partial(redeem_ticket, secret=ticket, workspace=uid)
        secret = await self._here.database.write(redeem) if is_known else None
        if secret is None:
            raise UnauthenticatedProblem.of("workspace.ticket")
        # Not another host: `//host`, and what browsers make of backslashes.
        is_path = re.fullmatch(r"/([A-Za-z0-9_.~!$&'()*+,;=:@%?-][^\\\s]*)?", following)
        response = RedirectResponse(following if is_path else "/", 303)
        response.set_cookie(
            self._cookie(uid),
            secret,
            max_age=int(SESSION_LIFETIME.total_seconds()),
            path="/",
            secure=self._https,
            httponly=True,
            samesite="lax",
        )
        response.headers.update({"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        return response

    def _cookie(self, uid: str) -> str:
        """Browsers send cookies of a host to all its ports, so every workspace has a name of its own."""
        return f"{'__Host-' if self._https else ''}{COOKIE_PREFIX}workspace_{uid}"

    async def _begin(self, scope: Scope) -> tuple[Actor, Workspace]:
        """Authorises a new request. It counts before the workspace is looked for, which may take a while."""
        actor = await self._authenticate(scope)
        wait = self._here.rates.take(f"workspace {actor.id}", time.monotonic())
        if wait:
            most, setting = self._here.rates.per_second, setting_name("user_requests_per_second")
            problem = TooManyRequestsProblem.of("request.often", most=most, setting=setting)
            raise problem.with_headers({"Retry-After": str(int(wait) + 1)})
        return await self._find(actor, scope)

    async def _authorise(self, scope: Scope) -> tuple[Actor, Workspace]:
        """Raises Unauthenticated, Forbidden or NotFound. Nobody learns whether a workspace exists before they are
        authenticated."""
        return await self._find(await self._authenticate(scope), scope)

    async def _find(self, actor: Actor, scope: Scope) -> tuple[Actor, Workspace]:
        workspace = await self._directory.find(scope["workspace"])
        if workspace is None:
            raise NotFoundProblem.named("workspace", scope["workspace"])
        decision = may(actor, "open", workspace.subject)
        if decision.error is not None:
            raise ForbiddenProblem.from_error(decision.error)
        return actor, workspace

    async def _authenticate(self, scope: Scope) -> Actor:
        address, uid = self._client_address(scope), scope["workspace"]
        scheme, _, token = _header(scope, "authorization").partition(" ")
        if scheme.lower() == "bearer" and token.strip().startswith(API_TOKEN):
            actor = await self._here.identities.of_token(token.strip(), address)
            if actor is None:
                raise UnauthenticatedProblem.of("token.unknown")
            return actor
        cookies = read_cookies(scope["headers"], self._cookie(uid))
        if not cookies:
            raise UnauthenticatedProblem.of("workspace.login")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        is_websocket = scope["type"] == "websocket"
        if not is_own_page(scope.get("method", "GET"), headers, _header(scope, "host"), websocket=is_websocket):
            raise ForbiddenProblem.of("request.site")
        if len(cookies) > 1:
            raise UnauthenticatedProblem.of("login.cookies")
        found = await self._here.identities.find(
            f"workspace {uid} {hash_secret(cookies[0])}",
            address,
            lambda connection, openid: workspace_actor(connection, cookies[0], uid, address, openid),
            touch_workspace_login,
        )
        if found is None:
            raise UnauthenticatedProblem.of("workspace.login")
        return found

    def _client_address(self, scope: Scope) -> str:
        peer = scope["client"][0] if scope.get("client") else ""
        forwarded = ",".join(v.decode("latin-1") for n, v in scope["headers"] if n == b"x-forwarded-for")
        return forwarded_client(peer, forwarded, self._here.settings.web.trusted_proxies)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in {"CONNECT", "TRACE"}:
            raise BadRequestProblem.of("workspace.method", method=scope["method"])
        target, query = _target(scope)
        actor, workspace = await self._begin(scope)
        address = await self._directory.address(workspace)
        body = _Body(receive)
        turn = Turn(self._shares)
        if not actor.admin:
            turn.join(user_name(actor))
        url = URL.build(
            scheme="http",
            host=address.host,
            port=address.port,
            path=target.decode("ascii"),
            query_string=query.decode("ascii"),
            encoded=True,
        )
        headers = self._headers(scope, address)
        transfer = asyncio.create_task(_await(turn.metered(self._transfer(scope, send, url, headers, body, turn))))
        gone = asyncio.create_task(body.client_gone())
        try:
            await self._while_allowed(scope, transfer, gone)
        finally:
            for task in (transfer, gone):
                task.cancel()
            await asyncio.gather(transfer, gone, return_exceptions=True)
        if not transfer.cancelled():
            transfer.result()

    async def _while_allowed(self, scope: Scope, *tasks: asyncio.Future[Any]) -> None:
        """Waits until one of the tasks is done, or until the client may no longer do this."""
        # Most requests are over before this is worth a task.
        done, _ = await asyncio.wait(tasks, timeout=_SHORT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        while not done:
            try:
                await self._authorise(scope)
            except (Problem, ApiError, DBAPIError):
                return
            changed = asyncio.create_task(self._here.database.access_changes.next())
            done, _ = await asyncio.wait(
                (*tasks, changed), timeout=RECHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            changed.cancel()
            done.discard(changed)

    async def _transfer(self, scope: Scope, send: Send, url: URL, headers: RawHeaders, body: _Body, turn: Turn) -> None:
        length = _header(scope, "content-length")
        has_body = bool(length and length != "0") or bool(_header(scope, "transfer-encoding"))
        if length:
            headers = [*headers, (b"content-length", length.encode())]
        if not has_body:
            body.skip()
        is_started = False
        try:
            async with self._session().request(
                scope["method"],
                url,
                headers=_multidict(headers),
                data=body.pieces() if has_body else None,
                allow_redirects=False,
            ) as response:
                kept = response_headers(
                    response.raw_headers, status=response.status, keep_in_cache="workspace_port" not in scope
                )
                is_started = True
                await send({"type": "http.response.start", "status": response.status, "headers": kept})
                async for piece in response.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    await turn.pause()
                await send({"type": "http.response.body", "body": b""})
        except aiohttp.ClientConnectorError as error:
            raise UnavailableProblem.of("workspace.stopped", detail=error.strerror or "no connection") from None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            if is_started:
                return  # without the end of the body, the connection is closed
            raise UnavailableProblem.of("workspace.answer", detail=type(error).__name__) from None

    def _headers(self, scope: Scope, address: WorkspaceAddress) -> RawHeaders:
        return request_headers(
            scope["headers"],
            host=_header(scope, "host"),
            scheme="https" if self._https else "http",
            client=self._client_address(scope),
            inject=dict(address.headers),
        )

    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=_MOST_CONNECTIONS, use_dns_cache=False),
                # One for all users: it must not carry anything from one to the next.
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                auto_decompress=False,
                read_bufsize=_BUFFER,
                max_line_size=65536,
                max_field_size=65536,
            )
        return self._client

    async def _tunnel(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        target, query = _target(scope)
        actor, workspace = await self._begin(scope)
        with self._here.streams.count(actor.id):
            address = await self._directory.address(workspace)
            whole = target + (b"?" + query if query else b"")
            try:
                upstream = await connect(
                    address.host, address.port, whole, self._headers(scope, address), _HANDSHAKE_SECONDS
                )
            except UpstreamError as error:
                raise _Refused(error.status or 502) from None
            except (OSError, TimeoutError):
                raise UnavailableProblem.of("workspace.stopped", detail="no connection") from None
            gone = asyncio.ensure_future(receive())
            try:
                await send({"type": TUNNEL, "upstream": upstream, "headers": await upstream.accepted})
                await self._while_allowed(scope, upstream.closed, gone)
            finally:
                upstream.close()
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)


class _Refused(Problem):
    """The workspace's server has refused a WebSocket, with this status."""

    def __init__(self, status: int) -> None:
        super().__init__("the server of the workspace refused the WebSocket")
        self.answer = status


class _Body:
    """The body of a request as it arrives. Only one of `pieces` and `client_gone` reads at a time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_over = asyncio.Event()

    def skip(self) -> None:
        self._is_over.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client is gone")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                self._is_over.set()
                return

    async def client_gone(self) -> None:
        await self._is_over.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


@asynccontextmanager
async def serve_workspaces(
    services: Services, platform: ASGIApp, shares: FairShares | None = None
) -> AsyncIterator[ASGIApp]:
    """Yields the platform with the workspaces at hosts of their own, and serves those with ports of their own. `shares`
    are those of the other APIs."""
    proxy = WorkspaceProxy(services, services.workspaces, shares or FairShares(services.settings.budgets))
    settings = services.settings

    async def exists(uid: str) -> bool:
        return await services.workspaces.find(uid) is not None

    async with AsyncExitStack() as stack:
        stack.push_async_callback(proxy.close)
        services.workspace_ports = PortListeners(
            proxy,
            settings.web.host,
            settings.workspace_origins.ports,
            settings.home / "workspace-ports.json",
            limits_from(settings.budgets),
            exists,
        )
        stack.push_async_callback(services.workspace_ports.close)
        await services.workspace_ports.start()
        yield with_workspaces(platform, proxy, settings.workspace_origins.domain)


def with_workspaces(app: ASGIApp, proxy: ASGIApp, domain: str = "") -> ASGIApp:
    """Serves workspaces at their own hosts, on the port of the platform."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await app(scope, receive, send)
            return
        host = _header(scope, "host")
        uid = workspace_of_host(host, domain)
        if uid is not None:
            await proxy({**scope, "workspace": uid}, receive, send)
        elif is_below_domain(host, domain):
            # The platform must not be served on an origin that belongs to workspaces.
            await _refuse(NotFoundProblem.named("workspace", host[:100]), scope, receive, send)
        else:
            await app(scope, receive, send)

    return serve


async def _await(work: Awaitable[None]) -> None:
    await work


def _target(scope: Scope) -> tuple[bytes, bytes]:
    """The path and query as the client wrote them. Only the origin form is passed on: `/path`, no host, no `*`."""
    path, query = scope.get("raw_path") or b"", scope.get("query_string") or b""
    if not _TARGET.fullmatch(path) or not _QUERY.fullmatch(query):
        raise BadRequestProblem.of("workspace.target")
    return path, query


def _header(scope: Scope, name: str) -> str:
    wanted = name.encode()
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == wanted), "")


def _multidict(headers: RawHeaders) -> CIMultiDict[str]:
    made: CIMultiDict[str] = CIMultiDict()
    for name, value in headers:
        try:
            made.add(name.decode("ascii"), value.decode())
        except UnicodeDecodeError:
            made.add(name.decode("latin-1"), value.decode("latin-1"))
    return made


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send, platform: str = "") -> None:
    if scope["type"] == "websocket":
        status = problem.answer if isinstance(problem, _Refused) else problem.status
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": problem.detail.encode()})
        return
    if "text/html" in _header(scope, "accept"):
        response = Response(_page(problem, platform), problem.status, problem.headers, "text/html")
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    else:
        response = problem_response(problem)
    response.headers.update({"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    await response(scope, receive, send)


def _page(problem: Problem, platform: str) -> str:
    again = '<meta http-equiv="refresh" content="3">' if problem.status == 503 else ""
    link = f'<p><a href="{html.escape(platform)}">Muster</a></p>' if platform else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{again}<title>{problem.status}</title>'
        "<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto; padding: 0 1rem }"
        f"</style><h1>{html.escape(problem.title)}</h1><p>{html.escape(problem.detail)}</p>{link}"
    )
