"""sprig's functions on strings: slicing, joining, quoting, wrapping, letter case, regular expressions.

Lengths and positions count bytes, as in Go.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.builtins import go_replace, go_split
from muster.workflows.lang.go_regex import Regex, compile_regex, quote_meta
from muster.workflows.lang.go_strings import (
    SPACES,
    from_bytes,
    is_digit,
    is_letter,
    is_space,
    lower,
    quote_string,
    to_bytes,
    upper,
)
from muster.workflows.lang.go_values import NilStrings, StringMap, Strings, byte_length, format_value, slice_bytes
from muster.workflows.lang.limits import check_length
from muster.workflows.lang.sprig.arguments import function_table, to_text, to_texts

# -- Slicing, joining, quoting and wrapping

_DOTS = "..."


def _abbrev(width: int, string: str) -> str:
    return string if width < 4 else _abbreviate(string, 0, width)


def _abbrevboth(left: int, right: int, string: str) -> str:
    return string if right < 4 or (left > 0 and right < 7) else _abbreviate(string, left, right)


def _abbreviate(string: str, offset: int, width: int) -> str:
    """Shortens a text to `width`, with dots for what is cut, so that the text at `offset` stays."""
    size = byte_length(string)
    if size <= width:
        return string
    offset = min(offset, size)
    if size - offset < width - 3:
        offset = size - (width - 3)
    if offset <= 4:
        return _slice(string, 0, width - 3) + _DOTS
    if width < 7:
        return ""
    if offset + width - 3 < size:
        return _DOTS + _abbreviate(_slice(string, offset, size), 0, width - 3)
    return _DOTS + _slice(string, size - (width - 3), size)


def _trunc(width: int, string: str) -> str:
    size = byte_length(string)
    if width < 0 and size + width > 0:
        return slice_bytes(string, size + width, size)
    return slice_bytes(string, 0, width) if 0 <= width < size else string


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
    return slice_bytes(string, start, end)


def _repeat(count: int, string: str) -> str:
    if count < 0:
        raise ExpressionError("strings: negative Repeat count")
    check_length(len(string) * count)
    return string * count


def _nospace(string: str) -> str:
    if string.isascii():
        return "".join(char for char in string if not is_space(char))
    # sprig treats every byte as a character here, but only if there is a space to remove.
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


def _wrap(string: str, width: int, line_break: str, *, split_words: bool) -> str:
    """Breaks a text into lines of at most `width` at spaces. Longer words are split or left alone."""
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
    return " ".join(quote_string(to_text(value)) for value in values if value is not None)


def _squote(*values: Any) -> str:
    return " ".join(f"'{format_value(value)}'" for value in values if value is not None)


def _cat(*values: Any) -> str:
    return " ".join(format_value(value) for value in values if value is not None)


def _split(separator: str, string: str, most: int = -1) -> StringMap:
    return StringMap({f"_{number}": part for number, part in enumerate(go_split(string, separator, most))})


def _join(separator: str, values: Any) -> str:
    parts = to_texts(values)
    check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _sort_alpha(values: Any) -> Strings:
    return Strings(sorted(to_texts(values), key=to_bytes) if isinstance(values, list) else [to_text(values)])


STRING_FUNCTIONS = function_table(
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
    ("wrap", "int, string", lambda width, string: _wrap(string, width, "", split_words=False)),
    ("wrapWith", "int, string, string", lambda width, mark, string: _wrap(string, width, mark, split_words=True)),
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
    ("toString", "any", to_text),
    ("toStrings", "any", lambda values: Strings(to_texts(values))),
    ("split", "string, string", _split),
    ("splitn", "string, int, string", lambda separator, most, string: _split(separator, string, most)),
    ("splitList", "string, string", lambda separator, string: Strings(go_split(string, separator))),
    ("join", "string, any", _join),
    ("sortAlpha", "any", _sort_alpha),
)


# -- Letter case


def _title(text: str) -> str:
    """Converts the first letter of every word to upper case."""
    out: list[str] = []
    before = " "
    for char in text:
        out.append(upper(char) if _is_separator(before) else char)
        before = char
    return "".join(out)


def _is_separator(char: str) -> bool:
    if char < "\x80":
        return not (char.isalnum() or char == "_")
    return not (is_letter(char) or is_digit(char)) and is_space(char)


def _untitle(text: str) -> str:
    """Converts the first letter of every word to lower case."""
    out: list[str] = []
    first = True
    for char in text:
        out.append(lower(char) if first and not is_space(char) else char)
        first = is_space(char)
    return "".join(out)


def _swapcase(text: str) -> str:
    return "".join(lower(c) if c.isupper() or c.istitle() else upper(c) if c.islower() else c for c in text)


def _to_camel_case(text: str) -> str:
    """Converts `some-words` to `SomeWords`. A connector at an end, and the second of two, stays."""
    leading = 0
    while leading < len(text) and _is_connector(text[leading]):
        leading += 1
    if leading >= len(text):
        # sprig writes the last connector twice if there is nothing else.
        return text + text[-1:]
    out = [text[:leading]]
    rest = text[leading:]
    capital = rest[0].isupper()
    pending = upper(rest[0])
    for char in rest[1:]:
        if _is_connector(char) and _is_connector(pending):
            out.append(pending)
            continue
        if _is_connector(pending):
            capital = char.isupper()
            pending = upper(char)
            continue
        out.append(pending)
        pending = char
        if capital:
            if char.isupper():
                pending = lower(char)
            else:
                capital = False
    return "".join(out) + pending


def _is_connector(char: str) -> bool:
    return char in "-_" or is_space(char)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Splits a text into (kind, word): number, upper, alphabet, connector, punctuation, other."""
    at = 0
    while at < len(text):
        end = _word_end(text, at)
        yield _kind(text[at]), text[at:end]
        at = end


