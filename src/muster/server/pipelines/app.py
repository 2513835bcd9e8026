"""The REST API of Kubeflow Pipelines (v2beta1) as an ASGI application, on the platform's port.

It takes the platform's accounts: API tokens as Bearer tokens, and sessions of the web UI. Every route has a rule in
`PIPELINES_RULES` (server/platform/route_rules.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.pipelines.packages import LARGEST, has_nul, too_large
from muster.platform.errors import (
    BadRequestProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    Problem,
)
from muster.platform.messages import field_error
from muster.platform.permissions import may_at_all
from muster.server.pipelines import handlers, messages, runs
from muster.server.pipelines.handlers import Call
from muster.server.pipelines.messages import Fields, error_answer, read_message
from muster.server.platform.problems import problem_of
from muster.server.platform.route_rules import PIPELINES_RULES, RouteRule
from muster.server.platform.security import Security, identify
from muster.server.platform.services import Services
from muster.server.workers import SMALL_BYTES

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]

PREFIX: Final = "/apis/v2beta1/"
_FORM_BYTES: Final = 64 * 1024
"""What a multipart form adds to the package."""
_LIST: Final = ("page_token", "page_size", "sort_by", "filter")


@dataclass(frozen=True, slots=True)
class Endpoint:
    handler: Handler
    query: tuple[str, ...] = ()
    """The query parameters that it takes."""
    body: Fields | None = None
    """The fields of its body; None if it takes none."""
    is_upload: bool = False


_ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "GET healthz": Endpoint(handlers.health),
    "GET experiments": Endpoint(handlers.list_experiments, (*_LIST, "namespace")),
    "POST experiments": Endpoint(handlers.create_experiment, body=messages.EXPERIMENT),
    "GET experiments/{experiment_id}": Endpoint(handlers.get_experiment),
    "DELETE experiments/{experiment_id}": Endpoint(handlers.delete_experiment),
    "POST experiments/{experiment_id}:archive": Endpoint(handlers.archive_experiment),
    "POST experiments/{experiment_id}:unarchive": Endpoint(handlers.unarchive_experiment),
    "GET pipelines": Endpoint(handlers.list_pipelines, (*_LIST, "namespace")),
    "POST pipelines": Endpoint(handlers.create_pipeline, body=messages.PIPELINE),
    "POST pipelines/create": Endpoint(handlers.create_pipeline_and_version, body=messages.PIPELINE_AND_VERSION),
    "POST pipelines/upload": Endpoint(
        handlers.upload_pipeline, ("name", "display_name", "description", "namespace", "tags"), is_upload=True
    ),
    "POST pipelines/upload_version": Endpoint(
        handlers.upload_version, ("name", "display_name", "description", "pipelineid", "tags"), is_upload=True
    ),
    "GET pipelines/names/{name}": Endpoint(handlers.get_pipeline_by_name, ("namespace",)),
    "GET pipelines/{pipeline_id}": Endpoint(handlers.get_pipeline),
    "PATCH pipelines/{pipeline_id}": Endpoint(handlers.edit_pipeline, body=messages.PIPELINE),
    "DELETE pipelines/{pipeline_id}": Endpoint(handlers.delete_pipeline, ("cascade",)),
    "GET pipelines/{pipeline_id}/versions": Endpoint(handlers.list_versions, _LIST),
    "POST pipelines/{pipeline_id}/versions": Endpoint(handlers.create_version, body=messages.VERSION),
    "GET pipelines/{pipeline_id}/versions/{version_id}": Endpoint(handlers.get_version),
    "PATCH pipelines/{pipeline_id}/versions/{version_id}": Endpoint(handlers.edit_version, body=messages.VERSION),
    "DELETE pipelines/{pipeline_id}/versions/{version_id}": Endpoint(handlers.delete_version),
    "GET runs": Endpoint(runs.list_runs, (*_LIST, "namespace", "experiment_id")),
    "POST runs": Endpoint(runs.create_run, ("experiment_id",), body=messages.RUN),
    "GET runs/{run_id}": Endpoint(runs.get_run, ("experiment_id",)),
    "DELETE runs/{run_id}": Endpoint(runs.delete_run, ("experiment_id",)),
    "POST runs/{run_id}:terminate": Endpoint(runs.terminate_run, ("experiment_id",)),
    "POST runs/{run_id}:retry": Endpoint(runs.retry_run, ("experiment_id",)),
    "POST runs/{run_id}:archive": Endpoint(runs.archive_run, ("experiment_id",)),
    "POST runs/{run_id}:unarchive": Endpoint(runs.unarchive_run, ("experiment_id",)),
    "GET runs/{run_id}/nodes": Endpoint(runs.list_nodes),
    "GET runs/{run_id}/nodes/{node_id}": Endpoint(runs.get_node),
    "GET runs/{run_id}/nodes/{node_id}/log": Endpoint(runs.get_log, ("attempt", "round")),
    "GET runs/{run_id}/nodes/{node_id}/artifacts/{name}:read": Endpoint(runs.read_artifact, ("experiment_id", "path")),
    "GET runs/{run_id}/nodes/{node_id}/artifacts/{name}": Endpoint(runs.download_artifact, ("path",)),
    "GET artifacts": Endpoint(runs.list_artifacts, ("run_id", "artifact_id", "uri")),
    "GET recurringruns": Endpoint(runs.list_recurring_runs, (*_LIST, "namespace", "experiment_id")),
    "POST recurringruns": Endpoint(runs.create_recurring_run, body=messages.RECURRING_RUN),
    "GET recurringruns/{recurring_run_id}": Endpoint(runs.get_recurring_run),
    "DELETE recurringruns/{recurring_run_id}": Endpoint(runs.delete_recurring_run, ("propagation_policy",)),
    "POST recurringruns/{recurring_run_id}:enable": Endpoint(runs.enable_recurring_run),
    "POST recurringruns/{recurring_run_id}:disable": Endpoint(runs.disable_recurring_run),
}


def pipelines_app(here: Services) -> ASGIApp:
    """Raises ValueError if a route has no rule."""
    if _ENDPOINTS.keys() != PIPELINES_RULES.keys():
        different = sorted(_ENDPOINTS.keys() ^ PIPELINES_RULES.keys())
        raise ValueError(f"PIPELINES_RULES in route_rules.py has other routes than the API: {', '.join(different)}")
    routes = [_route(key, endpoint, PIPELINES_RULES[key]) for key, endpoint in _ENDPOINTS.items()]
    app = Starlette(routes=[*routes, Route("/{path:path}", _no_route, methods=_METHODS)])
    app.state.services = here
    return Security(
        app,
        https=here.url.startswith("https:"),
        largest_body=LARGEST + _FORM_BYTES,
        trusted_proxies=here.settings.web.trusted_proxies,
        respond=_refusal,
    )


def with_pipelines(platform: ASGIApp, pipelines: ASGIApp) -> ASGIApp:
    """Serves its paths on the platform's port."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] == "http" and scope.get("path", "").startswith(PREFIX)
        await (pipelines if is_own else platform)(scope, receive, send)

    return app


