"""Functions of expr-lang that turn values into others: text, JSON, base64."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.expr.operators import as_string
from muster.workflows.lang.expr.types import BuiltinFunction, typed
from muster.workflows.lang.go_encoding import decode64, encode64, from_json, to_json
from muster.workflows.lang.go_values import go_type, shown

_NAMES = {"int64": "int", "uint8": "uint", "float64": "float"}


def type_name(value: Any) -> str:
    """`type(value)`: nil, bool, int, uint, float, string, array, map, func, or the name of a Go type."""
    name = go_type(value)
    if value is None:
        return "nil"
    if name.startswith("["):
        return "array"
    if name.startswith("map["):
        return "map"
    if name.startswith("func("):
        return "func"
    return _NAMES.get(name, name)


FUNCTIONS: dict[str, BuiltinFunction] = {
    "type": typed(type_name, "any -> string"),
    "string": typed(shown, "any -> string"),
    "toJSON": typed(lambda value: to_json(value, indent="  "), "any -> string"),
    "fromJSON": typed(lambda text: from_json(as_string(text)), "string -> any"),
    "toBase64": typed(lambda text: encode64(as_string(text)), "string -> string"),
    "fromBase64": typed(lambda text: decode64(as_string(text)), "string -> string"),
}