def _kind(char: str) -> str:
    if _is_connector(char):
        return "connector"
    if unicodedata.category(char).startswith("P"):
        return "punctuation"
    if char.isupper():
        return "upper"
    if is_letter(char):
        return "alphabet"
    return "number" if unicodedata.category(char).startswith("N") else "other"


def _word_end(text: str, at: int) -> int:
    kind, end = _kind(text[at]), at + 1
    if kind == "upper" and end < len(text) and text[end].isupper():
        while end < len(text) and text[end].isupper():
            end += 1
        # In HTTPServer, the S starts the next word.
        return end - 1 if end < len(text) and is_letter(text[end]) else end
    same = ("alphabet",) if kind == "upper" else (kind,)
    while end < len(text) and _kind(text[end]) in same:
        end += 1
    return end


def _to_snake_case(text: str, connector: str) -> str:
    """Converts `FirstName` to `first_name`, `http2xx` to `http_2xx`, `Bld4Floor` to `bld4_floor`."""
    words = list(_words(text))
    out: list[str] = []
    at = 0

    def kind(place: int) -> str:
        return words[place][0] if place < len(words) else ""

    def emit(place: int) -> None:
        word_kind, word = words[place]
        out.append(connector * len(word) if word_kind == "connector" else lower(word) if word_kind == "upper" else word)

    def emit_alphanumeric(place: int) -> int:
        while kind(place) in ("alphabet", "number"):
            emit(place)
            place += 1
        if kind(place) not in ("", "punctuation", "connector"):
            out.append(connector)
        return place

    while at < len(words):
        here = kind(at)
        emit(at)
        at += 1
        if at >= len(words) or here in ("connector", "punctuation"):
            continue
        if here == "number":
            at = emit_alphanumeric(at)
        elif kind(at) != "number":
            if kind(at) not in ("connector", "punctuation"):
                out.append(connector)
        elif at + 1 >= len(words):
            continue
        elif kind(at + 1) == "alphabet":
            out.append(connector)
            at = emit_alphanumeric(at)
        else:
            emit(at)
            at += 1
            if kind(at) not in ("connector", "punctuation"):
                out.append(connector)
    return "".join(out)


CASE_FUNCTIONS = function_table(
    ("upper", "string", upper),
    ("lower", "string", lower),
    ("title", "string", _title),
    ("untitle", "string", _untitle),
    ("swapcase", "string", _swapcase),
    ("camelcase", "string", _to_camel_case),
    ("snakecase", "string", lambda text: _to_snake_case(text, "_")),
    ("kebabcase", "string", lambda text: _to_snake_case(text, "-")),
)


# -- Regular expressions


def _must_compile(pattern: str) -> Regex:
    """Raises ExpressionError with the message of Go's MustCompile."""
    try:
        return compile_regex(pattern)
    except ExpressionError as error:
        raise ExpressionError(f"regexp: Compile(`{pattern}`): {error.message}") from None


def _regex_match(pattern: str, text: str) -> bool:
    try:
        return compile_regex(pattern).matches(text)
    except ExpressionError:
        return False


def _with_regex(compile_: Callable[[str], Regex], function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda pattern, *arguments: function(compile_(pattern), *arguments)


def _regex_find_all(regex: Regex, text: str, most: int) -> Strings:
    return Strings(text[found.start : found.end] for found in regex.find_all(text, most)) or NilStrings()


def _regex_find(regex: Regex, text: str) -> str:
    found = regex.find(text)
    return "" if found is None else text[found.start : found.end]


def _regex_replace(regex: Regex, text: str, replacement: str) -> str:
    return regex.replace(text, replacement)


def _regex_replace_literal(regex: Regex, text: str, replacement: str) -> str:
    return regex.replace(text, replacement, literal=True)


def _regex_split(regex: Regex, text: str, most: int) -> Strings:
    return NilStrings() if most == 0 else Strings(regex.split(text, most))


REGEX_FUNCTIONS = function_table(
    ("regexMatch", "string, string", _regex_match),
    ("mustRegexMatch", "string, string", _with_regex(compile_regex, Regex.matches)),
    ("regexFindAll", "string, string, int", _with_regex(_must_compile, _regex_find_all)),
    ("mustRegexFindAll", "string, string, int", _with_regex(compile_regex, _regex_find_all)),
    ("regexFind", "string, string", _with_regex(_must_compile, _regex_find)),
    ("mustRegexFind", "string, string", _with_regex(compile_regex, _regex_find)),
    ("regexReplaceAll", "string, string, string", _with_regex(_must_compile, _regex_replace)),
    ("mustRegexReplaceAll", "string, string, string", _with_regex(compile_regex, _regex_replace)),
    ("regexReplaceAllLiteral", "string, string, string", _with_regex(_must_compile, _regex_replace_literal)),
    ("mustRegexReplaceAllLiteral", "string, string, string", _with_regex(compile_regex, _regex_replace_literal)),
    ("regexSplit", "string, string, int", _with_regex(_must_compile, _regex_split)),
    ("mustRegexSplit", "string, string, int", _with_regex(compile_regex, _regex_split)),
    ("regexQuoteMeta", "string", quote_meta),
)
