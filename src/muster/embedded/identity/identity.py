"""The one thing the API asks about everybody: who is this, and may they do that?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from muster.embedded.identity.default_roles import default_roles
from muster.embedded.identity.private_files import private_key
from muster.embedded.identity.rbac import Action, Grant, Rule, grants_of, may, missing
from muster.embedded.identity.service_accounts import AUDIENCE, Claims, ServiceAccountTokens, looks_like_one
from muster.embedded.identity.tokens import TokenFile
from muster.embedded.identity.users import User, service_account_user
from muster.kube import builtin
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, Conflict, NotFound, Unauthorized
from muster.kube.informer import Informer
from muster.kube.objects import name_of, uid_of

ROLE_KINDS = (builtin.ROLE, builtin.CLUSTER_ROLE)
BINDING_KINDS = (builtin.ROLE_BINDING, builtin.CLUSTER_ROLE_BINDING)

_REMEMBERED_USERS = 1000


class Identity:
    """Needs `run()` going to follow Roles and bindings; until then only administrators get in."""

    def __init__(self, cluster: Cluster, tokens: TokenFile, service_accounts: ServiceAccountTokens) -> None:
        self.tokens = tokens
        self.service_accounts = service_accounts
        self._cluster = cluster
        self._grants: dict[User, list[Grant]] = {}
        self._roles = [Informer(cluster, kind, on_change=self._forget) for kind in ROLE_KINDS]
        self._bindings = [Informer(cluster, kind, on_change=self._forget) for kind in BINDING_KINDS]

    @classmethod
    def open(cls, directory: Path, cluster: Cluster) -> Identity:
        """With the tokens and keys kept in `directory`, which are made the first time."""
        return cls(
            cluster,
            TokenFile(directory / "tokens.json"),
            ServiceAccountTokens(private_key(directory / "service-account.key")),
        )

    async def run(self) -> None:
        await self._ensure_default_roles()
        async with asyncio.TaskGroup() as group:
            for informer in (*self._roles, *self._bindings):
                group.create_task(informer.run(), name=f"identity {informer.kind.plural}")

    async def synced(self) -> None:
        """Returns once `run` has seen every Role and binding there is."""
        for informer in (*self._roles, *self._bindings):
            await informer.synced.wait()

    async def authenticate(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> User:
        """Whose token this is. A service account's must be meant for one of the audiences. Raises Unauthorized."""
        user = self.tokens.verify(token)
        if user is not None:
            return user
        if not looks_like_one(token):
            raise Unauthorized("Unauthorized")
        claims = self.service_accounts.read(token)
        if not set(audiences) & set(claims.audiences):
            raise Unauthorized("the token is meant for another audience than this API")
        return await self.holder(claims)

    async def holder(self, claims: Claims) -> User:
        """The service account that a token speaks for, if it, and the Pod the token is bound to, still exist."""
        try:
            account = await self._cluster.get(builtin.SERVICE_ACCOUNT, claims.name, claims.namespace)
            pod = await self._cluster.get(builtin.POD, claims.pod, claims.namespace) if claims.pod else None
        except NotFound:
            raise Unauthorized("the service account or Pod of this token does not exist any more") from None
        if uid_of(account) != claims.uid or (pod is not None and uid_of(pod) != claims.pod_uid):
            raise Unauthorized("the token belongs to an earlier service account or Pod of that name")
        return service_account_user(claims.namespace, claims.name, claims.uid)

    def may(self, user: User, action: Action) -> bool:
        return user.is_master or may(user, action, self.grants(user))

    def grants(self, user: User) -> list[Grant]:
        """What the roles give this user. A master has no need of grants, and may have none."""
        found = self._grants.get(user)
        if found is None:
            roles = [role for informer in self._roles for role in informer.objects.values()]
            bindings = [binding for informer in self._bindings for binding in informer.objects.values()]
            if len(self._grants) >= _REMEMBERED_USERS:
                self._grants.clear()
            found = self._grants[user] = grants_of(user, roles, bindings)
        return found

    def rules_of_role(self, kind: str, namespace: str, name: str) -> Iterable[Rule]:
        informer = self._roles[0] if kind == "Role" else self._roles[1]
        role = informer.get(namespace if kind == "Role" else "", name)
        return (role or {}).get("rules") or ()

    def excess(self, user: User, rules: Iterable[Rule], namespace: str) -> list[Action]:
        """What `rules` would allow in `namespace` that the user may not do: they cannot be handed out by them."""
        return [] if user.is_master else missing(rules, namespace, self.grants(user))

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

    async def _create_role(self, role: dict[str, object]) -> None:
        try:
            await self._cluster.create(role)
        except AlreadyExists:
            return

    def _forget(self, before: object, after: object) -> None:
        self._grants.clear()
