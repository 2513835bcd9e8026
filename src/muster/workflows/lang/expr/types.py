"""The static types of expr-lang: types, signatures of functions, result types of operators and predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Function, go_type

# -- Types

_ANY_NAMES = ("unknown", "interface {}")
_INTEGERS = frozenset(("int", "int64", "uint8"))
_KINDS = {
    "time.Time": "struct",
    "time.Duration": "int64",
    "time.Month": "int",
    "time.Weekday": "int",
    "float64": "float64",
}
_NILLABLE = ("array", "map", "func", "ptr", "interface")


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its Go name.

    `elem` is the type of a list's elements, if it is more precise than the name. `function` is the signature of a
    function. `known_nil` marks the type of nil.
    """

    name: str
    elem: Type | None = None
    function: Function | None = None
    known_nil: bool = False

    @property
    def kind(self) -> str:
        name = self.name
        if name in _KINDS:
            return _KINDS[name]
        if name.startswith("["):
            return "array"
        if name.startswith("map["):
            return "map"
        if name.startswith("func("):
            return "func"
        if name.startswith("*"):
            return "ptr"
        return "interface" if name == "interface {}" else name

    @property
    def label(self) -> str:
        """The name for messages about a value."""
        return "nil" if self.known_nil else self.name

    @property
    def is_unknown(self) -> bool:
        return self.name in _ANY_NAMES and not self.known_nil

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGERS

    @property
    def is_number(self) -> bool:
        return self.name in _INTEGERS or self.name == "float64"

    @property
    def is_array(self) -> bool:
        return self.name.startswith("[")

    @property
    def is_map(self) -> bool:
        return self.name.startswith("map[")

    @property
    def element(self) -> Type:
        """The type of the elements of a list or a map."""
        if self.elem is not None:
            return self.elem
        closing = self.name.find("]")
        return type_named(self.name[closing + 1 :]) if closing > 0 else UNKNOWN

    @property
    def key(self) -> Type:
        return type_named(self.name[4 : self.name.find("]")]) if self.is_map else UNKNOWN

    def assignable_to(self, other: Type) -> bool:
        if self.known_nil:
            return other.kind in _NILLABLE
        if self.name == "unknown" or other.name == "unknown":
            return False
        return other.kind == "interface" or self.name == other.name

    def comparable_to(self, other: Type) -> bool:
        return (
            self.is_unknown
            or other.is_unknown
            or self.known_nil
            or other.known_nil
            or (self.is_number and other.is_number)
            or (self.is_array and other.is_array)
            or self.assignable_to(other)
        )


def type_named(name: str) -> Type:
    return _COMMON.get(name) or Type(name)


def list_of(element: Type) -> Type:
    return replace(ARRAY, elem=element)


def type_of(value: Any) -> Type:
    """Returns the static type that a variable of the environment gets from its value."""
    if value is None:
        return NIL
    if isinstance(value, Function):
        return Type(go_type(value), function=value)
    return type_named(go_type(value))


UNKNOWN = Type("unknown")
NIL = Type("unknown", known_nil=True)
ANY = Type("interface {}")
BOOL, INT, FLOAT, STRING = Type("bool"), Type("int"), Type("float64"), Type("string")
ARRAY, MAP = Type("[]interface {}"), Type("map[string]interface {}")
TIME, DURATION = Type("time.Time"), Type("time.Duration")
_COMMON = {t.name: t for t in (ANY, BOOL, INT, FLOAT, STRING, ARRAY, MAP, TIME, DURATION)} | {"any": ANY}


# -- Signatures of functions

Check: TypeAlias = Callable[[Sequence[Type]], Type]
"""Returns the type of the result for types of arguments. Raises ExpressionError if those do not fit."""


class Signature(NamedTuple):
    parameters: tuple[Type, ...]
    result: Type


class BuiltinFunction(NamedTuple):
    call: Callable[..., Any]
    overloads: tuple[Signature, ...] = ()
    check: Check | None = None


def with_signatures(call: Callable[..., Any], *signatures: str) -> BuiltinFunction:
    """Returns a function with signatures such as `string, int -> bool`, which are tried in that order."""
    return BuiltinFunction(call, tuple(map(_parse_signature, signatures)))


def with_check(call: Callable[..., Any], check: Check) -> BuiltinFunction:
    return BuiltinFunction(call, check=check)


def expect_count(arguments: Sequence[Type], count: int) -> None:
    if len(arguments) != count:
        raise ExpressionError(f"invalid number of arguments (expected {count}, got {len(arguments)})")


def check_kind(kinds: str, message: str, result: Type | None = None) -> Check:
    """Returns a check that the only argument is of one of the kinds or unknown.

    Without a `result`, the type of the result is that of the argument.
    """

    def check(arguments: Sequence[Type]) -> Type:
        expect_count(arguments, 1)
        if not is_of_kind(arguments[0], kinds):
            raise ExpressionError(message.replace("%s", arguments[0].label))
        return result or arguments[0]

    return check


def is_of_kind(argument: Type, kinds: str) -> bool:
    """Returns whether a type is of one of the kinds: number, integer, string, array, map. An unknown type is."""
    if argument.is_unknown:
        return True
    tests = {
        "number": argument.is_number or argument.kind in ("int", "int64"),
        "integer": argument.is_integer or argument.kind in ("int", "int64"),
        "string": argument.name == "string",
        "array": argument.is_array,
        "map": argument.is_map,
    }
    return any(tests[kind] for kind in kinds.split())


