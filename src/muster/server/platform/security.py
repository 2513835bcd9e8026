"""Authentication, and the checks and headers of every request."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.kube.budgets import setting_name
from muster.platform.errors import (
    BadRequestProblem,
    ForbiddenProblem,
    Problem,
    TooLargeProblem,
    TooManyRequestsProblem,
    UnauthenticatedProblem,
)
from muster.platform.namespaces import user_name
from muster.platform.permissions import Actor
from muster.platform.users.credentials import csrf_token, secrets_equal
from muster.platform.users.login_limits import forwarded_client
from muster.server.fair_share import TooManyWaiting, turn_of
from muster.server.platform.problems import problem_of, problem_response
from muster.server.platform.services import Services, services_of
from muster.server.proxy.headers import read_cookies
from muster.server.proxy.origins import is_own_page

SESSION_COOKIE, CSRF_COOKIE, CSRF_HEADER = "muster_session", "muster_csrf", "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


async def identify(request: Request) -> Actor:
    """Identifies the user by the token in the Authorization header, else by the session cookie. Raises Unauthenticated
    or Forbidden."""
    known: Actor | None = getattr(request.state, "actor", None)
    if known is None:
        known = await authenticate(request)
        take_rate(services_of(request), f"{known.id} {known.run}")
        await take_turn(request, known)
        request.state.actor = known
    return known


def take_rate(here: Services, client: str) -> None:
    """Counts a request of a user, a run or a job. Raises TooManyRequests."""
    wait = here.rates.take(client, time.monotonic())
    if wait:
        problem = TooManyRequestsProblem.of(
            "request.often", most=here.rates.per_second, setting=setting_name("user_requests_per_second")
        )
        raise problem.with_headers({"Retry-After": str(int(wait) + 1)})


async def take_turn(request: Request, who: Actor) -> None:
    """Waits until the requests of this user may take the server's time again. Raises TooManyRequests."""
    turn = turn_of(request.scope)
    if turn is None:
        return
    try:
        await turn.begin(user_name(who), may_wait=not who.admin)
    except TooManyWaiting as error:
        problem = TooManyRequestsProblem.of(
            "request.waiting", most=error.most, setting=setting_name("member_waiting_requests")
        )
        raise problem.with_headers({"Retry-After": "1"}) from None


async def authenticate(request: Request) -> Actor:
    """The same without the cache of the request: long streams check again now and then."""
    header = request.headers.get("authorization")
    if header is not None:
        return await _by_token(request, header)
    cookies = read_cookies(request.scope["headers"], SESSION_COOKIE)
    if not cookies or not cookies[0]:
        raise _unauthenticated("login.needed")
    if len(set(cookies)) > 1:
        # Pages at other ports of this host, or below the same domain, can add one of their own.
        raise _unauthenticated("login.cookies")
    secret = cookies[0]
    headers = dict(request.headers)
    own_hosts = (headers.get("host", ""), urlsplit(services_of(request).url).netloc)
    if request.method in SAFE and not any(is_own_page(request.method, headers, host) for host in own_hosts):
        raise ForbiddenProblem.of("request.site")
    if request.method not in SAFE and not secrets_equal(request.headers.get(CSRF_HEADER, ""), csrf_token(secret)):
        raise ForbiddenProblem.of("login.csrf", cookie=CSRF_COOKIE, header=CSRF_HEADER)
    actor = await services_of(request).identities.of_session(secret, client_address(request))
    if actor is None:
        raise _unauthenticated("session.over")
    return actor


def client_address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _by_token(request: Request, header: str) -> Actor:
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise _unauthenticated("login.header")
    actor = await services_of(request).identities.of_token(secret.strip(), client_address(request))
    if actor is None:
        raise _unauthenticated("token.unknown")
    return actor


def _unauthenticated(code: str) -> UnauthenticatedProblem:
    return UnauthenticatedProblem.of(code).with_headers({"WWW-Authenticate": "Bearer"})


Who = Annotated[Actor, Depends(identify)]


LARGEST_BODY = 16 * 1024 * 1024

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Security:
    """Refuses requests of other sites and requests that are too large. Adds security headers to responses."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        https: bool = False,
        largest_body: int = LARGEST_BODY,
        trusted_proxies: tuple[str, ...] = (),
        host: str = "",
        respond: Callable[[Problem], Response] = problem_response,
        is_upload: Callable[[Scope], bool] = lambda scope: False,
    ) -> None:
        """`respond` makes the response to a request that is refused here. The route of an upload limits its body."""
        self._app = app
        self._respond = respond
        self._is_upload = is_upload
        self._host = host
        self._proxies = trusted_proxies
        self._largest = largest_body
        self._headers = {**_HEADERS, **({"Strict-Transport-Security": "max-age=31536000"} if https else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def careful_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._add_headers(scope, message)
            await send(message)

        try:
            request = Headers(scope=scope)
            if self._proxies and scope.get("client"):
                peer = scope["client"][0]
                forwarded = ",".join(request.getlist("x-forwarded-for"))
                scope["client"] = (forwarded_client(peer, forwarded, self._proxies), 0)
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise BadRequestProblem.of("request.nul")
            _refuse_other_sites(scope["method"], request, self._host)
            limited = receive if self._is_upload(scope) else self._counted(request, receive)
            await self._app(scope, limited, careful_send)
        except Exception as error:
            if begun:
                raise
            problem = problem_of(error, f"{scope['method']} {scope['path']}")
            await self._respond(problem)(scope, receive, careful_send)

    def _add_headers(self, scope: Scope, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in self._headers.items():
            headers.setdefault(name, value)
        if scope["path"].startswith("/api/"):
            headers.setdefault("Cache-Control", "no-store")

    def _counted(self, request: Headers, receive: Receive) -> Receive:
        length = request.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._largest:
            raise self._too_large()
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._largest:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> TooLargeProblem:
        return TooLargeProblem.of("request.large", most=self._largest // 1024 // 1024)


def _refuse_other_sites(method: str, headers: Headers, own_host: str) -> None:
    """Refuses requests from pages of other sites: they cannot read responses, but could make changes with the user's
    cookie, or log them in as someone else."""
    if method in SAFE:
        return
    origin = headers.get("origin")
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"} or (
        origin is not None and urlsplit(origin).netloc != headers.get("host")
    ):
        raise ForbiddenProblem.of("request.site")
    host = urlsplit(origin).hostname or "" if origin is not None else ""
    if not may_be_own_name(host, own_host):
        raise ForbiddenProblem.of("request.host", host=host[:100])


def may_be_own_name(host: str, own_host: str) -> bool:
    """Whether a page at this host can be ours. A domain name that we do not know may belong to another site, which has
    let its name point to this server (DNS rebinding). Such a site cannot do that with an address or a local name."""
    if host == own_host or "." not in host or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
