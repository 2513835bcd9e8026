"""Argo Server's API as an ASGI application, in front of another one that gets everything that is not Argo's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from starlette.types import ASGIApp, Receive, Scope, Send

from muster.embedded.admission import collect_warnings
from muster.embedded.api.calls import Answer, Call, deliver
from muster.embedded.api.gate import Gate
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.identity.identity import Identity
from muster.kube.errors import ApiError
from muster.server.argo import actions, archive, events, info, logs, sync, watches, workflows
from muster.server.argo.access import OnBehalf
from muster.server.argo.artifacts import Downloads, Reader
from muster.server.argo.failures import failure
from muster.server.argo.requests import Request
from muster.server.argo.routes import Route, Routes, route
from muster.server.argo.templates import (
    CLUSTER_WORKFLOW_TEMPLATES,
    CRON_WORKFLOWS,
    WORKFLOW_TEMPLATES,
    Service,
    resume_cron,
    suspend_cron,
)

log = logging.getLogger(__name__)

_V1 = "/api/v1"


def argo_app(
    cluster: EmbeddedCluster,
    identity: Identity,
    otherwise: ASGIApp,
    *,
    artifacts: Reader | None = None,
    metrics: Callable[[datetime], str] | None = None,
) -> ASGIApp:
    """Same tokens and roles as the Kubernetes API of `cluster`, which most likely is `otherwise`. Without `artifacts`,
    none can be downloaded; without `metrics`, Prometheus hears nothing."""
    routes = _routes()
    if artifacts is not None:
        routes += _downloads(Downloads(artifacts))
    if metrics is not None:
        routes.append(route("GET", "/metrics", info.metrics(metrics)))
    return _App(cluster, Gate(identity), otherwise, Routes(routes))


class _App:
    def __init__(self, cluster: EmbeddedCluster, gate: Gate, otherwise: ASGIApp, routes: Routes) -> None:
        self._cluster = cluster
        self._gate = gate
        self._otherwise = otherwise
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._routes.knows(scope["method"], scope["path"]):
            await self._otherwise(scope, receive, send)
            return
        call = Call(scope, receive, send, scope["path"])
        try:
            made = await self._answer(call)
        except ApiError as error:
            made = failure(error)
        except OSError as error:
            if isinstance(error, ConnectionError) or error.errno is None:
                log.debug("%s %s: %s", call.method, call.path, error)
                return
            log.warning("%s %s failed: %s", call.method, call.path, error)
            made = failure(ApiError(f"the machine would not do it: {error}"))
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            made = failure(ApiError("Internal error occurred; the server's log says more"))
        if made is None:
            return
        if call.started:
            log.warning("%s %s broke off: %s", call.method, call.path, made.body[:300])
        else:
            await deliver(call, made)

    async def _answer(self, call: Call) -> Answer | None:
        """None where the answer has been sent already, piece by piece."""
        await self._gate.admit(call)
        handler, names = self._routes.find(call.method, call.path)
        with collect_warnings() as call.warnings:
            return await handler(Request(call, names, OnBehalf(self._cluster, self._gate, call.user)))


def _routes() -> list[Route]:
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
        route("GET", f"{_V1}/workflows/{{namespace}}/{{name}}/log", logs.workflow_log),
        route("GET", f"{_V1}/workflows/{{namespace}}/{{name}}/{{podName}}/log", logs.workflow_log),
        route("GET", f"{_V1}/workflow-events/{{namespace}}", watches.workflows),
        route("GET", f"{_V1}/stream/events/{{namespace}}", watches.events),
        *_service(f"{_V1}/workflow-templates/{{namespace}}", WORKFLOW_TEMPLATES),
        *_service(f"{_V1}/cluster-workflow-templates", CLUSTER_WORKFLOW_TEMPLATES),
        *_service(f"{_V1}/cron-workflows/{{namespace}}", CRON_WORKFLOWS),
        route("PUT", f"{_V1}/cron-workflows/{{namespace}}/{{name}}/suspend", suspend_cron),
        route("PUT", f"{_V1}/cron-workflows/{{namespace}}/{{name}}/resume", resume_cron),
        route("GET", f"{_V1}/archived-workflows", archive.list_all),
        route("GET", f"{_V1}/archived-workflows/{{uid}}", archive.get),
        route("DELETE", f"{_V1}/archived-workflows/{{uid}}", archive.delete),
        route("PUT", f"{_V1}/archived-workflows/{{uid}}/retry", archive.retry),
        route("PUT", f"{_V1}/archived-workflows/{{uid}}/resubmit", actions.resubmit_archived),
        route("GET", f"{_V1}/archived-workflows-label-keys", archive.label_keys),
        route("GET", f"{_V1}/archived-workflows-label-values", archive.label_values),
        route("POST", f"{_V1}/events/{{namespace}}/{{discriminator}}", events.receive),
        route("GET", f"{_V1}/workflow-event-bindings/{{namespace}}", events.list_bindings),
        *(route("GET", f"{_V1}/{plural}/{{namespace}}", events.none) for plural in ("event-sources", "sensors")),
        *(
            route("GET", f"{_V1}/stream/{plural}/{{namespace}}", watches.nothing)
            for plural in ("event-sources", "sensors")
        ),
        route("POST", f"{_V1}/sync/{{namespace}}", sync.create),
        route("GET", f"{_V1}/sync/{{namespace}}/{{key}}", sync.get),
        route("PUT", f"{_V1}/sync/{{namespace}}/{{key}}", sync.update),
        route("DELETE", f"{_V1}/sync/{{namespace}}/{{key}}", sync.delete),
        route("GET", f"{_V1}/info", info.info),
        route("GET", f"{_V1}/version", info.version),
        route("GET", f"{_V1}/userinfo", info.userinfo),
        route("POST", f"{_V1}/tracking/event", info.collect_event),
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
