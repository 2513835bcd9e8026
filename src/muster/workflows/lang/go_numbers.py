"""Numbers as Go computes, parses and prints them: 64-bit integers, IEEE floats that never raise, the fewest digits."""

from __future__ import annotations

import math
import re

_HALF = 1 << 63
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS = "[0-9](?:_?[0-9])*"
_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_LONGEST_FLOAT = 1000
_WORDS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_PREFIXED = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F_]+)|0[bB]([01_]+)|0[oO]?([0-7_]*)|([1-9][0-9_]*))", re.ASCII)


def wrap_int64(number: int) -> int:
    """Wraps the number around to 64 bits."""
    return number if -_HALF <= number < _HALF else (number + _HALF) % (2 * _HALF) - _HALF


def to_int(number: float) -> int:
    """Truncates a float to an int. A float that does not fit becomes the smallest int64, as on a 64-bit processor."""
    if math.isnan(number) or not -_HALF <= number < _HALF:
        return -_HALF
    return int(number)


def parse_int(text: str) -> int | None:
    """Parses decimal digits with an optional sign. Returns None if they are no int64."""
    if _INTEGER.fullmatch(text) is None or len(text) > 64:
        return None
    number = int(text)
    return number if -_HALF <= number < _HALF else None


def parse_clamped_int(text: str) -> int:
    """Like parse_int, but returns the nearest int64 for a number that does not fit, and 0 for other text."""
    if _INTEGER.fullmatch(text) is None:
        return 0
    if len(text) > 64:
        return -_HALF if text[0] == "-" else _HALF - 1
    return max(min(int(text), _HALF - 1), -_HALF)


def parse_prefixed_int(text: str) -> int | None:
    """Parses an integer written as in Go source: 0x1F, 0o17 or 017, 0b11, 1_000."""
    found = _PREFIXED.fullmatch(text) if len(text) <= 128 else None
    if found is None or "__" in text or text.endswith("_"):
        return None
    sign, *digits = found.groups()
    for base, written in zip((16, 2, 8, 10), digits, strict=True):
        if written is not None:
            number = int(written.replace("_", "") or "0", base)
            number = -number if sign == "-" else number
            return number if -_HALF <= number < _HALF else None
    return None


def parse_float(text: str) -> float | None:
    """Parses a float, or one of the words for infinity and not-a-number."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned.lower() in _WORDS:
        return -_WORDS[unsigned.lower()] if text[0] == "-" else _WORDS[unsigned.lower()]
    if len(text) > _LONGEST_FLOAT:
        return None
    try:
        number = float.fromhex(text) if _HEX_FLOAT.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else None
    except OverflowError:
        return None
    return None if number is None or math.isinf(number) else number


def power(base: float, exponent: float) -> float:
    """Go's math.Pow: returns infinities and not-a-number, never raises."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0:
            return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf
        return math.nan


def divide(a: float, b: float) -> float:
    """IEEE division: never raises."""
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    except OverflowError:
        return math.inf


def remainder(a: int, b: int) -> int:
    """Returns the remainder of a division that truncates towards zero."""
    left = abs(a) % abs(b)
    return -left if a < 0 else left


def quotient(a: int, b: int) -> int:
    """Divides, truncating towards zero."""
    whole = abs(a) // abs(b)
    return wrap_int64(whole if (a < 0) == (b < 0) else -whole)


def format_float(number: float) -> str:
    """Formats a float as `%v` does: the fewest digits, with an exponent below 1e-4 and from 1e6 on."""
    digits, exponent = shortest_digits(number)
    if not digits:
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(number, "NaN")
    if not -4 <= exponent < 6:
        return format_scientific(number, digits, exponent)
    return format_positional(number, digits, exponent)


def shortest_digits(number: float) -> tuple[str, int]:
    """Returns the fewest decimal digits that identify the float, and the exponent of the first digit.

    There are no digits if the float is not finite.
    """
    if not math.isfinite(number):
        return "", 0
    if number == 0:
        return "0", 0
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    stripped = digits.lstrip("0")
    return stripped.rstrip("0"), int(exponent or 0) + len(whole) - 1 - (len(digits) - len(stripped))


def format_scientific(number: float, digits: str, exponent: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{_sign(number)}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_positional(number: float, digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"{_sign(number)}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{_sign(number)}{whole}.{fraction}" if fraction else _sign(number) + whole


def _sign(number: float) -> str:
    return "-" if math.copysign(1, number) < 0 else ""
