"""Formats and parses times with Go's layouts: a layout shows what 2006-01-02 15:04:05.999 would look like."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_strings import quote_string
from muster.workflows.lang.go_time import MONTHS, SECOND, UTC_ZONE, WEEKDAYS, Civil, Zone, to_unix_nanoseconds
from muster.workflows.lang.limits import cache_short_texts

# -- Formatting

RFC3339 = "2006-01-02T15:04:05Z07:00"
RFC3339_NANO = "2006-01-02T15:04:05.999999999Z07:00"
RFC822 = "02 Jan 06 15:04 MST"
RFC850 = "Monday, 02-Jan-06 15:04:05 MST"
RFC1123 = "Mon, 02 Jan 2006 15:04:05 MST"
ANSIC = "Mon Jan _2 15:04:05 2006"
UNIX_DATE = "Mon Jan _2 15:04:05 MST 2006"
RUBY_DATE = "Mon Jan 02 15:04:05 -0700 2006"
KITCHEN = "3:04PM"

_MAX_LAYOUT = 10_000
_ELEMENT = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|002|__2|_2(?!006)|0[1-6]|15|PM|pm|[1-5]"
    r"|[-Z]07(?:0000|:00:00|00|:00)?|[.,](?:0+|9+)(?![0-9])"
)
ZONE = re.compile(r"[-Z]07")


class Element(NamedTuple):
    before: str
    """The literal text before the element."""
    code: str
    """Stands for a part of a time, such as `2006`; empty at the end of the layout."""


@cache_short_texts(512)
def split_layout(layout: str) -> tuple[Element, ...]:
    if len(layout) > _MAX_LAYOUT:
        raise ExpressionError(f"a layout of {len(layout)} characters is too long (at most {_MAX_LAYOUT})")
    found: list[Element] = []
    at = 0
    for match in _ELEMENT.finditer(layout):
        found.append(Element(layout[at : match.start()], match[0]))
        at = match.end()
    return (*found, Element(layout[at:], ""))


def format_time(when: Civil, layout: str) -> str:
    """Formats a time with the layout."""
    return "".join(before + _format_element(code, when) for before, code in split_layout(layout))


def _format_element(code: str, when: Civil) -> str:
    match code:
        case "":
            return ""
        case "2006":
            return f"{'-' if when.year < 0 else ''}{abs(when.year):04d}"
        case "06":
            return f"{when.year % 100:02d}"
        case "January":
            return MONTHS[when.month - 1]
        case "Jan":
            return MONTHS[when.month - 1][:3]
        case "1" | "01":
            return f"{when.month:0{len(code)}d}"
        case "Monday":
            return WEEKDAYS[when.weekday]
        case "Mon":
            return WEEKDAYS[when.weekday][:3]
        case "2" | "02":
            return f"{when.day:0{len(code)}d}"
        case "_2":
            return f"{when.day:2d}"
        case "002":
            return f"{when.year_day:03d}"
        case "__2":
            return f"{when.year_day:3d}"
        case "15":
            return f"{when.hour:02d}"
        case "3" | "03":
            return f"{when.hour % 12 or 12:0{len(code)}d}"
        case "4" | "04":
            return f"{when.minute:0{len(code)}d}"
        case "5" | "05":
            return f"{when.second:0{len(code)}d}"
        case "PM":
            return "PM" if when.hour >= 12 else "AM"
        case "pm":
            return "pm" if when.hour >= 12 else "am"
        case "MST":
            return when.zone or _format_offset("-0700", when.offset)
        case _ if ZONE.match(code):
            return "Z" if code[0] == "Z" and when.offset == 0 else _format_offset(code, when.offset)
        case _:
            return _format_fraction(code, when.nanosecond)


def _format_offset(code: str, seconds: int) -> str:
    sign, seconds = ("-" if seconds < 0 else "+"), abs(seconds)
    colon = ":" if ":" in code else ""
    shown = f"{sign}{seconds // 3600:02d}"
    if len(code) > 3:
        shown += f"{colon}{seconds // 60 % 60:02d}"
    if len(code) > 6:
        shown += f"{colon}{seconds % 60:02d}"
    return shown


def _format_fraction(code: str, nanosecond: int) -> str:
    digits = f"{nanosecond:09d}".ljust(len(code) - 1, "0")[: len(code) - 1]
    if code[1] == "9":
        digits = digits.rstrip("0")
        return code[0] + digits if digits else ""
    return code[0] + digits


# -- Parsing

_FRACTION = re.compile(r"[.,][0-9]+")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Parts:
    """The parts of a time that have been read so far."""

    def __init__(self) -> None:
        self.year, self.month, self.day, self.year_day = 0, -1, -1, -1
        self.hour, self.minute, self.second, self.nanosecond = 0, 0, 0, 0
        self.afternoon: bool | None = None
        self.zone: Zone | None = None
        self.offset: int | None = None
        self.zone_name = ""


class _Reader:
    """Reads a text that has the form of a layout."""

    def __init__(self, layout: str, text: str) -> None:
        self.layout, self.text, self.rest = layout, text, text
        self.parts = _Parts()

    def fail(self, element: str) -> NoReturn:
        raise ExpressionError(
            f"parsing time {quote_string(self.text)} as {quote_string(self.layout)}: "
            f"cannot parse {quote_string(self.rest)} as {quote_string(element)}"
        )

    def fail_with(self, message: str) -> NoReturn:
        raise ExpressionError(f"parsing time {quote_string(self.text)}: {message}")

    def literal(self, expected: str) -> None:
        """Skips literal text. A space matches any number of spaces."""
        at = 0
        while at < len(expected):
            if expected[at] == " ":
                if self.rest and self.rest[0] != " ":
                    self.fail(expected)
                at = len(expected) - len(expected[at:].lstrip(" "))
                self.rest = self.rest.lstrip(" ")
            elif not self.rest or self.rest[0] != expected[at]:
                self.fail(expected)
            else:
                at += 1
                self.rest = self.rest[1:]

    def number(self, code: str, *, fixed: bool, low: int, high: int, name: str) -> int:
        width = 2 if fixed or (len(self.rest) > 1 and _is_digit(self.rest[1])) else 1
        digits = self.rest[:width]
        if len(digits) < width or not all(map(_is_digit, digits)):
            self.fail(code)
        self.rest = self.rest[width:]
        if not low <= int(digits) <= high:
            self.fail_with(f"{name} out of range")
        return int(digits)

    def digits(self, code: str, count: int) -> int:
        digits = self.rest[:count]
        if len(digits) < count or not all(map(_is_digit, digits)):
            self.fail(code)
        self.rest = self.rest[count:]
        return int(digits)

    def word(self, code: str, words: tuple[str, ...], length: int | None) -> int:
        for number, word in enumerate(words):
            short = word[:length]
            if self.rest[: len(short)].lower() == short.lower():
                self.rest = self.rest[len(short) :]
                return number
        return self.fail(code)

    def read(self, code: str, following: str) -> None:
        parts = self.parts
        match code:
            case "2006":
                parts.year = self.digits(code, 4)
            case "06":
                short = self.digits(code, 2)
                parts.year = short + (1900 if short >= 69 else 2000)
            case "January" | "Jan":
                parts.month = self.word(code, MONTHS, 3 if code == "Jan" else None) + 1
            case "1" | "01":
                parts.month = self.number(code, fixed=code == "01", low=1, high=12, name="month")
            case "Monday" | "Mon":
                self.word(code, WEEKDAYS, 3 if code == "Mon" else None)
            case "2" | "_2" | "02":
                if code == "_2" and self.rest[:1] == " ":
                    self.rest = self.rest[1:]
                parts.day = self.number(code, fixed=code == "02", low=0, high=99, name="day")
            case "__2" | "002":
                spaces = len(self.rest[:2]) - len(self.rest[:2].lstrip(" ")) if code == "__2" else 0
                self.rest = self.rest[spaces:]
                parts.year_day = self.digits(code, 3 - spaces)
            case "15":
                parts.hour = self.number(code, fixed=False, low=0, high=23, name="hour")
            case "3" | "03":
                parts.hour = self.number(code, fixed=code == "03", low=0, high=12, name="hour")
            case "4" | "04":
                parts.minute = self.number(code, fixed=code == "04", low=0, high=59, name="minute")
            case "5" | "05":
                parts.second = self.number(code, fixed=code == "05", low=0, high=59, name="second")
                if not _FRACTION.match(following):
                    self.fraction()
            case "PM" | "pm":
                word = self.rest[:2]
                if word not in ((code, "AM") if code == "PM" else (code, "am")):
                    self.fail(code)
                parts.afternoon, self.rest = word.lower() == "pm", self.rest[2:]
            case "MST":
                self.zone_name()
            case _ if ZONE.match(code):
                self.zone_offset(code)
            case _:
                self.written_fraction(code)

    def fraction(self) -> None:
        """Reads fractional seconds, which may follow seconds even if the layout does not have them."""
        found = _FRACTION.match(self.rest)
        if found:
            self.parts.nanosecond = int(found[0][1:10].ljust(9, "0"))
            self.rest = self.rest[found.end() :]

    def written_fraction(self, code: str) -> None:
        if code[1] == "9":
            self.fraction()
            return
        found = self.rest[: len(code)]
        if len(found) < len(code) or found[0] not in ".," or not all(map(_is_digit, found[1:])):
            self.fail(code)
        self.parts.nanosecond = int(found[1:10].ljust(9, "0"))
        self.rest = self.rest[len(code) :]

    def zone_offset(self, code: str) -> None:
        if code[0] == "Z" and self.rest[:1] == "Z":
            self.rest, self.parts.zone = self.rest[1:], UTC_ZONE
            return
        colon = ":" if ":" in code else ""
        pairs = sum(char.isdigit() for char in code) // 2
        pattern = r"([+-])" + colon.join([r"(\d\d)"] * pairs)
        found = re.match(pattern, self.rest, re.ASCII)
        if not found:
            self.fail(code)
        hours, minutes, seconds = (int(n) for n in (*found.groups()[1:], "0", "0")[:3])
        if hours > 24 or minutes > 60 or seconds > 60:
            wrong = "hour" if hours > 24 else "minute" if minutes > 60 else "second"
            self.fail_with(f"time zone offset {wrong} out of range")
        total = hours * 3600 + minutes * 60 + seconds
        self.parts.offset = -total if found[1] == "-" else total
        self.rest = self.rest[found.end() :]

    def zone_name(self) -> None:
        if self.rest.startswith("UTC"):
            self.parts.zone, self.rest = UTC_ZONE, self.rest[3:]
            return
        found = re.match(r"ChST|MeST|GMT(?:[+-]\d{1,2})?|[+-]\d{2}|[A-Z]{3,6}", self.rest, re.ASCII)
        name = found[0] if found else ""
        if name[:1].isalpha() and name[:3] != "GMT" and name not in ("ChST", "MeST"):
            valid = len(name) == 3 or name == "WITA" or (len(name) in (4, 5) and name[-1] == "T")
            name = name if valid else ""
        if not name:
            self.fail("MST")
        self.parts.zone_name, self.rest = name, self.rest[len(name) :]


def parse_with_layout(layout: str, text: str, zone: Zone = UTC_ZONE) -> tuple[int, Zone]:
    """Parses a time to nanoseconds since the Unix epoch and a zone, which is `zone` unless the text names one."""
    reader = _Reader(layout, text)
    parts = split_layout(layout)
    for number, (before, code) in enumerate(parts):
        reader.literal(before)
        if not code:
            if reader.rest:
                reader.fail_with(f"extra text: {quote_string(reader.rest)}")
            break
        if not reader.rest and not code.startswith((".9", ",9")):
            reader.fail(code)
        reader.read(code, parts[number + 1].code)
    return _assemble(reader, zone)


def _assemble(reader: _Reader, default: Zone) -> tuple[int, Zone]:
    parts = reader.parts
    if parts.afternoon is not None:
        parts.hour = parts.hour % 12 + (12 if parts.afternoon else 0)
    month, day = _month_and_day(reader)
    clock = parts.hour * 3600 + parts.minute * 60 + parts.second
    if parts.zone is not None:
        return to_unix_nanoseconds(parts.year, month, day, clock, parts.nanosecond, parts.zone), parts.zone
    if parts.offset is not None:
        when = to_unix_nanoseconds(parts.year, month, day, clock - parts.offset, parts.nanosecond, UTC_ZONE)
        name, offset = default.at(when // SECOND)
        if offset == parts.offset and parts.zone_name in ("", name):
            return when, default
        return when, Zone(parts.zone_name, parts.offset)
    if parts.zone_name:
        when = to_unix_nanoseconds(parts.year, month, day, clock, parts.nanosecond, default)
        if default.at(when // SECOND)[0] == parts.zone_name:
            return when, default
        hours = int(parts.zone_name[3:] or "0") if parts.zone_name.startswith("GMT") else 0
        # As in Go, an offset in the name changes how the time is shown, not the time.
        when = to_unix_nanoseconds(parts.year, month, day, clock, parts.nanosecond, UTC_ZONE)
        return when, Zone(parts.zone_name, hours * 3600)
    return to_unix_nanoseconds(parts.year, month, day, clock, parts.nanosecond, default), default


def _month_and_day(reader: _Reader) -> tuple[int, int]:
    parts = reader.parts
    leap = parts.year % 4 == 0 and (parts.year % 100 != 0 or parts.year % 400 == 0)
    if parts.year_day >= 0:
        if not 1 <= parts.year_day <= 365 + leap:
            reader.fail_with("day-of-year out of range")
        return 1, parts.year_day
    month = max(parts.month, 1)
    day = parts.day if parts.day >= 0 else 1
    if not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        reader.fail_with("day out of range")
    return month, day


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"
