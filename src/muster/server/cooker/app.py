"""MLP Cooker's REST API as an ASGI application.

Every answer is HTTP 200 with `success` true or false, also for a path that does not exist; only a login that fails is
401. Health and login are open, everything else needs a token. It is a thin dialect of dispatch, and stores nothing of
its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from muster import __version__
from muster.platform.errors import (
    BadRequestProblem,
    ForbiddenProblem,
    NotFoundProblem,
    TooManyRequestsProblem,
    UnauthenticatedProblem,
)
from muster.platform.permissions import may_at_all
from muster.platform.users.credentials import API_TOKEN
from muster.platform.users.login_limits import network_of
from muster.platform.users.tokens import issue_login_token
from muster.server.cooker import handlers
from muster.server.cooker.handlers import Call
from muster.server.cooker.responses import LOGIN_TOKEN, failure, failure_of, success
from muster.server.cooker.tokens import find_token
from muster.server.platform.problems import problem_of
from muster.server.platform.route_rules import COOKER_RULES, RouteRule
from muster.server.platform.security import Security, client_address, take_rate, take_turn
from muster.server.platform.services import Services
from muster.server.platform.sessions import verify_login

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]

PREFIXES: Final = ("/api/login/", "/api/health", "/api/jobs", "/api/resources/", "/api/apps", "/api/currentUser")
"""Its paths on the platform's port, where the platform's own begin with /api/v1."""
LARGEST_BODY: Final = 2 * 1024 * 1024

_HANDLERS: Final[Mapping[str, Handler]] = {
    "POST /api/login/outLogin": handlers.log_out,
    "GET /api/currentUser": handlers.current_user,
    "POST /api/jobs/create": handlers.create_job,
    "POST /api/jobs": handlers.list_jobs,
    "GET /api/jobs": handlers.list_jobs,
    "GET /api/jobs/{job}": handlers.get_job,
    "DELETE /api/jobs/{job}": handlers.delete_job,
    "POST /api/jobs/{job}/stop": handlers.stop_job,
    "GET /api/jobs/{job}/events": handlers.job_events,
    "GET /api/jobs/{job}/pods/{pod}/logs": handlers.pod_log,
    "GET /api/jobs/{job}/pods/{pod}/webterminal": handlers.web_terminal,
    "GET /api/jobs/{job}/webterminal": handlers.web_terminal,
    "GET /api/resources/pools": handlers.list_pools,
    "GET /api/resources/pools/{pool}": handlers.get_pool,
    "GET /api/resources/queues": handlers.list_queues,
    "GET /api/resources/queues/{queue}": handlers.get_queue,
    "GET /api/apps": handlers.list_apps,
    "GET /api/apps/{app}": handlers.get_app,
}
OPEN: Final = ("GET /api/health", "POST /api/login/account")


@dataclass(frozen=True, slots=True)
class _Route:
    matcher: Route
    handler: Handler
    rule: RouteRule


def cooker_app(here: Services) -> ASGIApp:
    """Raises ValueError if a route has no rule."""
    if _HANDLERS.keys() | set(OPEN) != COOKER_RULES.keys():
        raise ValueError("COOKER_RULES in route_rules.py does not have the same routes as the handlers")
    return Security(
        CookerApp(here),
        https=here.url.startswith("https:"),
        largest_body=LARGEST_BODY,
        trusted_proxies=here.settings.web.trusted_proxies,
        respond=lambda problem: _json(failure_of(problem)),
    )


class CookerApp:
    def __init__(self, here: Services) -> None:
        self._here = here
        self._routes = [
            _Route(Route(key.partition(" ")[2], _unused, methods=[key.partition(" ")[0]]), handler, COOKER_RULES[key])
            for key, handler in _HANDLERS.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        key = f"{request.method} {request.url.path}"
        try:
            if key == "GET /api/health":
                return _json(await self._health())
            body = await _read_body(request)
            if key == "POST /api/login/account":
                return await self._log_in(request, body)
            call = await self._identify(request, body)
            return _json(await self._handle(call, request.scope))
        except Exception as error:
            return _json(failure_of(problem_of(error, key)))

    async def _handle(self, call: Call, scope: Scope) -> Any:
        for route in self._routes:
            match, found = route.matcher.matches(scope)
            if match is not Match.FULL:
                continue
            if route.rule.kind is not None:
                decision = may_at_all(call.who, route.rule.kind, route.rule.action)
                if decision.error is not None:
                    raise ForbiddenProblem.from_error(decision.error)
            call.parameters.update(found["path_params"])
            return success(await route.handler(call), call.message)
        raise NotFoundProblem.of("cooker.route", method=scope["method"], path=scope["path"][:200])

    async def _identify(self, request: Request, body: Any) -> Call:
        token = find_token(request.headers, request.query_params, body)
        address = client_address(request)
        who = await self._here.identities.of_token(token, address) if token.startswith(API_TOKEN) else None
        if who is None:
            raise UnauthenticatedProblem.of("token.unknown" if token else "cooker.token")
        take_rate(self._here, f"{who.id} {who.run}")
        await take_turn(request, who)
        return Call(self._here, who, request.query_params, body)

    async def _health(self) -> dict[str, Any]:
        await self._here.database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one())
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"success": True, "message": "Server is running", "timestamp": now, "version": __version__}

    async def _log_in(self, request: Request, body: Any) -> Response:
        """`ak` and `sk` are a user name and password, or any text and an API token. Attempts are limited as on the
        login page."""
        sent = body if isinstance(body, Mapping) else {}
        kind = sent.get("type") if isinstance(sent.get("type"), str) else "account"
        name, secret = (sent.get(each) or sent.get(other) for each, other in (("ak", "username"), ("sk", "password")))
        refusal = {"status": "error", "type": kind, "currentAuthority": "guest"}
        if not (isinstance(name, str) and isinstance(secret, str) and name and secret) or len(name + secret) > 1200:
            return _json({**refusal, "message": str(UnauthenticatedProblem.of("cooker.login"))}, 401)
        try:
            token, is_admin = await self._verify(request, name, secret)
        except UnauthenticatedProblem:
            return _json({**refusal, "message": str(UnauthenticatedProblem.of("cooker.login"))}, 401)
        except TooManyRequestsProblem as problem:
            response = _json({**refusal, "message": problem.detail}, 401)
            response.headers.update(problem.headers)
            return response
        authority = "admin" if is_admin else "user"
        return _json({"status": "ok", "type": kind, "currentAuthority": authority, "token": token})

    async def _verify(self, request: Request, name: str, secret: str) -> tuple[str, bool]:
        here, address = self._here, client_address(request)
        if not secret.startswith(API_TOKEN):
            user = await verify_login(here, request, name, secret)
            token = await here.database.write(
                lambda connection: issue_login_token(connection, user, LOGIN_TOKEN, address)
            )
            return token, user.role == "admin"
        counted = here.logins.begin_secret("cooker", network_of(address), time.monotonic())
        if isinstance(counted, float):
            raise TooManyRequestsProblem.of("login.often", seconds=int(counted) + 1)
        who = await here.identities.of_token(secret, address)
        if who is None:
            raise UnauthenticatedProblem.of("token.unknown")
        here.logins.succeeded(counted)
        return secret, who.admin


def with_cooker(platform: ASGIApp, cooker: ASGIApp) -> ASGIApp:
    """Serves its paths on the platform's port, too."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_own = scope["type"] == "http" and path.startswith(PREFIXES)
        await (cooker if is_own else platform)(scope, receive, send)

    return app


def for_pods(platform: ASGIApp, cooker: ASGIApp) -> ASGIApp:
    """What Pods reach: MLP Cooker's API, and the platform's one route that their tokens are for."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_progress = scope["type"] == "http" and path.startswith("/api/v1/dispatch/jobs/")
        await (platform if is_progress and path.endswith("/progress") else cooker)(scope, receive, send)

    return app


async def _read_body(request: Request) -> Any:
    """JSON, whatever the client calls it: `curl -d` says that it is a form. A real form is read as one."""
    raw = await request.body()
    if not raw.strip():
        return {}
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            try:
                fields = parse_qs(raw.decode(), strict_parsing=True, max_num_fields=100)
            except (ValueError, UnicodeDecodeError):
                pass
            else:
                return {name: values[-1] for name, values in fields.items()}
        raise BadRequestProblem.of("cooker.json", detail=str(error)) from None


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")


async def _unused(request: Request) -> Response:
    return _json(failure("not used"))
