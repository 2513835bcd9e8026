"""Structural schemas: builders for our own kinds, and upstream's schemas of the built-in kinds.

A schema is what a CustomResourceDefinition carries: OpenAPI v3 as a plain dictionary. It is read-only once built.
`validate`, `apply_defaults` and `prune` compile it on first use and remember the result by identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from muster.kube.kinds import Schema
from muster.kube.schema_defaults import apply_defaults, prune
from muster.kube.schema_validation import unknown_fields, validate

__all__ = [
    "ANY", "BOOLEAN", "BYTES", "EMPTY", "INT32", "INT64", "INT_OR_STRING", "NUMBER", "OBJECT_META",
    "QUANTITY", "RESOURCES", "SCALAR", "STRING", "STRINGS", "STRING_MAP", "TIME", "apply_defaults", "boolean",
    "integer", "list_of", "map_of", "number", "obj", "of", "prune", "root", "string", "unknown_fields",
    "upstream_schema", "validate",
]  # fmt: skip


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
