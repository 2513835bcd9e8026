"""The Kubernetes API as an ASGI application: authenticates, authorizes and dispatches requests."""

from __future__ import annotations

import logging
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.admission import collect_warnings
from muster.kube.errors import ApiError, BadRequest, Invalid, MethodNotAllowed, NotFound
from muster.kube.kinds import Kind
from muster.kube.metrics_api import GROUP as METRICS
from muster.kube.objects import join_api_version
from muster.kube.rbac import Action
from muster.server.kubernetes import access, handlers, pod_exec, port_forward
from muster.server.kubernetes import handlers as subresources
from muster.server.kubernetes.access import AccessControl
from muster.server.kubernetes.body_schemas import REVIEW, check_body
from muster.server.kubernetes.discovery import REVIEWS, ApiDescription
from muster.server.kubernetes.request import (
    ApiRequest,
    ApiResponse,
    Target,
    error_response,
    is_true,
    json_response,
    parse_target,
    required_action,
    send_response,
)
from muster.server.kubernetes.watch import EventEncoder, watch
from muster.server.kubernetes.websocket import reject, while_allowed
from muster.server.workers import WorkerPool

log = logging.getLogger(__name__)

_HEALTH = ("/healthz", "/livez", "/readyz")
_REVIEW_KINDS = {(group, plural): kind for group, plural, kind, _ in REVIEWS}
_STREAMS = ("exec", "attach", "portforward")
_REMEMBERED_REFUSALS = 64


def kube_app(cluster: EmbeddedCluster, identity: Identity, workers: WorkerPool | None = None) -> Starlette:
    """Returns the API of `cluster`, to be served or mounted. `identity.run()` must be running. `workers` check large
    bodies."""
    return Starlette(routes=[Mount("/", app=KubernetesApi(cluster, identity, workers))])


