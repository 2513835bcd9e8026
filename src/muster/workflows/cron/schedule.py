"""Cron schedules as robfig/cron, and therefore Argo, reads them. Pure.

Five fields (minute, hour, day of month, month, day of week) with `*`, `?`, lists, ranges, steps and English names, or
one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly` and `@every 1h30m`. If both days are restricted, either may
match. When clocks go forward, times in the skipped hour do not occur; when they go back, times in the repeated hour
occur twice.

Kubeflow Pipelines uses version 1 of robfig/cron: seconds come first, and the day of week may be left out
(`parse_schedule_with_seconds`).
"""

from __future__ import annotations

import os
from calendar import monthrange
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    UTC_ZONE,
    Zone,
    load_zone,
    parse_duration,
    to_civil,
    to_unix_nanoseconds,
)
from muster.workflows.lang.limits import check_budget

_LOCALTIME = Path("/etc/localtime")
_YEARS = 5
"""How far ahead a time is searched: 29 February is at most this far away, 31 April never comes."""
_LONGEST_NUMBER = 9
"""Digits of a number. Go refuses what does not fit into 64 bits."""


class ScheduleError(ValueError):
    """A schedule that cannot be parsed. The message says which part, and what is allowed there."""


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()
    """Names for the numbers starting at `first`."""


class _Values(NamedTuple):
    allowed: frozenset[int]
    is_free: bool
    """The field is `*` or `?`: the other day field decides."""


