"""All objects in memory, by kind, name, order and owner, and the transaction that a write runs in."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from muster.embedded.store.database import ENCRYPTED, Row
from muster.embedded.store.shared_parts import (
    SMALLEST_SHARED,
    SharedParts,
    digest_of,
    merge_parts,
    split_parts,
    weigh,
)
from muster.kube.errors import BadRequest, TooLarge
from muster.kube.objects import Key, Object


class ResourceKey(NamedTuple):
    """Identifies an object: the resource (`pods`, `jobs.batch`) and the key."""

    resource: str
    key: Key


def is_packed(resource: str) -> bool:
    """Whether the objects of a resource stay in memory as JSON: there are many, they are rarely read, and they have no
    owners. These are Events, and the status rows of objects (status_rows.py)."""
    return resource == "events" or "#" in resource


class View:
    """All committed objects, by kind, namespace and name, in order, or by owner. It knows no versions or rules."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, NamespaceObjects]] = {}
        self._weights: Counter[str] = Counter()
        self._dependents: dict[str, dict[ResourceKey, None]] = {}

    def get(self, resource: str, key: Key) -> Object | None:
        namespaces = self._kinds.get(resource)
        if namespaces is None:
            return None
        bucket = namespaces.get(key[0])
        return None if bucket is None else bucket.get(key[1])

    def put(self, resource: str, key: Key, obj: Object | bytes, weight: int = 0) -> Object | None:
        """Returns the previous object, if any. An object of a packed resource is given as JSON. `weight` is the memory
        that another object takes."""
        namespaces = self._kinds.get(resource)
        if namespaces is None:
            namespaces = self._kinds[resource] = {}
        bucket = namespaces.get(key[0])
        if bucket is None:
            bucket = namespaces[key[0]] = NamespaceObjects()
        before = bucket.put(key[1], obj)
        if weight:
            self._weights[key[0]] += weight - bucket.weights.get(key[1], 0)
            bucket.weights[key[1]] = weight
        if not isinstance(obj, bytes):
            self._index_owners(resource, key, before, obj)
        return before

    def remove(self, resource: str, key: Key) -> Object | None:
        bucket = self._kinds.get(resource, {}).get(key[0])
        before = None if bucket is None else bucket.remove(key[1])
        if bucket is not None and before is not None:
            self._weights[key[0]] -= bucket.weights.pop(key[1], 0)
        if bucket is not None and not len(bucket):
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
                yield from (obj for name in bucket.names() if (obj := bucket.get(name)) is not None)

    def count(self, resource: str, namespace: str = "") -> int:
        namespaces = self._kinds.get(resource, {})
        if namespace:
            return len(namespaces[namespace]) if namespace in namespaces else 0
        return sum(len(bucket) for bucket in namespaces.values())

    def weight(self, namespace: str) -> int:
        """Returns an estimate of the memory that the objects of a namespace take, in bytes; without Events."""
        return self._weights[namespace]

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

    __slots__ = ("_changed", "_objects", "_order", "weights")

    def __init__(self) -> None:
        self.weights: dict[str, int] = {}
        self._objects: dict[str, Object | bytes] = {}
        self._order: list[str] | None = None
        self._changed: list[str] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[str]:
        """Yields the names in the order in which they were first written."""
        return iter(self._objects)

    def get(self, name: str) -> Object | None:
        found = self._objects.get(name)
        return orjson.loads(found) if isinstance(found, bytes) else found

    def put(self, name: str, obj: Object | bytes) -> Object | None:
        before = self.get(name)
        self._objects[name] = obj
        if before is None and self._order is not None:
            self._note(name)
        return before

    def remove(self, name: str) -> Object | None:
        before = self.get(name)
        if before is not None:
            if self._order is not None:
                self._note(name)
            del self._objects[name]
        return before

    def all(self) -> dict[str, Object]:
        """Returns the objects by name, in the order in which they were first written."""
        return {name: orjson.loads(obj) if isinstance(obj, bytes) else obj for name, obj in self._objects.items()}

    def names(self) -> list[str]:
        """Returns the sorted names. A few changes are merged in; after many it is cheaper to sort again."""
        if self._order is None or len(self._changed) * 64 > len(self._order):
            self._order = sorted(self._objects)
        else:
            for name in self._changed:
                at = bisect_left(self._order, name)
                listed = at < len(self._order) and self._order[at] == name
                if listed and name not in self._objects:
                    del self._order[at]
                elif not listed and name in self._objects:
                    self._order.insert(at, name)
        self._changed = []
        return self._order

    def _note(self, name: str) -> None:
        self._changed.append(name)
        if len(self._changed) > len(self._objects) + 1000:
            self._order = None
            self._changed = []


