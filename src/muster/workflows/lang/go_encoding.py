"""JSON, base64 and base32 as Go's encoding packages read and write them.

In JSON every number is a float, keys are sorted, and `<`, `>` and `&` are escaped.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import format_positional, format_scientific, shortest_digits
from muster.workflows.lang.go_strings import from_bytes, to_bytes
from muster.workflows.lang.go_values import AnyMap, Groups, Opaque, go_type, is_nil

# -- Base64 and base32

_ALPHABET64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_ALPHABET32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def encode64(text: str) -> str:
    return base64.b64encode(to_bytes(text)).decode()


def decode64(text: str) -> str:
    data = to_bytes(text)
    try:
        return from_bytes(base64.b64decode(data.replace(b"\n", b"").replace(b"\r", b""), validate=True))
    except binascii.Error:
        raise ExpressionError(f"illegal base64 data at input byte {_find_fault64(data)}") from None


def encode32(text: str) -> str:
    return base64.b32encode(to_bytes(text)).decode()


def decode32(text: str) -> str:
    data = to_bytes(text)
    try:
        return from_bytes(base64.b32decode(data.replace(b"\n", b"").replace(b"\r", b"")))
    except binascii.Error:
        raise ExpressionError(f"illegal base32 data at input byte {_find_fault32(data)}") from None


def _find_fault64(data: bytes) -> int:
    """Returns where the data stops being base64: at a bad byte, wrong padding, or an incomplete group."""
    filled, padding = 0, 0
    for at, byte in enumerate(data):
        if byte in b"\r\n":
            continue
        if padding and filled + padding == 4:
            return at
        if byte == ord("=") and filled >= 2:
            padding += 1
        elif padding:
            return at - 1
        elif byte in _ALPHABET64:
            filled = (filled + 1) % 4
        else:
            return at
    return len(data) if padding else len(data) - filled


def _find_fault32(data: bytes) -> int:
    for at, byte in enumerate(data):
        if byte not in _ALPHABET32 and byte not in b"\r\n=":
            return at
    padding = data.find(b"=")
    return padding if padding >= 0 else len(data) - len(data) % 8


# -- JSON

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile('["\\\\\x00-\x1f\u2028\u2029\udc80-\udcff]')
_SPECIAL_HTML = re.compile('["\\\\\x00-\x1f\u2028\u2029\udc80-\udcff<>&]')
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(value: Any, *, indent: str = "", escape_html: bool = True) -> str:
    """Encodes the value as json.Marshal does or, with `indent`, as json.MarshalIndent does."""
    special = _SPECIAL_HTML if escape_html else _SPECIAL
    try:
        return "".join(_encode_value(value, special, indent, "\n" if indent else ""))
    except RecursionError:
        raise ExpressionError("json: the value is nested too deeply") from None


def from_json(text: str) -> Any:
    """Decodes a text as json.Unmarshal does."""
    try:
        value = json.loads(text, parse_int=_decode_number, parse_float=_decode_number, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise ExpressionError(_describe_error(text, error)) from None
    except RecursionError:
        raise ExpressionError("json: the text is nested too deeply") from None
    return _replace_surrogates(value) if "\\u" in text else value


def _encode_value(value: Any, special: re.Pattern[str], indent: str, line: str) -> list[str]:
    match value:
        case None:
            return ["null"]
        case bool():
            return ["true" if value else "false"]
        case str():
            return [_encode_string(value, special)]
        case float():
            return [_encode_float(value)]
        case list():
            if is_nil(value):
                return ["null"]
            return _join_parts(
                "[", "]", [_encode_value(v, special, indent, line + indent) for v in value], line, indent
            )
        case AnyMap() | Groups():
            raise ExpressionError(f"json: unsupported type: {go_type(value)}")
        case Mapping():
            colon = ": " if indent else ":"
            pairs = [
                [_encode_string(key, special), colon, *_encode_value(value[key], special, indent, line + indent)]
                for key in sorted(value)
            ]
            return _join_parts("{", "}", pairs, line, indent)
        case Opaque():
            return [value.as_json()]
        case int():
            return [str(int(value))]
        case _:
            raise ExpressionError(f"json: unsupported type: {go_type(value)}")


def _join_parts(opening: str, closing: str, parts: list[list[str]], line: str, indent: str) -> list[str]:
    if not parts:
        return [opening + closing]
    inner = line + indent if line else ""
    out = [opening]
    for number, part in enumerate(parts):
        out.append("," + inner if number else inner)
        out.extend(part)
    out.append(line + closing)
    return out


def _encode_string(text: str, special: re.Pattern[str]) -> str:
    return '"' + special.sub(_escape, from_bytes(to_bytes(text))) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return _ESCAPES.get(char) or ("\\ufffd" if "\udc80" <= char <= "\udcff" else f"\\u{ord(char):04x}")


def _encode_float(number: float) -> str:
    digits, exponent = shortest_digits(number)
    if not digits:
        raise ExpressionError(f"json: unsupported value: {'NaN' if math.isnan(number) else f'{number:+}'.title()}")
    if -7 < exponent < 21 or number == 0:
        return format_positional(number, digits, exponent)
    return re.sub(r"e-0(\d)$", r"e-\1", format_scientific(number, digits, exponent))


def _decode_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ExpressionError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _reject_constant(word: str) -> Any:
    raise ExpressionError(f"invalid character {word[0]!r} looking for beginning of value")


def _describe_error(text: str, error: json.JSONDecodeError) -> str:
    """Returns Go's message for the error."""
    at = error.pos
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    if at >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    looking = {
        "Expecting value": "looking for beginning of value",
        "Extra data": "after top-level value",
        "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
        "Expecting ':' delimiter": "after object key",
        "Invalid control character at": "in string literal",
        "Invalid \\escape": "in string escape code",
        "Illegal trailing comma before end of object": "looking for beginning of object key string",
        "Illegal trailing comma before end of array": "looking for beginning of value",
    }.get(error.msg.removesuffix(": "))
    if error.msg.startswith("Expecting ',' delimiter"):
        looking = "after object key:value pair" if _is_inside_object(text[:at]) else "after array element"
    return f"invalid character {_quote_character(text[at])} {looking or error.msg}"


def _is_inside_object(before: str) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", before)
    open_brackets: list[str] = []
    for char in bare:
        if char in "[{":
            open_brackets.append(char)
        elif char in "]}" and open_brackets:
            open_brackets.pop()
    return open_brackets[-1:] == ["{"]


def _quote_character(char: str) -> str:
    return {"'": "'\\''", "\n": "'\\n'", "\t": "'\\t'", "\r": "'\\r'"}.get(char, f"'{char}'")


def _replace_surrogates(value: Any) -> Any:
    """Replaces half a surrogate pair, which only an escape can produce."""

    def change(text: str) -> str:
        return _SURROGATE.sub("\ufffd", text)

    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_replace_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {change(k): _replace_surrogates(v) for k, v in value.items()}
    return value
