"""Stores a status map as rows, one per entry.

A workflow of 10,000 nodes that changes one of them writes one row. Clients read and write the whole object; controllers
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
    """Stores an object. Its map replaces the stored one; without a map, the stored one stays."""
    parts = _map_of(kind, obj)
    if parts is None:
        return tx.put(kind.resource, obj)
    stored = tx.list_namespace(rows_resource(kind), uid_of(obj))
    changed = {name: part for name, part in parts.items() if name not in stored or stored[name]["part"] != part}
    write_rows(tx, kind, uid_of(obj), changed, [name for name in stored if name not in parts])
    return tx.put(kind.resource, _without_map(kind, obj))


def remove_object(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Removes an object and its rows. Returns the last state of the object."""
    if kind.stored_as_rows is None:
        return tx.remove(kind.resource, obj)
    stored = tx.list_namespace(rows_resource(kind), uid_of(obj))
    write_rows(tx, kind, uid_of(obj), {}, list(stored))
    return tx.remove(kind.resource, _without_map(kind, obj))


def write_rows(tx: Transaction, kind: Kind, uid: str, changed: Mapping[str, Any], gone: Iterable[str]) -> None:
    """Writes and removes entries of one object's map, without touching the object."""
    resource = rows_resource(kind)
    for name, part in changed.items():
        tx.put(resource, {"metadata": {"namespace": uid, "name": name}, "part": part})
    for name in gone:
        tx.remove(resource, {"metadata": {"namespace": uid, "name": name}})


def read_rows(view: View, kind: Kind, uid: str) -> dict[str, Any]:
    """Returns the stored map, in the order in which its entries were first written."""
    bucket = view.in_namespace(rows_resource(kind), uid)
    return {} if bucket is None else {name: row["part"] for name, row in bucket.all().items()}


def read_rows_in(tx: Transaction, kind: Kind, uid: str) -> dict[str, Any]:
    """Returns the map as a transaction sees it, with uncommitted changes."""
    return {name: row["part"] for name, row in tx.list_namespace(rows_resource(kind), uid).items()}


def with_rows(view: View, kind: Kind, obj: Object) -> Object:
    """Returns the object with its map, as a client sees it."""
    if kind.stored_as_rows is None:
        return obj
    parts = read_rows(view, kind, uid_of(obj))
    return _with_map(kind, obj, parts) if parts else obj


def patch_base(tx: Transaction, kind: Kind, obj: Object, patch: Any) -> Object:
    """Returns what a patch applies to: the object with its map, if the patch may touch the map."""
    if kind.stored_as_rows is None or kind.stored_as_rows[1] not in str(patch):
        return obj
    return _with_map(kind, obj, read_rows_in(tx, kind, uid_of(obj)))


def rows_resource(kind: Kind) -> str:
    return f"{kind.resource}#{'.'.join(kind.stored_as_rows or ())}"


def _map_of(kind: Kind, obj: Object) -> Mapping[str, Any] | None:
    if kind.stored_as_rows is None:
        return None
    field, name = kind.stored_as_rows
    found = (obj.get(field) or {}).get(name)
    return found if isinstance(found, dict) else None


def _with_map(kind: Kind, obj: Object, parts: dict[str, Any]) -> Object:
    field, name = kind.stored_as_rows or ("", "")
    return {**obj, field: {**(obj.get(field) or {}), name: parts}}


def _without_map(kind: Kind, obj: Object) -> Object:
    field, name = kind.stored_as_rows or ("", "")
    inside = obj.get(field) or {}
    if name not in inside:
        return obj
    return {**obj, field: {key: value for key, value in inside.items() if key != name}}
