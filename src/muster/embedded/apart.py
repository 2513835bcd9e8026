"""Maps of an object that are stored apart, each entry a row of its own: a workflow of 10,000 nodes that changes one of
them writes one. Clients read and write the whole object all the same; the controllers inside see it without its map.

The rows are objects of a resource that no URL can name, in a namespace that is the uid of the object they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.embedded.transaction import Transaction
from muster.embedded.view import View
from muster.kube.kinds import Kind
from muster.kube.objects import Object, uid_of


def put(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Stores an object. A map that it has with it replaces the one that is stored; without one, that one stays."""
    parts = _parts(kind, obj)
    if parts is None:
        return tx.put(kind.resource, obj)
    stored = tx.within(rows_of(kind), uid_of(obj))
    changed = {name: part for name, part in parts.items() if name not in stored or stored[name]["part"] != part}
    write(tx, kind, uid_of(obj), changed, [name for name in stored if name not in parts])
    return tx.put(kind.resource, _without(kind, obj))


def remove(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Removes an object with all that belongs to it; answers it whole, as it was."""
    if kind.apart is None:
        return tx.remove(kind.resource, obj)
    stored = tx.within(rows_of(kind), uid_of(obj))
    write(tx, kind, uid_of(obj), {}, list(stored))
    return tx.remove(kind.resource, _without(kind, obj))


def write(tx: Transaction, kind: Kind, uid: str, changed: Mapping[str, Any], gone: Iterable[str]) -> None:
    """Entries of one object's map, whatever becomes of the object itself."""
    resource = rows_of(kind)
    for name, part in changed.items():
        tx.put(resource, {"metadata": {"namespace": uid, "name": name}, "part": part})
    for name in gone:
        tx.remove(resource, {"metadata": {"namespace": uid, "name": name}})


def parts_of(view: View, kind: Kind, uid: str) -> dict[str, Any]:
    """The stored map, in the order in which its entries were first written."""
    shelf = view.shelf(rows_of(kind), uid)
    return {} if shelf is None else {name: row["part"] for name, row in shelf.objects.items()}


def parts_within(tx: Transaction, kind: Kind, uid: str) -> dict[str, Any]:
    """The same, with what is on its way to the disk."""
    return {name: row["part"] for name, row in tx.within(rows_of(kind), uid).items()}


def whole(view: View, kind: Kind, obj: Object) -> Object:
    """The object as a client sees it."""
    if kind.apart is None:
        return obj
    parts = parts_of(view, kind, uid_of(obj))
    return _with(kind, obj, parts) if parts else obj


def base_of(tx: Transaction, kind: Kind, obj: Object, patch: Any) -> Object:
    """What a patch applies to: the whole object, if it may be about the map."""
    if kind.apart is None or kind.apart[1] not in str(patch):
        return obj
    return _with(kind, obj, parts_within(tx, kind, uid_of(obj)))


def rows_of(kind: Kind) -> str:
    return f"{kind.resource}#{'.'.join(kind.apart or ())}"


def _parts(kind: Kind, obj: Object) -> Mapping[str, Any] | None:
    if kind.apart is None:
        return None
    field, name = kind.apart
    found = (obj.get(field) or {}).get(name)
    return found if isinstance(found, dict) else None


def _with(kind: Kind, obj: Object, parts: dict[str, Any]) -> Object:
    field, name = kind.apart or ("", "")
    return {**obj, field: {**(obj.get(field) or {}), name: parts}}


def _without(kind: Kind, obj: Object) -> Object:
    field, name = kind.apart or ("", "")
    inside = obj.get(field) or {}
    if name not in inside:
        return obj
    return {**obj, field: {key: value for key, value in inside.items() if key != name}}
