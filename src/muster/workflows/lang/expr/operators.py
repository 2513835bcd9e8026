"""What the operators of expr-lang do with values. The evaluator adds the position to the errors raised here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cmp_to_key
from typing import Any, NoReturn

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import divide, power, remainder, to_int, wrap_int64
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.lang.go_time_values import Duration, Time
from muster.workflows.lang.go_values import (
    Byte,
    Groups,
    Ints,
    NilList,
    NilStrings,
    Opaque,
    StringMap,
    Strings,
    byte_length,
    deep_equal,
    format_value,
    go_type,
    is_integer,
    is_nil,
    is_number,
    slice_bytes,
)
from muster.workflows.lang.limits import check_length

_LISTS = (list, NilList, Strings, NilStrings, Ints)


def equal(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return float(a) == float(b) if float in (type(a), type(b)) else int(a) == int(b)
    if type(a) in _LISTS and type(b) in _LISTS:
        return len(a) == len(b) and all(map(equal, a, b))
    if is_nil(a) and is_nil(b):
        return True
    return deep_equal(a, b)


def less(a: Any, b: Any) -> bool:
    return _compare("<", a, b) < 0


def compare(operator: str, a: Any, b: Any) -> bool:
    order = _compare(operator, a, b)
    match operator:
        case "<":
            return order < 0
        case ">":
            return order == 1
        case "<=":
            return order <= 0
        case _:
            return order in (0, 1)


def _compare(operator: str, a: Any, b: Any) -> int:
    """Returns -1, 0 or 1, or 2 for numbers that cannot be compared."""
    if is_number(a) and is_number(b):
        x, y = (float(a), float(b)) if float in (type(a), type(b)) else (int(a), int(b))
        return -1 if x < y else 0 if x == y else 1 if x > y else 2
    if isinstance(a, Time) and isinstance(b, Time):
        return (a.nanoseconds > b.nanoseconds) - (a.nanoseconds < b.nanoseconds)
    if type(a) is type(b) and type(a) in (str, Duration):
        return int(a > b) - int(a < b)
    return mismatch_error(operator, a, b)


def mismatch_error(operator: str, a: Any, b: Any) -> NoReturn:
    raise ExpressionError(f"invalid operation: {go_type(a)} {operator} {go_type(b)}")


def add(a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b):
        return float(a) + float(b) if float in (type(a), type(b)) else wrap_int64(int(a) + int(b))
    if type(a) is str and type(b) is str:
        check_length(len(a) + len(b))
        return a + b
    if isinstance(b, Duration) and isinstance(a, Duration | Time):
        return a.plus(b) if isinstance(a, Time) else Duration(wrap_int64(int(a) + int(b)))
    if isinstance(a, Duration) and isinstance(b, Time):
        return b.plus(a)
    return mismatch_error("+", a, b)


def subtract(a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b):
        return float(a) - float(b) if float in (type(a), type(b)) else wrap_int64(int(a) - int(b))
    if isinstance(a, Time) and isinstance(b, Time):
        return a.minus(b)
    if isinstance(b, Duration) and isinstance(a, Duration | Time):
        return a.plus(-int(b)) if isinstance(a, Time) else Duration(wrap_int64(int(a) - int(b)))
    return mismatch_error("-", a, b)


def multiply(a: Any, b: Any) -> Any:
    if not all(is_number(x) or isinstance(x, Duration) for x in (a, b)):
        mismatch_error("*", a, b)
    if float in (type(a), type(b)):
        return float(a) * float(b)
    product = wrap_int64(int(a) * int(b))
    return Duration(product) if isinstance(a, Duration) or isinstance(b, Duration) else product


def arithmetic(operator: str, a: Any, b: Any) -> Any:
    """Applies an operator to two numbers, or to strings, times and durations where they have it."""
    match operator:
        case "+":
            return add(a, b)
        case "-":
            return subtract(a, b)
        case "*":
            return multiply(a, b)
        case "/":
            if not (is_number(a) and is_number(b)):
                mismatch_error("/", a, b)
            return divide(float(a), float(b))
        case "%":
            if not (is_integer(a) and is_integer(b)):
                mismatch_error("%", a, b)
            if b == 0:
                raise ExpressionError("runtime error: integer divide by zero")
            return remainder(int(a), int(b))
        case _:
            return power(as_float(a), as_float(b))


def negate(value: Any) -> Any:
    if not is_number(value):
        raise ExpressionError(f"invalid operation: - {go_type(value)}")
    return -value if type(value) is float else wrap_int64(-int(value))


def match_strings(operator: str, a: Any, b: Any) -> bool:
    """Applies `contains`, `startsWith`, `endsWith` or `matches`. The result is false for nil."""
    if is_nil(a) or is_nil(b):
        return False
    if operator == "matches":
        pattern = as_string(b)
        return compile_regex(pattern).matches(as_string(a, "[]uint8"))
    text, part = as_string(a), as_string(b)
    if operator == "contains":
        return part in text
    return text.startswith(part) if operator == "startsWith" else text.endswith(part)


def is_in(needle: Any, haystack: Any) -> bool:
    if haystack is None:
        return False
    if isinstance(haystack, list):
        return any(equal(value, needle) for value in haystack)
    if isinstance(haystack, Mapping):
        return _key(needle, haystack) in haystack
    if isinstance(haystack, Opaque):
        if type(needle) is not str:
            raise ExpressionError(f"cannot use {go_type(needle)} as field name of {go_type(haystack)}")
        return False
    raise ExpressionError(f'operator "in" not defined on {go_type(haystack)}')


def fetch(base: Any, key: Any) -> Any:
    """Returns `base.key` or `base[key]`."""
    if isinstance(base, Mapping):
        if (key if type(key) is str else _key(key, base)) in base:
            return base["" if key is None else key]
        return _ABSENT.get(type(base), lambda: None)()
    if isinstance(base, Opaque) and type(key) is str:
        method = base.method(key)
        if method is not None:
            return method
    elif isinstance(base, list | str):
        return _element(base, key)
    raise ExpressionError(f"cannot fetch {format_value(key)} from {go_type(base)}")


def slice_value(base: Any, start: Any, stop: Any) -> Any:
    """Returns `base[start:stop]`. Negative indexes count from the end; indexes out of range are clamped."""
    if not isinstance(base, list | str):
        raise ExpressionError(f"cannot slice {format_value(start)}")
    length = byte_length(base) if isinstance(base, str) else len(base)
    first, last = as_int(start), as_int(stop)
    first = max(length + first if first < 0 else first, 0)
    last = min(max(length + last if last < 0 else last, 0), length)
    first = min(first, last)
    return slice_bytes(base, first, last) if isinstance(base, str) else type(base)(base[first:last])


def sort_by_keys(values: list[Any], keys: list[Any], descending: bool) -> list[Any]:
    """Returns the values in the order of their keys."""

    def order(a: int, b: int) -> int:
        x, y = (keys[b], keys[a]) if descending else (keys[a], keys[b])
        return -1 if less(x, y) else 1 if less(y, x) else 0

    return [values[at] for at in sorted(range(len(values)), key=cmp_to_key(order))]


def as_string(value: Any, otherwise: str = "string") -> str:
    if type(value) is not str:
        raise ExpressionError(f"interface conversion: interface {{}} is {_held(value)}, not {otherwise}")
    return value


def as_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ExpressionError(f"interface conversion: interface {{}} is {_held(value)}, not bool")
    return value


def as_int(value: Any) -> int:
    if type(value) is float:
        return to_int(value)
    if not is_integer(value):
        raise ExpressionError(f"invalid operation: int({go_type(value)})")
    return int(value)


def as_float(value: Any) -> float:
    if not is_number(value):
        raise ExpressionError(f"invalid operation: float({go_type(value)})")
    return float(value)


_ABSENT: dict[type, Any] = {StringMap: str, Groups: NilList}


def _held(value: Any) -> str:
    return "nil" if value is None else go_type(value)


def _key(key: Any, base: Mapping[Any, Any]) -> Any:
    if key is None:
        return ""
    if type(key) is not str and go_type(base).startswith("map[string]"):
        raise ExpressionError(f"reflect.Value.MapIndex: value of type {go_type(key)} is not assignable to type string")
    if isinstance(key, list | dict):
        raise ExpressionError(f"runtime error: hash of unhashable type {go_type(key)}")
    return key


def _element(base: list[Any] | str, key: Any) -> Any:
    at = as_int(key)
    length = len(base) if isinstance(base, list) else byte_length(base)
    index = length + at if at < 0 else at
    if not 0 <= index < length:
        raise ExpressionError(f"index out of range: {index} (array length is {length})")
    return base[index] if isinstance(base, list) else Byte(base.encode("utf-8", "surrogateescape")[index])
