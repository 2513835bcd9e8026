"""Functions of the language with the types they take and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotypes import Type, named

Check: TypeAlias = Callable[[Sequence[Type]], Type]
"""The type of the result for types of arguments; raises ExpressionError when those will not do."""


class Signature(NamedTuple):
    parameters: tuple[Type, ...]
    result: Type


class BuiltinFunction(NamedTuple):
    call: Callable[..., Any]
    overloads: tuple[Signature, ...] = ()
    check: Check | None = None


def typed(call: Callable[..., Any], *signatures: str) -> BuiltinFunction:
    """A function with signatures such as `string, int -> bool`, tried in that order."""
    return BuiltinFunction(call, tuple(map(_signature, signatures)))


def checked(call: Callable[..., Any], check: Check) -> BuiltinFunction:
    return BuiltinFunction(call, check=check)


def expect_count(arguments: Sequence[Type], count: int) -> None:
    if len(arguments) != count:
        raise ExpressionError(f"invalid number of arguments (expected {count}, got {len(arguments)})")


def one_of(kinds: str, message: str, result: Type | None = None) -> Check:
    """A check that the one argument is of some kinds (or unknown). Without a result, that is the argument's type."""

    def check(arguments: Sequence[Type]) -> Type:
        expect_count(arguments, 1)
        if not fits(arguments[0], kinds):
            raise ExpressionError(message.replace("%s", arguments[0].label))
        return result or arguments[0]

    return check


def fits(argument: Type, kinds: str) -> bool:
    """Whether a type is of one of the kinds: number, integer, string, array, map. Unknown fits anything."""
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


def _signature(text: str) -> Signature:
    parameters, _, result = text.partition("->")
    return Signature(tuple(named(p.strip()) for p in parameters.split(",") if p.strip()), named(result.strip()))
