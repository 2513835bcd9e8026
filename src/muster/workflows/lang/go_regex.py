"""Go's regular expressions, on google-re2: the same syntax and the same matches, in time linear in the text.

Go's package regexp and RE2 share an author and a syntax. This module adds what differs: Go's error messages, its
replacement templates (`$1`, `${name}`), its rules for empty matches, and bytes that are not UTF-8.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import re2  # type: ignore[import-untyped]

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_strings import is_digit, is_letter
from muster.workflows.lang.limits import cache_short_texts, check_budget, check_length

_MAX_MEMORY = 2 * 1024 * 1024
"""Bytes that one pattern may use, its cache of states included."""
_MAX_DEPTH = 1000
"""How deep groups may be nested, as in Go."""
_MAX_WORK = 20_000_000
"""Bytes of the text times instructions of the pattern: about 0.2 s, if RE2 has to fall back to its slow engine."""
_MAX_SECONDS = 0.5
"""CPU time that all searches of one call may take together. One search is linear; a thousand of them need not be."""
_TOO_LONG = "the text is too long for this regular expression"
_NO_ESCAPE = "\\\uf8ff"
"""Replaces `\\C` (any byte), which Go does not have. It is no escape in RE2, whose error has its position."""
_CONTINUATION = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
_META = frozenset("\\.+*?()|[]{}^$")
_GO_MESSAGES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Go's messages for errors that RE2 words differently."""
_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)|(?P<escape>\\.)"
    r"|\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*\]"
    r"|(?P<group>\((?:\?(?:P?<(?P<name>[^>]*)>|(?P<special>.))?)?)|(?P<closing>\))",
    re.DOTALL,
)
"""Quotations, escapes, classes and parentheses of a pattern."""


class Span(NamedTuple):
    """The (start, end) of a match and its captures, (-1, -1) for a capture that did not match."""

    groups: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.groups[0][0]

    @property
    def end(self) -> int:
        return self.groups[0][1]


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._regexp = _compile(pattern)
        self.names = _group_names(pattern)

    def matches(self, text: str) -> bool:
        """Returns whether the pattern matches anywhere."""
        return any(True for _ in self._matches(_encode(text)))

    def find(self, text: str) -> Span | None:
        """Returns the leftmost match."""
        return next(self.find_all(text, 1), None)

    def find_all(self, text: str, most: int = -1) -> Iterator[Span]:
        """Yields matches that do not overlap, from the left. An empty match never touches the one before it."""
        data = _encode(text)
        places = _Places(data)
        for found in islice(self._matches(data), None if most < 0 else most):
            yield Span(places.convert(found.span(group) for group in range(len(self.names))))

    def _matches(self, data: bytes) -> Iterator[Any]:
        if len(data) * self._regexp.programsize > _MAX_WORK:
            raise ExpressionError(_TOO_LONG)
        previous, started = -1, time.thread_time()
        for found in self._regexp.finditer(data):
            if time.thread_time() - started > _MAX_SECONDS:
                raise ExpressionError(_TOO_LONG)
            check_budget()
            start, end = found.span()
            # RE2 looks at bytes, so that `\B` also matches within a character; Go looks at characters.
            if start == end and (end == previous or data[end : end + 1] in _CONTINUATION):
                continue
            previous = end
            yield found

    def replace(self, text: str, replacement: str, *, literal: bool = False) -> str:
        """Replaces every match. `$1` and `${name}` mean captures unless `literal` is set."""
        out: list[str] = []
        at = size = 0
        for found in self.find_all(text):
            out.append(text[at : found.start])
            out.append(replacement if literal else self._expand(replacement, text, found))
            size = check_length(size + len(out[-2]) + len(out[-1]))
            at = found.end
        return "".join(out) + text[at:]

    def split(self, text: str, most: int) -> list[str]:
        """Returns the pieces between matches, at most `most` of them unless negative."""
        if most == 0:
            return []
        if self._pattern and not text:
            return [""]
        pieces: list[str] = []
        begin = end = 0
        for found in self.find_all(text):
            if most > 0 and len(pieces) == most - 1:
                break
            end = found.start
            if found.end != 0:
                pieces.append(text[begin:end])
            begin = found.end
        if end != len(text):
            pieces.append(text[begin:])
        return pieces

    def _expand(self, template: str, text: str, found: Span) -> str:
        out: list[str] = []
        at = 0
        while True:
            dollar = template.find("$", at)
            if dollar < 0:
                return "".join(out) + template[at:]
            out.append(template[at:dollar])
            at = dollar + 1
            if template.startswith("$", at):
                out.append("$")
                at += 1
                continue
            name, end = _reference(template, at)
            if not name:
                out.append("$")
                continue
            at = end
            start, stop = self._capture(name, found)
            out.append(text[max(start, 0) : max(stop, 0)])

    def _capture(self, name: str, found: Span) -> tuple[int, int]:
        """Returns the place of a capture by its number, which has no leading zeros, or by its name."""
        if name.isascii() and name.isdigit() and (name == "0" or name[0] != "0"):
            number = int(name) if len(name) < 9 else len(found.groups)
            return found.groups[number] if number < len(found.groups) else (-1, -1)
        named = (span for span, own in zip(found.groups, self.names, strict=True) if own == name and span[0] >= 0)
        return next(named, (-1, -1))


