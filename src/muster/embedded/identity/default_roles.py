"""The ClusterRoles every Kubernetes cluster comes with: cluster-admin, admin, edit and view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from muster.kube.kinds import Kind
from muster.kube.objects import Object

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]

_RBAC = "rbac.authorization.k8s.io"
_WORK_IN_PODS = ("pods/attach", "pods/eviction", "pods/exec", "pods/portforward")


def default_roles(kinds: Iterable[Kind]) -> list[Object]:
    """Roles over the given kinds. What lives in a namespace can be viewed and edited, but Secrets are not for viewers
    and roles are for admins only."""
    namespaced = [k for k in kinds if k.namespaced and k.group != _RBAC]
    seen = [k for k in namespaced if (k.group, k.plural) != ("", "secrets")]
    view = [*_rules(seen, READ), _rule("", ["pods/log", "namespaces"], READ)]
    edit = [
        *_rules(namespaced, [*READ, *WRITE]),
        _rule("", ["pods/log", "namespaces"], READ),
        _rule("", list(_WORK_IN_PODS), ["create", "get"]),
        _rule("", ["serviceaccounts/token"], ["create"]),
        _rule("", ["serviceaccounts"], ["impersonate"]),
    ]
    admin = [*edit, _rule(_RBAC, ["roles", "rolebindings"], [*READ, *WRITE])]
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    return [
        _role("cluster-admin", everything),
        _role("admin", admin),
        _role("edit", edit),
        _role("view", view),
    ]


def _rules(kinds: Iterable[Kind], verbs: list[str]) -> list[Object]:
    plurals: dict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        plurals[kind.group].add(kind.plural)
        if kind.has_status:
            plurals[kind.group].add(f"{kind.plural}/status")
        if kind.scale:
            plurals[kind.group].add(f"{kind.plural}/scale")
    # The status of a thing is for whoever runs it: people read it, controllers write it.
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
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": rules,
    }
