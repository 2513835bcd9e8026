"""The Kubernetes API as an ASGI application: who asks, may they, and which part answers."""

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
from muster.server.kubernetes import access, handlers, pod_exec, port_forward, subresources
from muster.server.kubernetes.access import AccessControl
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
from muster.server.kubernetes.watch import Encoder, watch
from muster.server.kubernetes.websocket import reject

log = logging.getLogger(__name__)

_HEALTH = ("/healthz", "/livez", "/readyz")
_REVIEW_KINDS = {(group, plural): kind for group, plural, kind, _ in REVIEWS}
_STREAMS = ("exec", "attach", "portforward")
_REMEMBERED_REFUSALS = 64


def kube_app(cluster: EmbeddedCluster, identity: Identity) -> Starlette:
    """The API of `cluster`, to be served or mounted. `identity.run()` has to be going beside it."""
    return Starlette(routes=[Mount("/", app=Api(cluster, identity))])


class Api:
    """One entrance for all paths: they are split by hand, which is both quicker and clearer than a table of routes."""

    def __init__(self, cluster: EmbeddedCluster, identity: Identity) -> None:
        self._cluster = cluster
        self._identity = identity
        self._gate = AccessControl(identity)
        self._description = ApiDescription(cluster.catalogue)
        self._encoder = Encoder()
        self._refusals: dict[tuple[str, bytes], ApiError] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = ApiRequest(scope, receive, send, scope["path"].removeprefix(scope.get("root_path", "")))
        target = parse_target(call.path)
        try:
            made = await (self._socket(call, target) if scope["type"] == "websocket" else self._http(call, target))
        except ApiError as error:
            made = error_response(error, _details(call, target, error))
            if scope["type"] == "websocket":
                self._remember(call, error)
        except OSError as error:
            if isinstance(error, ConnectionError) or error.errno is None:
                # Somebody hung up in the middle, most likely the client.
                log.debug("%s %s: %s", call.method, call.path, error)
                return
            log.warning("%s %s failed: %s", call.method, call.path, error)
            made = error_response(ApiError(f"the machine would not do it: {error}"))
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            made = error_response(ApiError("Internal error occurred; the server's log says more"))
        if made is None:
            return
        if call.started:
            log.warning("%s %s broke off: %s", call.method, call.path, made.body[:300])
        elif scope["type"] == "websocket":
            await reject(call, made)
        else:
            await send_response(call, made)

    async def _http(self, call: ApiRequest, target: Target | None) -> ApiResponse | None:
        """None where the answer has been sent already, piece by piece."""
        if target is None:
            return await self._about(call)
        await self._gate.admit(call)
        self._gate.require(call.user, required_action(target, call.method, call.query))
        if (target.group, target.plural) in _REVIEW_KINDS:
            return await self._review(call, target)
        kind = self._kind(target)
        if kind.group == METRICS:
            return await handlers.get_metrics(self._cluster, call, kind, target)
        if target.subresource not in ("", "status", "scale"):
            return await self._subresource(call, target)
        match call.method:
            case "GET" | "HEAD":
                if target.name:
                    return await handlers.get_object(self._cluster, call, kind, target)
                if is_true(call.query.get("watch")):
                    await watch(self._cluster, self._encoder, call, kind, target)
                    return None
                return await handlers.list_objects(self._cluster, call, kind, target)
            case "DELETE" if not target.subresource:
                act = handlers.delete if target.name else handlers.delete_collection
                return await act(self._cluster, call, kind, target)
            case "POST" if not target.name:
                change = handlers.create
            case "PUT" if target.name:
                change = handlers.replace
            case "PATCH" if target.name:
                change = handlers.patch
            case _:
                raise _not_allowed(call)
        with collect_warnings() as call.warnings:
            return await change(self._cluster, call, kind, target, self._gate.approval(call.user, kind))

    async def _about(self, call: ApiRequest) -> ApiResponse:
        if call.path.startswith(_HEALTH):
            if call.path.startswith("/readyz") and self._cluster.store.last_error is not None:
                await self._gate.admit(call)  # why not is nobody else's business
                raise self._cluster.store.last_error
            return ApiResponse(b"ok", media="text/plain; charset=utf-8")
        if call.path.rstrip("/") != "/version":
            await self._gate.admit(call)
            self._gate.require(call.user, Action("get", path=call.path))
        if call.method not in ("GET", "HEAD"):
            raise _not_allowed(call)
        return self._description.answer(call)

    async def _review(self, call: ApiRequest, target: Target) -> ApiResponse:
        if call.method != "POST" or target.name:
            raise _not_allowed(call)
        kind = _REVIEW_KINDS[target.group, target.plural]
        body = await call.document()
        body |= {"apiVersion": join_api_version(target.group, target.version), "kind": kind}
        reviewed = await access.review(self._identity, call.user, target.plural, target.namespace, body)
        return json_response(reviewed, call, 201)

    async def _subresource(self, call: ApiRequest, target: Target) -> ApiResponse | None:
        match call.method, target.group, target.plural, target.subresource:
            case "GET", "", "pods", "log":
                await subresources.stream_log(self._cluster, call, target)
                return None
            case "POST", "", "pods", "binding":
                return await subresources.bind(self._cluster, call, target)
            case "POST", "", "pods", "eviction":
                return await subresources.evict(self._cluster, call, target)
            case "POST", "", "serviceaccounts", "token":
                return await subresources.issue_token(self._cluster, self._identity, call, target)
            case _, "", "pods", stream if stream in _STREAMS:
                raise await self._not_upgraded(call, target)
        raise NotFound(f'there is no subresource "{target.subresource}" of {target.plural}')

    async def _socket(self, call: ApiRequest, target: Target | None) -> None:
        await call.receive()
        if target is None or (target.group, target.plural) != ("", "pods") or target.subresource not in _STREAMS:
            raise BadRequest("only exec and portforward of a Pod are served over WebSocket")
        await self._gate.admit(call)
        self._gate.require(call.user, required_action(target, call.method, call.query))
        match target.subresource:
            case "exec":
                await pod_exec.exec_in_pod(self._cluster, call, target)
            case "portforward":
                await port_forward.forward_ports(self._cluster, call, target)
            case _:
                raise _no_attach()

    def _remember(self, call: ApiRequest, error: ApiError) -> None:
        """kubectl answers a refused WebSocket with a second try over SPDY, and shows what that one says."""
        if len(self._refusals) >= _REMEMBERED_REFUSALS:
            self._refusals.clear()
        self._refusals[call.path, call.scope["query_string"]] = error

    async def _not_upgraded(self, call: ApiRequest, target: Target) -> ApiError:
        earlier = self._refusals.pop((call.path, call.scope["query_string"]), None)
        if earlier is not None:
            return earlier
        await self._cluster.get(self._kind(target), target.name, target.namespace)
        if target.subresource == "attach":
            return _no_attach()
        if call.header(b"upgrade").lower().startswith("spdy"):
            return BadRequest(
                f"{target.subresource} is served over WebSocket, and this client asked for SPDY: use kubectl 1.31 or "
                "newer (1.29 and 1.30 need KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true)"
            )
        return BadRequest(f"{target.subresource} is served over WebSocket: the request must ask for an upgrade")

    def _kind(self, target: Target) -> Kind:
        kind = self._cluster.catalogue.find_resource(target.group, target.version, target.plural)
        in_namespace = bool(target.namespace)
        if in_namespace is not kind.namespaced and (in_namespace or target.name):
            raise NotFound("the server could not find the requested resource")
        return kind


def _details(call: ApiRequest, target: Target | None, error: ApiError) -> dict[str, Any]:
    """With what it went wrong: the resource, or for an invalid object its kind, as kubectl wants to print it."""
    if target is None:
        return {}
    of = call.kind if isinstance(error, Invalid) and call.kind else target.plural
    details = {"name": call.name or target.name, "group": target.group, "kind": of}
    return {field: value for field, value in details.items() if value}


def _not_allowed(call: ApiRequest) -> MethodNotAllowed:
    return MethodNotAllowed(f"the server does not allow {call.method} on {call.path}")


def _no_attach() -> BadRequest:
    return BadRequest(
        "attach is not served: a container's output is in `kubectl logs -f`, and `kubectl exec -it` starts a shell"
    )
