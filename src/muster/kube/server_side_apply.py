"""Server-side apply: merges what managers apply and records which manager owns which field.

`server_side_apply` is the apply patch. `track_update` keeps `metadata.managedFields` right when an applied object is
changed in another way. An object that was never applied has no such record, and none is made for it.

A path is a tuple of FieldsV1 keys: `f:spec`, then `k:{"name":"web"}` for a list item that is identified by its name,
or `v:"x"` for a value of a set. A field that is itself owned and has owned fields below it is `.` on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, TypeAlias

import orjson

from muster.kube.errors import BadRequest, Cause, Conflict, Invalid, TooLarge
from muster.kube.kinds import Schema
from muster.kube.objects import Object, meta
from muster.kube.patches import json_equal
from muster.kube.schema import OBJECT_META

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns, as in Kubernetes, everything that an object had when it was applied for the first time."""

MAX_FIELDS = 10_000
"""How many fields an object may have, and all its owners together, for their owners to be recorded. The work for it is
done within one step of the event loop: about 50 ms for so many."""

CLIENT_SIDE_APPLY = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class TooManyFields(TooLarge):
    """The owners of so many fields are not recorded."""

    def __init__(self) -> None:
        super().__init__(
            f"server-side apply supports objects with up to {MAX_FIELDS:,} fields, counted once for each owner. Use"
            f" several objects, or create and replace this one without server-side apply"
        )


class Owner(NamedTuple):
    """An owner of fields. One manager may own some fields by applying, others by updating, and some of a
    subresource."""

    manager: str
    operation: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class FieldSet:
    """The fields of an owner, and since when it has owned them."""

    fields: frozenset[FieldPath]
    time: str
    api_version: str


ManagedFields = dict[Owner, FieldSet]


def server_side_apply(
    current: Object | None,
    config: Object,
    schema: Schema,
    manager: str,
    force: bool,
    now: str,
    *,
    subresource: str = "",
) -> Object:
    """Returns `current` with `config` applied by `manager`, or the same object if nothing changes. Raises Conflict with
    the owners if others own what would change, unless `force` takes it from them. Fields that the manager applied
    before and now omits are removed, unless others own them too. A null in `config` counts as omitted.

    With a subresource, `config` must contain only its part of the object.
    """
    if not manager:
        raise BadRequest("fieldManager is required for an apply patch: it says who owns the fields")
    if meta(config).get("managedFields"):
        raise BadRequest("metadata.managedFields must not be set in what is applied; the server writes it")
    schema = _with_metadata(schema)
    wanted = owned_fields(config, schema)
    me = Owner(manager, "Apply", subresource)
    if current is None:
        created = merge_config({}, config, schema)
        return _with_record(created, {me: FieldSet(frozenset(wanted), now, str(config.get("apiVersion", "")))})
    _check_same_object(current, config)
    record = _read_record(current) or _initial_record(current, schema)
    before = record.pop(me, None)
    merged = merge_config(current, config, schema)
    if before is not None:
        held = frozenset().union(wanted, *(other.fields for other in record.values()))
        merged = remove_fields(merged, (before.fields - held) & owned_fields(merged, schema).keys(), held, schema)
    changed, removed = _changes(owned_fields(current, schema), owned_fields(merged, schema))
    if not force:
        _raise_conflicts(record, changed)
    record = {owner: replace(h, fields=h.fields - changed - removed) for owner, h in record.items()}
    mine = frozenset(wanted)
    since = before.time if before is not None and before.fields == mine else now
    record[me] = FieldSet(mine, since, str(config.get("apiVersion") or current.get("apiVersion", "")))
    applied = _with_record(_with_last_applied(merged, config, manager), record)
    return current if json_equal(applied, current) else applied


