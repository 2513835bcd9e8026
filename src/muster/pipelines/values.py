"""Values of parameters: JSON with a declared type.

Numbers of the IR are doubles. A whole one is kept as an integer, because a component whose argument is an `int` has to
receive `1`, not `1.0`.
"""

from __future__ import annotations

import json
import math
from typing import Any

from muster.kube.errors import format_value, type_mismatch
from muster.pipelines.model import ParameterType

DEEPEST_VALUE = 200
"""How deeply lists and objects may be nested, as in a manifest."""
_EXPECTED = {
    "NUMBER_DOUBLE": "a number",
    "NUMBER_INTEGER": "an integer",
    "STRING": "a string",
    "BOOLEAN": "true or false",
    "LIST": "a list",
    "STRUCT": "an object",
}


class ValueTypeError(ValueError):
    """A value does not have the declared type."""


def check_type(value: Any, wanted: ParameterType) -> None:
    """Checks a value that a user gave for a run: nothing is converted. Raises ValueTypeError."""
    whole_numbers(value)
    if wanted not in _EXPECTED or _is_of_type(value, wanted):
        return
    openapi = {"STRING": "string", "NUMBER_INTEGER": "integer", "NUMBER_DOUBLE": "number", "BOOLEAN": "boolean"}
    raise ValueTypeError(type_mismatch(value, openapi.get(wanted, _EXPECTED[wanted])).message)


def convert(value: Any, wanted: ParameterType) -> Any:
    """Returns a value as an input of this type takes it.

    A STRING takes anything, as JSON text. Any other type takes text that is JSON of this type, because outputs of
    loops and JSON texts are typed STRING by the SDK. Raises ValueTypeError.
    """
    value = whole_numbers(value)
    if wanted == "STRING":
        return value if isinstance(value, str) else to_text(value)
    if wanted not in _EXPECTED or _is_of_type(value, wanted):
        return value
    if isinstance(value, str):
        try:
            return parse_text(value, wanted)
        except ValueTypeError:
            pass
    raise ValueTypeError(f"expected {_EXPECTED[wanted]}, got {format_value(value)}")


def parse_text(text: str, wanted: ParameterType) -> Any:
    """Returns the value of a text, such as the file of an output parameter. Raises ValueTypeError."""
    if wanted in ("STRING", "PARAMETER_TYPE_ENUM_UNSPECIFIED"):
        return check_text(text)
    if wanted == "BOOLEAN" and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    try:
        value = whole_numbers(json.loads(text, parse_constant=_reject_constant))
    except ValueTypeError:
        raise
    except (ValueError, RecursionError):
        value = text
    if wanted in _EXPECTED and not _is_of_type(value, wanted):
        raise ValueTypeError(f"expected {_EXPECTED[wanted]}, got {format_value(text)}")
    return value


def to_text(value: Any) -> str:
    """Returns a value as a container sees it: text as it is, everything else as JSON, numbers without exponents."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return _plain_number(value)
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def whole_numbers(value: Any, depth: int = 0) -> Any:
    """Returns the value with every whole double as an integer, and every integer of more than 64 bits as a double.
    Raises ValueTypeError for what cannot be stored: a value that is nested too deeply, and text that is not Unicode."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _as_double(value)
    if depth > DEEPEST_VALUE:
        raise ValueTypeError(f"the value is nested more than {DEEPEST_VALUE} levels deep")
    if isinstance(value, str):
        return check_text(value)
    if isinstance(value, dict):
        return {check_text(str(name)): whole_numbers(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner, depth + 1) for inner in value]
    return value


def check_text(text: str) -> str:
    """Returns the text. Raises ValueTypeError for one that no database stores: JSON allows to write half of a
    character, and NUL."""
    if "\0" in text:
        raise ValueTypeError(f"the text has a NUL character: {format_value(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueTypeError("the text has half of a character (a surrogate), such as \\ud800") from None
    return text


def _as_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueTypeError("the number is too large") from None


def _is_of_type(value: Any, wanted: str) -> bool:
    match wanted:
        case "NUMBER_DOUBLE":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "NUMBER_INTEGER":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "STRING":
            return isinstance(value, str)
        case "BOOLEAN":
            return isinstance(value, bool)
        case "LIST":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _plain_number(value: float) -> str:
    text = repr(value)
    if "e" not in text and "E" not in text:
        return text
    return format(value, "f") if abs(value) >= 1 else format(value, ".20f").rstrip("0")


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