_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def _route(key: str, endpoint: Endpoint, rule: RouteRule) -> Route:
    method, _, path = key.partition(" ")

    async def respond(request: Request) -> Response:
        try:
            return await _serve(request, endpoint, rule)
        except Exception as error:
            return _refusal(problem_of(error, key))

    route = Route(f"{PREFIX}{path}", respond, methods=[method])
    # Starlette answers HEAD wherever it answers GET.
    route.methods = {method}
    return route


async def _serve(request: Request, endpoint: Endpoint, rule: RouteRule) -> Response:
    here: Services = request.app.state.services
    if rule.is_public:
        return _json(await endpoint.handler(Call(here, None, request)))
    who = await identify(request)
    if rule.kind is not None:
        decision = may_at_all(who, rule.kind, rule.action)
        if decision.error is not None:
            raise ForbiddenProblem.from_error(decision.error)
    unknown = [name for name in request.query_params if name not in endpoint.query]
    if unknown:
        known = list(endpoint.query) or ["none"]
        raise InvalidProblem.fields([field_error(name[:100], "request.parameter", known=known) for name in unknown])
    call = Call(here, who, request)
    if endpoint.is_upload:
        call.raw = await request.body()
    elif endpoint.body is not None:
        call.body = await _read_body(call, endpoint.body, await request.body())
    answer = await endpoint.handler(call)
    return answer if isinstance(answer, Response) else _json(answer)


async def _read_body(call: Call, fields: Fields, raw: bytes) -> dict[str, Any]:
    if len(raw) > LARGEST:
        raise too_large()
    if len(raw) <= SMALL_BYTES:
        return parse_body(fields, raw)
    return await call.here.checked(call.user, parse_body, fields, raw)


def parse_body(fields: Fields, raw: bytes) -> dict[str, Any]:
    """Raises BadRequest or Invalid."""
    try:
        given = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadRequestProblem.of("pipelines.json", detail=str(error)) from None
    if has_nul(raw):
        raise BadRequestProblem.of("pipelines.json", detail="a text in it has a NUL character")
    return read_message(fields, given)


async def _no_route(request: Request) -> Response:
    path = request.url.path[:200]
    return _refusal(NotFoundProblem.of("pipelines.route", method=request.method, path=path))


def _refusal(problem: Problem) -> Response:
    status, document = error_answer(problem)
    response = _json(document, status)
    response.headers.update(problem.headers)
    return response


def _json(document: Any, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(orjson.dumps(document), status, headers, media_type="application/json")