def track_update(
    old: Object | None, new: Object, schema: Schema, manager: str, now: str, *, subresource: str = ""
) -> Object:
    """Returns `new` with its owners recorded, after `manager` updated `old` by other means than apply. An object that
    was never applied has no record and gets none, which is the fast path. `managedFields: [{}]` erases the record, and
    so does an update to more fields than MAX_FIELDS: controllers must be able to write any status."""
    kept = (meta(old).get("managedFields") or []) if old is not None else []
    sent = meta(new).get("managedFields")
    if old is None or not kept or sent == [{}]:
        return new if sent is None else _with_record(new, {})
    try:
        return _track(old, new, schema, manager, now, subresource)
    except TooManyFields:
        return _with_record(new, {})


def _track(old: Object, new: Object, schema: Schema, manager: str, now: str, subresource: str) -> Object:
    kept, sent = meta(old)["managedFields"], meta(new).get("managedFields")
    record = _read_record(new) or _read_record(old)
    touched = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    schema = _with_metadata(schema)
    changed, removed = _changes(
        owned_fields({name: old[name] for name in touched if name in old}, schema),
        owned_fields({name: new[name] for name in touched if name in new}, schema),
    )
    if not changed and not removed:
        return new if sent == kept else _with_record(new, record)
    me = Owner(manager, "Update", subresource)
    before = record.pop(me, None)
    record = {owner: replace(h, fields=h.fields - changed - removed) for owner, h in record.items()}
    mine = ((before.fields if before is not None else frozenset()) | changed) - removed
    since = before.time if before is not None and before.fields == mine else now
    record[me] = FieldSet(mine, since, str(new.get("apiVersion", "")))
    return _with_record(new, record)


def _changes(
    before: Mapping[FieldPath, Any], after: Mapping[FieldPath, Any]
) -> tuple[frozenset[FieldPath], frozenset[FieldPath]]:
    """Returns (new and changed fields, removed fields)."""
    changed = frozenset(
        path for path, value in after.items() if path not in before or not _unchanged(before[path], value)
    )
    return changed, frozenset(before.keys() - after.keys())


def _unchanged(before: Any, after: Any) -> bool:
    return before is after or (BRANCH not in (before, after) and json_equal(before, after))


def _raise_conflicts(record: ManagedFields, changed: frozenset[FieldPath]) -> None:
    conflicts = {
        owner: sorted(held.fields & changed) for owner, held in sorted(record.items()) if held.fields & changed
    }
    if not conflicts:
        return
    causes = [
        Cause(format_field_path(path), f"conflict with {_describe_owner(owner, record)}", "FieldManagerConflict")
        for owner, paths in conflicts.items()
        for path in paths
    ]
    if len(causes) == 1:
        details = f"conflict: {causes[0].message}: {causes[0].field}"
    else:
        listed = "\n".join(
            f"conflicts with {_describe_owner(owner, record)}:\n"
            + "\n".join(f"- {format_field_path(path)}" for path in paths)
            for owner, paths in conflicts.items()
        )
        details = f"conflicts: {listed}"
    raise Conflict(f"Apply failed with {len(causes)} {details}", causes=causes)


def _describe_owner(owner: Owner, record: ManagedFields) -> str:
    subresource = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    version = f" using {record[owner].api_version}" if owner.operation == "Update" else ""
    return f'"{owner.manager}"{subresource}{version}'


def _check_same_object(current: Object, config: Object) -> None:
    for name in ("resourceVersion", "uid"):
        asked = meta(config).get(name)
        if asked and asked != meta(current).get(name):
            raise Conflict(
                f"the object to apply to has {name} {meta(current).get(name)}, not {asked}; read it again, or leave"
                f" metadata.{name} out"
            )


def _read_record(obj: Object) -> ManagedFields:
    record: ManagedFields = {}
    for entry in meta(obj).get("managedFields") or ():
        owner = Owner(entry.get("manager", ""), entry.get("operation", "Update"), entry.get("subresource", ""))
        record[owner] = FieldSet(
            frozenset(from_fields_v1(entry.get("fieldsV1") or {})), entry.get("time", ""), entry.get("apiVersion", "")
        )
    return record


