"""A local copy of one kind's objects that keeps itself current: list, then watch, then list again when told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeAlias

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, Gone
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, key_of, meta

OnChange: TypeAlias = Callable[[Object | None, Object | None], None]
"""(before, after): None before an object exists and after it has gone."""

Indexer: TypeAlias = Callable[[Object], Iterable[Hashable]]

log = logging.getLogger(__name__)


class Informer:
    """`async with` it, or run `run()` as a task and await `synced`."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        on_change: OnChange | None = None,
        indexers: Mapping[str, Indexer] | None = None,
    ) -> None:
        self.kind = kind
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._on_change = on_change
        self._indexers = dict(indexers or {})
        self._indices: dict[str, dict[Hashable, dict[Key, Object]]] = {name: {} for name in self._indexers}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Informer:
        self._task = asyncio.create_task(self.run(), name=f"informer {self.kind.plural}")
        await self.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(Key(namespace, name))

    def by(self, index: str, value: Hashable) -> list[Object]:
        """The objects that an indexer filed under `value`."""
        return list(self._indices[index].get(value, {}).values())

    async def run(self) -> None:
        delay = 0.05
        while True:
            try:
                version = await self._relist()
                delay = 0.05
                await self._follow(version)
            except Gone:
                continue
            except (TimeoutError, ApiError, OSError) as error:
                log.warning("watching %s: %s; trying again in %.1f s", self.kind.plural, error, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10.0)

    async def _relist(self) -> str:
        found: dict[Key, Object] = {}
        token = ""
        while True:
            page = await self._cluster.list(self.kind, **self._scope, limit=5000, continue_=token)
            found.update((key_of(o), o) for o in page.items)
            token = page.continue_
            if not token:
                break
        for key in [k for k in self.objects if k not in found]:
            self._put(key, None)
        for key, obj in found.items():
            if self.objects.get(key) != obj:
                self._put(key, obj)
        self.synced.set()
        return page.resource_version

    async def _follow(self, version: str) -> None:
        while True:
            async for event in self._cluster.watch(self.kind, **self._scope, resource_version=version, bookmarks=True):
                version = meta(event.object)["resourceVersion"]
                if event.type == "BOOKMARK":
                    continue
                self._put(key_of(event.object), None if event.type == "DELETED" else event.object)

    def _put(self, key: Key, obj: Object | None) -> None:
        before = self.objects.get(key)
        if before is None and obj is None:
            return
        for name, indexer in self._indexers.items():
            index = self._indices[name]
            if before is not None:
                for value in indexer(before):
                    filed = index.get(value)
                    if filed is not None:
                        filed.pop(key, None)
                        if not filed:
                            del index[value]
            if obj is not None:
                for value in indexer(obj):
                    index.setdefault(value, {})[key] = obj
        if obj is None:
            del self.objects[key]
        else:
            self.objects[key] = obj
        if self._on_change is not None:
            self._on_change(before, obj)


def by_controller(obj: Object) -> Iterable[Hashable]:
    """Indexer: the uid of the owner that manages the object."""
    return [ref["uid"] for ref in meta(obj).get("ownerReferences") or () if ref.get("controller")]