class KubernetesApi:
    """Handles all paths. Splitting them by hand is faster and clearer than a table of routes."""

    def __init__(self, cluster: EmbeddedCluster, identity: Identity, workers: WorkerPool | None = None) -> None:
        self._cluster = cluster
        self._workers = workers
        self._identity = identity
        self._gate = AccessControl(identity, cluster)
        self._description = ApiDescription(cluster.catalogue)
        self._encoder = EventEncoder()
        self._refusals: dict[tuple[str, bytes], ApiError] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        request = ApiRequest(scope, receive, send, path, self._workers)
        target = parse_target(request.path)
        try:
            response = await (
                self._socket(request, target) if scope["type"] == "websocket" else self._http(request, target)
            )
        except ApiError as error:
            response = error_response(error, _details(request, target, error))
            if scope["type"] == "websocket":
                self._remember_refusal(request, error)
        except OSError as error:
            if isinstance(error, ConnectionError) or error.errno is None:
                # The connection was closed, most likely by the client.
                log.debug("%s %s: %s", request.method, request.path, error)
                return
            log.warning("%s %s failed: %s", request.method, request.path, error)
            # Without the path of the server's file, which is in the log.
            response = error_response(ApiError(f"the operating system refused the request: {error.strerror}"))
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = error_response(ApiError("Internal error occurred; see the log of the server"))
        if response is None:
            return
        if request.started:
            log.warning("%s %s was interrupted: %s", request.method, request.path, response.body[:300])
        elif scope["type"] == "websocket":
            await reject(request, response)
        else:
            await send_response(request, response)

    async def _http(self, request: ApiRequest, target: Target | None) -> ApiResponse | None:
        """Returns None if the response has already been streamed."""
        if target is None:
            return await self._describe(request)
        await self._authorize(request, target)
        if (target.group, target.plural) in _REVIEW_KINDS:
            return await self._review(request, target)
        kind = self._kind(target)
        if kind.group == METRICS:
            return await handlers.get_metrics(self._cluster, request, kind, target)
        if request.method not in ("GET", "HEAD") or target.subresource == "log" or kind.plural == "secrets":
            self._gate.protect_runs(request.user, kind, target.namespace, target.name)
        if target.subresource not in ("", "status", "scale"):
            return await self._subresource(request, target)
        match request.method:
            case "GET" | "HEAD":
                if target.name:
                    return await handlers.get_object(self._cluster, request, kind, target)
                if is_true(request.query.get("watch")):
                    await watch(self._cluster, self._encoder, request, kind, target)
                    return None
                return await handlers.list_objects(self._cluster, request, kind, target)
            case "DELETE" if not target.subresource:
                act = handlers.delete if target.name else handlers.delete_collection
                return await act(self._cluster, request, kind, target)
            case "POST" if not target.name:
                change = handlers.create
            case "PUT" if target.name:
                change = handlers.replace
            case "PATCH" if target.name:
                change = handlers.patch
            case _:
                raise _not_allowed(request)
        with collect_warnings() as request.warnings:
            return await change(self._cluster, request, kind, target, self._gate.write_check(request.user, kind))

    async def _describe(self, request: ApiRequest) -> ApiResponse:
        if request.path.startswith(_HEALTH):
            if request.path.startswith("/readyz") and self._cluster.store.last_error is not None:
                await self._gate.authenticate(request)  # only authenticated users get the reason
                raise self._cluster.store.last_error
            return ApiResponse(b"ok", media="text/plain; charset=utf-8")
        if request.path.rstrip("/") != "/version":
            await self._gate.authenticate(request)
            self._gate.require(request.user, Action("get", path=request.path))
        if request.method not in ("GET", "HEAD"):
            raise _not_allowed(request)
        return self._description.respond(request)

    async def _review(self, request: ApiRequest, target: Target) -> ApiResponse:
        if request.method != "POST" or target.name:
            raise _not_allowed(request)
        kind = _REVIEW_KINDS[target.group, target.plural]
        body = check_body(await request.document(), REVIEW, kind)
        body |= {"apiVersion": join_api_version(target.group, target.version), "kind": kind}
        reviewed = await access.review(self._identity, request.user, target.plural, target.namespace, body)
        return json_response(reviewed, request, 201)

    async def _subresource(self, request: ApiRequest, target: Target) -> ApiResponse | None:
        match request.method, target.group, target.plural, target.subresource:
            case "GET", "", "pods", "log":
                await subresources.stream_log(self._cluster, request, target)
                return None
            case "POST", "", "pods", "binding":
                return await subresources.bind(self._cluster, request, target)
            case "POST", "", "pods", "eviction":
                return await subresources.evict(self._cluster, request, target)
            case "POST", "", "serviceaccounts", "token":
                return await subresources.issue_token(self._cluster, self._identity, request, target)
            case _, "", "pods", stream if stream in _STREAMS:
                raise await self._not_upgraded(request, target)
        raise NotFound(f'{target.plural} have no subresource "{target.subresource}"')

    async def _socket(self, request: ApiRequest, target: Target | None) -> None:
        await request.receive()
        if target is None or (target.group, target.plural) != ("", "pods") or target.subresource not in _STREAMS:
            raise BadRequest("only exec and portforward of a Pod are served over WebSocket")
        await self._authorize(request, target)
        self._gate.protect_runs(request.user, self._kind(target), target.namespace, target.name)
        match target.subresource:
            case "exec":
                await while_allowed(request, pod_exec.exec_in_pod(self._cluster, request, target))
            case "portforward":
                await while_allowed(request, port_forward.forward_ports(self._cluster, request, target))
            case _:
                raise _no_attach()

    async def _authorize(self, request: ApiRequest, target: Target) -> None:
        await self._gate.authenticate(request)
        action = required_action(target, request.method, request.query)
        self._gate.require(request.user, action)
        self._gate.keep_checking(request, lambda: (action,))

    def _remember_refusal(self, request: ApiRequest, error: ApiError) -> None:
        """When a WebSocket is refused, kubectl tries again over SPDY and shows the error of that request."""
        if len(self._refusals) >= _REMEMBERED_REFUSALS:
            self._refusals.clear()
        self._refusals[request.path, request.scope["query_string"]] = error

    async def _not_upgraded(self, request: ApiRequest, target: Target) -> ApiError:
        earlier = self._refusals.pop((request.path, request.scope["query_string"]), None)
        if earlier is not None:
            return earlier
        await self._cluster.get(self._kind(target), target.name, target.namespace)
        if target.subresource == "attach":
            return _no_attach()
        if request.header(b"upgrade").lower().startswith("spdy"):
            return BadRequest(
                f"{target.subresource} is served over WebSocket, but this client asked for SPDY: use kubectl 1.31 or "
                "newer (1.29 and 1.30 need KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true)"
            )
        return BadRequest(f"{target.subresource} is served over WebSocket: send an upgrade request")

    def _kind(self, target: Target) -> Kind:
        kind = self._cluster.catalogue.find_resource(target.group, target.version, target.plural)
        in_namespace = bool(target.namespace)
        if in_namespace is not kind.namespaced and (in_namespace or target.name):
            raise NotFound("the server could not find the requested resource")
        return kind


def _details(request: ApiRequest, target: Target | None, error: ApiError) -> dict[str, Any]:
    """Returns what the error is about: the resource or, for an invalid object, its kind, as kubectl prints it."""
    if target is None:
        return {}
    of = request.kind if isinstance(error, Invalid) and request.kind else target.plural
    details = {"name": request.name or target.name, "group": target.group, "kind": of}
    return {field: value for field, value in details.items() if value}


def _not_allowed(request: ApiRequest) -> MethodNotAllowed:
    return MethodNotAllowed(f"the server does not allow {request.method} on {request.path}")


def _no_attach() -> BadRequest:
    return BadRequest("attach is not supported: use `kubectl logs -f` for output, and `kubectl exec -it` for a shell")
