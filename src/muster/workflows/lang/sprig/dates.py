"""sprig's functions on dates and durations, with Go's layouts."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import parse_int, wrap_int64
from muster.workflows.lang.go_time import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    UTC_ZONE,
    ZERO_TIME,
    Zone,
    format_duration,
    load_zone,
    parse_duration,
    round_duration,
)
from muster.workflows.lang.go_time_values import Time, parse_time
from muster.workflows.lang.go_values import Int64
from muster.workflows.lang.sprig.arguments import function_table

_UNITS = ((365 * DAY, "y"), (30 * DAY, "mo"), (DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"))
_HTML = "2006-01-02"


def _time(clock: Clock, value: Any) -> Time:
    """Returns a time as it is, the time of seconds since the Unix epoch, and now for anything else."""
    if isinstance(value, Time):
        return value
    return Time(int(value) * SECOND if type(value) in (int, Int64) else clock.now())


def _format_in_zone(clock: Clock, layout: str, value: Any, zone: str) -> str:
    return _time(clock, value).in_zone(_zone(zone)).format(layout)


def _ago(clock: Clock, value: Any) -> str:
    return format_duration(round_duration(clock.now() - _time(clock, value).nanoseconds, SECOND))


def _duration_round(clock: Clock, value: Any) -> str:
    """Returns the number of the largest unit that fits, such as `3h`."""
    if isinstance(value, Time):
        nanoseconds = clock.now() - value.nanoseconds
    else:
        nanoseconds = int(value) if type(value) is Int64 else _duration_or_zero(value)
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(nanoseconds) > size), (1, ""))
    return f"{abs(nanoseconds) // size}{unit}" if unit else "0s"


def _zone(name: str) -> Zone:
    try:
        return load_zone(name)
    except ExpressionError:
        return UTC_ZONE


def _duration_or_zero(text: Any) -> int:
    try:
        return parse_duration(text) if isinstance(text, str) else 0
    except ExpressionError:
        return 0


def _date_or_zero(layout: str, text: str) -> Time:
    try:
        return parse_time(layout, text)
    except ExpressionError:
        return Time(ZERO_TIME)


def _seconds(value: Any) -> int:
    """Returns the seconds of a text or an int64. sprig does not take an int for a duration."""
    if type(value) is Int64:
        return int(value)
    return (parse_int(value) or 0) if isinstance(value, str) else 0


DATE_FUNCTIONS = function_table(
    ("now", "", lambda clock: Time(clock.now())),
    ("ago", "any", _ago),
    ("date", "string, any", lambda clock, layout, value: _format_in_zone(clock, layout, value, "Local")),
    ("dateInZone date_in_zone", "string, any, string", _format_in_zone),
    ("htmlDate", "any", lambda clock, value: _format_in_zone(clock, _HTML, value, "Local")),
    ("htmlDateInZone", "any, string", lambda clock, value, zone: _format_in_zone(clock, _HTML, value, zone)),
    ("durationRound", "any", _duration_round),
    takes_clock=True,
) | function_table(
    ("dateModify date_modify", "string, time.Time", lambda text, when: when.plus(_duration_or_zero(text))),
    ("mustDateModify must_date_modify", "string, time.Time", lambda text, when: when.plus(parse_duration(text))),
    ("toDate", "string, string", _date_or_zero),
    ("mustToDate", "string, string", parse_time),
    ("unixEpoch", "time.Time", lambda when: str(when.nanoseconds // SECOND)),
    ("duration", "any", lambda value: format_duration(wrap_int64(_seconds(value) * SECOND))),
)