def _initial_record(current: Object, schema: Schema) -> ManagedFields:
    """Leaves out the status, whose writers are recorded with their next update. Fields in kubectl's last-applied
    annotation belong to kubectl, which takes them over when it moves on to server-side apply."""
    fields = frozenset(owned_fields({name: value for name, value in current.items() if name != "status"}, schema))
    kubectls = fields & _applied_by_kubectl(current, schema)
    since, version = meta(current).get("creationTimestamp", ""), str(current.get("apiVersion", ""))
    holdings = {BEFORE_FIRST_APPLY: fields - kubectls, CLIENT_SIDE_APPLY: kubectls}
    return {Owner(name, "Update"): FieldSet(held, since, version) for name, held in holdings.items() if held}


def _with_last_applied(merged: Object, config: Object, manager: str) -> Object:
    """Keeps kubectl's last-applied annotation up to date: a later client-side apply would delete what an outdated
    annotation lists."""
    annotations = meta(merged).get("annotations") or {}
    if manager != "kubectl" or LAST_APPLIED not in annotations:
        return merged
    others = {name: value for name, value in (meta(config).get("annotations") or {}).items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in meta(config).items() if name != "annotations"}
    noted = {**config, "metadata": {**metadata, **({"annotations": others} if others else {})}}
    note = orjson.dumps(noted, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    return {**merged, "metadata": {**meta(merged), "annotations": {**annotations, LAST_APPLIED: note}}}


def _applied_by_kubectl(current: Object, schema: Schema) -> frozenset[FieldPath]:
    note = (meta(current).get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = orjson.loads(note or b"null")
    except orjson.JSONDecodeError:
        return frozenset()
    if not isinstance(config, dict):
        return frozenset()
    noted = {"metadata": {"annotations": {LAST_APPLIED: note}}}
    return frozenset((*owned_fields(config, schema), *owned_fields(noted, schema)))


def _with_record(obj: Object, record: ManagedFields) -> Object:
    _check_number(sum(len(held.fields) for held in record.values()))
    metadata = {name: value for name, value in meta(obj).items() if name != "managedFields"}
    if entries := list(_entries(record)):
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def _entries(record: ManagedFields) -> Iterable[dict[str, Any]]:
    ordered = sorted(record.items(), key=lambda held: (held[0].operation, held[1].time, held[0]))
    for owner, held in ordered:
        if not held.fields:
            continue
        entry = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": held.api_version,
            "time": held.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(held.fields),
            "subresource": owner.subresource,
        }
        yield {name: value for name, value in entry.items() if value}


def _check_number(of_fields: int) -> None:
    if of_fields > MAX_FIELDS:
        raise TooManyFields


def _with_metadata(schema: Schema) -> Schema:
    """Adds metadata, which is the same everywhere, to a custom kind's schema."""
    properties = schema.get("properties") or {}
    if (properties.get("metadata") or {}).get("properties"):
        return schema
    return {**schema, "properties": {"apiVersion": {}, "kind": {}, **properties, "metadata": OBJECT_META}}


# Which fields of an object can have an owner, by its schema, and how a configuration is merged or fields are removed.
# Maps are split into fields unless `x-kubernetes-map-type` is atomic. Lists are split into items if
# `x-kubernetes-list-type` is set, or map with `x-kubernetes-list-map-keys`; every other list is one field.

BRANCH = ...
"""The value of a member that has fields of its own: it is added and removed, but never changed."""

_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "selfLink", "managedFields",
})  # fmt: skip
_NOT_APPLIED = ("resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")


def owned_fields(obj: Object, schema: Schema) -> dict[FieldPath, Any]:
    """Returns every field of `obj` that can have an owner, with its value. Fields filled in by the server have none.
    Raises TooManyFields."""
    fields = {name: value for name, value in obj.items() if name not in _UNOWNED}
    metadata = {k: v for k, v in (fields.pop("metadata", None) or {}).items() if k not in _UNOWNED_METADATA}
    found: dict[FieldPath, Any] = {}
    _walk(fields | ({"metadata": metadata} if metadata else {}), schema, (), found)
    return found


