"""Characters and strings as Go sees them: Unicode classes, and strings as bytes.

Go slices strings by bytes, so half a character can be left over. Such bytes are kept in Python strings as surrogates
(the `surrogateescape` convention) and become U+FFFD when the text leaves the expression.
"""

from __future__ import annotations

import unicodedata

_SPACES = frozenset((*"\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000", *map(chr, range(0x2000, 0x200B))))
SPACES = "".join(sorted(_SPACES))
"""All characters that Go treats as white space, for `str.strip`."""
_SIMPLE_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def is_space(char: str) -> bool:
    return char in _SPACES


def is_letter(char: str) -> bool:
    return char.isalpha()


def is_digit(char: str) -> bool:
    return char.isdecimal()


def is_word(char: str) -> bool:
    """Returns whether a name in expr-lang may contain the character."""
    return char.isalpha() or char.isdecimal() or char in ("_", "$")


def upper(text: str) -> str:
    """Converts letter by letter, so that no letter becomes two."""
    return text.upper() if text.isascii() else "".join(c.upper() if len(c.upper()) == 1 else c for c in text)


def lower(text: str) -> str:
    """Converts letter by letter."""
    return text.lower() if text.isascii() else "".join(c.lower()[0] for c in text)


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def replace_invalid_bytes(text: str) -> str:
    """Returns the text as it leaves the expression, with U+FFFD for bytes that are not characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return to_bytes("".join("\ufffd" if _is_lone_surrogate(c) else c for c in text)).decode("utf-8", "replace")
    return text


def quote_string(text: str) -> str:
    """Returns a Go string literal (`%q`)."""
    out = ['"']
    for char in text:
        if char in ('"', "\\"):
            out.append("\\" + char)
        elif char in _SIMPLE_ESCAPES:
            out.append(_SIMPLE_ESCAPES[char])
        elif _is_printable(char):
            out.append(char)
        elif "\udc80" <= char <= "\udcff":
            out.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif char < "\x80":
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    return "".join(out) + '"'


def _is_printable(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] in "LMNPS"


def _is_lone_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff"
