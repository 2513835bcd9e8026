"""Who a request is from, and whether they may do what it asks; and the default ClusterRoles."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from muster.embedded.auth.private_files import ensure_private_key
from muster.embedded.auth.tokens import AUDIENCE, Claims, ServiceAccountTokens, TokenFile, is_service_account_token
from muster.kube import builtin
from muster.kube.cluster import StatusRowsCluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, Conflict, NotFound, Unauthorized
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, name_of, spec_of, uid_of
from muster.kube.pod_security import MEMBER_ROLE
from muster.kube.rbac import (
    Action,
    Grant,
    Rule,
    User,
    effective_rules,
    grants_of,
    is_allowed,
    missing_actions,
    service_account_user,
)

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]

_RBAC_GROUP = "rbac.authorization.k8s.io"
_POD_ACTIONS = ("pods/attach", "pods/eviction", "pods/exec", "pods/portforward")

ROLE_KINDS = (builtin.ROLE, builtin.CLUSTER_ROLE)
BINDING_KINDS = (builtin.ROLE_BINDING, builtin.CLUSTER_ROLE_BINDING)

_TRIES = 50
_MOST_CACHED_USERS = 1000
_CHANGE = ["create", "delete", "patch", "update"]
_NOT_FOR_MEMBERS = frozenset({
    ("", "events"), ("events.k8s.io", "events"), ("", "serviceaccounts"), ("coordination.k8s.io", "leases"),
    ("muster.dev", "portleases"), ("", "resourcequotas"), ("", "limitranges"), ("", "endpoints"),
    ("discovery.k8s.io", "endpointslices"),
})  # fmt: skip
"""What members may read, but not write."""
_FOR_CLUSTER_ADMINS = frozenset({
    ("", "resourcequotas"), ("", "limitranges"), ("", "endpoints"),
    ("discovery.k8s.io", "endpointslices"),
})  # fmt: skip
"""What the roles admin and edit may read, but not write, as in Kubernetes: it restricts a namespace, or leads traffic
elsewhere."""


class TokenAuthenticator(Protocol):
    """Knows more tokens than this cluster issues, such as those of the platform."""

    async def authenticate(self, token: str) -> User | None:
        """Returns the owner of a valid token, or None."""
        ...


class Identity:
    """Authenticates and authorizes. `run()` follows Roles and bindings; until then, only administrators get in."""

    def __init__(self, cluster: StatusRowsCluster, tokens: TokenFile, service_accounts: ServiceAccountTokens) -> None:
        self.tokens = tokens
        self.service_accounts = service_accounts
        self.others: TokenAuthenticator | None = None
        self._cluster = cluster
        self._grants: dict[User, list[Grant]] = {}
        self._has_default_roles = asyncio.Event()
        self._roles = [Informer(cluster, kind, on_change=self._clear_grants) for kind in ROLE_KINDS]
        self._bindings = [Informer(cluster, kind, on_change=self._clear_grants) for kind in BINDING_KINDS]

    @classmethod
    def open(cls, directory: Path, cluster: StatusRowsCluster) -> Identity:
        """Uses the tokens and keys in `directory`, which are created the first time."""
        return cls(
            cluster,
            TokenFile(directory / "tokens.json"),
            ServiceAccountTokens(ensure_private_key(directory / "service-account.key")),
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in (*self._roles, *self._bindings):
                group.create_task(informer.run(), name=f"identity {informer.kind.plural}")
            # Not before the informers: until they have synced, no user has any rights.
            try:
                await self._ensure_default_roles()
            finally:
                self._has_default_roles.set()  # on a full disk they stay as they are

    async def wait_synced(self) -> None:
        """Returns when `run` has read all Roles and bindings, with the default roles."""
        await self._has_default_roles.wait()
        for informer in (*self._roles, *self._bindings):
            await informer.synced.wait()

    async def authenticate(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> User:
        """Returns the owner of the token, or raises Unauthorized.

        The token of a service account must be for one of the audiences."""
        user = self.tokens.verify(token)
        if user is not None:
            return user
        if not is_service_account_token(token):
            user = await self.others.authenticate(token) if self.others is not None else None
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        claims = self.service_accounts.read(token)
        if not set(audiences) & set(claims.audiences):
            raise Unauthorized("the token is for another audience than this API")
        return await self.service_account(claims)

    async def review(self, token: str, audiences: Sequence[str]) -> tuple[User, dict[str, list[str]]]:
        """Like `authenticate`, and returns what the token of a service account says about itself: its own id, the Pod
        that it is bound to, and the Pod's node."""
        user = await self.authenticate(token, audiences)
        if not is_service_account_token(token):
            return user, {}
        claims = self.service_accounts.read(token)
        found = {"credential-id": f"JTI={claims.id}"}
        if claims.pod:
            found |= {"pod-name": claims.pod, "pod-uid": claims.pod_uid}
            pod = self._cluster.peek(builtin.POD, Key(claims.namespace, claims.pod))
            node = self._cluster.peek(builtin.NODE, Key("", str(spec_of(pod or {}).get("nodeName") or "")))
            if node is not None:
                found |= {"node-name": name_of(node), "node-uid": uid_of(node)}
        return user, {f"authentication.kubernetes.io/{name}": [value] for name, value in found.items()}

    async def service_account(self, claims: Claims) -> User:
        """Returns the service account of a token, if it and the Pod or Secret of the token still exist."""
        try:
            account = await self._cluster.get(builtin.SERVICE_ACCOUNT, claims.name, claims.namespace)
            pod = await self._cluster.get(builtin.POD, claims.pod, claims.namespace) if claims.pod else None
            secret = await self._cluster.get(builtin.SECRET, claims.secret, claims.namespace) if claims.secret else None
        except NotFound:
            raise Unauthorized("the service account, Pod or Secret of this token no longer exists") from None
        if (
            uid_of(account) != claims.uid
            or (pod is not None and uid_of(pod) != claims.pod_uid)
            or (secret is not None and uid_of(secret) != claims.secret_uid)
        ):
            raise Unauthorized("the token belongs to an earlier service account, Pod or Secret of the same name")
        return service_account_user(claims.namespace, claims.name, claims.uid)

    def is_allowed(self, user: User, action: Action) -> bool:
        return user.is_master or is_allowed(user, action, self.grants(user))

    def grants(self, user: User) -> list[Grant]:
        """Returns what the roles grant to this user. A member of system:masters needs no grants, and may have none."""
        found = self._grants.get(user)
        if found is None:
            roles = [role for informer in self._roles for role in informer.objects.values()]
            bindings = [binding for informer in self._bindings for binding in informer.objects.values()]
            if len(self._grants) >= _MOST_CACHED_USERS:
                self._grants.clear()
            found = self._grants[user] = grants_of(user, roles, bindings)
        return found

    def rules_of_role(self, kind: str, namespace: str, name: str) -> Iterable[Rule]:
        which = builtin.ROLE if kind == "Role" else builtin.CLUSTER_ROLE
        role = self._cluster.peek(which, Key(namespace if kind == "Role" else "", name))
        if role is None:
            raise NotFound(f'{which.resource} "{name}" not found')
        return effective_rules(role, self._roles[1].objects.values())

    def missing_permissions(self, user: User, rules: Iterable[Rule], namespace: str) -> list[Action]:
        """Returns what `rules` would allow in `namespace` that the user may not do, and so may not grant to others."""
        return [] if user.is_master else missing_actions(rules, namespace, self.grants(user))

    async def _ensure_default_roles(self) -> None:
        for role in default_roles(self._cluster.catalogue):
            try:
                stored = await self._cluster.get(builtin.CLUSTER_ROLE, name_of(role))
                if stored.get("rules") != role["rules"]:
                    await self._cluster.update({**stored, "rules": role["rules"]})
            except NotFound:
                await self._create_role(role)
            except Conflict:
                continue
        await self._roles[1].synced.wait()
        for _ in range(_TRIES):  # until the informer has what was written; another client may have changed it since
            known = {name_of(role): role.get("rules") for role in self._roles[1].objects.values()}
            if all(known.get(name_of(role)) == role["rules"] for role in default_roles(self._cluster.catalogue)):
                return
            await asyncio.sleep(0.01)

    async def _create_role(self, role: dict[str, object]) -> None:
        try:
            await self._cluster.create(role)
        except AlreadyExists:
            return

    def _clear_grants(self, before: object, after: object) -> None:
        self._grants.clear()