def merge_config(current: Object, config: Object, schema: Schema) -> Object:
    """Returns `current` with everything in `config`. Items of a split list take the order of `config`; items that it
    does not name stay beside their neighbours."""
    metadata = {k: v for k, v in (config.get("metadata") or {}).items() if not current or k not in _NOT_APPLIED}
    merged: Object = _merge(current, {**config, "metadata": metadata}, schema, ())
    return merged


def remove_fields(obj: Object, gone: AbstractSet[FieldPath], held: AbstractSet[FieldPath], schema: Schema) -> Object:
    """Returns `obj` without the fields in `gone`, and without what that leaves empty unless it is in `held`."""
    left: Object = (_remove(obj, gone, held, schema, ()) or {}) if gone else obj
    return left


def _walk(value: Any, schema: Schema, path: FieldPath, found: dict[FieldPath, Any]) -> None:
    if not value or _is_atomic(value, schema):
        if path:
            found[path] = value
    elif isinstance(value, dict):
        declared = schema.get("properties") or {}
        for name, child in value.items():
            if child is None:
                continue
            at = (*path, f"f:{name}")
            _check_number(len(found))
            if name not in declared:
                found[at] = BRANCH
            _walk(child, _child(schema, name), at, found)
    else:
        for number, item in enumerate(value):
            at = (*path, _item_step(item, schema) or f"i:{number}")
            _check_number(len(found))
            if at in found:
                continue  # a second item with the same key, which Kubernetes allows in `env`
            found[at] = BRANCH
            if isinstance(item, dict):
                _walk(item, schema.get("items") or {}, at, found)


def _merge(old: Any, new: Any, schema: Schema, path: FieldPath) -> Any:
    if _is_atomic(new, schema):
        return new
    if isinstance(new, dict):
        merged = dict(old) if isinstance(old, dict) else {}
        for name, value in new.items():
            if value is not None:
                merged[name] = _merge(merged.get(name), value, _child(schema, name), (*path, f"f:{name}"))
        return merged
    return _merge_items(old if isinstance(old, list) else [], new, schema, path)


def _merge_items(old: list[Any], new: list[Any], schema: Schema, path: FieldPath) -> list[Any]:
    wanted = _by_step(new, schema, path)
    if len(wanted) < len(new):
        return new  # two items with one key cannot be merged: take the list as it is
    before = [(_item_step(item, schema) or "", item) for item in old]
    places = {step: place for place, (step, _) in reversed(list(enumerate(before)))}
    merged: list[Any] = []
    passed = 0

    def pass_until(end: int) -> None:
        nonlocal passed
        while passed < end:
            step, item = before[passed]
            if step not in wanted:
                merged.append(item)
            passed += 1

    for step, item in wanted.items():
        while passed < len(before) and before[passed][0] not in wanted:
            pass_until(passed + 1)
        place = places.get(step)
        if place is None:
            merged.append(_merge(None, item, schema.get("items") or {}, (*path, step)))
            continue
        pass_until(place + 1)
        merged.append(_merge(before[place][1], item, schema.get("items") or {}, (*path, step)))
    pass_until(len(before))
    return merged


def _by_step(items: list[Any], schema: Schema, path: FieldPath) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, item in enumerate(items):
        step = _item_step(item, schema)
        if step is None:
            keys = " and ".join(schema.get("x-kubernetes-list-map-keys") or ())
            _raise_mismatch(path, number, f"the items of this list are identified by {keys}, which this one lacks")
        if step in found and not schema.get("x-muster-duplicates"):
            _raise_mismatch(path, number, f"there is another item {format_field_path((step,))} in this list")
        found[step] = item
    return found


