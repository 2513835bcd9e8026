"""Types of operators: what comes out of two operands, or None where the operator takes no such operands."""

from __future__ import annotations

from collections.abc import Callable

from muster.workflows.expressions.gotypes import BOOL, DURATION, FLOAT, INT, STRING, TIME, UNKNOWN, Type, list_of


def coalesced(left: Type, right: Type) -> Type:
    """The type of `left ?? right`."""
    if left.known_nil:
        return right
    return left if right.known_nil or right.assignable_to(left) else UNKNOWN


def _maybe(left: Type, right: Type, *names: str) -> bool:
    """Whether one side is unknown and the other is, too, or has one of the types."""
    if left.is_unknown:
        return right.is_unknown or right.name in names
    return right.is_unknown and left.name in names


_NUMBERS = ("int", "int64", "uint8", "float64")
_INTEGERS = ("int", "int64", "uint8")


def _logical(left: Type, right: Type) -> Type | None:
    return BOOL if left.name == right.name == "bool" or _maybe(left, right, "bool") else None


def _ordered(left: Type, right: Type) -> Type | None:
    same = left.name == right.name and left.name in ("string", "time.Time", "time.Duration")
    if same or (left.is_number and right.is_number):
        return BOOL
    return BOOL if _maybe(left, right, *_NUMBERS, "string", "time.Time", "time.Duration") else None


def _promoted(left: Type, right: Type) -> Type:
    return FLOAT if "float64" in (left.name, right.name) else INT


def _added(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted(left, right)
    pairs = {
        ("string", "string"): STRING,
        ("time.Time", "time.Duration"): TIME,
        ("time.Duration", "time.Time"): TIME,
        ("time.Duration", "time.Duration"): DURATION,
    }
    found = pairs.get((left.name, right.name))
    if found is None and _maybe(left, right, *_NUMBERS, "string", "time.Time", "time.Duration"):
        return UNKNOWN
    return found


def _subtracted(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted(left, right)
    pairs = {
        ("time.Time", "time.Time"): DURATION,
        ("time.Time", "time.Duration"): TIME,
        ("time.Duration", "time.Duration"): DURATION,
    }
    found = pairs.get((left.name, right.name))
    return UNKNOWN if found is None and _maybe(left, right, *_NUMBERS, "time.Time", "time.Duration") else found


def _multiplied(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted(left, right)
    if all(side.is_number or side.name == "time.Duration" for side in (left, right)):
        return DURATION
    return UNKNOWN if _maybe(left, right, *_NUMBERS, "time.Duration") else None


def _divided(left: Type, right: Type) -> Type | None:
    return FLOAT if (left.is_number and right.is_number) or _maybe(left, right, *_NUMBERS) else None


def _modulo(left: Type, right: Type) -> Type | None:
    return INT if (left.is_integer and right.is_integer) or _maybe(left, right, *_INTEGERS) else None


def _ranged(left: Type, right: Type) -> Type | None:
    return list_of(INT) if _modulo(left, right) else None


def _textual(left: Type, right: Type) -> Type | None:
    return BOOL if left.name == right.name == "string" or _maybe(left, right, "string") else None


OPERATIONS: dict[str, Callable[[Type, Type], Type | None]] = {
    **dict.fromkeys(("or", "||", "and", "&&"), _logical),
    **dict.fromkeys(("<", ">", "<=", ">="), _ordered),
    **dict.fromkeys(("/", "**", "^"), _divided),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith"), _textual),
    "+": _added,
    "-": _subtracted,
    "*": _multiplied,
    "%": _modulo,
    "..": _ranged,
}
