"""Calendars, durations and time zones as in Go: nanoseconds, any year. Local time is UTC, as in a container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import ClassVar, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import wrap_int64
from muster.workflows.lang.go_values import Method, Opaque

SECOND = 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
DAY = 24 * HOUR
ZERO_TIME = -62_135_596_800 * SECOND
"""The first moment of the year 1, Go's zero time, in nanoseconds since the Unix epoch."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND, "m": MINUTE, "h": HOUR}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"(\d*)(?:\.(\d*))?", re.ASCII)
_UNIT = re.compile(r"[^.0-9]+")
_LONGEST_DURATION = 1000


class Civil(NamedTuple):
    """A time as clocks and calendars of one zone show it."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    year_day: int
    zone: str
    offset: int


@dataclass(frozen=True, slots=True)
class Zone(Opaque):
    """A time zone: one with rules (`info`), or a fixed offset in seconds with a name."""

    name: str
    offset: int = 0
    info: ZoneInfo | None = None
    go_type = "*time.Location"
    methods: ClassVar[Mapping[str, Method]] = {"String": Method("", "string", lambda zone: zone.name)}

    def at(self, seconds: int) -> tuple[str, int]:
        """Returns the zone's short name and offset in seconds at a time."""
        if self.info is None:
            return self.name, self.offset
        within = min(max(seconds, -62_000_000_000), 253_000_000_000)
        local = (_EPOCH + timedelta(seconds=within)).astimezone(self.info)
        offset = local.utcoffset() or timedelta()
        return local.tzname() or "", int(offset.total_seconds())

    def to_text(self) -> str:
        return self.name


UTC_ZONE = Zone("UTC")


def to_civil(nanoseconds: int, zone: Zone) -> Civil:
    """Returns what clocks and calendars show at a time since the Unix epoch."""
    name, offset = zone.at(nanoseconds // SECOND)
    seconds, nanosecond = divmod(nanoseconds, SECOND)
    days, clock = divmod(seconds + offset, 86_400)
    year, month, day = _date_of_day(days)
    return Civil(
        year, month, day, clock // 3600, clock // 60 % 60, clock % 60, nanosecond,
        (days + 4) % 7, days - _days_since_epoch(year, 1, 1) + 1, name, offset,
    )  # fmt: skip


def to_unix_nanoseconds(year: int, month: int, day: int, clock: int, nanosecond: int, zone: Zone) -> int:
    """Returns nanoseconds since the Unix epoch for a date and the seconds since its midnight in a zone.

    Months and days may overflow, as in time.Date.
    """
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    seconds = (_days_since_epoch(year, month, 1) + day - 1) * 86_400 + clock
    # The offset depends on the UTC time: read the clock as UTC first, then use the offset at the time that results.
    guess = seconds - zone.at(seconds)[1]
    seconds -= zone.at(guess)[1]
    return seconds * SECOND + nanosecond


@lru_cache(maxsize=64)
def load_zone(name: str) -> Zone:
    """Returns the zone of a name like Europe/Zurich. The empty name, UTC and Local are UTC."""
    if name in ("", "UTC", "Local"):
        return UTC_ZONE
    try:
        return Zone(name, info=ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ExpressionError(f"unknown time zone {name}") from None


def parse_duration(text: str) -> int:
    """Parses `1h30m`, `-1.5s` or `300ms` to nanoseconds."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST_DURATION:
        raise ExpressionError(f'time: invalid duration "{text}"')
    total = 0
    while rest:
        number = _NUMBER.match(rest)
        whole, fraction = (number[1], number[2] or "") if number else ("", "")
        if number is None or not whole + fraction:
            raise ExpressionError(f'time: invalid duration "{text}"')
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise ExpressionError(f'time: missing unit in duration "{text}"')
        if unit[0] not in _UNITS:
            raise ExpressionError(f'time: unknown unit "{unit[0]}" in duration "{text}"')
        rest = rest[unit.end() :]
        size = _UNITS[unit[0]]
        total += int(whole or "0") * size + int(fraction or "0") * size // 10 ** len(fraction)
        if total > 2**63 - (text[:1] != "-"):
            raise ExpressionError(f'time: invalid duration "{text}"')
    return -total if text[:1] == "-" else total


def format_duration(nanoseconds: int) -> str:
    """Formats a duration as `1h30m0s`, `1.5s` or `300ms`."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < SECOND:
        unit, name = next((u, n) for u, n in ((1_000_000, "ms"), (1000, "µs"), (1, "ns")) if rest >= u)
        return f"{sign}{_format_decimal(rest, unit)}{name}"
    minutes, seconds = divmod(rest, MINUTE)
    hours, minutes = divmod(minutes, 60)
    formatted = f"{_format_decimal(seconds, SECOND)}s"
    if hours or minutes:
        formatted = f"{minutes}m{formatted}"
    return f"{sign}{hours}h{formatted}" if hours else sign + formatted


def round_duration(nanoseconds: int, unit: int) -> int:
    """Rounds to the nearest multiple of the unit, halves away from zero."""
    if unit <= 0:
        return nanoseconds
    rest = abs(nanoseconds) % unit
    rounded = abs(nanoseconds) - rest + (unit if rest * 2 >= unit else 0)
    return wrap_int64(-rounded if nanoseconds < 0 else rounded)


def _format_decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(rest).zfill(len(str(unit)) - 1).rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Returns the days since 1970-01-01 in the Gregorian calendar, for any year."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date_of_day(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
