"""In whose name a resource template acts: the service account of its workflow, as if its Pod did it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from muster.embedded.identity.identity import Identity
from muster.embedded.identity.rbac import Action, Grant, Rule, may
from muster.embedded.identity.users import service_account_user
from muster.kube.kinds import Kind

May: TypeAlias = Callable[[str, str, str, Kind, str, str], str]
"""(namespace and name of the service account, verb, kind, namespace and name of the object) -> '' or why not."""

BASELINE = "edit"
"""The role that workflows have in their namespace when they name no service account: whoever may run a workflow there
can start whatever they like in a Pod anyway, and nobody has to write Roles on a laptop. It has no hand in Roles, other
namespaces, or the cluster."""

ARGO_SERVER = "argo-server"
"""The service account that an Argo Server brings, which workflows that start others name. The box serves Argo's API by
itself and has no such account: who names it has what the real one's role grants, in the workflow's namespace. That is
less than who names none has."""
_ALL = ("create", "get", "list", "watch", "update", "patch", "delete")
_ARGO_SERVER_RULES: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch", "list", "create", "update"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]},
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/exec", "pods/log"],
        "verbs": ["get", "list", "watch", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["argoproj.io"],
        "resources": [
            "eventsources", "sensors", "workflows", "workfloweventbindings", "workflowtemplates", "cronworkflows",
        ],
        "verbs": list(_ALL),
    },
)  # fmt: skip


def permissions(identity: Identity) -> May:
    """Asks the roles of the cluster in a box. A service account that the workflow names has just what was bound to it,
    but for ARGO_SERVER; '' stands for none named."""

    def asked(account_namespace: str, account: str, verb: str, kind: Kind, namespace: str, name: str) -> str:
        action = Action(verb, kind.group, kind.plural, namespace=namespace, name=name)
        user = service_account_user(account_namespace, account or "default")
        if identity.may(user, action):
            return ""
        rules = _ARGO_SERVER_RULES if account == ARGO_SERVER else ()
        if not account:
            rules = tuple(identity.rules_of_role("ClusterRole", "", BASELINE))
        if may(user, action, [Grant(account_namespace, rules)]):
            return ""
        return f'{kind.resource} is forbidden: User "{user.name}" cannot {action}'

    return asked
