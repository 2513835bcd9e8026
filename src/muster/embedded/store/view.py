"""All objects in memory, by kind, name, order and owner, and the recent history of each kind, which watches resume
from.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from muster.embedded.store.database import Row
from muster.kube.cluster import WatchEvent
from muster.kube.errors import BadRequest, Gone, TooLarge
from muster.kube.objects import Key, Object

# The recent changes of one kind: a watch resumes from them, and a paged list looks back to them.
#
# A watcher is a position in this history and holds no events itself. If it is too slow, its position is dropped.


class Change(NamedTuple):
    """One committed change of one object. `event` is what a watcher without selectors sees."""

    version: int
    key: Key
    before: Object | None
    after: Object | None
    event: WatchEvent


class History:
    """Keeps at least the last `limit` changes, and not many more."""

    def __init__(self, limit: int, floor: int = 0) -> None:
        self.floor = floor
        """The oldest version after which all changes are known."""
        self._limit = limit
        self._changes: list[Change] = []
        self._first = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._first + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)

    def trim(self) -> list[Change]:
        """Drops the oldest changes beyond the limit and returns them."""
        surplus = len(self._changes) - self._limit
        if surplus <= self._limit // 4:
            return []
        forgotten = self._changes[:surplus]
        del self._changes[:surplus]
        self._first += surplus
        self.floor = forgotten[-1].version
        return forgotten

    def position(self, version: int) -> int:
        """Returns the position where the changes after `version` begin."""
        if version < self.floor:
            raise Gone(f"too old resource version: {version} ({self.floor})")
        return self._first + bisect_right(self._changes, version, key=_version)

    def read(self, position: int, limit: int = 1000) -> list[Change]:
        """Returns up to `limit` changes from `position` on."""
        start = position - self._first
        if start < 0:
            raise Gone(f"this watch fell behind by more than {self._limit} changes; list again")
        return self._changes[start : start + limit]

    def subscribe(self) -> asyncio.Future[None]:
        """Returns a future that is done when something has changed. Call `unsubscribe` when you stop waiting."""
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        return news

    def unsubscribe(self, news: asyncio.Future[None]) -> None:
        self._waiting.discard(news)

    def wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, set()
        for news in waiting:
            wake_future(news)


def make_change(version: int, key: Key, before: Object | None, obj: Object, gone: bool) -> Change:
    if gone:
        return Change(version, key, before, None, WatchEvent("DELETED", obj))
    return Change(version, key, before, obj, WatchEvent("ADDED" if before is None else "MODIFIED", obj))


def wake_future(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


def _version(change: Change) -> int:
    return change.version


class ResourceKey(NamedTuple):
    """Identifies an object: the resource (`pods`, `jobs.batch`) and the key."""

    resource: str
    key: Key


class View:
    """All committed objects, by kind, namespace and name, in order, or by owner. It knows no versions or rules."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, NamespaceObjects]] = {}
        self._dependents: dict[str, dict[ResourceKey, None]] = {}

    def get(self, resource: str, key: Key) -> Object | None:
        namespaces = self._kinds.get(resource)
        if namespaces is None:
            return None
        bucket = namespaces.get(key[0])
        return None if bucket is None else bucket.objects.get(key[1])

    def put(self, resource: str, key: Key, obj: Object) -> Object | None:
        """Returns the previous object, if any."""
        namespaces = self._kinds.get(resource)
        if namespaces is None:
            namespaces = self._kinds[resource] = {}
        bucket = namespaces.get(key[0])
        if bucket is None:
            bucket = namespaces[key[0]] = NamespaceObjects()
        before = bucket.put(key[1], obj)
        self._index_owners(resource, key, before, obj)
        return before

    def remove(self, resource: str, key: Key) -> Object | None:
        bucket = self._kinds.get(resource, {}).get(key[0])
        before = None if bucket is None else bucket.remove(key[1])
        if bucket is not None and not bucket.objects:
            del self._kinds[resource][key[0]]
        if before is not None:
            self._index_owners(resource, key, before, None)
        return before

    def resources(self) -> list[str]:
        return [resource for resource, namespaces in self._kinds.items() if namespaces]

    def namespaces(self, resource: str) -> list[str]:
        """Returns the namespaces with objects of this resource, sorted. Cluster-scoped objects are in ''."""
        return sorted(self._kinds.get(resource, ()))

    def in_namespace(self, resource: str, namespace: str) -> NamespaceObjects | None:
        return self._kinds.get(resource, {}).get(namespace)

    def objects(self, resource: str, namespace: str = "") -> Iterator[Object]:
        """Yields objects sorted by namespace and name. An empty namespace means all namespaces."""
        for each in [namespace] if namespace else self.namespaces(resource):
            bucket = self.in_namespace(resource, each)
            if bucket is not None:
                yield from (bucket.objects[name] for name in bucket.names())

    def count(self, resource: str, namespace: str = "") -> int:
        namespaces = self._kinds.get(resource, {})
        if namespace:
            return len(namespaces[namespace].objects) if namespace in namespaces else 0
        return sum(len(bucket.objects) for bucket in namespaces.values())

    def dependents(self, uid: str) -> list[ResourceKey]:
        """Returns the objects that have this uid in their ownerReferences."""
        return list(self._dependents.get(uid, ()))

    def _index_owners(self, resource: str, key: Key, before: Object | None, after: Object | None) -> None:
        old = before["metadata"].get("ownerReferences") if before is not None else None
        new = after["metadata"].get("ownerReferences") if after is not None else None
        if old is new or old == new:
            return
        place = ResourceKey(resource, key)
        for ref in old or ():
            indexed = self._dependents.get(ref["uid"])
            if indexed is not None:
                indexed.pop(place, None)
                if not indexed:
                    del self._dependents[ref["uid"]]
        for ref in new or ():
            self._dependents.setdefault(ref["uid"], {})[place] = None