_ON_THE_MINUTE = _Values(frozenset({0}), is_free=False)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)
_SECOND = _Field("second", 0, 59)
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Schedule(NamedTuple):
    """A recurring time."""

    every: int
    """Nanoseconds between two occurrences; 0 if the fields decide."""
    fields: tuple[_Values, ...]
    zone: Zone
    seconds: _Values = _ON_THE_MINUTE

    def next_after(self, when: datetime) -> datetime | None:
        """Returns the first time after `when`, or None if there is none within five years. `@every` counts from
        `when`."""
        found = self._next(_nanoseconds(when))
        return None if found is None else datetime.fromtimestamp(found // SECOND, UTC)

    def latest_between(self, since: datetime, until: datetime) -> datetime | None:
        """Returns the last time after `since` and before `until`."""
        if self.every:
            count = (_nanoseconds(until) - 1 - _nanoseconds(since)) // self.every
            whole = _nanoseconds(since) // SECOND * SECOND + count * self.every
            return datetime.fromtimestamp(whole // SECOND, UTC) if count > 0 else None
        latest, found = None, self.next_after(since)
        while found is not None and found < until:
            check_budget()
            latest, found = found, self.next_after(found)
        return latest

    def written(self, when: datetime) -> str:
        """Returns the time in the schedule's zone, in RFC 3339."""
        _, offset = self.zone.at(int(when.timestamp()))
        if not offset:
            return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        local = datetime.fromtimestamp(when.timestamp() + offset, UTC)
        sign, minutes = ("-" if offset < 0 else "+"), abs(offset) // 60
        return f"{local:%Y-%m-%dT%H:%M:%S}{sign}{minutes // 60:02}:{minutes % 60:02}"

    def _next(self, when: int) -> int | None:
        if self.every:
            return when // SECOND * SECOND + self.every
        return _Search(self, when // SECOND * SECOND + SECOND).found()


@lru_cache(maxsize=1024)
def parse_schedule(text: str, timezone: str = "") -> Schedule:
    """Parses a schedule. `timezone` is a name such as Asia/Tokyo; the default is the local time of this machine. A
    schedule may start with its own zone (`CRON_TZ=UTC 0 0 * * *`). Raises ScheduleError."""
    rest, zone = _split_zone(text, timezone)
    if rest.startswith("@every "):
        return Schedule(_every(rest), (), zone)
    parts = _descriptor(rest).split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(
            f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]; they are "
            f"{', '.join(field.name for field in _FIELDS)}"
        )
    return Schedule(0, tuple(_read(part, field) for part, field in zip(parts, _FIELDS, strict=True)), zone)


@lru_cache(maxsize=1024)
def parse_schedule_with_seconds(text: str, timezone: str = "") -> Schedule:
    """Parses a schedule of robfig/cron v1: second, minute, hour, day of month, month and, optionally, day of week. Five
    fields are those without the day of week. Raises ScheduleError."""
    rest, zone = _split_zone(text, timezone)
    if rest.startswith("@"):
        return parse_schedule(rest, timezone)._replace(zone=zone)
    parts = rest.split()
    if len(parts) not in (5, 6):
        raise ScheduleError(
            f"expected 5 to 6 fields, found {len(parts)}: [{' '.join(parts)}]; they are second, "
            f"{', '.join(field.name for field in _FIELDS)} (the last may be left out)"
        )
    second, *others = [*parts, "*"][:6]
    fields = tuple(_read(part, field) for part, field in zip(others, _FIELDS, strict=True))
    return Schedule(0, fields, zone, _read(second, _SECOND))


def _split_zone(text: str, timezone: str) -> tuple[str, Zone]:
    rest = text.strip()
    if not rest:
        raise ScheduleError("empty spec string")
    if rest.startswith(("TZ=", "CRON_TZ=")):
        head, _, rest = rest.partition(" ")
        timezone, rest = head.partition("=")[2], rest.strip()
    return rest, _zone(timezone)


def _descriptor(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text not in _WORDS:
        raise ScheduleError(f"unrecognized descriptor: {text}; one of {', '.join(_WORDS)}, @every 1h30m")
    return _WORDS[text]


class _Search:
    """Searches for the next matching time, from the month down to the second. A step in a larger unit resets the
    smaller ones. Days that cannot match are left out by the calendar alone: asking the time zone about each day of five
    years takes the time of everyone."""

    def __init__(self, schedule: Schedule, at: int) -> None:
        self.minutes, self.hours, self.days, self.months, self.weekdays = schedule.fields
        self.seconds = schedule.seconds
        self.zone = schedule.zone
        self.at = at
        self.is_whole = False
        """Units smaller than the step have been reset."""

    def found(self) -> int | None:
        limit = to_civil(self.at, self.zone).year + _YEARS
        while to_civil(self.at, self.zone).year <= limit:
            if not self._skip_days(limit):
                return None
            if self._month() and self._day() and self._hour() and self._minute() and self._second():
                return self.at
        return None

    def _skip_days(self, limit: int) -> bool:
        """Goes on to the midnight two days before the next day that fits: the steps below know the days on which clocks
        change. Returns False if there is no such day until the end of the year `limit`."""
        now = to_civil(self.at, self.zone)
        today = date(now.year, now.month, now.day)
        coming = self._coming_day(today, limit)
        if coming is not None and (coming - today).days > 2:
            self.is_whole = True
            self.at = to_unix_nanoseconds(coming.year, coming.month, coming.day - 2, 0, 0, self.zone)
        return coming is not None

    def _coming_day(self, today: date, limit: int) -> date | None:
        """The first day that fits, `today` or later."""
        for index in range(today.year * 12 + today.month - 1, (limit + 1) * 12):
            year, month = index // 12, index % 12 + 1
            if month not in self.months.allowed:
                continue
            earliest = today.day if (year, month) == (today.year, today.month) else 1
            weekday, last = monthrange(year, month)  # Monday is 0
            for day in range(earliest, last + 1):
                if self._fits(day, (weekday + day) % 7):
                    return date(year, month, day)
        return None

    def _month(self) -> bool:
        while (now := to_civil(self.at, self.zone)).month not in self.months.allowed:
            self.is_whole = True
            self.at = to_unix_nanoseconds(now.year, now.month + 1, 1, 0, 0, self.zone)
            while to_civil(self.at, self.zone).month == now.month:  # where the first midnight of a month is skipped
                self.at += HOUR
            if now.month == 12:
                return False
        return True

    def _day(self) -> bool:
        while not self._fits_day():
            before, now = self.at, to_civil(self.at, self.zone)
            clock = 0 if not self.is_whole else now.hour * 3600 + now.minute * 60 + now.second
            self.is_whole = True
            self.at = to_unix_nanoseconds(now.year, now.month, now.day + 1, clock, 0, self.zone)
            # Midnight may be skipped or occur twice.
            after = to_civil(self.at, self.zone)
            if after.hour:
                self.at += (24 - after.hour) * HOUR if after.hour > 12 else -after.hour * HOUR
            if self.at <= before:  # Samoa once skipped a whole day
                self.at = before + DAY
            if to_civil(self.at, self.zone).day == 1:
                return False
        return True

    def _fits_day(self) -> bool:
        now = to_civil(self.at, self.zone)
        return self._fits(now.day, now.weekday)

    def _fits(self, day: int, weekday: int) -> bool:
        by_month, by_week = day in self.days.allowed, weekday in self.weekdays.allowed
        return by_month and by_week if self.days.is_free or self.weekdays.is_free else by_month or by_week

    def _hour(self) -> bool:
        while (now := to_civil(self.at, self.zone)).hour not in self.hours.allowed:
            if not self.is_whole:
                self.is_whole = True
                self.at = to_unix_nanoseconds(now.year, now.month, now.day, now.hour * 3600, 0, self.zone)
            self.at += HOUR
            if to_civil(self.at, self.zone).hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while (now := to_civil(self.at, self.zone)).minute not in self.minutes.allowed:
            if not self.is_whole:
                self.is_whole = True
                self.at -= now.second * SECOND
            self.at += MINUTE
            if to_civil(self.at, self.zone).minute == 0:
                return False
        return True

    def _second(self) -> bool:
        second = to_civil(self.at, self.zone).second
        if second in self.seconds.allowed:
            return True
        self.is_whole = True
        later = min((each for each in self.seconds.allowed if each > second), default=60)
        self.at += (later - second) * SECOND
        return later < 60


def _read(text: str, field: _Field) -> _Values:
    parts = [_range(part, field) for part in text.split(",") if part]
    if not parts:
        raise ScheduleError(f"{field.name}: the field is empty")
    return _Values(frozenset().union(*(p.allowed for p in parts)), any(p.is_free for p in parts))


def _range(text: str, field: _Field) -> _Values:
    span, slash, step_text = text.partition("/")
    if "/" in step_text:
        raise ScheduleError(f"{field.name}: too many slashes: {text}")
    step = _number(step_text, field, text) if slash else 1
    if step == 0:
        raise ScheduleError(f"{field.name}: step of range should be a positive number: {text}")
    low, dash, high = span.partition("-")
    if low in ("*", "?") and not dash:
        return _Values(frozenset(range(field.first, field.last + 1, step)), is_free=step == 1)
    first = _named(low, field, text)
    if dash:
        if "-" in high:
            raise ScheduleError(f"{field.name}: too many hyphens: {text}")
        last = _named(high, field, text)
    else:
        last = field.last if slash else first
    if first < field.first:
        raise ScheduleError(f"{field.name}: beginning of range ({first}) below minimum ({field.first}): {text}")
    if last > field.last:
        raise ScheduleError(f"{field.name}: end of range ({last}) above maximum ({field.last}): {text}")
    if first > last:
        raise ScheduleError(f"{field.name}: beginning of range ({first}) beyond end of range ({last}): {text}")
    return _Values(frozenset(range(first, last + 1, step)), is_free=False)


def _named(text: str, field: _Field, whole: str) -> int:
    word = text.lower()
    return field.first + field.words.index(word) if word in field.words else _number(text, field, whole)


def _number(text: str, field: _Field, whole: str) -> int:
    if not (text.isascii() and text.isdigit()):
        names = f" or {field.words[0]} to {field.words[-1]}" if field.words else ""
        raise ScheduleError(
            f"{field.name}: failed to parse int from {text} in {whole}: write a number from {field.first} to "
            f"{field.last}{names}"
        )
    if len(text) > _LONGEST_NUMBER:
        raise ScheduleError(f"{field.name}: a number of {len(text)} digits is out of range")
    return int(text)


def _every(text: str) -> int:
    try:
        nanoseconds = parse_duration(text.removeprefix("@every ").strip())
    except ExpressionError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error.message}") from None
    return max(SECOND, nanoseconds // SECOND * SECOND)


def _zone(name: str) -> Zone:
    if not name or name == "Local":
        return _local_zone()
    try:
        return load_zone(name)
    except ExpressionError as error:
        raise ScheduleError(f"timezone: {error.message}; write a name like Europe/Zurich") from None


@lru_cache(maxsize=1)
def _local_zone() -> Zone:
    name = os.environ.get("TZ", "").lstrip(":")
    try:
        if name:
            return load_zone(name)
        with _LOCALTIME.open("rb") as file:
            return Zone("Local", info=ZoneInfo.from_file(file, key="Local"))
    except (ExpressionError, OSError, ValueError):
        return UTC_ZONE


def _nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * SECOND + when.microsecond * 1000
