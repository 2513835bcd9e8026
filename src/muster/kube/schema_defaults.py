"""Fills in a schema's defaults and prunes the fields that a schema does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson

from muster.kube.kinds import Schema

_Fill: TypeAlias = Callable[[Any], Any]

_ABSENT = object()
_MEMO_LIMIT = 20_000
_memo: dict[int, tuple[Schema, _Fill | None]] = {}


def apply_defaults(value: Any, schema: Schema) -> Any:
    """Returns the value with the schema's defaults for missing fields; the same value if none is missing."""
    fill = _compiled(schema)
    return value if fill is None else fill(value)


def prune(value: Any, schema: Schema) -> Any:
    """Returns the value without fields that the schema does not have, and without nulls that it does not allow; the
    same value if there are none."""
    if isinstance(value, dict):
        return _prune_object(value, schema)
    items = schema.get("items")
    if not isinstance(value, list) or not isinstance(items, dict):
        return value
    pruned = [prune(item, items) for item in value]
    return value if all(new is old for new, old in zip(pruned, value, strict=True)) else pruned


def _prune_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    fields = schema.get("properties") or {}
    rest = schema.get("additionalProperties")
    keep_rest = bool(rest) or schema.get("x-kubernetes-preserve-unknown-fields") or (not fields and rest is None)
    pruned = {}
    changed = False
    for key, item in value.items():
        sub = fields.get(key, rest if isinstance(rest, dict) else None)
        if sub is None:
            embedded = schema.get("x-kubernetes-embedded-resource") and key in ("apiVersion", "kind", "metadata")
            if keep_rest or embedded:
                pruned[key] = item
            else:
                changed = True
        elif item is None and not sub.get("nullable") and not sub.get("x-kubernetes-preserve-unknown-fields"):
            changed = True
        else:
            new = prune(item, sub)
            pruned[key] = new
            changed = changed or new is not item
    return pruned if changed else value


def _compiled(schema: Schema) -> _Fill | None:
    known = _memo.get(id(schema))
    if known is not None:
        return known[1]
    if len(_memo) > _MEMO_LIMIT:
        _memo.clear()
    fill = _compile(schema)
    _memo[id(schema)] = (schema, fill)  # keeps the schema alive, so that its id is not reused
    return fill


def _compile(schema: Schema) -> _Fill | None:
    """Returns None if there is no default below, so most of a schema is never visited."""
    items = schema.get("items")
    if isinstance(items, dict):
        fill_item = _compiled(items)
        return None if fill_item is None else _list_filler(fill_item)
    rest = schema.get("additionalProperties")
    fill_rest = _compiled(rest) if isinstance(rest, dict) else None
    properties: dict[str, Schema] = schema.get("properties") or {}
    missing = {key: _fresh(sub["default"]) for key, sub in properties.items() if sub.get("default") is not None}
    nullable = {key for key, sub in properties.items() if sub.get("nullable")}
    fills = {key: fill for key, sub in properties.items() if (fill := _compiled(sub)) is not None}
    if not missing and not fills and fill_rest is None:
        return None

    def fill_object(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        filled = value
        for key, make in missing.items():
            present = value.get(key, _ABSENT)
            if present is _ABSENT or (present is None and key not in nullable):
                if filled is value:
                    filled = dict(value)
                filled[key] = make()
        for key, item in list(filled.items()):
            fill = fills.get(key, None if key in properties else fill_rest)
            if fill is None:
                continue
            new = fill(item)
            if new is not item:
                if filled is value:
                    filled = dict(value)
                filled[key] = new
        return filled

    return fill_object


def _list_filler(fill_item: _Fill) -> _Fill:
    def fill_list(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        filled = [fill_item(item) for item in value]
        return value if all(new is old for new, old in zip(filled, value, strict=True)) else filled

    return fill_list


def _fresh(default: Any) -> Callable[[], Any]:
    """Copies the default each time if sharing it would let a change leak."""
    if not isinstance(default, dict | list):
        return lambda: default
    encoded = orjson.dumps(default)
    return lambda: orjson.loads(encoded)