class NamespaceObjects:
    """The objects of one kind in one namespace. Names are sorted only when the order is asked for."""

    __slots__ = ("_changed", "_order", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self._order: list[str] | None = None
        self._changed: list[str] = []

    def put(self, name: str, obj: Object) -> Object | None:
        before = self.objects.get(name)
        self.objects[name] = obj
        if before is None and self._order is not None:
            self._note(name)
        return before

    def remove(self, name: str) -> Object | None:
        if self._order is not None:
            self._note(name)
        return self.objects.pop(name, None)

    def names(self) -> list[str]:
        """Returns the sorted names. A few changes are merged in; after many it is cheaper to sort again."""
        if self._order is None or len(self._changed) * 64 > len(self._order):
            self._order = sorted(self.objects)
        else:
            for name in self._changed:
                at = bisect_left(self._order, name)
                listed = at < len(self._order) and self._order[at] == name
                if listed and name not in self.objects:
                    del self._order[at]
                elif not listed and name in self.objects:
                    self._order.insert(at, name)
        self._changed = []
        return self._order

    def _note(self, name: str) -> None:
        self._changed.append(name)
        if len(self._changed) > len(self.objects) + 1000:
            self._order = None
            self._changed = []


class Staged(NamedTuple):
    """A change on its way to the disk. With `gone`, `object` is the last state."""

    place: ResourceKey
    object: Object
    gone: bool
    row: Row


class Transaction:
    """What one write sees (the head) and does. Valid only while the function it was passed to runs."""

    __slots__ = ("_head", "_largest", "_own", "_view", "input_folder", "saw_staged", "staged", "version")

    def __init__(
        self, view: View, head: dict[ResourceKey, Staged], version: int, largest_object: int, input_folder: str = ""
    ) -> None:
        self.staged: list[Staged] = []
        self.input_folder = input_folder
        """See `Store.input_folder`."""
        self.version = version
        self.saw_staged = False
        """Whether a result depends on something that is not committed yet."""
        self._view = view
        self._head = head
        self._largest = largest_object
        self._own: dict[ResourceKey, Staged] = {}

    def get(self, resource: str, key: Key) -> Object | None:
        place = ResourceKey(resource, key)
        staged = self._own.get(place) if self._own else None
        if staged is None and self._head:
            staged = self._head.get(place)
            if staged is not None:
                self.saw_staged = True
        if staged is not None:
            return None if staged.gone else staged.object
        return self._view.get(resource, key)

    def list_namespace(self, resource: str, namespace: str) -> dict[str, Object]:
        """Returns the objects of one namespace, by name."""
        bucket = self._view.in_namespace(resource, namespace)
        found = dict(bucket.objects) if bucket is not None else {}
        for staged in (*self._head.values(), *self.staged):
            (its_resource, key), obj, gone, _ = staged
            if its_resource != resource or key.namespace != namespace:
                continue
            self.saw_staged = True
            if gone:
                found.pop(key.name, None)
            else:
                found[key.name] = obj
        return found

    def put(self, resource: str, obj: Object) -> Object:
        """Stores the object and returns it with its new resourceVersion.

        The store takes over the object and its metadata: the caller must not use them for anything else."""
        return self._stage(resource, obj, gone=False)

    def remove(self, resource: str, obj: Object) -> Object:
        """Removes the object and returns its last state, with the version of the removal."""
        return self._stage(resource, {**obj, "metadata": {**obj["metadata"]}}, gone=True)

    def _stage(self, resource: str, obj: Object, *, gone: bool) -> Object:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        version = self.version + 1
        metadata["resourceVersion"] = str(version)
        blob = encode(obj)
        if len(blob) > self._largest:
            raise TooLarge(
                f'{resource} "{name}" has {len(blob):,} bytes; the limit is {self._largest:,}. '
                "Keep large data in files and volumes"
            )
        self.version = version
        place = ResourceKey(resource, Key(namespace, name))
        staged = Staged(place, obj, gone, Row(version, resource, namespace, name, int(gone), blob))
        self.staged.append(staged)
        self._own[place] = staged
        return obj


def encode(obj: Any) -> bytes:
    try:
        return orjson.dumps(obj)
    except TypeError as error:
        raise BadRequest(f"the object cannot be written as JSON: {error}") from None
