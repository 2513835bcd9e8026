"""Who a call is from, and whether they may do what it asks."""

from __future__ import annotations

from muster.embedded.api.calls import Call
from muster.embedded.api.objects import Approve
from muster.embedded.api.sockets import token_offered
from muster.embedded.identity.identity import Identity
from muster.embedded.identity.rbac import Action
from muster.embedded.identity.users import AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, User, service_account_user
from muster.kube.errors import BadRequest, Forbidden, Unauthorized
from muster.kube.kinds import Kind
from muster.kube.objects import Object, namespace_of

_RBAC = "rbac.authorization.k8s.io"
_IMPERSONATION = (b"impersonate-user", b"impersonate-group")


class Gate:
    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def admit(self, call: Call) -> None:
        """Finds out whose call it is. Raises Unauthorized."""
        scheme, _, token = call.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer":
            token = token_offered(call) if call.scope["type"] == "websocket" else ""
        if not token:
            raise Unauthorized("Unauthorized")
        call.user = await self._identity.authenticate(token.strip())
        if any(name.startswith(b"impersonate-") for name in call.headers):
            call.user = self._impersonated(call)

    def require(self, user: User, action: Action) -> None:
        if not self._identity.may(user, action):
            raise Forbidden(f'{_subject(action)} is forbidden: User "{user.name}" cannot {action}')

    def approval(self, user: User, kind: Kind) -> Approve | None:
        """What more has to be asked of an object before `user` may store it: nobody hands out rights they lack."""
        if kind.group != _RBAC or user.is_master:
            return None

        def approve(obj: Object) -> None:
            namespace = namespace_of(obj)
            if "roleRef" in obj:
                ref = obj.get("roleRef") or {}
                which, name = str(ref.get("kind") or ""), str(ref.get("name") or "")
                plural = "roles" if which == "Role" else "clusterroles"
                if self._identity.may(user, Action("bind", _RBAC, plural, "", namespace, name)):
                    return
                rules = self._identity.rules_of_role(which, namespace, name)
            else:
                if self._identity.may(user, Action("escalate", _RBAC, kind.plural, "", namespace)):
                    return
                rules = obj.get("rules") or ()
                if obj.get("aggregationRule"):
                    rules = [*rules, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
            excess = self._identity.excess(user, rules, namespace)
            if excess:
                raise Forbidden(
                    f'{kind.plural} is forbidden: User "{user.name}" may not grant what they may not do themselves: '
                    + "; ".join(str(action) for action in excess[:5])
                )

        return approve

    def _impersonated(self, call: Call) -> User:
        """Acts as somebody else, as `kubectl --as` does, if the caller may."""
        name = call.header(b"impersonate-user")
        groups = [value.decode("latin-1") for header, value in call.scope["headers"] if header == b"impersonate-group"]
        if not name:
            raise BadRequest("the other Impersonate headers need an Impersonate-User beside them")
        for header in call.headers:
            if header.startswith(b"impersonate-") and header not in _IMPERSONATION:
                raise BadRequest(
                    f"{header.decode('latin-1')} is not supported; only a user and groups can be impersonated"
                )
        if name.startswith(SERVICE_ACCOUNT_PREFIX):
            namespace, _, account = name[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
            self.require(call.user, Action("impersonate", "", "serviceaccounts", "", namespace, account))
            user = service_account_user(namespace, account)
        else:
            self.require(call.user, Action("impersonate", "", "users", "", "", name))
            user = User(name, frozenset((AUTHENTICATED,)))
        for group in groups:
            self.require(call.user, Action("impersonate", "", "groups", "", "", group))
        return User(user.name, user.groups | frozenset(groups))


def _subject(action: Action) -> str:
    if action.path:
        return f'"{action.path}"'
    resource = f"{action.resource}.{action.group}" if action.group else action.resource
    return f'{resource} "{action.name}"' if action.name else resource
