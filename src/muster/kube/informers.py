"""Several informers of one kind that look like one: of some namespaces only, or of what several selectors find."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain

from muster.kube.cluster import Cluster
from muster.kube.informer import Indexer, Informer, Keep, OnChange
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object


class Informers:
    """One informer per namespace ("" stands for all of them) and selector. No object may be found by two of these."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespaces: Sequence[str] = ("",),
        *,
        selectors: Sequence[str] = ("",),
        on_change: OnChange | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._parts = [
            Informer(cluster, kind, namespace, labels=labels, on_change=on_change, indexers=indexers, keep=keep)
            for namespace in namespaces
            for labels in selectors
        ]

    def get(self, namespace: str, name: str) -> Object | None:
        key = Key(namespace, name)
        return next((part.objects[key] for part in self._parts if key in part.objects), None)

    def by(self, index: str, value: Hashable) -> list[Object]:
        return [obj for part in self._parts for obj in part.by(index, value)]

    def __iter__(self) -> Iterator[Object]:
        return chain.from_iterable(list(part.objects.values()) for part in self._parts)

    @property
    def is_synced(self) -> bool:
        return all(part.synced.is_set() for part in self._parts)

    async def wait_synced(self) -> None:
        for part in self._parts:
            await part.synced.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())
