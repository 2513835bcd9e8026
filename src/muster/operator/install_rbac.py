"""What the operator may do, and no more: each line is a call that its code makes."""

from __future__ import annotations

from collections.abc import Sequence

from muster.kube.objects import Object
from muster.training.registry import training_kinds

_RBAC = "rbac.authorization.k8s.io"
_FOUND = ("create", "get", "list", "patch", "watch")
"""What belongs to jobs is made, and found; what another operator made gets our labels."""
_GANGS = ("create", "delete", "get", "list", "update", "watch")


def job_rules() -> list[Object]:
    """In every namespace whose jobs the operator looks after."""
    jobs = [
        rule
        for group, plurals in _jobs().items()
        for rule in (
            _rule(group, plurals, ("delete", "list", "patch", "watch")),
            _rule(group, [f"{plural}/status" for plural in plurals], ("patch",)),
            # To be the owner of things that block its deletion; some clusters ask for this.
            _rule(group, [f"{plural}/finalizers" for plural in plurals], ("update",)),
        )
    ]
    return [
        *jobs,
        _rule("", ["pods", "services"], (*_FOUND, "delete")),
        # The launchers of MPIJobs may do this to their own workers, and one may grant only what one has.
        _rule("", ["pods/exec"], ("create", "get")),
        # Those that say who the workers of a launcher are, and what it may do to them, change with their number. Those
        # that say where members are go when it is no longer true.
        _rule("", ["configmaps"], (*_FOUND, "delete", "update")),
        _rule(_RBAC, ["roles"], (*_FOUND, "update")),
        _rule("", ["serviceaccounts"], _FOUND),
        _rule(_RBAC, ["rolebindings"], _FOUND),
        _rule("autoscaling", ["horizontalpodautoscalers"], _FOUND),
        _rule("", ["events"], ("create", "patch")),
        _rule("scheduling.volcano.sh", ["podgroups"], _GANGS),
        _rule("scheduling.x-k8s.io", ["podgroups"], _GANGS),
    ]


def webhook_rules(configuration: str) -> list[Object]:
    """In the whole cluster, and of one object only."""
    return [
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations"],
            ("get", "update"),
            names=[configuration],
        )
    ]


def own_rules(lease: str, secret: str) -> list[Object]:
    """In the operator's own namespace. That something is to be created cannot be limited to a name."""
    return [
        _rule("coordination.k8s.io", ["leases"], ("create",)),
        _rule("coordination.k8s.io", ["leases"], ("get", "update"), names=[lease]),
        *([_rule("", ["secrets"], ("get", "update"), names=[secret])] if secret else []),
    ]


def _jobs() -> dict[str, list[str]]:
    by_group: dict[str, list[str]] = {}
    for kind in training_kinds():
        plurals = by_group.setdefault(kind.group, [])
        if kind.plural not in plurals:
            plurals.append(kind.plural)
    return {group: sorted(plurals) for group, plurals in by_group.items()}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    rule: Object = {"apiGroups": [group], "resources": list(resources), "verbs": sorted(verbs)}
    return rule | {"resourceNames": list(names)} if names else rule
