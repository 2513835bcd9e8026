"""The Kubernetes API as an ASGI application: who a request is from, whether they may do what it asks, the review APIs
about that, and the handler that it goes to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from muster.embedded.auth.identity import Identity
from muster.embedded.auth.tokens import AUDIENCE
from muster.embedded.cluster import EmbeddedCluster, WriteCheck
from muster.embedded.store.admission import collect_warnings
from muster.kube.budgets import setting_name
from muster.kube.builtin import NAMESPACE, POD
from muster.kube.errors import (
    ApiError,
    BadRequest,
    Cause,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    TooManyRequests,
    Unauthorized,
    is_dns_label,
    is_dns_name,
)
from muster.kube.kinds import Kind
from muster.kube.metrics_api import GROUP as METRICS
from muster.kube.objects import Key, Object, controller_of, join_api_version, meta, name_of, namespace_of, timestamp
from muster.kube.pod_security import belongs_to_run, find_foreign_metadata, is_restricted, is_run_secret, run_in_name
from muster.kube.rbac import (
    AUTHENTICATED,
    FULL_AUTHORITY,
    SERVICE_ACCOUNT_PREFIX,
    Action,
    Rule,
    TooManyCombinations,
    User,
    service_account_user,
)
from muster.server.fair_share import TooManyWaiting, Turn, turn_of
from muster.server.kubernetes import handlers, pod_exec, pod_proxy, port_forward
from muster.server.kubernetes import handlers as subresources
from muster.server.kubernetes.body_schemas import REVIEW, check_body
from muster.server.kubernetes.discovery import REVIEWS, ApiDescription
from muster.server.kubernetes.request import (
    ApiRequest,
    ApiResponse,
    Target,
    end_turn,
    error_response,
    is_true,
    json_response,
    parse_target,
    required_action,
    send_response,
)
from muster.server.kubernetes.watch import EventEncoder, watch
from muster.server.kubernetes.websocket import offered_token, reject, while_allowed
from muster.server.workers import WorkerPool

_RBAC = "rbac.authorization.k8s.io"
_IMPERSONATION = (b"impersonate-user", b"impersonate-group", b"impersonate-uid")


class AccessControl:
    """Authenticates and authorizes requests."""

    def __init__(self, identity: Identity, cluster: EmbeddedCluster) -> None:
        self._identity = identity
        self._cluster = cluster

    async def authenticate(self, request: ApiRequest) -> None:
        """Sets the user of the request. Raises Unauthorized."""
        scheme, _, token = request.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer":
            token = offered_token(request) if request.scope["type"] == "websocket" else ""
        if not token:
            raise Unauthorized("Unauthorized")
        request.user = await self._identity.authenticate(token.strip())
        if any(name.startswith(b"impersonate-") for name in request.headers):
            request.user = self._impersonate(request)
        turn = turn_of(request.scope)
        if turn is not None:
            await self._take_turn(turn, request.user)

    async def _take_turn(self, turn: Turn, user: User) -> None:
        """Waits until the requests of this user may take the server's time again."""
        try:
            await turn.begin(user.name, may_wait=not user.is_master)
        except TooManyWaiting as error:
            setting = setting_name("member_waiting_requests")
            raise TooManyRequests(f"{error}; wait for them, or raise {setting}", retry_after=1) from None

    def keep_checking(self, request: ApiRequest, actions: Callable[[], Iterable[Action]]) -> None:
        """Lets a request that streams check again whether its token is still valid and allows these actions."""

        async def recheck() -> None:
            await self.authenticate(request)
            for action in actions():
                self.require(request.user, action)

        request.recheck = recheck

    def require(self, user: User, action: Action) -> None:
        if not self._identity.is_allowed(user, action):
            raise Forbidden(f'{_subject(action)} is forbidden: User "{user.name}" cannot {action}')

    def protect_runs(self, user: User, kind: Kind, namespace: str, name: str) -> None:
        """Refuses to change or enter an object that belongs to a run of the platform: it holds or uses the token and
        the secret variables of the run."""
        if user.is_master or not name or not self._is_restricted(namespace):
            return
        obj = self._cluster.peek(kind, Key(namespace, name))
        if obj is not None and user.name == _launcher_of(obj):
            return
        if (obj is not None and belongs_to_run(obj)) or (kind.plural == "secrets" and is_run_secret(name)):
            raise Forbidden(
                f'{kind.plural} "{name}" is forbidden: it belongs to a run of the platform; use the platform to manage '
                "the run"
            )

    def write_check(self, user: User, kind: Kind) -> WriteCheck | None:
        """Returns a check of what `user` wants to store. It runs inside the transaction of the write."""
        if user.is_master:
            return None
        grant_check = self.grant_check(user, kind)

        def check(old: Object | None, new: Object) -> None:
            if grant_check is not None:
                grant_check(old, new)
            if not self._is_restricted(namespace_of(new)):
                return
            if old is not None:
                self._cluster.check_growth(old, new)
            found = find_foreign_metadata(old, new)
            if found:
                causes = [Cause(each.field, str(each), "FieldValueForbidden") for each in found]
                told = "; ".join(map(str, found))
                raise Forbidden(f'{kind.plural} "{name_of(new)}" is forbidden: {told}', causes=causes)
            if old is None and run_in_name(name_of(new)):
                raise Forbidden(f'{kind.plural} "{name_of(new)}" is forbidden: the name is reserved for runs')

        return check

    def _is_restricted(self, namespace: str) -> bool:
        return bool(namespace) and is_restricted(self._cluster.peek(NAMESPACE, Key("", namespace)))

    def grant_check(self, user: User, kind: Kind) -> WriteCheck | None:
        """Returns a check of Roles and bindings that `user` wants to store: users cannot grant permissions they
        lack. The rules are those of Kubernetes. It runs inside the transaction of the write, so nothing can change
        between the check and the write."""
        if kind.group != _RBAC or user.is_master:
            return None

        def check_grant(old: Object | None, new: Object) -> None:
            if old is not None and _differ_in_owners_only(old, new):
                return
            rules = self._granted_rules(user, kind, old, new)
            try:
                missing = self._identity.missing_permissions(user, rules, namespace_of(new))
            except TooManyCombinations as error:
                raise Forbidden(f"{kind.plural} is forbidden: {error}") from None
            if missing:
                raise Forbidden(
                    f'{kind.plural} is forbidden: User "{user.name}" cannot grant permissions they do not have: '
                    + "; ".join(str(action) for action in missing[:5])
                )

        return check_grant

    def _granted_rules(self, user: User, kind: Kind, old: Object | None, new: Object) -> Sequence[Rule]:
        """Returns what the user has to be allowed themselves; nothing with the verbs `bind` and `escalate`."""
        namespace = namespace_of(new)
        if kind.plural in ("rolebindings", "clusterrolebindings"):
            ref = new["roleRef"]
            plural = "roles" if ref["kind"] == "Role" else "clusterroles"
            if self._identity.is_allowed(user, Action("bind", _RBAC, plural, "", namespace, ref["name"])):
                return ()
            return tuple(self._identity.rules_of_role(ref["kind"], namespace, ref["name"]))
        # A name that does not exist yet cannot be in a rule for certain names.
        name = "" if old is None else name_of(new)
        if self._identity.is_allowed(user, Action("escalate", _RBAC, kind.plural, "", namespace, name)):
            return ()
        rules = tuple(new.get("rules") or ())
        aggregates = new.get("aggregationRule") or (old or {}).get("aggregationRule")
        return (*rules, *FULL_AUTHORITY) if aggregates else rules

    def _impersonate(self, request: ApiRequest) -> User:
        """Returns the user to act as (`kubectl --as`), if the caller is allowed to."""
        name = request.header(b"impersonate-user")
        groups = [
            value.decode("latin-1") for header, value in request.scope["headers"] if header == b"impersonate-group"
        ]
        if not name:
            raise BadRequest("Impersonate-User is required with the other Impersonate headers")
        for header in request.headers:
            if header.startswith(b"impersonate-") and header not in _IMPERSONATION:
                raise BadRequest(
                    f"{header.decode('latin-1')} is not supported; only a user, its uid and groups can be impersonated"
                )
        namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        if name.startswith(SERVICE_ACCOUNT_PREFIX) and colon and is_dns_label(namespace) and is_dns_name(account):
            self.require(request.user, Action("impersonate", "", "serviceaccounts", "", namespace, account))
            user = service_account_user(namespace, account)
        else:
            self.require(request.user, Action("impersonate", "", "users", "", "", name))
            user = User(name, frozenset((AUTHENTICATED,)))
        for group in groups:
            self.require(request.user, Action("impersonate", "", "groups", "", "", group))
        uid = request.header(b"impersonate-uid")
        if uid:
            self.require(request.user, Action("impersonate", "authentication.k8s.io", "uids", "", "", uid))
        return User(user.name, user.groups | frozenset(groups), uid)


