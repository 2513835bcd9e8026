"""Static types of expr-lang: what can be said about a value before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from muster.workflows.expressions.values import Function, go_type

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
    """A type by its Go name. `elem` says more about a list's elements than the name does; `function` is the signature
    of a function; `known_nil` is the type of nil itself."""

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
        """The name for a message about the value itself."""
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
        """Of a list or a map."""
        if self.elem is not None:
            return self.elem
        closing = self.name.find("]")
        return named(self.name[closing + 1 :]) if closing > 0 else UNKNOWN

    @property
    def key(self) -> Type:
        return named(self.name[4 : self.name.find("]")]) if self.is_map else UNKNOWN

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


def named(name: str) -> Type:
    return _COMMON.get(name) or Type(name)


def list_of(element: Type) -> Type:
    return replace(ARRAY, elem=element)


def type_of(value: Any) -> Type:
    """The static type that a variable of the environment gets from its value."""
    if value is None:
        return NIL
    if isinstance(value, Function):
        return Type(go_type(value), function=value)
    return named(go_type(value))


UNKNOWN = Type("unknown")
NIL = Type("unknown", known_nil=True)
ANY = Type("interface {}")
BOOL, INT, FLOAT, STRING = Type("bool"), Type("int"), Type("float64"), Type("string")
ARRAY, MAP = Type("[]interface {}"), Type("map[string]interface {}")
TIME, DURATION = Type("time.Time"), Type("time.Duration")
_COMMON = {t.name: t for t in (ANY, BOOL, INT, FLOAT, STRING, ARRAY, MAP, TIME, DURATION)} | {"any": ANY}
