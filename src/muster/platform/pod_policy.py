"""Early errors about what users who are not admins write into graphs and manifests.

The wall is the check of the final Pod (`muster.kube.pod_security`), which uses the same rules. Here they are applied
to what is not filled in yet, so that a user learns of a mistake before the run. In addition, Secrets, ConfigMaps and
claims have to exist: in a namespace of the user, or shared by an admin with a label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET
from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import name_of
from muster.kube.pod_fields import find_spec_violations
from muster.kube.pod_security import (
    METRICS_PATTERN_ANNOTATION,
    PREFIX,
    RUN_LABEL,
    TASK_LABEL,
    PodGrants,
    Violation,
    find_metadata_violations,
    is_run_secret,
)
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor
from muster.platform.users.namespace_names import SHARED_NAMESPACE

SHARED: Final = f"{PREFIX}shared"
"""The label with which admins share Secrets, ConfigMaps and claims: `everybody`, or the id of a team."""
EVERYBODY: Final = "everybody"

_RESERVED: Final = frozenset({f"{PREFIX}owner", f"{PREFIX}team", RUN_LABEL, TASK_LABEL, SHARED})
"""Labels that define ownership. Admins cannot set them either."""
_FREE_ANNOTATIONS: Final = frozenset({METRICS_PATTERN_ANNOTATION, f"{PREFIX}restart-scope", f"{PREFIX}etcd"})
"""Annotations with our prefix that users may write on their jobs, or that have a message of their own."""


def find_forbidden(pod_spec: Any, path: str, allowed: PodGrants) -> list[FieldError]:
    """Returns what is not allowed, with paths that start with `path`. The spec need not be valid."""
    return [_error(each) for each in find_spec_violations(pod_spec, path, allowed)]


def find_forbidden_metadata(metadata: Any, path: str, *, owned: bool = True) -> list[FieldError]:
    """The same for the metadata of a Pod template or object. Without `owned`, the author is an admin: only the labels
    that define ownership are refused."""
    given = metadata if isinstance(metadata, Mapping) else {}
    if not owned:
        labels = _mapping(given.get("labels"))
        return [_error(Violation(f"{path}.labels[{n}]", "label", {"name": n})) for n in labels if n in _RESERVED]
    free = {name: value for name, value in _mapping(given.get("annotations")).items() if name not in _FREE_ANNOTATIONS}
    ours = [name for name in free if str(name).startswith(PREFIX)]
    checked = {"labels": given.get("labels"), "annotations": {n: v for n, v in free.items() if n not in ours}}
    found = [_error(each) for each in find_metadata_violations(checked, path, PodGrants())]
    found += [field_error(f"{path}.annotations[{name}]", "confined.annotation", name=str(name)) for name in ours]
    belongs = [name for name in ("ownerReferences", "finalizers") if given.get(name)]
    return found + [field_error(f"{path}.{name}", "confined.owner", field=name) for name in belongs]


def _error(violation: Violation) -> FieldError:
    return field_error(violation.field, f"confined.{violation.rule}", **violation.arguments)


@dataclass(frozen=True, slots=True)
class UsableObjects:
    """Names of the objects that a user may refer to."""

    claims: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()


class Root(Protocol):
    """A storage root: a host path or a claim."""

    @property
    def path(self) -> str: ...
    @property
    def host_path(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def read_only(self) -> bool: ...


async def list_usable(cluster: Cluster, namespaces: Collection[str], actor: Actor) -> UsableObjects:
    """Lists what is in the user's namespaces, and what admins share with them."""
    shared = f"{SHARED} in ({', '.join([EVERYBODY, *sorted(actor.teams)])})"

    async def names(kind: Kind) -> frozenset[str]:
        found = (await cluster.list(kind, SHARED_NAMESPACE, labels=shared)).items
        for namespace in set(namespaces) - {SHARED_NAMESPACE}:
            found = [*found, *(await cluster.list(kind, namespace)).items]
        return frozenset(name for obj in found if not is_run_secret(name := name_of(obj)))

    return UsableObjects(await names(PERSISTENT_VOLUME_CLAIM), await names(SECRET), await names(CONFIG_MAP))


def pod_grants(roots: Iterable[Root]) -> PodGrants:
    """Returns what the Pods of a namespace may use. `roots` are those that may be used there."""
    known = list(roots)
    return PodGrants(
        paths=_least({root.host_path or root.path: root.read_only} for root in known if not root.claim),
        claims=_least({root.claim: root.read_only} for root in known if root.claim),
    )


def pod_allowances(roots: Iterable[Root], usable: UsableObjects) -> PodGrants:
    """Returns what a user may write. Names that do not exist are refused, also those that are filled in later."""
    grants = pod_grants(roots)
    return PodGrants(
        paths=grants.paths,
        claims={**dict.fromkeys(usable.claims, False), **grants.claims},
        secrets=usable.secrets,
        config_maps=usable.config_maps,
        only_listed=True,
    )


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _least(given: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """If a place is listed twice, the less restrictive entry counts."""
    found: dict[str, bool] = {}
    for each in given:
        for name, read_only in each.items():
            found[name] = found.get(name, True) and read_only
    return found