class Staged(NamedTuple):
    """A change on its way to the disk. With `gone`, `object` is the last state."""

    place: ResourceKey
    object: Object
    gone: bool
    row: Row
    shared: SharedParts | None = None
    """The large parts of the object, which its row refers to."""

    @property
    def weight(self) -> int:
        return weigh(self.row.object) + (self.shared.weight if self.shared is not None else 0)


class Transaction:
    """What one write sees (the head) and does. Valid only while the function it was passed to runs."""

    __slots__ = (
        "_head", "_largest", "_own", "_shared", "_view", "input_folder", "member_megabytes", "saw_staged", "staged",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        view: View,
        head: dict[ResourceKey, Staged],
        version: int,
        largest_object: int,
        input_folder: str = "",
        shared: Mapping[ResourceKey, SharedParts] = MappingProxyType({}),
    ) -> None:
        """`shared` are the large parts of objects as they are stored."""
        self.staged: list[Staged] = []
        self.input_folder = input_folder
        """See `Store.input_folder`."""
        self.member_megabytes = 0
        """See `Store.member_megabytes`."""
        self.version = version
        self.saw_staged = False
        """Whether a result depends on something that is not committed yet."""
        self._view = view
        self._head = head
        self._largest = largest_object
        self._shared = shared
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
        found = bucket.all() if bucket is not None else {}
        for staged in (*self._head.values(), *self.staged):
            (its_resource, key), obj, gone, *_ = staged
            if its_resource != resource or key.namespace != namespace:
                continue
            self.saw_staged = True
            if gone:
                found.pop(key.name, None)
            else:
                found[key.name] = obj
        return found

    def committed(self, resource: str, namespace: str) -> list[Object]:
        """Returns the objects of one namespace without uncommitted changes, which is quick if there are none."""
        bucket = self._view.in_namespace(resource, namespace)
        return [] if bucket is None else list(bucket.all().values())

    def weight(self, namespace: str) -> int:
        """Returns what the committed objects of a namespace take. See `View.weight`."""
        return self._view.weight(namespace)

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
        place = ResourceKey(resource, Key(namespace, name))
        blob, size, shared = self._encode(place, obj, version)
        if size > self._largest:
            raise TooLarge(
                f'{resource} "{name}" has {size:,} bytes; the limit is {self._largest:,}. '
                "Keep large data in files and volumes"
            )
        self.version = version
        row = Row(version, resource, namespace, name, int(gone), blob, shared.version if shared is not None else None)
        staged = Staged(place, obj, gone, row, shared)
        self.staged.append(staged)
        self._own[place] = staged
        return obj

    def _encode(self, place: ResourceKey, obj: Object, version: int) -> tuple[bytes, int, SharedParts | None]:
        """Returns the text of the row, the size of the whole object, and the parts that are stored elsewhere. Parts
        that are stored already are not encoded again."""
        own = self._own.get(place)
        known = own.shared if own is not None else self._shared.get(place)
        if known is None:
            blob = encode(obj)
            if len(blob) < SMALLEST_SHARED or place.resource == ENCRYPTED:
                return blob, len(blob), None
        parts = split_parts(obj)
        if known is None or not known.is_same(parts):
            text = encode(parts)
            if len(text) < SMALLEST_SHARED:
                blob = encode(obj)
                return blob, len(blob), None
            if known is None or known.digest != digest_of(text):
                known = SharedParts.of(version, parts, text, is_stored=False)
        blob = encode(merge_parts(obj, {}))
        return blob, len(blob) + known.size, known


def encode(obj: Any) -> bytes:
    try:
        return orjson.dumps(obj)
    except TypeError as error:
        raise BadRequest(f"the object cannot be written as JSON: {error}") from None
