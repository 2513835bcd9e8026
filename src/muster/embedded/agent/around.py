"""What Pods refer to (ConfigMaps, Secrets, Services, claims), kept current, and who has to know when one changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from muster.embedded.agent.hosts import HostsFiles
from muster.embedded.agent.settings import ApiAccess
from muster.embedded.agent.surroundings import Reference, ReferenceKind, Surroundings
from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, SECRET, SERVICE
from muster.kube.cluster import Cluster
from muster.kube.informer import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, spec_of, status_of


class Around:
    """`changed(uid)` is called for every Pod that refers to an object that has come, gone or changed."""

    def __init__(
        self, cluster: Cluster, hosts: HostsFiles, api: ApiAccess | None, changed: Callable[[str], None]
    ) -> None:
        self._hosts = hosts
        self._api = api
        self._changed = changed
        self._users: dict[Reference, set[str]] = {}
        self._references: dict[str, set[Reference]] = {}
        self._config_maps = self._watch(cluster, CONFIG_MAP, "ConfigMap")
        self._secrets = self._watch(cluster, SECRET, "Secret")
        self._claims = self._watch(cluster, PERSISTENT_VOLUME_CLAIM, "PersistentVolumeClaim")
        self._volumes = Informer(cluster, PERSISTENT_VOLUME, on_change=self._volume_changed)
        self._services = Informer(cluster, SERVICE, on_change=self._service_changed, indexers={"namespace": _namespace})

    @property
    def informers(self) -> list[Informer]:
        return [self._config_maps, self._secrets, self._claims, self._volumes, self._services]

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers))

    def of(self, node: Object | None, pod_ip: str) -> Surroundings:
        return Surroundings(
            pod_ip=pod_ip,
            config_map=self._config_maps.get,
            secret=self._secrets.get,
            claim=self._claims.get,
            persistent_volume=self._volumes.get,
            services=lambda namespace: self._services.by("namespace", namespace),
            allocatable=(status_of(node).get("allocatable") or {}) if node is not None else {},
            api=self._api,
        )

    def refer(self, uid: str, references: Iterable[Reference]) -> None:
        """The Pod wants to know when one of these changes."""
        found = set(references)
        if found:
            self._references[uid] = found
            for reference in found:
                self._users.setdefault(reference, set()).add(uid)

    def forget(self, uid: str) -> None:
        for reference in self._references.pop(uid, ()):
            users = self._users[reference]
            users.discard(uid)
            if not users:
                del self._users[reference]

    def _watch(self, cluster: Cluster, kind: Kind, named: ReferenceKind) -> Informer:
        def on_change(before: Object | None, after: Object | None) -> None:
            obj = after or before
            if obj is not None and self._users:
                self._tell((named, namespace_of(obj), name_of(obj)))

        return Informer(cluster, kind, on_change=on_change)

    def _tell(self, reference: Reference) -> None:
        for uid in tuple(self._users.get(reference, ())):
            self._changed(uid)

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        claim = spec_of(after or before or {}).get("claimRef") or {}
        if claim:
            self._tell(("PersistentVolumeClaim", str(claim.get("namespace") or ""), str(claim.get("name") or "")))

    def _service_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._hosts.put_service(after)
        elif before is not None:
            self._hosts.drop_service(namespace_of(before), name_of(before))


def _namespace(obj: Object) -> Iterable[Hashable]:
    return (namespace_of(obj),)