@cache_short_texts(64)
def compile_regex(pattern: str) -> Regex:
    """Compiles a regular expression. Raises ExpressionError with Go's message."""
    return Regex(pattern)


def quote_meta(text: str) -> str:
    """Returns a pattern that matches the text itself."""
    return "".join("\\" + char if char in _META else char for char in text)


def _compile(pattern: str) -> Any:
    try:
        data = _TOKEN.sub(lambda token: _NO_ESCAPE if token[0] == r"\C" else token[0], pattern).encode()
    except UnicodeEncodeError as error:
        raise _error("invalid UTF-8", pattern[error.start :]) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        regexp = re2.compile(data, options)
    except re2.error as error:
        raise _translate(error.args[0].decode("utf-8", "replace").replace(_NO_ESCAPE, r"\C"), pattern) from None
    _check(pattern)
    return regexp


def _translate(message: str, pattern: str) -> ExpressionError:
    """Returns an error of RE2 with Go's message."""
    if message.startswith("pattern too large"):
        return ExpressionError("error parsing regexp: expression too large")
    if message == "trailing \\":
        return _error("trailing backslash at end of expression", "")
    if message == "invalid UTF-8":  # RE2's message for a pattern that ends inside an escape
        return _error("invalid escape sequence", "\\x{")
    what, _, part = message.partition(": ")
    if what == "invalid escape sequence" and part in (r"\p", r"\P"):
        what = "invalid character class range"
    if what == "invalid perl operator" and part[:3] == "(?<" and part != "(?<":
        rest = pattern[pattern.find(part) :]
        return _error("invalid named capture", rest[: rest.find(">") + 1] or rest)
    return _error(_GO_MESSAGES.get(what, what), part)


def _check(pattern: str) -> None:
    """Raises ExpressionError for what RE2 accepts and Go does not."""
    depth = 0
    for token in _TOKEN.finditer(pattern):
        if token["name"] and not re.fullmatch(r"\w+", token["name"], re.ASCII):
            raise _error("invalid named capture", token["group"])
        depth += (token["group"] is not None) - (token["closing"] is not None)
        if depth > _MAX_DEPTH:
            raise _error("expression nests too deeply", pattern)


def _group_names(pattern: str) -> tuple[str, ...]:
    """Returns the names of the captures, empty for those without one. The first is the whole match."""
    groups = [token for token in _TOKEN.finditer(pattern) if token["group"] == "(" or token["name"]]
    return ("", *(token["name"] or "" for token in groups))


def _error(message: str, part: str) -> ExpressionError:
    return ExpressionError(f"error parsing regexp: {message}: `{part}`")


def _encode(text: str) -> bytes:
    """Encodes the text in UTF-8, with U+FFFD for each invalid byte, as Go reads it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text).encode()


class _Places:
    """Converts byte positions to character positions, in one pass, since matches come from left to right."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ascii = data.isascii()
        self._byte = self._character = 0

    def convert(self, spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        spans = tuple(spans)
        if self._ascii:
            return spans
        characters = {-1: -1}
        for byte in sorted({end for span in spans for end in span if end >= 0}):
            self._character += len(self._data[self._byte : byte].decode())
            self._byte = byte
            characters[byte] = self._character
        return tuple((characters[start], characters[end]) for start, end in spans)


def _reference(template: str, at: int) -> tuple[str, int]:
    """Returns the longest name after a `$`, with or without braces, and its end."""
    braced = template.startswith("{", at)
    start = at + braced
    end = start
    while end < len(template) and (is_letter(template[end]) or is_digit(template[end]) or template[end] == "_"):
        end += 1
    if braced:
        return (template[start:end], end + 1) if template.startswith("}", end) else ("", at)
    return template[start:end], end
