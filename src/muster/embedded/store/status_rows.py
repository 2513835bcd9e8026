"""Stores a status map as rows, one per entry.

A workflow of 10,000 nodes that changes one of them writes one row. Clients read and write the whole object;
controllers
in the process see it without the map. The rows are objects of a resource that no URL can name, in a namespace that is
the uid of the object they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.embedded.store.view import Transaction, View
from muster.kube.kinds import Kind
from muster.kube.objects import Object, uid_of


def put_object(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Stores an object. A map that it has with it replaces the one that is stored; without one, that one stays."""
    parts = _parts(kind, obj)
    if parts is None:
        return tx.put(kind.resource, obj)
    stored = tx.within(rows_resource(kind), uid_of(obj))
    changed = {name: part for name, part in parts.items() if name not in stored or stored[name]["part"] != part}
    write_rows(tx, kind, uid_of(obj), changed, [name for name in stored if name not in parts])
    return tx.put(kind.resource, _without(kind, obj))


def remove_object(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Removes an object with all that belongs to it; answers it whole, as it was."""
    if kind.apart is None:
        return tx.remove(kind.resource, obj)
    stored = tx.within(rows_resource(kind), uid_of(obj))
    write_rows(tx, kind, uid_of(obj), {}, list(stored))
    return tx.remove(kind.resource, _without(kind, obj))


def write_rows(tx: Transaction, kind: Kind, uid: str, changed: Mapping[str, Any], gone: Iterable[str]) -> None:
    """Entries of one object's map, whatever becomes of the object itself."""
    resource = rows_resource(kind)
    for name, part in changed.items():
        tx.put(resource, {"metadata": {"namespace": uid, "name": name}, "part": part})
    for name in gone:
        tx.remove(resource, {"metadata": {"namespace": uid, "name": name}})


def read_rows(view: View, kind: Kind, uid: str) -> dict[str, Any]:
    """The stored map, in the order in which its entries were first written."""
    shelf = view.shelf(rows_resource(kind), uid)
    return {} if shelf is None else {name: row["part"] for name, row in shelf.objects.items()}


def read_rows_in(tx: Transaction, kind: Kind, uid: str) -> dict[str, Any]:
    """The same, with what is on its way to the disk."""
    return {name: row["part"] for name, row in tx.within(rows_resource(kind), uid).items()}


def with_rows(view: View, kind: Kind, obj: Object) -> Object:
    """The object as a client sees it."""
    if kind.apart is None:
        return obj
    parts = read_rows(view, kind, uid_of(obj))
    return _with(kind, obj, parts) if parts else obj


def patch_base(tx: Transaction, kind: Kind, obj: Object, patch: Any) -> Object:
    """What a patch applies to: the whole object, if it may be about the map."""
    if kind.apart is None or kind.apart[1] not in str(patch):
        return obj
    return _with(kind, obj, read_rows_in(tx, kind, uid_of(obj)))


def rows_resource(kind: Kind) -> str:
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
