"""sprig's functions on numbers, in 64 bits or in decimals, and its random numbers and strings."""

from __future__ import annotations

import base64
import math
import string
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import (
    divide,
    parse_clamped_int,
    parse_int,
    power,
    quotient,
    remainder,
    wrap_int64,
)
from muster.workflows.lang.go_values import Int64, Ints, format_value
from muster.workflows.lang.limits import check_count, check_length
from muster.workflows.lang.sprig.arguments import function_table, to_float64, to_int64

# -- Arithmetic

_EXACT = Context(prec=2000)
_ROUNDED = Context(prec=2000, rounding=ROUND_HALF_UP)
_DIVISION_PLACES = Decimal(1).scaleb(-16)


def _fold(function: Callable[[int, int], int]) -> Callable[..., Int64]:
    def call(first: Any, *rest: Any) -> Int64:
        total = to_int64(first)
        for value in rest:
            total = wrap_int64(function(total, to_int64(value)))
        return Int64(total)

    return call


def _add(*values: Any) -> Int64:
    return Int64(wrap_int64(sum(map(to_int64, values))))


def _divide(a: Any, b: Any, function: Callable[[int, int], int]) -> Int64:
    if to_int64(b) == 0:
        raise ExpressionError("runtime error: integer divide by zero")
    return Int64(function(to_int64(a), to_int64(b)))


def _fold_decimals(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[..., float]:
    def call(first: Any, *rest: Any) -> float:
        total = _decimal(first)
        for value in rest:
            total = function(total, _decimal(value))
        return float(total) + 0.0

    return call


def _decimal(value: Any) -> Decimal:
    found = to_float64(value)
    if not math.isfinite(found):
        raise ExpressionError(f"Cannot create a Decimal from {format_value(found)}")
    return Decimal(repr(found))


def _divide_decimals(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise ExpressionError("decimal division by 0")
    return _ROUNDED.quantize(_ROUNDED.divide(a, b), _DIVISION_PLACES)


def _max_float(first: Any, *rest: Any) -> float:
    values = [to_float64(first), *map(to_float64, rest)]
    return math.nan if any(map(math.isnan, values)) else max(values)


def _min_float(first: Any, *rest: Any) -> float:
    values = [to_float64(first), *map(to_float64, rest)]
    return math.nan if any(map(math.isnan, values)) else min(values)


def _round(value: Any, places: int, *border: float) -> float:
    """Rounds to some decimal places; a fraction of at least `border`, normally a half, is rounded up."""
    scale = power(10.0, float(places))
    scaled = scale * to_float64(value)
    if not math.isfinite(scaled):
        return divide(scaled, scale)
    fraction = math.modf(scaled)[0]
    up = fraction >= (border[0] if border else 0.5)
    return divide(float(math.ceil(scaled) if up else math.floor(scaled)), scale)


def _whole(function: Callable[[float], int]) -> Callable[[Any], float]:
    def call(value: Any) -> float:
        found = to_float64(value)
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
    digits = format_value(value)
    if not digits.lstrip("+-").isascii() or parse_int(digits) is None or set(digits) & set("89"):
        return Int64(0)
    return Int64(wrap_int64(int(digits, 8)))


NUMBER_FUNCTIONS = function_table(
    ("atoi", "string", parse_clamped_int),
    ("int64", "any", lambda value: Int64(to_int64(value))),
    ("int", "any", to_int64),
    ("float64", "any", to_float64),
    ("toDecimal", "any", _octal),
    ("add1", "any", lambda value: Int64(wrap_int64(to_int64(value) + 1))),
    ("add", "...any", _add),
    ("sub", "any, any", _fold(lambda a, b: a - b)),
    ("mul", "any, ...any", _fold(lambda a, b: a * b)),
    ("div", "any, any", lambda a, b: _divide(a, b, quotient)),
    ("mod", "any, any", lambda a, b: _divide(a, b, remainder)),
    ("max biggest", "any, ...any", _fold(max)),
    ("min", "any, ...any", _fold(min)),
    ("add1f", "any", lambda value: _fold_decimals(_EXACT.add)(value, 1)),
    ("addf", "...any", lambda *values: _fold_decimals(_EXACT.add)(0.0, *values)),
    ("subf", "any, ...any", _fold_decimals(_EXACT.subtract)),
    ("mulf", "any, ...any", _fold_decimals(_EXACT.multiply)),
    ("divf", "any, ...any", _fold_decimals(_divide_decimals)),
    ("maxf", "any, ...any", _max_float),
    ("minf", "any, ...any", _min_float),
    ("ceil", "any", _whole(math.ceil)),
    ("floor", "any", _whole(math.floor)),
    ("round", "any, int, ...float64", _round),
    ("until", "int", lambda count: _until_step(0, count, -1 if count < 0 else 1)),
    ("untilStep", "int, int, int", _until_step),
    ("seq", "...int", _seq),
)


# -- Random numbers and strings

_PRINTABLE = "".join(map(chr, range(32, 127)))


def _random_characters(alphabet: str) -> Callable[[Clock, int], str]:
    def call(clock: Clock, count: int) -> str:
        return "".join(clock.random.choice(alphabet) for _ in range(max(check_length(count), 0)))

    return call


def _random_integer(clock: Clock, low: int, high: int) -> int:
    if high <= low:
        raise ExpressionError("invalid argument to Intn")
    return clock.random.randrange(low, high)


def _shuffle(clock: Clock, text: str) -> str:
    letters = list(text)
    clock.random.shuffle(letters)
    return "".join(letters)


def _random_bytes(clock: Clock, count: int) -> str:
    if count < 0:
        raise ExpressionError("runtime error: makeslice: len out of range")
    return base64.b64encode(clock.random.randbytes(check_length(count))).decode()


RANDOM_FUNCTIONS = function_table(
    ("randAlphaNum", "int", _random_characters(string.ascii_letters + string.digits)),
    ("randAlpha", "int", _random_characters(string.ascii_letters)),
    ("randNumeric", "int", _random_characters(string.digits)),
    ("randAscii", "int", _random_characters(_PRINTABLE)),
    ("randBytes", "int", _random_bytes),
    ("randInt", "int, int", _random_integer),
    ("shuffle", "string", _shuffle),
    ("uuidv4", "", lambda clock: str(uuid.UUID(bytes=clock.random.randbytes(16), version=4))),
    takes_clock=True,
)