def _launcher_of(pod: Object) -> str:
    """Returns the service account with which the launcher of an MPIJob enters the workers of its own job."""
    job = controller_of(pod) or {}
    if job.get("kind") != "MPIJob":
        return ""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace_of(pod)}:{job.get('name')}-launcher"


_OWNERS = frozenset(("ownerReferences", "finalizers", "managedFields", "resourceVersion"))


def _differ_in_owners_only(old: Object, new: Object) -> bool:
    """Whether a write changes only what garbage collection needs, which is allowed to anybody with the verb."""

    def rest(obj: Object) -> Object:
        return {**obj, "metadata": {name: value for name, value in meta(obj).items() if name not in _OWNERS}}

    return rest(old) == rest(new)


def _subject(action: Action) -> str:
    if action.path:
        return f'"{action.path}"'
    resource = f"{action.resource}.{action.group}" if action.group else action.resource
    return f'{resource} "{action.name}"' if action.name else resource


async def review(identity: Identity, user: User, plural: str, namespace: str, body: Object) -> Object:
    """Returns the review with its status. It is not stored."""
    spec = body.get("spec") or {}
    match plural:
        case "selfsubjectreviews":
            return {**body, "metadata": {"creationTimestamp": timestamp()}, "status": {"userInfo": _info(user)}}
        case "selfsubjectaccessreviews":
            return {**body, "status": _access_status(identity, user, parse_action(spec))}
        case "subjectaccessreviews" | "localsubjectaccessreviews":
            other = User(str(spec.get("user") or ""), frozenset(str(g) for g in spec.get("groups") or ()))
            if not other.name and not other.groups:
                raise BadRequest("spec.user or spec.groups is required: the subject of the review")
            return {**body, "status": _access_status(identity, other, parse_action(spec, namespace))}
        case "selfsubjectrulesreviews":
            return {**body, "status": _rules(identity, user, str(spec.get("namespace") or ""))}
        case "tokenreviews":
            return {**body, "spec": {}, "status": await _token(identity, spec)}
    raise BadRequest(f'"{plural}" cannot be reviewed')


