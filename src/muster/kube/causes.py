"""How a problem with a field is worded: what Kubernetes says, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import orjson

from muster.kube.errors import Cause

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
TYPE_INVALID = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
NOT_FOUND = "FieldValueNotFound"

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean (true or false)",
}


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, f"Invalid value: {show(value)}: {why}", INVALID)


def required(field: str, why: str = "") -> Cause:
    return Cause(field, f"Required value: {why}" if why else "Required value", REQUIRED)


def forbidden(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", FORBIDDEN)


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, f"Duplicate value: {show(value)}", DUPLICATE)


def not_found(field: str, value: str, there: Iterable[str], what: str) -> Cause:
    """`value` names something that should be among the `what` that are `there`."""
    names = sorted(there)
    near = nearest(value, names)
    if near:
        hint = f'did you mean "{near}"?'
    elif names:
        hint = f"the {what} are {', '.join(show(name) for name in names)}"
    else:
        hint = f"there are no {what}"
    return Cause(field, f"Not found: {show(value)}; {hint}", NOT_FOUND)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    near = nearest(value, [v for v in allowed if isinstance(v, str)]) if isinstance(value, str) else None
    hint = f' (did you mean "{near}"?)' if near else ""
    listed = ", ".join(show(v) for v in allowed)
    return Cause(field, f"Unsupported value: {show(value)}: supported values: {listed}{hint}", NOT_SUPPORTED)


def mistyped(value: Any, wanted: str) -> Cause:
    """`wanted` is a type of OpenAPI, or the words for something else."""
    text = f"expected {_TYPES.get(wanted, wanted)}, got {_described(value)}"
    advice = _advice(value, wanted)
    return Cause("", f"{text}; {advice}" if advice else text, TYPE_INVALID)


def show(value: Any) -> str:
    """A value as it stands in a message: JSON, shortened."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, if one is close."""
    words = list(words)
    same = {_plain(w): w for w in words}.get(_plain(word))
    if same is not None and same != word:
        return same
    near = get_close_matches(word, words, n=1, cutoff=0.7)
    return near[0] if near else None


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _described(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {show(value)}"
    if isinstance(value, int | float):
        return f"the number {show(value)}"
    if isinstance(value, str):
        return f"a string {show(value)}"
    if isinstance(value, list):
        return f"a list {show(value)}" if len(value) == 1 else f"a list of {len(value)} items"
    return f"an object with {', '.join([str(key) for key in value][:3])}" if value else "an empty object"


def _advice(value: Any, wanted: str) -> str:
    scalar = isinstance(value, str | int | float)
    if wanted == "array":
        if scalar:
            return f'write it as "- {value if isinstance(value, str) else show(value)}"'
        return 'put "- " before its first field' if isinstance(value, dict) and value else ""
    if wanted == "string" and scalar:
        return f'put it in quotes: "{show(value)}"'
    if wanted in ("integer", "number") and isinstance(value, str) and _is_number(value, wanted):
        return f"write it without quotes: {value}"
    if wanted == "boolean" and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off"):
        return f"write it without quotes: {'true' if value.lower() in ('true', 'yes', 'on') else 'false'}"
    if wanted == "a string, a number or a boolean" and isinstance(value, list | dict):
        return f"write it as JSON in quotes: '{show(value)}'"
    if wanted in ("object", "string") and isinstance(value, list) and len(value) == 1:
        return 'leave out the "- " before it'
    return ""


def _is_number(text: str, wanted: str) -> bool:
    try:
        (int if wanted == "integer" else float)(text)
    except ValueError:
        return False
    return True
