"""A client that records every acknowledged write and compares the record with the cluster at the end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.objects import Object, name_of, uid_of
from muster.kube.remote.client import RemoteCluster


@dataclass
class Entry:
    """A ConfigMap that counts up. A request without a response may or may not have taken effect."""

    acknowledged: int = -1
    asked: int = -1
    deletion_asked: bool = False
    deletion_acknowledged: bool = False


@dataclass(frozen=True, eq=False)
class Planned:
    """An object that must exist at the end. If it is doomed, it must have been created and deleted."""

    object: Object
    doomed: bool = False

    @property
    def title(self) -> str:
        return title_of(self.object)


@dataclass
class Ledger:
    random: Random
    placed: dict[str, str] = field(default_factory=dict)
    """Title to uid of the objects whose creation was acknowledged."""
    doomed: set[str] = field(default_factory=set)
    """Titles of the objects whose deletion was acknowledged too."""
    maps: dict[str, Entry] = field(default_factory=dict)
    acknowledged: int = 0
    _open: list[Planned] = field(default_factory=list)
    """Requested, but no response was received."""

    async def place(self, cluster: RemoteCluster, order: Planned) -> None:
        self._open.append(order)
        kind, name = cluster.catalogue.of_object(order.object), name_of(order.object)
        if order.title not in self.placed:
            try:
                created = await cluster.create(order.object)
            except AlreadyExists:
                created = await cluster.get(kind, name, "default")
            self.placed[order.title] = uid_of(created)
            self.acknowledged += 1
        if order.doomed:
            with suppress(NotFound):
                await cluster.delete(kind, name, "default", grace_seconds=self.random.randint(0, 1))
            self.doomed.add(order.title)
            self.acknowledged += 1
        self._open.remove(order)

    async def place_open(self, cluster: RemoteCluster) -> None:
        """Places the objects whose fate is unknown since a kill. An object that exists must not run twice; a missing
        one is created now."""
        while self._open:
            await self.place(cluster, self._open.pop())

    async def write_something(self, cluster: RemoteCluster, writer: str) -> None:
        """Creates, changes or deletes a ConfigMap. Concurrent writers use different ConfigMaps, so the order of changes
        is known."""
        settled = [
            name
            for name, entry in self.maps.items()
            if name.startswith(f"{writer}-") and not entry.deletion_asked and entry.acknowledged >= 0
        ]
        choice = self.random.random()
        if not settled or choice < 0.25:
            await self._create_map(cluster, f"{writer}-{len(self.maps)}")
        elif choice < 0.9:
            await self._change_map(cluster, self.random.choice(settled))
        else:
            await self._delete_map(cluster, self.random.choice(settled))
        self.acknowledged += 1

    def faults(self, maps: list[Object], others: list[Object]) -> list[str]:
        found = {name_of(one): int(one["data"]["step"]) for one in maps if name_of(one) in self.maps}
        faults = []
        for name, entry in self.maps.items():
            step = found.get(name)
            if step is None:
                if entry.acknowledged >= 0 and not entry.deletion_asked:
                    faults.append(f"ConfigMap {name} is lost")
            elif entry.deletion_acknowledged:
                faults.append(f"ConfigMap {name} has come back")
            elif not entry.acknowledged <= step <= entry.asked:
                faults.append(f"ConfigMap {name} is at {step}, not {entry.acknowledged} to {entry.asked}")
        uids = {title_of(one): uid_of(one) for one in others}
        faults += [f"{title} has come back" for title in self.doomed & uids.keys()]
        kept = self.placed.keys() - self.doomed
        faults += [f"{title} is lost or another" for title in kept if uids.get(title) != self.placed[title]]
        return faults

    async def _create_map(self, cluster: RemoteCluster, name: str) -> None:
        entry = self.maps[name] = Entry(asked=0)
        await cluster.create({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
            "data": {"step": "0"},
        })  # fmt: skip
        entry.acknowledged = 0

    async def _change_map(self, cluster: RemoteCluster, name: str) -> None:
        entry = self.maps[name]
        step = entry.asked = entry.asked + 1
        await cluster.patch(CONFIG_MAP, name, "default", {"data": {"step": str(step)}})
        entry.acknowledged = step

    async def _delete_map(self, cluster: RemoteCluster, name: str) -> None:
        self.maps[name].deletion_asked = True
        await cluster.delete(CONFIG_MAP, name, "default")
        self.maps[name].deletion_acknowledged = True


def title_of(obj: Object) -> str:
    return f"{obj['kind']} {name_of(obj)}"