def _parse_signature(text: str) -> Signature:
    parameters, _, result = text.partition("->")
    return Signature(
        tuple(type_named(p.strip()) for p in parameters.split(",") if p.strip()), type_named(result.strip())
    )


# -- Result types of operators


def coalesce_types(left: Type, right: Type) -> Type:
    """Returns the type of `left ?? right`."""
    if left.known_nil:
        return right
    return left if right.known_nil or right.assignable_to(left) else UNKNOWN


def _may_be(left: Type, right: Type, *names: str) -> bool:
    """Returns whether one side is unknown, and the other is unknown or has one of the types."""
    if left.is_unknown:
        return right.is_unknown or right.name in names
    return right.is_unknown and left.name in names


_NUMBER_NAMES = ("int", "int64", "uint8", "float64")
_INTEGER_NAMES = ("int", "int64", "uint8")


def _logical_type(left: Type, right: Type) -> Type | None:
    return BOOL if left.name == right.name == "bool" or _may_be(left, right, "bool") else None


def _comparison_type(left: Type, right: Type) -> Type | None:
    same = left.name == right.name and left.name in ("string", "time.Time", "time.Duration")
    if same or (left.is_number and right.is_number):
        return BOOL
    return BOOL if _may_be(left, right, *_NUMBER_NAMES, "string", "time.Time", "time.Duration") else None


def _promoted_type(left: Type, right: Type) -> Type:
    return FLOAT if "float64" in (left.name, right.name) else INT


def _sum_type(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted_type(left, right)
    pairs = {
        ("string", "string"): STRING,
        ("time.Time", "time.Duration"): TIME,
        ("time.Duration", "time.Time"): TIME,
        ("time.Duration", "time.Duration"): DURATION,
    }
    found = pairs.get((left.name, right.name))
    if found is None and _may_be(left, right, *_NUMBER_NAMES, "string", "time.Time", "time.Duration"):
        return UNKNOWN
    return found


def _difference_type(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted_type(left, right)
    pairs = {
        ("time.Time", "time.Time"): DURATION,
        ("time.Time", "time.Duration"): TIME,
        ("time.Duration", "time.Duration"): DURATION,
    }
    found = pairs.get((left.name, right.name))
    return UNKNOWN if found is None and _may_be(left, right, *_NUMBER_NAMES, "time.Time", "time.Duration") else found


def _product_type(left: Type, right: Type) -> Type | None:
    if left.is_number and right.is_number:
        return _promoted_type(left, right)
    if all(side.is_number or side.name == "time.Duration" for side in (left, right)):
        return DURATION
    return UNKNOWN if _may_be(left, right, *_NUMBER_NAMES, "time.Duration") else None


def _quotient_type(left: Type, right: Type) -> Type | None:
    return FLOAT if (left.is_number and right.is_number) or _may_be(left, right, *_NUMBER_NAMES) else None


def _remainder_type(left: Type, right: Type) -> Type | None:
    return INT if (left.is_integer and right.is_integer) or _may_be(left, right, *_INTEGER_NAMES) else None


def _range_type(left: Type, right: Type) -> Type | None:
    return list_of(INT) if _remainder_type(left, right) else None


def _string_test_type(left: Type, right: Type) -> Type | None:
    return BOOL if left.name == right.name == "string" or _may_be(left, right, "string") else None


OPERATOR_TYPES: dict[str, Callable[[Type, Type], Type | None]] = {
    **dict.fromkeys(("or", "||", "and", "&&"), _logical_type),
    **dict.fromkeys(("<", ">", "<=", ">="), _comparison_type),
    **dict.fromkeys(("/", "**", "^"), _quotient_type),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith"), _string_test_type),
    "+": _sum_type,
    "-": _difference_type,
    "*": _product_type,
    "%": _remainder_type,
    "..": _range_type,
}


# -- Result types of functions with a predicate

_GROUPS = type_named("map[interface {}][]interface {}")
_BOOLEAN = frozenset(("all", "none", "any", "one", "filter", "find", "findLast", "findIndex", "findLastIndex", "count"))


def predicate_type(name: str, collection: Type, result: Type) -> Type:
    """Returns the type of `name(collection, predicate)` for the result type of the predicate.

    Raises ExpressionError if the function does not take such a predicate.
    """
    if result.known_nil:
        parameters = "two input" if name == "reduce" else "one input"
        raise ExpressionError(f"predicate should has {parameters} and one output param")
    if name in _BOOLEAN and result.name != "bool" and not result.is_unknown:
        raise ExpressionError(f"predicate should return boolean (got {result.name})")
    match name:
        case "all" | "none" | "any" | "one":
            return BOOL
        case "filter":
            return ARRAY if collection.is_unknown else list_of(collection.element)
        case "map":
            return list_of(result)
        case "count" | "findIndex" | "findLastIndex":
            return INT
        case "find" | "findLast":
            return UNKNOWN if collection.is_unknown else collection.element
        case "groupBy":
            return _GROUPS
        case "sortBy":
            return collection
        case _:
            return result
