"""Argo Server's API as an ASGI application. Requests that are not Argo's go to the application behind it."""

from __future__ import annotations

import logging
import platform
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from muster import __version__
from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.admission import collect_warnings
from muster.kube.errors import ApiError, MethodNotAllowed, NotFound
from muster.kube.events import EventRecorder
from muster.kube.rbac import SERVICE_ACCOUNT_PREFIX
from muster.server.argo import actions, events, streams, sync, workflows
from muster.server.argo.access import AuthorizedCluster
from muster.server.argo.artifacts import Downloads, Reader
from muster.server.argo.requests import Request, error_response
from muster.server.argo.templates import (
    CLUSTER_WORKFLOW_TEMPLATES,
    CRON_WORKFLOWS,
    WORKFLOW_TEMPLATES,
    Service,
    resume_cron,
    suspend_cron,
)
from muster.server.kubernetes.app import AccessControl
from muster.server.kubernetes.request import ApiRequest, ApiResponse, send_response
from muster.server.workers import WorkerPool
from muster.workflows.controller_config import controller_config

ARGO_VERSION = "v4.0.7"
"""The version of Argo whose API this is."""


async def info(request: Request) -> ApiResponse:
    modals = {"feedback": False, "firstTimeUser": False, "newVersion": False}
    links = list(controller_config(request.api.cluster).links)
    return request.answer({"managedNamespace": "", "links": links, "columns": [], "modals": modals, "navColor": ""})


async def version(request: Request) -> ApiResponse:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return request.answer({
        "version": f"{ARGO_VERSION}+muster.{__version__}",
        "buildDate": "1970-01-01T00:00:00Z",
        "gitCommit": "",
        "gitTag": ARGO_VERSION,
        "gitTreeState": "clean",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{machine}",
    })  # fmt: skip


def metrics_handler(text: Callable[[datetime], str]) -> Callable[[Request], Awaitable[ApiResponse]]:
    """The Prometheus metrics of workflows."""

    async def told(request: Request) -> ApiResponse:
        request.api.require_path("/metrics")
        return ApiResponse(text(datetime.now(UTC)).encode(), media="text/plain; version=0.0.4; charset=utf-8")

    return told


