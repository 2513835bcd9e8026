"""Access to the API: who a request is from, whether they may do what it asks, and the review APIs about that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from muster.embedded.auth.identity import Identity
from muster.embedded.auth.tokens import AUDIENCE
from muster.embedded.cluster import EmbeddedCluster, WriteCheck
from muster.kube.builtin import NAMESPACE
from muster.kube.errors import BadRequest, Cause, Forbidden, Unauthorized
from muster.kube.field_errors import is_dns_label, is_dns_name
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, controller_of, meta, name_of, namespace_of, timestamp
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
from muster.server.kubernetes.request import ApiRequest
from muster.server.kubernetes.websocket import offered_token

_RBAC = "rbac.authorization.k8s.io"
_IMPERSONATION = (b"impersonate-user", b"impersonate-group")


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
                    f"{header.decode('latin-1')} is not supported; only a user and groups can be impersonated"
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
        return User(user.name, user.groups | frozenset(groups))


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
        user = await identity.authenticate(str(spec.get("token") or ""), audiences)
    except Unauthorized as error:
        return {"authenticated": False, "error": error.message}
    return {"authenticated": True, "user": _info(user), "audiences": audiences}


def _info(user: User) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name, "groups": sorted(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info
