"""An object as its owners see it: which of its fields can have an owner of their own, by its schema, and how a
configuration is merged into it or fields are taken out of it field by field.

Maps are taken apart unless `x-kubernetes-map-type` is atomic. A list is taken apart if `x-kubernetes-list-type` is set,
or map, where `x-kubernetes-list-map-keys` tell the items apart; every other list is one field.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, NoReturn

import orjson

from muster.kube.errors import Cause, Invalid
from muster.kube.fieldsets import Path, spell
from muster.kube.kinds import Schema
from muster.kube.objects import Object

BRANCH = ...
"""Stands for the value of a member that has fields of its own: it comes and goes, but it does not change."""

_NOBODYS = frozenset({"apiVersion", "kind"})
_NOBODYS_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "selfLink", "managedFields",
})  # fmt: skip
_NOT_APPLIED = ("resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")


def owned_fields(obj: Object, schema: Schema) -> dict[Path, Any]:
    """Every field of `obj` that can have an owner, with its value. What the server fills in has none."""
    fields = {name: value for name, value in obj.items() if name not in _NOBODYS}
    metadata = {k: v for k, v in (fields.pop("metadata", None) or {}).items() if k not in _NOBODYS_METADATA}
    found: dict[Path, Any] = {}
    _walk(fields | ({"metadata": metadata} if metadata else {}), schema, (), found)
    return found


def merge_config(current: Object, config: Object, schema: Schema) -> Object:
    """`current` with everything `config` says. Items of a list that is taken apart keep the order of `config`, and
    those it does not name stay beside their neighbours."""
    metadata = {k: v for k, v in (config.get("metadata") or {}).items() if not current or k not in _NOT_APPLIED}
    merged: Object = _merge(current, {**config, "metadata": metadata}, schema, ())
    return merged


def without_fields(obj: Object, gone: AbstractSet[Path], held: AbstractSet[Path], schema: Schema) -> Object:
    """`obj` without the fields in `gone`, and without what that leaves empty unless it is among those `held`."""
    left: Object = (_remove(obj, gone, held, schema, ()) or {}) if gone else obj
    return left


def _walk(value: Any, schema: Schema, path: Path, found: dict[Path, Any]) -> None:
    if not value or _is_atomic(value, schema):
        if path:
            found[path] = value
    elif isinstance(value, dict):
        declared = schema.get("properties") or {}
        for name, child in value.items():
            if child is None:
                continue
            at = (*path, f"f:{name}")
            if name not in declared:
                found[at] = BRANCH
            _walk(child, _child(schema, name), at, found)
    else:
        for number, item in enumerate(value):
            at = (*path, _item_step(item, schema) or f"i:{number}")
            if at in found:
                continue  # a second item of the same key, as Kubernetes allows in `env`
            found[at] = BRANCH
            if isinstance(item, dict):
                _walk(item, schema.get("items") or {}, at, found)


def _merge(old: Any, new: Any, schema: Schema, path: Path) -> Any:
    if _is_atomic(new, schema):
        return new
    if isinstance(new, dict):
        merged = dict(old) if isinstance(old, dict) else {}
        for name, value in new.items():
            if value is not None:
                merged[name] = _merge(merged.get(name), value, _child(schema, name), (*path, f"f:{name}"))
        return merged
    return _merge_items(old if isinstance(old, list) else [], new, schema, path)


def _merge_items(old: list[Any], new: list[Any], schema: Schema, path: Path) -> list[Any]:
    wanted = _by_step(new, schema, path)
    if len(wanted) < len(new):
        return new  # two items of one key cannot be merged with anything: the list is taken as it is
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


def _by_step(items: list[Any], schema: Schema, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, item in enumerate(items):
        step = _item_step(item, schema)
        if step is None:
            keys = " and ".join(schema.get("x-kubernetes-list-map-keys") or ())
            _refuse(path, number, f"the items of this list are told apart by {keys}, which this one lacks")
        if step in found and not schema.get("x-muster-duplicates"):
            _refuse(path, number, f"there is another item {spell((step,))} in this list")
        found[step] = item
    return found


def _remove(value: Any, gone: AbstractSet[Path], held: AbstractSet[Path], schema: Schema, path: Path) -> Any:
    """None where nothing is left. `gone` is relative to `path`."""
    if _is_atomic(value, schema):
        return value
    here = {steps[0] for steps in gone if len(steps) == 1}
    below: dict[str, set[Path]] = {}
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
    """Whether `value` has one owner as a whole: a scalar, and a list or map that the schema does not take apart."""
    if isinstance(value, dict):
        return schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(value, list):
        return schema.get("x-kubernetes-list-type") not in ("map", "set")
    return True


def _item_step(item: Any, schema: Schema) -> str | None:
    """How an item of the list that `schema` describes is called in a path; None if it lacks a key."""
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


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    field = f"{spell(path).removeprefix('.')}[{number}]"
    raise Invalid(f"{field}: {why}", causes=[Cause(field, why)])