async def userinfo(request: Request) -> ApiResponse:
    user = request.api.user
    told: dict[str, object] = {"subject": user.name, "name": user.name, "groups": sorted(user.groups)}
    if user.name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, name = user.name[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
        told |= {
            "serviceAccountName": name,
            "serviceAccountNamespace": namespace,
            "issuer": "kubernetes/serviceaccount",
        }
    return request.answer(told)


async def collect_event(request: Request) -> ApiResponse:
    """Accepts usage events of Argo's web UI and ignores them."""
    await request.body()
    return request.answer({})


Handler: TypeAlias = Callable[[Request], Awaitable[ApiResponse | None]]


_SHARED = ("api/v1/events",)
"""The Kubernetes API has these paths, too, so only exact matches are Argo's."""


class Route(NamedTuple):
    method: str
    pattern: tuple[str, ...]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """A pattern such as `/api/v1/workflows/{namespace}`; `{rest...}` at its end stands for all that follows."""
    return Route(method, tuple(path.strip("/").split("/")), handler)


class Routes:
    """Earlier routes go first, so that `lint` is not taken for a name."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[str, list[Route]] = {}
        for one in routes:
            self._routes.setdefault(_prefix(one.pattern), []).append(one)

    def knows(self, method: str, path: str) -> bool:
        """Whether the request is Argo's at all."""
        parts = path.removeprefix("/").split("/")
        known = self._routes.get(_prefix(parts))
        if known is None or _prefix(parts) not in _SHARED:
            return known is not None
        return any(one.method == method and match_path(one.pattern, parts) is not None for one in known)

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        parts = path.removeprefix("/").split("/")
        others: set[str] = set()
        for one in self._routes.get(_prefix(parts), ()):
            names = match_path(one.pattern, parts)
            if names is None:
                continue
            if one.method == method or (method == "HEAD" and one.method == "GET"):
                return one.handler, names
            others.add(one.method)
        if others:
            raise MethodNotAllowed(f"{method} is not allowed on {path}; it takes {', '.join(sorted(others))}")
        raise NotFound(f"there is nothing at {path}")


def match_path(pattern: Iterable[str], parts: list[str]) -> dict[str, str] | None:
    """Returns the values of names in braces, or None. A name may be empty: `/workflows/` means all namespaces."""
    names: dict[str, str] = {}
    wanted = list(pattern)
    for number, piece in enumerate(wanted):
        if piece.endswith("...}"):
            names[piece[1:-4]] = "/".join(parts[number:])
            return names
        if number >= len(parts):
            # Only a last name may be left out altogether.
            if number == len(wanted) - 1 and piece.startswith("{") and "namespace" in piece:
                names[piece[1:-1]] = ""
                return names
            return None
        if piece.startswith("{"):
            names[piece[1:-1]] = parts[number]
        elif piece != parts[number]:
            return None
    return names if len(parts) == len(wanted) or (len(parts) == len(wanted) + 1 and not parts[-1]) else None


def _prefix(parts: Any) -> str:
    return "/".join(parts[:3] if parts[0] == "api" else parts[:1])


log = logging.getLogger(__name__)

_V1 = "/api/v1"


def argo_app(
    cluster: EmbeddedCluster,
    identity: Identity,
    otherwise: ASGIApp,
    *,
    artifacts: Reader | None = None,
    metrics: Callable[[datetime], str] | None = None,
    workers: WorkerPool | None = None,
    recorder: EventRecorder | None = None,
) -> ASGIApp:
    """Uses the tokens and roles of the Kubernetes API of `cluster`. Requests that are not Argo's go to `otherwise`.
    Without `artifacts` there are no downloads, without `metrics` no Prometheus metrics. `recorder` records problems of
    event bindings."""
    routes = _routes(recorder)
    if artifacts is not None:
        routes += _downloads(Downloads(artifacts))
    if metrics is not None:
        routes.append(route("GET", "/metrics", metrics_handler(metrics)))
    return _App(cluster, AccessControl(identity, cluster), otherwise, Routes(routes), workers)


class _App:
    def __init__(
        self,
        cluster: EmbeddedCluster,
        gate: AccessControl,
        otherwise: ASGIApp,
        routes: Routes,
        workers: WorkerPool | None,
    ) -> None:
        self._workers = workers
        self._cluster = cluster
        self._gate = gate
        self._otherwise = otherwise
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._routes.knows(scope["method"], scope["path"]):
            await self._otherwise(scope, receive, send)
            return
        call = ApiRequest(scope, receive, send, scope["path"], self._workers)
        try:
            made = await self._answer(call)
        except ApiError as error:
            made = error_response(error)
        except OSError as error:
            if isinstance(error, ConnectionError) or error.errno is None:
                log.debug("%s %s: %s", call.method, call.path, error)
                return
            log.warning("%s %s failed: %s", call.method, call.path, error)
            made = error_response(ApiError(f"The operating system refused the request: {error.strerror}"))
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            made = error_response(ApiError("Internal error occurred; see the server log"))
        if made is None:
            return
        if call.started:
            log.warning("%s %s was interrupted: %s", call.method, call.path, made.body[:300])
        else:
            if made.status < 400:
                made.headers.append((b"grpc-metadata-argo-version", ARGO_VERSION.encode()))
            await send_response(call, made)

    async def _answer(self, call: ApiRequest) -> ApiResponse | None:
        """Returns None if the response was already streamed."""
        await self._gate.authenticate(call)
        handler, names = self._routes.find(call.method, call.path)
        with collect_warnings() as call.warnings:
            api = AuthorizedCluster(self._cluster, self._gate, call.user, self._workers)
            self._gate.keep_checking(call, lambda: tuple(api.used))
            return await handler(Request(call, names, api))


def _routes(recorder: EventRecorder | None = None) -> list[Route]:
    return [
        route("POST", f"{_V1}/workflows/{{namespace}}/lint", workflows.lint),
        route("POST", f"{_V1}/workflows/{{namespace}}/submit", workflows.submit),
        route("GET", f"{_V1}/workflows/{{namespace}}", workflows.list_all),
        route("POST", f"{_V1}/workflows/{{namespace}}", workflows.create),
        route("GET", f"{_V1}/workflows/{{namespace}}/{{name}}", workflows.get),
        route("DELETE", f"{_V1}/workflows/{{namespace}}/{{name}}", workflows.delete),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/retry", actions.retry),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/resubmit", actions.resubmit),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/suspend", actions.suspend),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/resume", actions.resume),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/stop", actions.stop),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/terminate", actions.terminate),
        route("PUT", f"{_V1}/workflows/{{namespace}}/{{name}}/set", actions.set_node),
        route("GET", f"{_V1}/workflows/{{namespace}}/{{name}}/log", streams.workflow_log),
        route("GET", f"{_V1}/workflows/{{namespace}}/{{name}}/{{podName}}/log", streams.workflow_log),
        route("GET", f"{_V1}/workflow-events/{{namespace}}", streams.watch_workflows),
        route("GET", f"{_V1}/stream/events/{{namespace}}", streams.watch_events),
        *_service(f"{_V1}/workflow-templates/{{namespace}}", WORKFLOW_TEMPLATES),
        *_service(f"{_V1}/cluster-workflow-templates", CLUSTER_WORKFLOW_TEMPLATES),
        *_service(f"{_V1}/cron-workflows/{{namespace}}", CRON_WORKFLOWS),
        route("PUT", f"{_V1}/cron-workflows/{{namespace}}/{{name}}/suspend", suspend_cron),
        route("PUT", f"{_V1}/cron-workflows/{{namespace}}/{{name}}/resume", resume_cron),
        route("GET", f"{_V1}/archived-workflows", workflows.list_archived),
        route("GET", f"{_V1}/archived-workflows/{{uid}}", workflows.get_archived),
        route("DELETE", f"{_V1}/archived-workflows/{{uid}}", workflows.delete_archived),
        route("PUT", f"{_V1}/archived-workflows/{{uid}}/retry", workflows.retry_archived),
        route("PUT", f"{_V1}/archived-workflows/{{uid}}/resubmit", actions.resubmit_archived),
        route("GET", f"{_V1}/archived-workflows-label-keys", workflows.label_keys),
        route("GET", f"{_V1}/archived-workflows-label-values", workflows.label_values),
        route("POST", f"{_V1}/events/{{namespace}}/{{discriminator}}", events.receiver(recorder)),
        route("GET", f"{_V1}/workflow-event-bindings/{{namespace}}", events.list_bindings),
        *(
            route("GET", f"{_V1}/{plural}/{{namespace}}", events.list_nothing)
            for plural in ("event-sources", "sensors")
        ),
        *(
            route("GET", f"{_V1}/stream/{plural}/{{namespace}}", streams.watch_nothing)
            for plural in ("event-sources", "sensors")
        ),
        route("POST", f"{_V1}/sync/{{namespace}}", sync.create),
        route("GET", f"{_V1}/sync/{{namespace}}/{{key}}", sync.get),
        route("PUT", f"{_V1}/sync/{{namespace}}/{{key}}", sync.update),
        route("DELETE", f"{_V1}/sync/{{namespace}}/{{key}}", sync.delete),
        route("GET", f"{_V1}/info", info),
        route("GET", f"{_V1}/version", version),
        route("GET", f"{_V1}/userinfo", userinfo),
        route("POST", f"{_V1}/tracking/event", collect_event),
    ]


def _downloads(downloads: Downloads) -> list[Route]:
    return [
        route("GET", "/artifacts/{namespace}/{name}/{nodeId}/{artifactName}", downloads.output),
        route("GET", "/input-artifacts/{namespace}/{name}/{nodeId}/{artifactName}", downloads.input),
        route("GET", "/artifacts-by-uid/{uid}/{nodeId}/{artifactName}", downloads.output_by_uid),
        route("GET", "/input-artifacts-by-uid/{uid}/{nodeId}/{artifactName}", downloads.input_by_uid),
        route("GET", "/artifact-files/{namespace}/{discriminator}/{id}/{nodeId}/{direction}/{rest...}", downloads.file),
    ]


def _service(path: str, service: Service) -> list[Route]:
    return [
        route("POST", f"{path}/lint", service.lint),
        route("GET", path, service.list_all),
        route("POST", path, service.create),
        route("GET", f"{path}/{{name}}", service.get),
        route("PUT", f"{path}/{{name}}", service.update),
        route("DELETE", f"{path}/{{name}}", service.delete),
    ]
