"""The resources the API serves: the catalogue's kinds, their subresources, and the reviews, which are only answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from muster.kube.kinds import Kind
from muster.kube.metrics import GROUP as METRICS

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CHANGE = ("get", "patch", "update")


class Resource(NamedTuple):
    """One line of discovery. A subresource's name has its parent before it: `pods/log`."""

    name: str
    kind: str
    group: str
    version: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    kind_group: str | None = None
    kind_version: str = ""

    @property
    def is_subresource(self) -> bool:
        return "/" in self.name


class GroupVersion(NamedTuple):
    group: str
    version: str
    resources: tuple[Resource, ...]


_SPECIAL: dict[tuple[str, str], tuple[tuple[str, str, str, str, tuple[str, ...]], ...]] = {
    # (group, plural) -> (subresource, kind, its group, its version, verbs)
    ("", "pods"): (
        ("binding", "Binding", "", "v1", ("create",)),
        ("eviction", "Eviction", "policy", "v1", ("create",)),
        ("exec", "PodExecOptions", "", "v1", ("create", "get")),
        ("log", "Pod", "", "v1", ("get",)),
        ("portforward", "PodPortForwardOptions", "", "v1", ("create", "get")),
    ),
    ("", "serviceaccounts"): (("token", "TokenRequest", "authentication.k8s.io", "v1", ("create",)),),
}

REVIEWS: tuple[tuple[str, str, str, bool], ...] = (
    # (group, plural, kind, namespaced)
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", False),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
)


def group_versions(kinds: Iterable[Kind]) -> list[GroupVersion]:
    """Everything served, the core group first, then by name; of a group's versions the preferred one first."""
    found: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for kind in kinds:
        found[kind.group, kind.version].extend(_of_kind(kind))
    for group, plural, name, namespaced in REVIEWS:
        found[group, "v1"].append(Resource(plural, name, group, "v1", namespaced, ("create",), name.lower()))
    return [
        GroupVersion(group, version, tuple(sorted(resources, key=lambda r: r.name)))
        for (group, version), resources in sorted(found.items(), key=lambda f: (f[0][0], _preference(f[0][1])))
    ]


def _of_kind(kind: Kind) -> list[Resource]:
    where = (kind.group, kind.version, kind.namespaced)
    verbs = ("get", "list") if kind.group == METRICS else ALL_VERBS
    found = [
        Resource(kind.plural, kind.kind, *where, verbs, kind.singular, tuple(kind.short_names), tuple(kind.categories))
    ]
    if kind.has_status:
        found.append(Resource(f"{kind.plural}/status", kind.kind, *where, _CHANGE))
    if kind.scale is not None:
        found.append(
            Resource(f"{kind.plural}/scale", "Scale", *where, _CHANGE, kind_group="autoscaling", kind_version="v1")
        )
    found.extend(
        Resource(f"{kind.plural}/{name}", of, *where, allowed, kind_group=group, kind_version=version)
        for name, of, group, version, allowed in _SPECIAL.get((kind.group, kind.plural), ())
    )
    return found


def _preference(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order: v2, v1, v1beta2, v1beta1, v1alpha1, then whatever is not named like that."""
    digits = version[1:]
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        if stage in digits:
            major, _, minor = digits.partition(stage)
            if major.isdigit():
                return rank, -int(major), -int(minor or 0), version
    if version[:1] == "v" and digits.isdigit():
        return 0, -int(digits), 0, version
    return 3, 0, 0, version
