"""Subresources of Pods and service accounts that are actions: log, binding, eviction, token."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import cast

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.kube import builtin
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, Conflict
from muster.kube.objects import Key, parse_time, timestamp, uid_of
from muster.server.kubernetes.handlers import delete_options, is_dry_run
from muster.server.kubernetes.request import ApiRequest, ApiResponse, Target, json_response, stream

_FIRST_LINE_SECONDS = 0.2


async def stream_log(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> None:
    """Streams the log as the response."""
    query = log_query(request, datetime.now(UTC))

    async def pieces() -> AsyncGenerator[bytes, None]:
        found = cast("AsyncGenerator[bytes, None]", cluster.logs(target.name, target.namespace, query))
        async with aclosing(found) as opened:
            async for piece in opened:
                yield piece

    await stream(request, pieces(), media="text/plain", first_piece_seconds=_FIRST_LINE_SECONDS)


def log_query(request: ApiRequest, now: datetime) -> LogQuery:
    since: float | None = request.integer("sinceSeconds")
    if request.query.get("sinceTime"):
        if since is not None:
            raise BadRequest("use either sinceSeconds or sinceTime, not both")
        try:
            since = max(0.0, (now - parse_time(request.query["sinceTime"])).total_seconds())
        except ValueError:
            asked = request.query["sinceTime"]
            raise BadRequest(f'sinceTime "{asked}" is not a time such as 2026-01-31T12:00:00Z') from None
    tail, limit = request.integer("tailLines"), request.integer("limitBytes")
    if (tail is not None and tail < 0) or (limit is not None and limit < 1) or (since is not None and since < 0):
        raise BadRequest("tailLines and sinceSeconds must be 0 or more, limitBytes 1 or more")
    return LogQuery(
        container=request.query.get("container", ""),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=tail,
        since_seconds=since,
        limit_bytes=limit,
    )


async def bind(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> ApiResponse:
    """Binds a Pod to a node, for external schedulers."""
    body = await request.document()
    node = (body.get("target") or {}).get("name")
    if not node or (body.get("target") or {}).get("kind", "Node") != "Node":
        raise BadRequest('a Binding needs a target with kind "Node" and a name')
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    await cluster.get(builtin.NODE, str(node))
    wanted_uid = (body.get("metadata") or {}).get("uid")
    if wanted_uid and wanted_uid != uid_of(pod):
        raise Conflict(f'Operation cannot be fulfilled on pods/binding "{target.name}": the uid is that of another Pod')
    if not is_dry_run(request.query):
        await cluster.bind([(Key(target.namespace, target.name), uid_of(pod), str(node))])
    return _success(request)


async def evict(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> ApiResponse:
    """Deletes the Pod: there are no disruption budgets in this cluster."""
    body = await request.document()
    name = (body.get("metadata") or {}).get("name") or target.name
    if name != target.name:
        raise BadRequest(f'the name in the URL ("{target.name}") does not match the name of the Eviction ("{name}")')
    options = delete_options(request.query, body.get("deleteOptions") or {})
    await cluster.delete(builtin.POD, target.name, target.namespace, **options._asdict())
    return _success(request)


async def issue_token(cluster: EmbeddedCluster, identity: Identity, request: ApiRequest, target: Target) -> ApiResponse:
    """Issues a token for a service account (`kubectl create token`)."""
    body = await request.document()
    spec = body.get("spec") or {}
    account = await cluster.get(builtin.SERVICE_ACCOUNT, target.name, target.namespace)
    bound = spec.get("boundObjectRef") or {}
    pod_uid = ""
    if bound:
        if bound.get("kind") != "Pod":
            raise BadRequest(f'a token can be bound to a Pod only, not to a "{bound.get("kind")}"')
        pod = await cluster.get(builtin.POD, str(bound.get("name") or ""), target.namespace)
        pod_uid = uid_of(pod)
        if bound.get("uid") and bound["uid"] != pod_uid:
            raise Conflict(f'the Pod "{bound["name"]}" has another uid than the one to bind the token to')
    seconds = spec.get("expirationSeconds") or 3600
    if not isinstance(seconds, int):
        raise BadRequest("spec.expirationSeconds must be a whole number")
    token, claims = identity.service_accounts.issue(
        target.namespace,
        target.name,
        uid_of(account),
        seconds=seconds,
        pod=str(bound.get("name") or ""),
        pod_uid=pod_uid,
        audiences=[str(audience) for audience in spec.get("audiences") or ()],
    )
    expires = datetime.fromtimestamp(claims.expires, UTC)
    issued = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": timestamp()},
        "spec": {**spec, "audiences": list(claims.audiences), "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": timestamp(expires)},
    }
    return json_response(issued, request, 201)


def _success(request: ApiRequest) -> ApiResponse:
    return json_response(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, request, 201
    )
