"""What one write sees and does: the head, and its own changes on top."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from muster.embedded.database import Row
from muster.embedded.view import Place, View
from muster.kube.errors import BadRequest, TooLarge
from muster.kube.objects import Key, Object


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
