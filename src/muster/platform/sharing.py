"""What people who are no admins may name in a manifest: the storage roots they may use, and what admins share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET
from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import name_of
from muster.platform.confinement import EVERYBODY, SHARED, Allowed
from muster.platform.rules import Actor


@dataclass(frozen=True, slots=True)
class Shared:
    """Names of objects on the cluster that admins have labelled so."""

    claims: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()


class Root(Protocol):
    """A storage root: a path of the machines, or a claim."""

    @property
    def path(self) -> str: ...
    @property
    def host_path(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def read_only(self) -> bool: ...


async def shared_with(cluster: Cluster, namespace: str, actor: Actor) -> Shared:
    labels = f"{SHARED} in ({', '.join([EVERYBODY, *sorted(actor.teams)])})"

    async def names(kind: Kind) -> frozenset[str]:
        return frozenset(name_of(obj) for obj in (await cluster.list(kind, namespace, labels=labels)).items)

    return Shared(await names(PERSISTENT_VOLUME_CLAIM), await names(SECRET), await names(CONFIG_MAP))


def allowed(roots: Iterable[Root], shared: Shared) -> Allowed:
    """`roots` are those that may be used."""
    known = list(roots)
    claims = dict.fromkeys(shared.claims, False)
    return Allowed(
        paths=_least({root.host_path or root.path: root.read_only} for root in known if not root.claim),
        claims=_least([claims, *({root.claim: root.read_only} for root in known if root.claim)]),
        secrets=shared.secrets,
        config_maps=shared.config_maps,
    )


def _least(given: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """Of two that say different things of one place, the one that allows more."""
    found: dict[str, bool] = {}
    for each in given:
        for name, read_only in each.items():
            found[name] = found.get(name, True) and read_only
    return found
