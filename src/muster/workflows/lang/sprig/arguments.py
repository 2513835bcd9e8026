"""How sprig's functions are listed, and how they read numbers and texts from any value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from muster.workflows.lang.go_numbers import parse_float, parse_prefixed_int, to_int
from muster.workflows.lang.go_time_values import Month, Weekday
from muster.workflows.lang.go_values import Function, format_value, is_integer

FunctionTable: TypeAlias = dict[str, Function]


def function_table(*functions: tuple[str, str, Callable[..., Any]], takes_clock: bool = False) -> FunctionTable:
    """Returns functions by name, from (names, types of the parameters, implementation). Spaces separate names."""
    return {
        name: Function(name, types, call, takes_clock=takes_clock)
        for names, types, call in functions
        for name in names.split()
    }


def to_int64(value: Any) -> int:
    """Converts any value to an int64; 0 if that is not possible."""
    if type(value) is float:
        return to_int(value)
    if is_integer(value) or isinstance(value, Month | Weekday | bool):
        return int(value)
    return (parse_prefixed_int(_without_zero_decimals(value)) or 0) if type(value) is str else 0


def to_float64(value: Any) -> float:
    """Converts any value to a float64; 0 if that is not possible."""
    if type(value) is str:
        return parse_float(value) or 0.0
    if type(value) is float:
        return value
    return float(value) if is_integer(value) or isinstance(value, Month | Weekday | bool) else 0.0


def to_text(value: Any) -> str:
    return format_value(value)


def to_texts(value: Any) -> list[str]:
    """Returns the elements of a list as texts, without nils. Any other value is a list of one."""
    if isinstance(value, list):
        return [format_value(element) for element in value if element is not None]
    return [] if value is None else [format_value(value)]


def is_empty(value: Any) -> bool:
    """sprig's `empty`: nil, false, zero, and a string, list or map of length 0. A time is never empty."""
    if isinstance(value, int | float | str | list | dict):
        return not value
    return value is None


def _without_zero_decimals(digits: str) -> str:
    """Returns `3` for `3.00`; `3.10` stays, since it is no integer."""
    whole, point, decimals = digits.rpartition(".")
    return whole if point and decimals and not decimals.strip("0") else digits