def default_roles(kinds: Iterable[Kind]) -> list[Object]:
    """Returns cluster-admin, admin, edit and view over the given kinds, and the role of the platform's members.

    Namespaced objects can be viewed and edited, except that viewers cannot read Secrets and only admins edit roles.
    Members read Secrets by name only, and do not write what the cluster itself writes."""
    namespaced = [k for k in kinds if k.namespaced and k.group != _RBAC_GROUP]
    seen = [k for k in namespaced if (k.group, k.plural) != ("", "secrets")]
    view = [*_rules(seen, READ), _rule("", ["pods/log", "namespaces"], READ)]
    edit = [
        *_rules([k for k in namespaced if (k.group, k.plural) not in _FOR_CLUSTER_ADMINS], [*READ, *WRITE]),
        *_rules([k for k in namespaced if (k.group, k.plural) in _FOR_CLUSTER_ADMINS], READ),
        _rule("", ["pods/log", "namespaces"], READ),
        _rule("", list(_POD_ACTIONS), ["create", "get"]),
        _rule("", ["pods/proxy", "services/proxy"], ["get", *_CHANGE]),
        _rule("", ["serviceaccounts/token"], ["create"]),
        _rule("", ["serviceaccounts"], ["impersonate"]),
    ]
    member = [
        *_rules([k for k in seen if (k.group, k.plural) not in _NOT_FOR_MEMBERS], [*READ, *_CHANGE]),
        *_rules([k for k in seen if (k.group, k.plural) in _NOT_FOR_MEMBERS], READ),
        _rule("", ["secrets"], ["get", *_CHANGE]),
        _rule("", ["pods/log", "namespaces"], READ),
        _rule("", list(_POD_ACTIONS), ["create", "get"]),
        _rule("", ["pods/proxy", "services/proxy"], ["get", *_CHANGE]),
    ]
    admin = [*edit, _rule(_RBAC_GROUP, ["roles", "rolebindings"], [*READ, *WRITE])]
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    return [
        _role("cluster-admin", everything),
        _role("admin", admin),
        _role("edit", edit),
        _role("view", view),
        _role(MEMBER_ROLE, member),
    ]


def _rules(kinds: Iterable[Kind], verbs: list[str]) -> list[Object]:
    plurals: dict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        plurals[kind.group].add(kind.plural)
        if kind.has_status:
            plurals[kind.group].add(f"{kind.plural}/status")
        if kind.scale:
            plurals[kind.group].add(f"{kind.plural}/scale")
    # Users read the status of an object, controllers write it.
    read = [name for name in READ if name in verbs]
    found = []
    for group in sorted(plurals):
        plain = sorted(p for p in plurals[group] if not p.endswith("/status"))
        found.append(_rule(group, plain, verbs))
        statuses = sorted(p for p in plurals[group] if p.endswith("/status"))
        if statuses:
            found.append(_rule(group, statuses, read))
    return found


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(name: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": rules,
    }
