"""Local copies of the objects of one kind that stay current: list, watch, and list again when the watch has expired.

`Informer` follows one namespace and one selector. `InformerSet` combines several informers of one kind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, BadRequest, Gone, TooManyRequests, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, controller_of, key_of, meta, version_of

OnChange: TypeAlias = Callable[[Object | None, Object | None], None]
"""(before, after): None before the object exists and after it is deleted."""

Indexer: TypeAlias = Callable[[Object], Iterable[Hashable]]

Trim: TypeAlias = Callable[[Object], Object]
"""Returns the part of an object to keep, as an object of its own."""

log = logging.getLogger(__name__)

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 5.0
_LASTING = 1.0
"""Seconds after which a watch counts as successful even without events."""
_CONNECTION_TROUBLE = (Unavailable, TooManyRequests, OSError)


class Informer:
    """Use it with `async with`, or run `run()` as a task and await `synced`.

    `on_change` is called for every change, including those found by a new list; it must not block. Its errors are
    logged, and the copy stays current. With `keep`, only what that function returns is cached, and a change of anything
    else is ignored.
    """

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
        keep: Trim | None = None,
    ) -> None:
        self.kind = kind
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._on_change = on_change
        self._keep = keep
        self._indexers = dict(indexers or {})
        self._indices: dict[str, dict[Hashable, dict[Key, Object]]] = {name: {} for name in self._indexers}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Informer:
        self._task = asyncio.create_task(self.run(), name=f"informer {self.kind.plural}")
        self._task.add_done_callback(lambda _: self.synced.set())  # no waiter may hang on an informer that has ended
        try:
            await self.synced.wait()
            if self._task.done():
                self._task.result()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        failure = await self._stop()
        if failure is not None:
            raise failure

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(Key(namespace, name))

    def by(self, index: str, value: Hashable) -> list[Object]:
        """Returns the objects that an indexer filed under `value`."""
        return list(self._indices[index].get(value, {}).values())

    async def run(self) -> None:
        """Runs until cancelled. Raises BadRequest if the cluster rejects the request, which a retry cannot change."""
        version = ""
        delay = _FIRST_DELAY
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                version = version or await self._list()
                async for event in self._cluster.watch(
                    self.kind, **self._scope, resource_version=version, bookmarks=True
                ):
                    version = meta(event.object)["resourceVersion"]
                    delay = _FIRST_DELAY
                    if event.type != "BOOKMARK":
                        self._put(key_of(event.object), None if event.type == "DELETED" else event.object)
            except Gone:
                version = ""
            except BadRequest:
                if not version:
                    raise
                version = ""
            except (ApiError, OSError) as error:
                if not isinstance(error, _CONNECTION_TROUBLE):
                    version = ""
                log.warning("watch of %s: %s; retrying in %.1f s", self.kind.plural, error, delay)
            # A watch that just ends continues where it was; not at once, because one that always ends would keep the
            # loop busy.
            if loop.time() - began > _LASTING:
                delay = _FIRST_DELAY
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _list(self) -> str:
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
            known = self.objects.get(key)
            if known is None or version_of(known) != version_of(obj):
                self._put(key, obj)
        self.synced.set()
        return page.resource_version

    def _put(self, key: Key, obj: Object | None) -> None:
        before = self.objects.get(key)
        if before is None and obj is None:
            return
        if self._keep is not None and obj is not None:
            obj = self._keep(obj)
            if obj == before:
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
            try:
                self._on_change(before, obj)
            except Exception:
                log.exception("on_change failed for %s %s", self.kind.plural, key)

    async def _stop(self) -> BaseException | None:
        """Returns the error that ended it, if there is one."""
        if self._task is None:
            return None
        self._task.cancel()
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.exception()


def index_by_controller(obj: Object) -> Iterable[Hashable]:
    """Indexer: the uid of the controlling owner."""
    owner = controller_of(obj)
    return [] if owner is None else [owner["uid"]]


class InformerSet:
    """One informer per namespace ("" means all) and selector. No object may match two of them."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespaces: Sequence[str] = ("",),
        *,
        selectors: Sequence[str] = ("",),
        on_change: OnChange | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        keep: Trim | None = None,
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
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())
