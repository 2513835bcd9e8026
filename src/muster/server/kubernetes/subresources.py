"""The parts of Pods and service accounts that are actions: logs, bindings, evictions, tokens."""

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


async def stream_log(cluster: EmbeddedCluster, call: ApiRequest, target: Target) -> None:
    """Answers the call itself."""
    query = log_query(call, datetime.now(UTC))

    async def pieces() -> AsyncGenerator[bytes, None]:
        found = cast("AsyncGenerator[bytes, None]", cluster.logs(target.name, target.namespace, query))
        async with aclosing(found) as opened:
            async for piece in opened:
                yield piece

    await stream(call, pieces(), media="text/plain", patience=_FIRST_LINE_SECONDS)


def log_query(call: ApiRequest, now: datetime) -> LogQuery:
    since: float | None = call.integer("sinceSeconds")
    if call.query.get("sinceTime"):
        if since is not None:
            raise BadRequest("give either sinceSeconds or sinceTime, not both")
        try:
            since = max(0.0, (now - parse_time(call.query["sinceTime"])).total_seconds())
        except ValueError:
            asked = call.query["sinceTime"]
            raise BadRequest(f'sinceTime "{asked}" is not a time such as 2026-01-31T12:00:00Z') from None
    tail, limit = call.integer("tailLines"), call.integer("limitBytes")
    if (tail is not None and tail < 0) or (limit is not None and limit < 1) or (since is not None and since < 0):
        raise BadRequest("tailLines and sinceSeconds must be 0 or more, limitBytes 1 or more")
    return LogQuery(
        container=call.query.get("container", ""),
        follow=call.flag("follow"),
        previous=call.flag("previous"),
        timestamps=call.flag("timestamps"),
        tail_lines=tail,
        since_seconds=since,
        limit_bytes=limit,
    )


async def bind(cluster: EmbeddedCluster, call: ApiRequest, target: Target) -> ApiResponse:
    """What a scheduler of one's own does: gives a Pod its node."""
    body = await call.document()
    node = (body.get("target") or {}).get("name")
    if not node or (body.get("target") or {}).get("kind", "Node") != "Node":
        raise BadRequest('a Binding needs a target with kind "Node" and a name')
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    await cluster.get(builtin.NODE, str(node))
    wanted_uid = (body.get("metadata") or {}).get("uid")
    if wanted_uid and wanted_uid != uid_of(pod):
        raise Conflict(f'Operation cannot be fulfilled on pods/binding "{target.name}": the uid is another Pod\'s')
    if not is_dry_run(call.query):
        await cluster.bind([(Key(target.namespace, target.name), uid_of(pod), str(node))])
    return _success(call)


async def evict(cluster: EmbeddedCluster, call: ApiRequest, target: Target) -> ApiResponse:
    """As there are no disruption budgets here, an eviction is a deletion."""
    body = await call.document()
    name = (body.get("metadata") or {}).get("name") or target.name
    if name != target.name:
        raise BadRequest(f'the name in the URL ("{target.name}") does not match the name of the Eviction ("{name}")')
    options = delete_options(call.query, body.get("deleteOptions") or {})
    await cluster.delete(builtin.POD, target.name, target.namespace, **options._asdict())
    return _success(call)


async def issue_token(cluster: EmbeddedCluster, identity: Identity, call: ApiRequest, target: Target) -> ApiResponse:
    """A token for a service account, as `kubectl create token` asks for."""
    body = await call.document()
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
    return json_response(issued, call, 201)


def _success(call: ApiRequest) -> ApiResponse:
    return json_response(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, call, 201
    )
