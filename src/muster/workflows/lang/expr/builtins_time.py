"""Functions of expr-lang on times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_string
from muster.workflows.lang.expr.types import TIME, BuiltinFunction, Type, checked, typed
from muster.workflows.lang.go_time import Zone, load_zone, parse_duration
from muster.workflows.lang.go_time_layout import RFC822, RFC850, RFC1123, RFC3339
from muster.workflows.lang.go_time_values import Duration, Time, parsed_time

_LAYOUTS = ("2006-01-02", "15:04:05", "2006-01-02 15:04:05", RFC3339, RFC822, RFC850, RFC1123)
_LOCATION = "*time.Location"


def now(moment: int, *arguments: Any) -> Time:
    """`now()` and `now(timezone)` at a moment."""
    if len(arguments) == 1 and isinstance(arguments[0], Zone):
        return Time(moment, arguments[0])
    if arguments:
        raise ExpressionError(f"invalid number of arguments (expected 0, got {len(arguments)})")
    return Time(moment)


def _date(*arguments: Any) -> Time:
    zone = arguments[0] if isinstance(arguments[0], Zone) else None
    text, *rest = arguments[1:] if zone else arguments
    if len(rest) == 2:
        zone = load_zone(as_string(rest[1]))
    if rest:
        return parsed_time(as_string(rest[0]), as_string(text), zone or load_zone("UTC"))
    for layout in _LAYOUTS:
        try:
            return parsed_time(layout, as_string(text), zone or load_zone("UTC"))
        except ExpressionError:
            continue
    raise ExpressionError(f"invalid date {as_string(text)}")


def _check_date(arguments: Sequence[Type]) -> Type:
    if not arguments:
        raise ExpressionError("invalid number of arguments (expected at least 1, got 0)")
    given = len(arguments) - (arguments[0].name == _LOCATION)
    if given > 3:
        raise ExpressionError(f"invalid number of arguments (expected at most 3, got {given})")
    return TIME


def _check_now(arguments: Sequence[Type]) -> Type:
    if arguments and not (len(arguments) == 1 and arguments[0].name == _LOCATION):
        raise ExpressionError(f"invalid number of arguments (expected 0, got {len(arguments)})")
    return TIME


FUNCTIONS: dict[str, BuiltinFunction] = {
    "now": checked(now, _check_now),
    "duration": typed(lambda text: Duration(parse_duration(as_string(text))), "string -> time.Duration"),
    "date": checked(_date, _check_date),
    "timezone": typed(lambda name: load_zone(as_string(name)), f"string -> {_LOCATION}"),
}
