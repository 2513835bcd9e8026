"""The objects in memory: what is committed (`View`), and what one write sees and does on top of it (`Transaction`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from muster.embedded.store.database import Row
from muster.kube.errors import BadRequest, TooLarge
from muster.kube.objects import Key, Object

# Merged from view: Every object of the cluster in memory, found by kind, namespace and name, in order, or by its
# owner.


class Place(NamedTuple):
    """Where an object is: the resource (`pods`, `jobs.batch`) and its key."""

    resource: str
    key: Key


class View:
    """Plain reads and writes; knows nothing of versions, commits or rules."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Shelf]] = {}
        self._dependents: dict[str, dict[Place, None]] = {}

    def get(self, resource: str, key: Key) -> Object | None:
        shelves = self._kinds.get(resource)
        if shelves is None:
            return None
        shelf = shelves.get(key[0])
        return None if shelf is None else shelf.objects.get(key[1])

    def put(self, resource: str, key: Key, obj: Object) -> Object | None:
        """Answers what was there before."""
        shelves = self._kinds.get(resource)
        if shelves is None:
            shelves = self._kinds[resource] = {}
        shelf = shelves.get(key[0])
        if shelf is None:
            shelf = shelves[key[0]] = Shelf()
        before = shelf.put(key[1], obj)
        self._file(resource, key, before, obj)
        return before

    def remove(self, resource: str, key: Key) -> Object | None:
        shelf = self._kinds.get(resource, {}).get(key[0])
        before = None if shelf is None else shelf.remove(key[1])
        if shelf is not None and not shelf.objects:
            del self._kinds[resource][key[0]]
        if before is not None:
            self._file(resource, key, before, None)
        return before

    def resources(self) -> list[str]:
        return [resource for resource, shelves in self._kinds.items() if shelves]

    def namespaces(self, resource: str) -> list[str]:
        """Those that hold objects of this resource, in order. Cluster-scoped ones are in ''."""
        return sorted(self._kinds.get(resource, ()))

    def shelf(self, resource: str, namespace: str) -> Shelf | None:
        return self._kinds.get(resource, {}).get(namespace)

    def objects(self, resource: str, namespace: str = "") -> Iterator[Object]:
        """In order of namespace and name; an empty namespace means all of them."""
        for each in [namespace] if namespace else self.namespaces(resource):
            shelf = self.shelf(resource, each)
            if shelf is not None:
                yield from (shelf.objects[name] for name in shelf.names())

    def count(self, resource: str, namespace: str = "") -> int:
        shelves = self._kinds.get(resource, {})
        if namespace:
            return len(shelves[namespace].objects) if namespace in shelves else 0
        return sum(len(shelf.objects) for shelf in shelves.values())

    def dependents(self, uid: str) -> list[Place]:
        """The objects that name this uid among their owners."""
        return list(self._dependents.get(uid, ()))

    def _file(self, resource: str, key: Key, before: Object | None, after: Object | None) -> None:
        old = before["metadata"].get("ownerReferences") if before is not None else None
        new = after["metadata"].get("ownerReferences") if after is not None else None
        if old is new or old == new:
            return
        place = Place(resource, key)
        for ref in old or ():
            filed = self._dependents.get(ref["uid"])
            if filed is not None:
                filed.pop(place, None)
                if not filed:
                    del self._dependents[ref["uid"]]
        for ref in new or ():
            self._dependents.setdefault(ref["uid"], {})[place] = None


class Shelf:
    """The objects of one kind in one namespace. Sorting waits until somebody asks for the order."""

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
        """In order. A few changes are worked in; after many it is cheaper to begin again."""
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


# Merged from transaction: What one write sees and does: the head, and its own changes on top.


class Staged(NamedTuple):
    """A change on its way to the disk. When `gone`, `object` is the last state."""

    place: Place
    object: Object
    gone: bool
    row: Row


class Transaction:
    """Valid while the function it was given to runs."""

    __slots__ = ("_head", "_largest", "_own", "_view", "saw_staged", "staged", "version")

    def __init__(self, view: View, head: dict[Place, Staged], version: int, largest_object: int) -> None:
        self.staged: list[Staged] = []
        self.version = version
        self.saw_staged = False
        """Whether an answer rested on something not yet committed."""
        self._view = view
        self._head = head
        self._largest = largest_object
        self._own: dict[Place, Staged] = {}

    def get(self, resource: str, key: Key) -> Object | None:
        place = Place(resource, key)
        staged = self._own.get(place) if self._own else None
        if staged is None and self._head:
            staged = self._head.get(place)
            if staged is not None:
                self.saw_staged = True
        if staged is not None:
            return None if staged.gone else staged.object
        return self._view.get(resource, key)

    def within(self, resource: str, namespace: str) -> dict[str, Object]:
        """The objects of one namespace, by name."""
        shelf = self._view.shelf(resource, namespace)
        found = dict(shelf.objects) if shelf is not None else {}
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
        """Stores the object and answers it with its new resourceVersion. The object and its metadata must be the
        caller's own: they become the store's."""
        return self._stage(resource, obj, gone=False)

    def remove(self, resource: str, obj: Object) -> Object:
        """Removes the object and answers its last state, with the version of its removal."""
        return self._stage(resource, {**obj, "metadata": {**obj["metadata"]}}, gone=True)

    def _stage(self, resource: str, obj: Object, *, gone: bool) -> Object:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        version = self.version + 1
        metadata["resourceVersion"] = str(version)
        blob = encode(obj)
        if len(blob) > self._largest:
            raise TooLarge(
                f'{resource} "{name}" has {len(blob):,} bytes; an object may have at most {self._largest:,}. '
                "Keep large data in files and volumes"
            )
        self.version = version
        place = Place(resource, Key(namespace, name))
        staged = Staged(place, obj, gone, Row(version, resource, namespace, name, int(gone), blob))
        self.staged.append(staged)
        self._own[place] = staged
        return obj


def encode(obj: Any) -> bytes:
    try:
        return orjson.dumps(obj)
    except TypeError as error:
        raise BadRequest(f"the object cannot be written as JSON: {error}") from None
