"""sprig: cutting, joining, quoting and wrapping strings. Lengths and places count bytes, as in Go."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.builtins_strings import go_replace, go_split
from muster.workflows.lang.go_strings import SPACES, from_bytes, is_space, quoted, to_bytes
from muster.workflows.lang.go_values import StringMap, Strings, byte_length, cut, shown
from muster.workflows.lang.limits import check_length
from muster.workflows.lang.sprig.sprig_functions import function_table, text, texts

_MARK = "..."


def _abbrev(width: int, string: str) -> str:
    return string if width < 4 else _abbreviated(string, 0, width)


def _abbrevboth(left: int, right: int, string: str) -> str:
    return string if right < 4 or (left > 0 and right < 7) else _abbreviated(string, left, right)


def _abbreviated(string: str, offset: int, width: int) -> str:
    """At most `width` long, with dots for what is missing, so that what is at `offset` shows."""
    size = byte_length(string)
    if size <= width:
        return string
    offset = min(offset, size)
    if size - offset < width - 3:
        offset = size - (width - 3)
    if offset <= 4:
        return _slice(string, 0, width - 3) + _MARK
    if width < 7:
        return ""
    if offset + width - 3 < size:
        return _MARK + _abbreviated(_slice(string, offset, size), 0, width - 3)
    return _MARK + _slice(string, size - (width - 3), size)


def _trunc(width: int, string: str) -> str:
    size = byte_length(string)
    if width < 0 and size + width > 0:
        return cut(string, size + width, size)
    return cut(string, 0, width) if 0 <= width < size else string


def _substr(start: int, end: int, string: str) -> str:
    size = byte_length(string)
    if start < 0:
        return _slice(string, 0, end)
    return _slice(string, start, size if end < 0 or end > size else end)


def _slice(string: str, start: int, end: int) -> str:
    size = byte_length(string)
    if not 0 <= end <= size:
        beyond = f" with length {size}" if end > size else ""
        raise ExpressionError(f"runtime error: slice bounds out of range [:{end}]{beyond}")
    if not 0 <= start <= end:
        raise ExpressionError(f"runtime error: slice bounds out of range [{start}:{end}]")
    return cut(string, start, end)


def _repeat(count: int, string: str) -> str:
    if count < 0:
        raise ExpressionError("strings: negative Repeat count")
    check_length(len(string) * count)
    return string * count


def _nospace(string: str) -> str:
    if string.isascii():
        return "".join(char for char in string if not is_space(char))
    # The original takes every byte for a character, but only when there is a space to take out.
    kept = [chr(byte) for byte in to_bytes(string) if not is_space(chr(byte))]
    return string if len(kept) == byte_length(string) else "".join(kept)


def _initials(string: str) -> str:
    out: list[str] = []
    first = True
    for byte in to_bytes(string):
        if first and not is_space(chr(byte)):
            out.append(chr(byte))
        first = is_space(chr(byte))
    return "".join(out)


def _wrapped(string: str, width: int, line_break: str, *, split_words: bool) -> str:
    """Lines of at most `width`, broken at spaces; longer words are split or left alone."""
    data, mark = to_bytes(string), to_bytes(line_break or "\n")
    width = max(width, 1)
    out: list[bytes] = []
    at = 0
    while len(data) - at > width:
        if data[at : at + 1] == b" ":
            at += 1
            continue
        space = data.rfind(b" ", at, at + width + 1)
        if space < 0 and split_words:
            out += [data[at : at + width], mark]
            at += width
            continue
        if space < 0:
            space = data.find(b" ", at + width)
        if space < 0:
            break
        out += [data[at:space], mark]
        at = space + 1
    check_length(sum(map(len, out)))
    return from_bytes(b"".join(out) + data[at:])


def _indent(spaces: int, string: str) -> str:
    pad = _repeat(spaces, " ")
    return pad + go_replace(string, "\n", "\n" + pad)


def _quote(*values: Any) -> str:
    return " ".join(quoted(text(value)) for value in values if value is not None)


def _squote(*values: Any) -> str:
    return " ".join(f"'{shown(value)}'" for value in values if value is not None)


def _cat(*values: Any) -> str:
    return " ".join(shown(value) for value in values if value is not None)


def _split(separator: str, string: str, most: int = -1) -> StringMap:
    return StringMap({f"_{number}": part for number, part in enumerate(go_split(string, separator, most))})


def _join(separator: str, values: Any) -> str:
    parts = texts(values)
    check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _sort_alpha(values: Any) -> Strings:
    return Strings(sorted(texts(values), key=to_bytes) if isinstance(values, list) else [text(values)])


FUNCTIONS = function_table(
    ("hello", "", lambda: "Hello!"),
    ("abbrev", "int, string", _abbrev),
    ("abbrevboth", "int, int, string", _abbrevboth),
    ("trunc", "int, string", _trunc),
    ("trim", "string", lambda string: string.strip(SPACES)),
    ("trimAll trimall", "string, string", lambda cutset, string: string.strip(cutset)),
    ("trimSuffix", "string, string", lambda suffix, string: string.removesuffix(suffix)),
    ("trimPrefix", "string, string", lambda prefix, string: string.removeprefix(prefix)),
    ("substr", "int, int, string", _substr),
    ("repeat", "int, string", _repeat),
    ("nospace", "string", _nospace),
    ("initials", "string", _initials),
    ("wrap", "int, string", lambda width, string: _wrapped(string, width, "", split_words=False)),
    ("wrapWith", "int, string, string", lambda width, mark, string: _wrapped(string, width, mark, split_words=True)),
    ("contains", "string, string", lambda part, string: part in string),
    ("hasPrefix", "string, string", lambda part, string: string.startswith(part)),
    ("hasSuffix", "string, string", lambda part, string: string.endswith(part)),
    ("quote", "...any", _quote),
    ("squote", "...any", _squote),
    ("cat", "...any", _cat),
    ("indent", "int, string", _indent),
    ("nindent", "int, string", lambda spaces, string: "\n" + _indent(spaces, string)),
    ("replace", "string, string, string", lambda old, new, string: go_replace(string, old, new)),
    ("plural", "string, string, int", lambda one, many, count: one if count == 1 else many),
    ("toString", "any", text),
    ("toStrings", "any", lambda values: Strings(texts(values))),
    ("split", "string, string", _split),
    ("splitn", "string, int, string", lambda separator, most, string: _split(separator, string, most)),
    ("splitList", "string, string", lambda separator, string: Strings(go_split(string, separator))),
    ("join", "string, any", _join),
    ("sortAlpha", "any", _sort_alpha),
)
