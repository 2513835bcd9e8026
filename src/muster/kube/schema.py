"""Structural schemas: builders for our own kinds, and upstream's schemas of the built-in kinds.

A schema is what a CustomResourceDefinition carries: OpenAPI v3 as a plain dictionary. It is read-only once built.
`muster.kube.schema_validation` and `muster.kube.schema` compile it on first use and remember the result by
identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from muster.kube.kinds import Schema

# Fills in a schema's defaults and prunes the fields that a schema does not have.


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


def obj(
    properties: Mapping[str, Schema],
    required: Sequence[str] = (),
    *,
    atomic: bool = False,
    keep_unknown: bool = False,
    **more: Any,
) -> Schema:
    """An object with these fields and, unless `keep_unknown`, no others. `atomic`: it has one owner as a whole."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if keep_unknown:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema | more


def list_of(
    item: Schema,
    *,
    map_keys: Sequence[str] = (),
    patch_merge_key: str = "",
    patch_strategy: str = "",
    is_set: bool = False,
    duplicates: bool = False,
    **more: Any,
) -> Schema:
    """A list. With `map_keys`, its items are identified by those fields, otherwise it is replaced as a whole. With a
    `patch_merge_key`, strategic merge patches merge it by that field. `duplicates`: Kubernetes accepts two items with
    the same keys, as in `env`, where the later one wins."""
    schema: Schema = {"type": "array", "items": item}
    if map_keys:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(map_keys)
    elif is_set:
        schema["x-kubernetes-list-type"] = "set"
    else:
        schema["x-kubernetes-list-type"] = "atomic"
    if patch_merge_key:
        schema["x-kubernetes-patch-merge-key"] = patch_merge_key
    if patch_strategy or patch_merge_key:
        schema["x-kubernetes-patch-strategy"] = patch_strategy or "merge"
    if duplicates:
        schema["x-muster-duplicates"] = True
    return schema | more


def map_of(value: Schema, *, atomic: bool = False, **more: Any) -> Schema:
    """An object with any keys, all with the same type of value."""
    schema: Schema = {"type": "object", "additionalProperties": value}
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema | more


def of(schema: Schema, names: str) -> dict[str, Schema]:
    """Several fields of one type: `obj({**of(STRING, "name image"), "tty": BOOLEAN})`."""
    return dict.fromkeys(names.split(), schema)


def string(enum: Sequence[str] = (), **more: Any) -> Schema:
    return {"type": "string", "enum": list(enum)} | more if enum else {"type": "string"} | more


def integer(minimum: int | None = None, maximum: int | None = None, *, format: str = "int32", **more: Any) -> Schema:
    schema: Schema = {"type": "integer", "format": format}
    if minimum is not None:
        schema["minimum"] = minimum
    if maximum is not None:
        schema["maximum"] = maximum
    return schema | more


def number(**more: Any) -> Schema:
    return {"type": "number", "format": "double"} | more


def boolean(**more: Any) -> Schema:
    return {"type": "boolean"} | more


STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number", "format": "double"}
INT32: Final[Schema] = {"type": "integer", "format": "int32"}
INT64: Final[Schema] = {"type": "integer", "format": "int64"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
BYTES: Final[Schema] = {"type": "string", "format": "byte"}
INT_OR_STRING: Final[Schema] = {"x-kubernetes-int-or-string": True}
QUANTITY: Final[Schema] = {"x-kubernetes-int-or-string": True, "format": "quantity"}
ANY: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
SCALAR: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True, "x-muster-scalar": True}
"""A string, a number or a boolean, which becomes text in the end."""
STRINGS: Final[Schema] = list_of(STRING)
STRING_MAP: Final[Schema] = map_of(STRING)
RESOURCES: Final[Schema] = map_of(QUANTITY)

CONSTANTS: Final[Mapping[str, Schema]] = {
    "string": STRING,
    "boolean": BOOLEAN,
    "number": NUMBER,
    "int32": INT32,
    "int64": INT64,
    "time": TIME,
    "bytes": BYTES,
    "int-or-string": INT_OR_STRING,
    "quantity": QUANTITY,
    "any": ANY,
    "strings": STRINGS,
    "string-map": STRING_MAP,
    "resources": RESOURCES,
}
"""The schemas that upstream definitions refer to by these names."""

OPENAPI: Final = Path(__file__).with_name("openapi.json")
"""Upstream's definitions, generated by `python -m tools.schemas`."""

_raw: dict[str, Any] = {}
_resolved: dict[str, Schema] = dict(CONSTANTS)


def upstream_schema(name: str) -> Schema:
    """Returns the schema of a Kubernetes type, such as "core.v1.Pod", resolved on first use. Types that refer to the
    same type share one schema, so it is compiled once."""
    known = _resolved.get(name)
    if known is None:
        if not _raw:
            _raw.update(orjson.loads(OPENAPI.read_bytes()))
        known = _resolved[name] = _resolve(_raw[name])
    return known


def _resolve(schema: Schema | str) -> Schema:
    if isinstance(schema, str):
        return upstream_schema(schema)
    properties = schema.get("properties")
    if properties is not None:
        schema["properties"] = {name: _resolve(prop) for name, prop in properties.items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _resolve(schema[key])
    return schema


OBJECT_META: Final = upstream_schema("meta.v1.ObjectMeta")

EMPTY: Final[Schema] = {"type": "object", "additionalProperties": False}
"""An object without fields, whose presence is all that matters."""


def root(fields: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """The schema of a kind: `fields` beside apiVersion, kind and metadata."""
    return obj({"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META, **fields}, required)