def _remove(
    value: Any, gone: AbstractSet[FieldPath], held: AbstractSet[FieldPath], schema: Schema, path: FieldPath
) -> Any:
    """Returns None if nothing is left. `gone` is relative to `path`."""
    if _is_atomic(value, schema):
        return value
    here = {steps[0] for steps in gone if len(steps) == 1}
    below: dict[str, set[FieldPath]] = {}
    for steps in gone:
        if len(steps) > 1:
            below.setdefault(steps[0], set()).add(steps[1:])
    if isinstance(value, dict):
        kept = {}
        for name, child in value.items():
            step = f"f:{name}"
            if step in here:
                continue
            if step in below:
                child = _remove(child, below[step], held, _child(schema, name), (*path, step))
            if child is not None:
                kept[name] = child
        return kept if kept or path in held else None
    keys = {(f"f:{key}",) for key in schema.get("x-kubernetes-list-map-keys") or ()}
    items = []
    for item in value:
        step = _item_step(item, schema) or ""
        if step in here:
            continue
        if step in below:
            item = _remove(item, below[step] - keys, held, schema.get("items") or {}, (*path, step))
        if item is not None:
            items.append(item)
    return items if items or path in held else None


def _child(schema: Schema, name: str) -> Schema:
    declared = (schema.get("properties") or {}).get(name)
    if declared is None:
        declared = schema.get("additionalProperties")
    return declared if isinstance(declared, dict) else {}


def _is_atomic(value: Any, schema: Schema) -> bool:
    """Whether `value` has one owner as a whole: a scalar, or a list or map that the schema does not split."""
    if isinstance(value, dict):
        return schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(value, list):
        return schema.get("x-kubernetes-list-type") not in ("map", "set")
    return True


def _item_step(item: Any, schema: Schema) -> str | None:
    """Returns the path step of an item of the list that `schema` describes; None if it lacks a key."""
    if schema.get("x-kubernetes-list-type") == "set":
        return f"v:{orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode()}"
    if not isinstance(item, dict):
        return None
    properties = (schema.get("items") or {}).get("properties") or {}
    keys = {}
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        value = item.get(key)
        if value is None:
            value = (properties.get(key) or {}).get("default")
        if value is None:
            return None
        keys[key] = value
    return f"k:{orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()}"


def _raise_mismatch(path: FieldPath, number: int, why: str) -> NoReturn:
    field = f"{format_field_path(path).removeprefix('.')}[{number}]"
    raise Invalid(f"{field}: {why}", causes=[Cause(field, why)])


# Sets of fields in the form of `metadata.managedFields` (FieldsV1).

FieldPath: TypeAlias = tuple[str, ...]


def to_fields_v1(paths: Iterable[FieldPath]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for step in path:
            below = node.get(step)
            if below is None:
                below = node[step] = {}
            elif not below:
                below["."] = {}  # it is a member itself, because paths are sorted
            node = below
    return root


def from_fields_v1(fields: Mapping[str, Any]) -> set[FieldPath]:
    found: set[FieldPath] = set()
    _collect(fields, (), found)
    return found


def format_field_path(path: FieldPath) -> str:
    """`.spec.containers[name="web"].image`"""
    return "".join(_format_step(step) for step in path)


def _collect(fields: Mapping[str, Any], path: FieldPath, found: set[FieldPath]) -> None:
    for step, below in fields.items():
        _check_number(len(found))
        if step == ".":
            found.add(path)
            continue
        at = (*path, step)
        if below and isinstance(below, dict):
            _collect(below, at, found)
        else:
            found.add(at)


def _format_step(step: str) -> str:
    sort, _, text = step.partition(":")
    if sort == "f":
        return f".{text}"
    if sort != "k":
        return f"[={text}]" if sort == "v" else f"[{text}]"
    try:
        keys = sorted(orjson.loads(text).items())
    except (orjson.JSONDecodeError, AttributeError):
        return f"[{text}]"  # a client may write anything into managedFields
    return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in keys)}]"
