"""Functions of expr-lang on numbers and bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import less
from muster.workflows.lang.expr.types import ANY, FLOAT, INT, BuiltinFunction, Type, checked, one_of, typed
from muster.workflows.lang.go_numbers import divide, parse_float, parse_int, to_int, wrap
from muster.workflows.lang.go_time_values import Duration, Month, Weekday
from muster.workflows.lang.go_values import go_type, is_integer, is_number


def to_integer(value: Any) -> int:
    """`int(value)`, which Argo also calls `asInt`."""
    if type(value) is float:
        return to_int(value)
    if is_integer(value) or isinstance(value, Duration | Month | Weekday):
        return int(value)
    number = parse_int(value) if type(value) is str else None
    if number is None:
        raise ExpressionError(f"invalid operation: int({value if type(value) is str else go_type(value)})")
    return number


def to_float(value: Any) -> float:
    """`float(value)`, which Argo also calls `asFloat`."""
    if is_number(value):
        return float(value)
    number = parse_float(value) if type(value) is str else None
    if number is None:
        raise ExpressionError(f"invalid operation: float({value if type(value) is str else go_type(value)})")
    return number


def _abs(value: Any) -> Any:
    _expect_number("abs", value)
    return abs(value) if type(value) is float else type(value)(wrap(abs(value)))


def _rounding(name: str, function: Callable[[float], float]) -> BuiltinFunction:
    def call(value: Any) -> float:
        _expect_number(name, value)
        number = float(value)
        return number if is_integer(value) or not math.isfinite(number) else math.copysign(function(number), number)

    return checked(call, one_of("number", f"invalid argument for {name} (type %s)", FLOAT))


def _away_from_zero(number: float) -> float:
    whole = math.floor(abs(number))
    return float(whole + (abs(number) - whole >= 0.5))


def _expect_number(name: str, value: Any) -> None:
    if not is_number(value):
        raise ExpressionError(f"invalid argument for {name} (type {go_type(value)})")


def _flat(name: str, values: Sequence[Any]) -> list[Any]:
    """The numbers in nested lists."""
    numbers: list[Any] = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            _expect_number(name, value)
            numbers.append(value)
    return numbers


def _extreme(name: str, better: Callable[[Any, Any], bool]) -> BuiltinFunction:
    def call(*values: Any) -> Any:
        if len(values) == 1 and not isinstance(values[0], list):
            return values[0]
        best: Any = None
        for value in _flat(name, values):
            if best is None or better(value, best):
                best = value
        return best

    return checked(call, _aggregate(name))


def _mean(*values: Any) -> float:
    numbers = [float(n) for n in _flat("mean", values)]
    total = 0.0
    for number in numbers:
        total += number
    return divide(total, len(numbers)) if numbers else 0.0


def _median(*values: Any) -> float:
    numbers = sorted(float(n) for n in _flat("median", values))
    middle = len(numbers) // 2
    if not numbers:
        return 0.0
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _aggregate(name: str) -> Callable[[Sequence[Type]], Type]:
    def check(arguments: Sequence[Type]) -> Type:
        if not arguments:
            raise ExpressionError(f"not enough arguments to call {name}")
        for argument in arguments:
            if argument.is_unknown or argument.is_array:
                return ANY
            if not argument.is_number and argument.kind not in ("int", "int64"):
                raise ExpressionError(f"invalid argument for {name} (type {argument.label})")
        return arguments[0]

    return check


def _bits(name: str, function: Callable[[int, int], int]) -> BuiltinFunction:
    def call(a: Any, b: Any) -> int:
        for value in (a, b):
            if not is_integer(value):
                raise ExpressionError(f"cannot use {go_type(value)} as argument (type int) to call {name}")
        if name in ("bitshl", "bitshr", "bitushr") and b < 0:
            raise ExpressionError(f"invalid operation: negative shift count {int(b)} (type int)")
        return wrap(function(int(a), int(b)))

    return typed(call, "int, int -> int")


def _not(value: Any) -> int:
    if not is_integer(value):
        raise ExpressionError(f"cannot use {go_type(value)} as argument (type int) to call bitnot")
    return ~int(value)


FUNCTIONS: dict[str, BuiltinFunction] = {
    "abs": checked(_abs, one_of("number", "invalid argument for abs (type %s)")),
    "ceil": _rounding("ceil", math.ceil),
    "floor": _rounding("floor", math.floor),
    "round": _rounding("round", _away_from_zero),
    "int": checked(to_integer, one_of("number string", "invalid argument for int (type %s)", INT)),
    "float": checked(to_float, one_of("number string", "invalid argument for float (type %s)", FLOAT)),
    "max": _extreme("max", lambda value, best: less(best, value)),
    "min": _extreme("min", lambda value, best: less(value, best)),
    "mean": checked(_mean, _aggregate("mean")),
    "median": checked(_median, _aggregate("median")),
    "bitand": _bits("bitand", lambda a, b: a & b),
    "bitor": _bits("bitor", lambda a, b: a | b),
    "bitxor": _bits("bitxor", lambda a, b: a ^ b),
    "bitnand": _bits("bitnand", lambda a, b: a & ~b),
    "bitshl": _bits("bitshl", lambda a, b: a << b if b < 64 else 0),
    "bitshr": _bits("bitshr", lambda a, b: a >> b),
    "bitushr": _bits("bitushr", lambda a, b: (a % 2**64) >> b),
    "bitnot": typed(_not, "int -> int"),
}
