"""Spans of time as people type them on a command line: `30s`, `5m`, `1h30m`, or bare seconds."""

from __future__ import annotations

import re

from muster.cli.failures import Failure

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(text: str, option: str = "the duration") -> float:
    """`option` is named in the error."""
    wanted = text.strip()
    negative = wanted.startswith("-")
    digits = wanted.removeprefix("-")
    if re.fullmatch(r"\d+(\.\d+)?", digits):
        total = float(digits)
    elif digits and re.fullmatch(f"(?:{_PART.pattern})+", digits):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(digits))
    else:
        raise Failure(f'{option}: "{text}" is not a duration; write it like 30s, 5m or 1h30m')
    return -total if negative else total
