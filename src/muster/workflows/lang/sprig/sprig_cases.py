"""sprig: upper, lower, title, snake, camel and kebab case."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from muster.workflows.lang.go_strings import is_digit, is_letter, is_space, lower, upper
from muster.workflows.lang.sprig.sprig_functions import function_table


def _title(text: str) -> str:
    """The first letter of every word in upper case."""
    out: list[str] = []
    before = " "
    for char in text:
        out.append(upper(char) if _separates(before) else char)
        before = char
    return "".join(out)


def _separates(char: str) -> bool:
    if char < "\x80":
        return not (char.isalnum() or char == "_")
    return not (is_letter(char) or is_digit(char)) and is_space(char)


def _untitle(text: str) -> str:
    """The first letter of every word in lower case."""
    out: list[str] = []
    first = True
    for char in text:
        out.append(lower(char) if first and not is_space(char) else char)
        first = is_space(char)
    return "".join(out)


def _swapcase(text: str) -> str:
    return "".join(lower(c) if c.isupper() or c.istitle() else upper(c) if c.islower() else c for c in text)


def _pascal(text: str) -> str:
    """`some-words` as `SomeWords`; a connector at an end, and the second of two, stays."""
    leading = 0
    while leading < len(text) and _connects(text[leading]):
        leading += 1
    if leading >= len(text):
        # The original writes the last connector twice when there is nothing else.
        return text + text[-1:]
    out = [text[:leading]]
    rest = text[leading:]
    capital = rest[0].isupper()
    pending = upper(rest[0])
    for char in rest[1:]:
        if _connects(char) and _connects(pending):
            out.append(pending)
            continue
        if _connects(pending):
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


def _connects(char: str) -> bool:
    return char in "-_" or is_space(char)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """(kind, word) pieces: number, upper, alphabet, connector, punctuation, other."""
    at = 0
    while at < len(text):
        end = _word_end(text, at)
        yield _kind(text[at]), text[at:end]
        at = end


def _kind(char: str) -> str:
    if _connects(char):
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
        # In HTTPServer, the S begins the next word.
        return end - 1 if end < len(text) and is_letter(text[end]) else end
    same = ("alphabet",) if kind == "upper" else (kind,)
    while end < len(text) and _kind(text[end]) in same:
        end += 1
    return end


def _separated(text: str, connector: str) -> str:
    """`FirstName` as `first_name`, `http2xx` as `http_2xx`, `Bld4Floor` as `bld4_floor`."""
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


FUNCTIONS = function_table(
    ("upper", "string", upper),
    ("lower", "string", lower),
    ("title", "string", _title),
    ("untitle", "string", _untitle),
    ("swapcase", "string", _swapcase),
    ("camelcase", "string", _pascal),
    ("snakecase", "string", lambda text: _separated(text, "_")),
    ("kebabcase", "string", lambda text: _separated(text, "-")),
)
