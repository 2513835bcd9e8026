"""The verbs of the API on objects, and the subresources of Pods and service accounts that are actions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, cast

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster, WriteCheck
from muster.embedded.node.nodes import is_simulated
from muster.embedded.store.admission import FieldValidation
from muster.kube import builtin
from muster.kube.builtin import NAMESPACE, NODE, POD
from muster.kube.cluster import Listing, LogQuery, Propagation, Subresource
from muster.kube.errors import (
    BadRequest,
    Cause,
    Conflict,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Timeout,
    Unavailable,
    is_count,
)
from muster.kube.kinds import Kind
from muster.kube.metrics_api import NODE_METRICS, node_metrics, pod_metrics
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    meta,
    name_of,
    namespace_of,
    parse_time,
    set_condition,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.server.kubernetes import request as negotiation
from muster.server.kubernetes.body_schemas import BINDING, DELETE_OPTIONS, EVICTION, SCALE, TOKEN_REQUEST, check_body
from muster.server.kubernetes.list_response import respond_with_list
from muster.server.kubernetes.request import (
    JSON,
    YAML,
    ApiRequest,
    ApiResponse,
    Target,
    body_media,
    is_true,
    json_response,
    parse_body,
    patch_type,
    stream,
)

_SUBRESOURCES: dict[str, Subresource] = {"": "", "status": "status", "scale": "scale"}
_RETURNED_WHEN_DELETED = frozenset((
    "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "serviceaccounts", "services",
    "storageclasses.storage.k8s.io",
))  # fmt: skip
"""Deleting one of these returns the object, deleting others returns a Status. Typed clients rely on this."""
_PROPAGATIONS: dict[str, Propagation] = {"Background": "Background", "Foreground": "Foreground", "Orphan": "Orphan"}
_VALIDATIONS: dict[str, FieldValidation] = {"Strict": "Strict", "Warn": "Warn", "Ignore": "Ignore"}


async def get_object(cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target) -> ApiResponse:
    if target.subresource == "scale":
        return json_response(await cluster.get_scale(kind, target.name, target.namespace), request)
    obj = await cluster.get(kind, target.name, target.namespace)
    if request.form().shape == "object":
        obj = cluster.with_status_rows(obj, kind)
    return json_response(
        negotiation.shape_object(kind, obj, request.form(), negotiation.parse_include(request.query)), request
    )


async def list_objects(cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target) -> ApiResponse | None:
    query = request.query
    listing = await cluster.list(
        kind,
        target.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=request.integer("limit") or 0,
        continue_=query.get("continue", ""),
    )
    _check_version(query, listing)
    has_rows = kind.stored_as_rows is not None and request.form().shape == "object"
    complete = partial(cluster.with_status_rows, kind=kind) if has_rows else None
    return await respond_with_list(request, kind, listing, complete)


async def create(
    cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target, check: WriteCheck | None = None
) -> ApiResponse:
    if kind.namespaced and not target.namespace:
        raise MethodNotAllowed(f"{kind.plural} are namespaced: POST to .../namespaces/NAME/{kind.plural}")
    obj = fill_from_url(await request.document(), kind, target)
    request.kind, request.name = kind.kind, name_of(obj) or str(meta(obj).get("generateName") or "")
    dry_run = is_dry_run(request.query)
    await request.rehearse(kind, None, obj)
    stored = await cluster.create(obj, dry_run=dry_run, field_validation=_validation(request), check=check)
    if dry_run:
        stored = _dry_run_result(stored, None)
    return json_response(
        negotiation.shape_object(kind, cluster.with_status_rows(stored, kind), request.form()), request, 201
    )


async def replace(
    cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target, check: WriteCheck | None = None
) -> ApiResponse:
    subresource = _subresource(kind, target)
    request.kind = kind.kind
    body = await request.document()
    obj = _fill_scale_from_url(body, target) if subresource == "scale" else fill_from_url(body, kind, target)
    dry_run = is_dry_run(request.query)
    if subresource != "scale":
        await request.rehearse(kind, None, obj)
    stored = await cluster.update(
        obj,
        subresource=subresource,
        dry_run=dry_run,
        kind=kind,
        field_manager=_manager(request),
        field_validation=_validation(request),
        check=check,
    )
    if dry_run:
        stored = _dry_run_result(stored, await _existing(cluster, kind, target))
    return json_response(
        negotiation.shape_object(kind, cluster.with_status_rows(stored, kind), request.form()), request
    )


async def patch(
    cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target, check: WriteCheck | None = None
) -> ApiResponse:
    request.kind = kind.kind
    type_ = patch_type(request.header(b"content-type"))
    content = await request.body()
    # An apply patch is YAML, but almost all clients send JSON, which is a part of YAML.
    body = await request.parse(content, YAML if type_ == "apply" and content[:1] != b"{" else JSON)
    options: dict[str, Any] = {
        "type": type_,
        "subresource": _subresource(kind, target),
        "field_manager": _manager(request),
        "force": request.flag("force"),
        "field_validation": _validation(request),
        "check": check,
    }
    before = await _existing(cluster, kind, target)
    if type_ == "apply":
        if not request.query.get("fieldManager"):
            why = "Required value: is required for apply patch"
            raise Invalid(f"fieldManager: {why}", causes=[Cause("fieldManager", why, "FieldValueRequired")])
        body = fill_from_url(body, kind, target)
    elif options["force"]:
        raise Invalid("the query parameter force is only allowed with an apply patch")
    where = (kind, target.name, target.namespace, body)
    if options["subresource"] != "scale":
        await request.rehearse(kind, before, body, type_)
    dry_run = is_dry_run(request.query)
    stored = await cluster.patch(*where, **options, dry_run=dry_run)
    if dry_run:
        stored = _dry_run_result(stored, before)
    return json_response(
        negotiation.shape_object(kind, cluster.with_status_rows(stored, kind), request.form()),
        request,
        200 if before is not None else 201,
    )


async def delete(cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target) -> ApiResponse:
    options = delete_options(request.query, await _delete_options_body(request))
    last = await cluster.delete(kind, target.name, target.namespace, **options._asdict())
    if is_deleting(last) or kind.resource in _RETURNED_WHEN_DELETED:
        return json_response(negotiation.shape_object(kind, last, request.form()), request)
    details = {"name": name_of(last), "group": kind.group, "kind": kind.plural, "uid": uid_of(last)}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return json_response(status, request)


async def delete_collection(cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target) -> ApiResponse:
    """Deletes what the selectors match. An object that is already gone is not an error."""
    if kind.namespaced and not target.namespace:
        raise MethodNotAllowed(f"{kind.plural} of all namespaces cannot be deleted at once; specify a namespace")
    query = request.query
    options = delete_options(query, await _delete_options_body(request))
    listing = await cluster.list(
        kind,
        target.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=request.integer("limit") or 0,
    )
    deleted = []
    for obj in listing.items:
        try:
            deleted.append(await cluster.delete(kind, name_of(obj), namespace_of(obj), **options._asdict()))
        except NotFound:
            continue
    return json_response(
        negotiation.shape_list(kind, Listing(deleted, listing.resource_version), request.form()), request
    )


class DeleteOptions(NamedTuple):
    propagation: Propagation = "Background"
    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def delete_options(query: Mapping[str, str], body: Mapping[str, Any]) -> DeleteOptions:
    """Reads the options from a DeleteOptions body and from the query, which takes precedence."""
    preconditions = body.get("preconditions") or {}
    orphan = query.get("orphanDependents", body.get("orphanDependents"))
    policy = query.get("propagationPolicy") or body.get("propagationPolicy")
    if policy is None and orphan is not None:
        policy = "Orphan" if str(orphan).lower() == "true" else "Background"
    propagation = _PROPAGATIONS.get(str(policy or "Background"))
    if propagation is None:
        raise _invalid_option("propagationPolicy", policy, list(_PROPAGATIONS))
    grace = query.get("gracePeriodSeconds", body.get("gracePeriodSeconds"))
    if grace is not None:
        if not is_count(str(grace)) or int(grace) >= 2**31:
            raise BadRequest(f'gracePeriodSeconds is "{str(grace)[:100]}"; it must be a number of seconds')
        grace = int(grace)
    return DeleteOptions(
        propagation,
        grace,
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
        is_dry_run(query) or bool(body.get("dryRun")),
    )


def fill_from_url(body: Any, kind: Kind, target: Target) -> Object:
    """Returns the object in a body with the fields that are in the URL. Raises BadRequest if they differ."""
    if not isinstance(body, dict):
        raise BadRequest("the body of the request must be an object")
    for field, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        given = body.get(field) or expected
        if given != expected:
            raise BadRequest(
                f'the object provided is unrecognized: its {field} is "{given}", but the request is for '
                f'"{expected}" ({kind.resource})'
            )
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    filled = dict(metadata)
    for field, expected in (("namespace", target.namespace), ("name", target.name)):
        if not expected:
            continue
        given = metadata.get(field) or expected
        if given != expected:
            raise BadRequest(
                f'the {field} of the provided object ("{given}") does not match the {field} sent on the request '
                f'("{expected}")'
            )
        filled[field] = expected
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": filled}


def is_dry_run(query: Mapping[str, str]) -> bool:
    wanted = query.get("dryRun")
    if not wanted:
        return False
    if wanted != "All":
        raise _invalid_option("dryRun", wanted, ["All"])
    return True


def _fill_scale_from_url(body: Object, target: Target) -> Object:
    if body.get("kind", "Scale") != "Scale":
        raise BadRequest(f'the body must be a Scale (autoscaling/v1), not a "{body.get("kind")}"')
    check_body(body, SCALE, "Scale")
    metadata = {**meta(body), "name": target.name}
    if target.namespace:
        metadata["namespace"] = target.namespace
    return {**body, "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}


async def _existing(cluster: EmbeddedCluster, kind: Kind, target: Target) -> Object | None:
    try:
        return await cluster.get(kind, target.name, target.namespace)
    except NotFound:
        return None


def _dry_run_result(obj: Object, before: Object | None) -> Object:
    """Returns the result of a dry run. Nothing was stored, so it has no new version."""
    metadata = {name: value for name, value in meta(obj).items() if name != "resourceVersion"}
    if before is not None:
        metadata["resourceVersion"] = version_of(before)
    return {**obj, "metadata": metadata}


async def _delete_options_body(request: ApiRequest) -> Object:
    content = await request.body()
    if not content:
        return {}
    found = parse_body(content, body_media(request.header(b"content-type")))
    if not isinstance(found, dict):
        raise BadRequest("the body of a delete request must be DeleteOptions")
    return check_body(found, DELETE_OPTIONS, "DeleteOptions")


def _subresource(kind: Kind, target: Target) -> Subresource:
    found = _SUBRESOURCES.get(target.subresource)
    if found is None or (found == "status" and not kind.has_status) or (found == "scale" and kind.scale is None):
        raise NotFound("the server could not find the requested resource")
    return found


def _validation(request: ApiRequest) -> FieldValidation:
    """The default is Warn, as in Kubernetes."""
    wanted = request.query.get("fieldValidation") or "Warn"
    found = _VALIDATIONS.get(wanted)
    if found is None:
        raise _invalid_option("fieldValidation", wanted, list(_VALIDATIONS))
    return found


def _manager(request: ApiRequest) -> str:
    """Returns the field manager. The default is the first part of the User-Agent, as in Kubernetes."""
    return request.query.get("fieldManager") or request.header(b"user-agent").partition("/")[0] or "unknown"


def _check_version(query: Mapping[str, str], listing: Listing) -> None:
    """Checks resourceVersion and resourceVersionMatch. A list is always current, so only an older exact version
    fails."""
    wanted = query.get("resourceVersion")
    match = query.get("resourceVersionMatch")
    if not wanted:
        if match:
            raise Invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")
        return
    if not is_count(wanted):
        raise BadRequest(f'resourceVersion: "{wanted}" is not from this cluster')
    if match == "Exact" and wanted == "0":
        raise Invalid("resourceVersionMatch=Exact is forbidden for the resourceVersion 0, which means any")
    if match == "Exact" and wanted != listing.resource_version:
        raise Gone(f"the resourceVersion {wanted} is too old; list without resourceVersionMatch=Exact")
    if int(wanted) > int(listing.resource_version):
        raise Timeout(
            f"Too large resource version: {wanted}, current: {listing.resource_version}",
            causes=[Cause("", "Too large resource version", "ResourceVersionTooLarge")],
            retry_after=1,
        )


def _invalid_option(name: str, value: Any, allowed: list[str]) -> Invalid:
    message = f'Unsupported value: "{value}": supported values: {", ".join(allowed)}'
    return Invalid(f"{name}: {message}", causes=[Cause(name, message, "FieldValueNotSupported")])


async def get_metrics(cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target) -> ApiResponse:
    if request.method not in ("GET", "HEAD") or target.subresource or is_true(request.query.get("watch")):
        raise MethodNotAllowed("metrics can only be read: use get or list")
    found = await _measure(cluster, kind, target.namespace, request.query.get("labelSelector", ""))
    form, include = request.form(), negotiation.parse_include(request.query)
    if not target.name:
        return json_response(negotiation.shape_list(kind, Listing(found, ""), form, include), request)
    for one in found:
        if name_of(one) == target.name:
            return json_response(negotiation.shape_object(kind, one, form, include), request)
    raise NotFound(f'{kind.resource} "{target.name}" not found')


async def _measure(cluster: EmbeddedCluster, kind: Kind, namespace: str, labels: str) -> list[Object]:
    if cluster.node is None:
        raise Unavailable("this cluster has no node agent yet, so there are no metrics")
    rates, window = await cluster.node.usage()
    if kind is not NODE_METRICS:
        pods = (await cluster.list(POD, namespace, labels=labels)).items
        return pod_metrics(pods, rates, timestamp(), window)
    nodes = [node for node in (await cluster.list(NODE, labels=labels)).items if not is_simulated(node)]
    return node_metrics(nodes, (await cluster.list(POD)).items, cluster.node.name, rates, timestamp(), window)


# Subresources of Pods and service accounts that are actions: log, binding, eviction, token.


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
    body = check_body(await request.document(), BINDING, "Binding")
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
    body = check_body(await request.document(), EVICTION, "Eviction")
    name = (body.get("metadata") or {}).get("name") or target.name
    if name != target.name:
        raise BadRequest(f'the name in the URL ("{target.name}") does not match the name of the Eviction ("{name}")')
    options = delete_options(request.query, body.get("deleteOptions") or {})
    if not options.dry_run:
        await _mark_disrupted(cluster, target)
    await cluster.delete(builtin.POD, target.name, target.namespace, **options._asdict())
    return _success(request)


async def _mark_disrupted(cluster: EmbeddedCluster, target: Target) -> None:
    """Says in the status of a Pod that it did not fail by itself. The failure policy of a Job may ignore it then."""
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    now, status = timestamp(), status_of(pod)
    why = ("EvictionByEvictionAPI", "Eviction API: evicting")
    conditions = set_condition(status.get("conditions"), "DisruptionTarget", "True", *why, now)
    with suppress(Conflict):
        await cluster.update({**pod, "status": {**status, "conditions": conditions}}, subresource="status")


async def finalize_namespace(cluster: EmbeddedCluster, request: ApiRequest, target: Target) -> ApiResponse:
    """Sets what the deletion of a namespace waits for."""
    body = fill_from_url(await request.document(), NAMESPACE, target)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    if not isinstance(finalizers, list) or not all(isinstance(each, str) for each in finalizers):
        raise BadRequest("spec.finalizers must be a list of names")
    return json_response(await cluster.finalize_namespace(target.name, finalizers), request)


async def issue_token(cluster: EmbeddedCluster, identity: Identity, request: ApiRequest, target: Target) -> ApiResponse:
    """Issues a token for a service account (`kubectl create token`)."""
    body = check_body(await request.document(), TOKEN_REQUEST, "TokenRequest")
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
