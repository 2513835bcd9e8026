"""sprig: dates in Go's layouts, and durations."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import parse_int, wrap
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
from muster.workflows.lang.go_time_values import Time, parsed_time
from muster.workflows.lang.go_values import Int64
from muster.workflows.lang.sprig.sprig_functions import Theme, theme

_UNITS = ((365 * DAY, "y"), (30 * DAY, "mo"), (DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"))
_HTML = "2006-01-02"


def dates(chance: Clock) -> Theme:
    """The functions, some of which ask for the time."""

    def moment(value: Any) -> Time:
        """A time, seconds of the Unix epoch, or anything else for now."""
        if isinstance(value, Time):
            return value
        return Time(int(value) * SECOND if type(value) in (int, Int64) else chance.now())

    def in_zone(layout: str, value: Any, zone: str) -> str:
        return moment(value).within(_zone(zone)).format(layout)

    def ago(value: Any) -> str:
        return format_duration(round_duration(chance.now() - moment(value).nanoseconds, SECOND))

    def duration_round(value: Any) -> str:
        """The largest unit that fits, alone."""
        if isinstance(value, Time):
            nanoseconds = chance.now() - value.nanoseconds
        else:
            nanoseconds = int(value) if type(value) is Int64 else _duration_or_zero(value)
        size, unit = next(((size, unit) for size, unit in _UNITS if abs(nanoseconds) > size), (1, ""))
        return f"{abs(nanoseconds) // size}{unit}" if unit else "0s"

    return theme(
        ("now", "", lambda: Time(chance.now())),
        ("ago", "any", ago),
        ("date", "string, any", lambda layout, value: in_zone(layout, value, "Local")),
        ("dateInZone date_in_zone", "string, any, string", in_zone),
        ("htmlDate", "any", lambda value: in_zone(_HTML, value, "Local")),
        ("htmlDateInZone", "any, string", lambda value, zone: in_zone(_HTML, value, zone)),
        ("dateModify date_modify", "string, time.Time", lambda text, when: when.plus(_duration_or_zero(text))),
        ("mustDateModify must_date_modify", "string, time.Time", lambda text, when: when.plus(parse_duration(text))),
        ("toDate", "string, string", _date_or_zero),
        ("mustToDate", "string, string", parsed_time),
        ("unixEpoch", "time.Time", lambda when: str(when.nanoseconds // SECOND)),
        ("duration", "any", lambda value: format_duration(wrap(_seconds(value) * SECOND))),
        ("durationRound", "any", duration_round),
    )


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
        return parsed_time(layout, text)
    except ExpressionError:
        return Time(ZERO_TIME)


def _seconds(value: Any) -> int:
    """Only texts and int64 count; a plain int is no duration to sprig."""
    if type(value) is Int64:
        return int(value)
    return (parse_int(value) or 0) if isinstance(value, str) else 0
