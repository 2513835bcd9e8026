"""Go's way to format times: a layout shows what 2006-01-02 15:04:05.999 would look like."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import MONTHS, WEEKDAYS, Civil

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
    """Literal text in front of it."""
    code: str
    """What stands for a part of a time; empty at the end of the layout."""


@lru_cache(maxsize=512)
def elements(layout: str) -> tuple[Element, ...]:
    if len(layout) > _MAX_LAYOUT:
        raise ExpressionError(f"a layout of {len(layout)} characters is too long (at most {_MAX_LAYOUT})")
    found: list[Element] = []
    at = 0
    for match in _ELEMENT.finditer(layout):
        found.append(Element(layout[at : match.start()], match[0]))
        at = match.end()
    return (*found, Element(layout[at:], ""))


def format_time(when: Civil, layout: str) -> str:
    """A moment in the form of the layout."""
    return "".join(before + _shown(code, when) for before, code in elements(layout))


def _shown(code: str, when: Civil) -> str:
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
            return when.zone or _offset("-0700", when.offset)
        case _ if ZONE.match(code):
            return "Z" if code[0] == "Z" and when.offset == 0 else _offset(code, when.offset)
        case _:
            return _fraction(code, when.nanosecond)


def _offset(code: str, seconds: int) -> str:
    sign, seconds = ("-" if seconds < 0 else "+"), abs(seconds)
    colon = ":" if ":" in code else ""
    shown = f"{sign}{seconds // 3600:02d}"
    if len(code) > 3:
        shown += f"{colon}{seconds // 60 % 60:02d}"
    if len(code) > 6:
        shown += f"{colon}{seconds % 60:02d}"
    return shown


def _fraction(code: str, nanosecond: int) -> str:
    digits = f"{nanosecond:09d}".ljust(len(code) - 1, "0")[: len(code) - 1]
    if code[1] == "9":
        digits = digits.rstrip("0")
        return code[0] + digits if digits else ""
    return code[0] + digits
