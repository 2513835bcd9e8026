"""The values of Go's package time (Time, Duration, Month, Weekday) with the methods that an expression may call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import quotient, wrap_int64
from muster.workflows.lang.go_time import (
    HOUR,
    MINUTE,
    MONTHS,
    SECOND,
    UTC_ZONE,
    WEEKDAYS,
    ZERO_TIME,
    Civil,
    Zone,
    format_duration,
    round_duration,
    to_civil,
    to_unix_nanoseconds,
)
from muster.workflows.lang.go_time_layout import RFC3339_NANO, format_time, parse_with_layout
from muster.workflows.lang.go_values import Int64, Method, Opaque

_MAX_INT64 = 2**63 - 1
_JSON_ERROR = "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside of range [0,9999]"


class Duration(Opaque, int):
    """A duration in nanoseconds."""

    go_type = "time.Duration"
    methods: ClassVar[Mapping[str, Method]] = {
        "Hours": Method("", "float64", lambda d: int(d) / HOUR),
        "Minutes": Method("", "float64", lambda d: int(d) / MINUTE),
        "Seconds": Method("", "float64", lambda d: int(d) / SECOND),
        "Milliseconds": Method("", "int64", lambda d: Int64(quotient(d, 1_000_000))),
        "Microseconds": Method("", "int64", lambda d: Int64(quotient(d, 1000))),
        "Nanoseconds": Method("", "int64", lambda d: Int64(d)),
        "Round": Method("time.Duration", "time.Duration", lambda d, unit: Duration(round_duration(d, unit))),
        "Truncate": Method(
            "time.Duration", "time.Duration", lambda d, unit: Duration(quotient(d, unit) * unit if unit > 0 else d)
        ),
        "Abs": Method("", "time.Duration", lambda d: Duration(min(abs(d), _MAX_INT64))),
        "String": Method("", "string", lambda d: d.to_text()),
    }

    def to_text(self) -> str:
        return format_duration(int(self))

    def as_json(self) -> str:
        return str(int(self))


class Month(Opaque, int):
    go_type = "time.Month"
    methods: ClassVar[Mapping[str, Method]] = {"String": Method("", "string", lambda month: month.to_text())}

    def to_text(self) -> str:
        return MONTHS[self - 1]

    def as_json(self) -> str:
        return str(int(self))


class Weekday(Opaque, int):
    go_type = "time.Weekday"
    methods: ClassVar[Mapping[str, Method]] = {"String": Method("", "string", lambda day: day.to_text())}

    def to_text(self) -> str:
        return WEEKDAYS[self]

    def as_json(self) -> str:
        return str(int(self))


@dataclass(frozen=True, slots=True, eq=False)
class Time(Opaque):
    nanoseconds: int
    """Since the Unix epoch, in UTC."""
    zone: Zone = UTC_ZONE
    go_type = "time.Time"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self.nanoseconds == other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    @property
    def civil(self) -> Civil:
        return to_civil(self.nanoseconds, self.zone)

    def format(self, layout: str) -> str:
        return format_time(self.civil, layout)

    def plus(self, nanoseconds: int) -> Time:
        return Time(self.nanoseconds + int(nanoseconds), self.zone)

    def minus(self, other: Time) -> Duration:
        return Duration(max(min(self.nanoseconds - other.nanoseconds, _MAX_INT64), -_MAX_INT64 - 1))

    def in_zone(self, zone: Zone) -> Time:
        return Time(self.nanoseconds, zone)

    def to_text(self) -> str:
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    def as_json(self) -> str:
        if not 0 <= self.civil.year <= 9999:
            raise ExpressionError(_JSON_ERROR)
        return f'"{self.format(RFC3339_NANO)}"'


def parse_time(layout: str, text: str, zone: Zone = UTC_ZONE) -> Time:
    """Parses a text that has the form of the layout."""
    return Time(*parse_with_layout(layout, text, zone))


def _add_date(when: Time, years: int, months: int, days: int) -> Time:
    at = when.civil
    clock = at.hour * 3600 + at.minute * 60 + at.second
    moved = to_unix_nanoseconds(at.year + years, at.month + months, at.day + days, clock, at.nanosecond, when.zone)
    return Time(moved, when.zone)


def _truncate(when: Time, unit: int) -> Time:
    return when if unit <= 0 else when.plus(-((when.nanoseconds - ZERO_TIME) % unit))


def _round(when: Time, unit: int) -> Time:
    if unit <= 0:
        return when
    rest = (when.nanoseconds - ZERO_TIME) % unit
    return when.plus(-rest if rest * 2 < unit else unit - rest)


def _compare(when: Time, other: Time) -> int:
    return (when.nanoseconds > other.nanoseconds) - (when.nanoseconds < other.nanoseconds)


def _calendar_field(field: str) -> Any:
    return lambda when: getattr(when.civil, field)


Time.methods = {
    "Year": Method("", "int", _calendar_field("year")),
    "Month": Method("", "time.Month", lambda t: Month(t.civil.month)),
    "Day": Method("", "int", _calendar_field("day")),
    "Hour": Method("", "int", _calendar_field("hour")),
    "Minute": Method("", "int", _calendar_field("minute")),
    "Second": Method("", "int", _calendar_field("second")),
    "Nanosecond": Method("", "int", _calendar_field("nanosecond")),
    "Weekday": Method("", "time.Weekday", lambda t: Weekday(t.civil.weekday)),
    "YearDay": Method("", "int", _calendar_field("year_day")),
    "Unix": Method("", "int64", lambda t: Int64(t.nanoseconds // SECOND)),
    "UnixMilli": Method("", "int64", lambda t: Int64(t.nanoseconds // 1_000_000)),
    "UnixMicro": Method("", "int64", lambda t: Int64(t.nanoseconds // 1000)),
    "UnixNano": Method("", "int64", lambda t: Int64(wrap_int64(t.nanoseconds))),
    "UTC": Method("", "time.Time", lambda t: t.in_zone(UTC_ZONE)),
    "Local": Method("", "time.Time", lambda t: t.in_zone(UTC_ZONE)),
    "Location": Method("", "*time.Location", lambda t: t.zone),
    "IsZero": Method("", "bool", lambda t: t.nanoseconds == ZERO_TIME),
    "String": Method("", "string", lambda t: t.to_text()),
    "Format": Method("string", "string", Time.format),
    "In": Method("*time.Location", "time.Time", Time.in_zone),
    "Add": Method("time.Duration", "time.Time", Time.plus),
    "AddDate": Method("int, int, int", "time.Time", _add_date),
    "Sub": Method("time.Time", "time.Duration", Time.minus),
    "Before": Method("time.Time", "bool", lambda t, other: _compare(t, other) < 0),
    "After": Method("time.Time", "bool", lambda t, other: _compare(t, other) > 0),
    "Equal": Method("time.Time", "bool", lambda t, other: _compare(t, other) == 0),
    "Compare": Method("time.Time", "int", _compare),
    "Truncate": Method("time.Duration", "time.Time", _truncate),
    "Round": Method("time.Duration", "time.Time", _round),
}
