"""sprig: arithmetic that reads numbers out of anything, in 64 bits or in decimals."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import divide, parse_clamped_int, parse_int, power, quotient, remainder, wrap
from muster.workflows.lang.go_values import Int64, Ints, shown
from muster.workflows.lang.limits import check_count
from muster.workflows.lang.sprig.sprig_functions import function_table, integer, number

_EXACT = Context(prec=2000)
_ROUNDED = Context(prec=2000, rounding=ROUND_HALF_UP)
_DIVISION_PLACES = Decimal(1).scaleb(-16)


def _folded(function: Callable[[int, int], int]) -> Callable[..., Int64]:
    def call(first: Any, *rest: Any) -> Int64:
        total = integer(first)
        for value in rest:
            total = wrap(function(total, integer(value)))
        return Int64(total)

    return call


def _add(*values: Any) -> Int64:
    return Int64(wrap(sum(map(integer, values))))


def _divided(a: Any, b: Any, function: Callable[[int, int], int]) -> Int64:
    if integer(b) == 0:
        raise ExpressionError("runtime error: integer divide by zero")
    return Int64(function(integer(a), integer(b)))


def _decimals(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[..., float]:
    def call(first: Any, *rest: Any) -> float:
        total = _decimal(first)
        for value in rest:
            total = function(total, _decimal(value))
        return float(total) + 0.0

    return call


def _decimal(value: Any) -> Decimal:
    found = number(value)
    if not math.isfinite(found):
        raise ExpressionError(f"Cannot create a Decimal from {shown(found)}")
    return Decimal(repr(found))


def _divide_decimals(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise ExpressionError("decimal division by 0")
    return _ROUNDED.quantize(_ROUNDED.divide(a, b), _DIVISION_PLACES)


def _max_float(first: Any, *rest: Any) -> float:
    values = [number(first), *map(number, rest)]
    return math.nan if any(map(math.isnan, values)) else max(values)


def _min_float(first: Any, *rest: Any) -> float:
    values = [number(first), *map(number, rest)]
    return math.nan if any(map(math.isnan, values)) else min(values)


def _round(value: Any, places: int, *border: float) -> float:
    """To some decimal places; a fraction of at least `border`, normally a half, goes up."""
    scale = power(10.0, float(places))
    scaled = scale * number(value)
    if not math.isfinite(scaled):
        return divide(scaled, scale)
    fraction = math.modf(scaled)[0]
    up = fraction >= (border[0] if border else 0.5)
    return divide(float(math.ceil(scaled) if up else math.floor(scaled)), scale)


def _whole(function: Callable[[float], int]) -> Callable[[Any], float]:
    def call(value: Any) -> float:
        found = number(value)
        return float(function(found)) if math.isfinite(found) else found

    return call


def _until_step(start: int, stop: int, step: int) -> Ints:
    if step == 0 or (stop < start) != (step < 0):
        return Ints()
    check_count(abs(stop - start) // abs(step) + 1)
    return Ints(range(start, stop, step))


def _seq(*numbers: int) -> str:
    match numbers:
        case (end,):
            start, step = 1, 1 if end >= 1 else -1
        case (start, end):
            step = 1 if end >= start else -1
        case (start, step, end):
            if end < start and step > 0:
                return ""
        case _:
            return ""
    past = 1 if end >= start else -1
    return " ".join(map(str, _until_step(start, end + past, step)))


def _octal(value: Any) -> Int64:
    digits = shown(value)
    if not digits.lstrip("+-").isascii() or parse_int(digits) is None or set(digits) & set("89"):
        return Int64(0)
    return Int64(wrap(int(digits, 8)))


FUNCTIONS = function_table(
    ("atoi", "string", parse_clamped_int),
    ("int64", "any", lambda value: Int64(integer(value))),
    ("int", "any", integer),
    ("float64", "any", number),
    ("toDecimal", "any", _octal),
    ("add1", "any", lambda value: Int64(wrap(integer(value) + 1))),
    ("add", "...any", _add),
    ("sub", "any, any", _folded(lambda a, b: a - b)),
    ("mul", "any, ...any", _folded(lambda a, b: a * b)),
    ("div", "any, any", lambda a, b: _divided(a, b, quotient)),
    ("mod", "any, any", lambda a, b: _divided(a, b, remainder)),
    ("max biggest", "any, ...any", _folded(max)),
    ("min", "any, ...any", _folded(min)),
    ("add1f", "any", lambda value: _decimals(_EXACT.add)(value, 1)),
    ("addf", "...any", lambda *values: _decimals(_EXACT.add)(0.0, *values)),
    ("subf", "any, ...any", _decimals(_EXACT.subtract)),
    ("mulf", "any, ...any", _decimals(_EXACT.multiply)),
    ("divf", "any, ...any", _decimals(_divide_decimals)),
    ("maxf", "any, ...any", _max_float),
    ("minf", "any, ...any", _min_float),
    ("ceil", "any", _whole(math.ceil)),
    ("floor", "any", _whole(math.floor)),
    ("round", "any, int, ...float64", _round),
    ("until", "int", lambda count: _until_step(0, count, -1 if count < 0 else 1)),
    ("untilStep", "int, int, int", _until_step),
    ("seq", "...int", _seq),
)