def parse_action(spec: Mapping[str, Any], namespace: str = "") -> Action:
    """Returns the action that an access review asks about."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(resource) == bool(path):
        raise BadRequest("exactly one of spec.resourceAttributes and spec.nonResourceAttributes is required")
    if path:
        return Action(str(path.get("verb") or ""), path=str(path.get("path") or "/"))
    asked: Mapping[str, Any] = resource or {}
    if namespace and asked.get("namespace") != namespace:
        raise BadRequest(f'spec.resourceAttributes.namespace must be "{namespace}", as in the URL')
    return Action(
        *(str(asked.get(field) or "") for field in ("verb", "group", "resource", "subresource", "namespace", "name"))
    )


def _access_status(identity: Identity, user: User, action: Action) -> dict[str, Any]:
    allowed = identity.is_allowed(user, action)
    if allowed:
        return {"allowed": True, "reason": "member of system:masters" if user.is_master else "a role allows it"}
    return {"allowed": False, "reason": f'no role lets "{user.name}" {action}'}


def _rules(identity: Identity, user: User, namespace: str) -> dict[str, Any]:
    if user.is_master:
        resources: Sequence[Mapping[str, Any]] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        paths: Sequence[Mapping[str, Any]] = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    else:
        rules = [rule for grant in identity.grants(user) if grant.namespace in ("", namespace) for rule in grant.rules]
        resources = [rule for rule in rules if rule.get("resources")]
        paths = [rule for rule in rules if rule.get("nonResourceURLs")]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


async def _token(identity: Identity, spec: Mapping[str, Any]) -> dict[str, Any]:
    audiences = [str(a) for a in spec.get("audiences") or ()] or [AUDIENCE]
    try:
        user, extra = await identity.review(str(spec.get("token") or ""), audiences)
    except Unauthorized as error:
        return {"authenticated": False, "error": error.message}
    info = {**_info(user), "extra": extra} if extra else _info(user)
    return {"authenticated": True, "user": info, "audiences": audiences}


def _info(user: User) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name, "groups": sorted(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info


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
            response = self._error_response(error, request, target)
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

    def _error_response(self, found: ApiError, request: ApiRequest, target: Target | None) -> ApiResponse:
        """Not a part of `__call__`: a frame that keeps an exception from below is a cycle, and garbage with the body of
        the request until the next collection."""
        error = _as_decoding_error(found, target, request)
        if request.scope["type"] == "websocket":
            self._remember_refusal(request, error)
        return error_response(error, _details(request, target, error))

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
        if target.subresource == "proxy":
            end_turn(request)  # what is behind it may take as long as it wants
            await pod_proxy.proxy(
                self._cluster,
                request,
                target,
                lambda pod: self._gate.protect_runs(request.user, POD, target.namespace, pod),
            )
            return None
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
        if request.form().shape != "object":
            raise NotAcceptable(f"a {kind} is not stored, and has no columns: accept application/json")
        body = check_body(await request.document(), REVIEW, kind)
        body |= {"apiVersion": join_api_version(target.group, target.version), "kind": kind}
        reviewed = await review(self._identity, request.user, target.plural, target.namespace, body)
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
            case "PUT", "", "namespaces", "finalize":
                return await subresources.finalize_namespace(self._cluster, request, target)
            case "POST", "", "serviceaccounts", "token":
                return await subresources.issue_token(self._cluster, self._identity, request, target)
            case _, "", "pods", stream if stream in _STREAMS:
                raise await self._not_upgraded(request, target)
            case _, "", "pods", "ephemeralcontainers":
                raise NotFound("ephemeral containers are not supported: use `kubectl exec -it` in a running container")
        raise NotFound(f'{target.plural} have no subresource "{target.subresource}"')

    async def _socket(self, request: ApiRequest, target: Target | None) -> None:
        await request.receive()
        streams = (*_STREAMS, "log")
        if target is None or (target.group, target.plural) != ("", "pods") or target.subresource not in streams:
            raise BadRequest("only exec, attach, portforward and log of a Pod are served over WebSocket")
        await self._authorize(request, target)
        self._gate.protect_runs(request.user, self._kind(target), target.namespace, target.name)
        match target.subresource:
            case "exec":
                await while_allowed(request, pod_exec.exec_in_pod(self._cluster, request, target))
            case "log":
                await while_allowed(request, pod_exec.send_log(self._cluster, request, target))
            case "portforward":
                await while_allowed(request, port_forward.forward_ports(self._cluster, request, target))
            case _:
                await while_allowed(request, pod_exec.attach_to_pod(self._cluster, request, target))

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


def _as_decoding_error(error: ApiError, target: Target | None, request: ApiRequest) -> ApiError:
    """An unknown field is a 400, as in Kubernetes, where it is found while the body is decoded. The store finds it
    together with all else that is wrong. Clients look for these words, which differ for an apply patch."""
    unknown = [cause for cause in error.causes if cause.message.startswith('unknown field "')]
    if not unknown or target is None or not isinstance(error, Invalid):
        return error
    is_apply = request.method == "PATCH" and "apply-patch" in request.header(b"content-type")
    if is_apply:
        told = ", ".join(f".{cause.field}: field not declared in schema" for cause in unknown)
    else:
        told = ", ".join(f'unknown field "{cause.field}"' for cause in unknown)
    hints = "; ".join(filter(None, (cause.message.partition("; ")[2] for cause in unknown)))
    what = f'{target.plural} in version "{target.version}" cannot be handled: strict decoding error'
    if is_apply:
        what = f"the patch of {target.plural} cannot be applied"
    return BadRequest(f"{what}: {told}" + (f" ({hints})" if hints else ""), causes=error.causes)


def _not_allowed(request: ApiRequest) -> MethodNotAllowed:
    return MethodNotAllowed(f"the server does not allow {request.method} on {request.path}")
