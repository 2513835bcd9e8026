"""Plain text output: kubectl's tables, the labelled sections of `describe`, and colour on a terminal."""

from __future__ import annotations

import codecs
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from muster.kube.objects import parse_time

_STYLES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
    "bright_green": "92", "bright_yellow": "93", "bright_blue": "94", "bright_magenta": "95", "bright_cyan": "96",
}  # fmt: skip
PREFIX_COLOURS = ("cyan", "yellow", "green", "magenta", "blue",
                  "bright_cyan", "bright_yellow", "bright_green", "bright_magenta", "bright_blue")  # fmt: skip
_MIN_WIDTH, _PADDING = 6, 3
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line break, and those that change the direction of text."""
_NO_COLOR = re.compile(rf"(?!\x1b\[[0-9;]*m){_CONTROL.pattern}")
_BEGUN_COLOR = re.compile(r"\x1b(\[[0-9;]{0,30})?\Z")


def supports_color(stream: IO[str] | None = None) -> bool:
    """Whether the stream is a terminal that supports colors and redrawing, and NO_COLOR is not set."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colorize(text: str, style: str, *, on: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if on and style else text


def pick_color(number: int) -> str:
    """Returns a color for the n-th of several things, so that they can be distinguished."""
    return PREFIX_COLOURS[number % len(PREFIX_COLOURS)]


def escape_controls(text: str, *, colors: bool = False) -> str:
    """Makes characters visible that would control the terminal: names, messages and logs come from other users, and a
    terminal does what they say (move the cursor, set the clipboard, send its title as input). With `colors`, sequences
    that only set colors stay."""
    return (_NO_COLOR if colors else _CONTROL).sub(_show_control, text)


def _show_control(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"^{chr(code ^ 64)}" if code < 128 else f"<U+{code:04X}>"


def echo(text: str = "") -> None:
    """Prints a line of output and flushes it, so that a reader of a pipe does not wait."""
    _write(f"{text}\n", sys.stdout)


def warn(text: str) -> None:
    """Prints a line to stderr, which is not part of the output."""
    sys.stdout.flush()
    _write(f"{text}\n", sys.stderr)


def _write(text: str, out: IO[str]) -> None:
    out.write(escape_controls(text, colors=True) if out.isatty() else text)
    out.flush()


class LogWriter:
    """Writes a log as it is, or to a terminal without what controls it, except for colors and carriage returns."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, chunk: bytes) -> None:
        if not self._is_terminal:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        text = self._rest + self._decoder.decode(chunk)
        begun = _BEGUN_COLOR.search(text)  # the rest of the sequence is in the next chunk
        text, self._rest = (text[: begun.start()], begun[0]) if begun else (text, "")
        sys.stdout.write("\r".join(escape_controls(part, colors=True) for part in text.split("\r")))
        sys.stdout.flush()


class TableWriter:
    """Rows under headers. Column widths are kept, so that later rows align."""

    def __init__(self, headers: Sequence[str], *, show_headers: bool = True) -> None:
        self._headers: list[str] | None = list(headers) if show_headers else None
        self._widths = [0] * len(headers)

    def lines(self, rows: Iterable[Sequence[Any]]) -> list[str]:
        cells = [[_cell(value) for value in row] for row in rows]
        if self._headers is not None:
            cells.insert(0, self._headers)
            self._headers = None
        for row in cells:
            for number, text in enumerate(row):
                self._widths[number] = max(self._widths[number], _width(text) + _PADDING, _MIN_WIDTH)
        return [self._line(row) for row in cells]

    def _line(self, row: Sequence[str]) -> str:
        padded = [text + " " * (self._widths[number] - _width(text)) for number, text in enumerate(row[:-1])]
        return "".join([*padded, *row[-1:]])


def format_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return TableWriter(headers).lines(rows)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "<none>" if value is None else ""
    if isinstance(value, bool):
        return str(value).lower()
    # A cell is one line; `describe` shows the whole text.
    first, newline, _ = str(value).partition("\n")
    return escape_controls(f"{first}..." if newline else first)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


NONE = "<none>"


@dataclass(frozen=True, slots=True)
class SectionGrid:
    """A small table under a label."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


SectionValue: TypeAlias = "str | Sequence[str] | Sequence[Section] | SectionGrid"
Section: TypeAlias = "tuple[str, SectionValue]"
Sections: TypeAlias = list[Section]
"""A list of strings is printed in one column, a list of sections as an indented block."""


def render_sections(fields: Sequence[Section], indent: int = 0) -> list[str]:
    margin = " " * indent
    width = max((len(label) for label, value in fields if _inline(value)), default=0) + 3
    lines: list[str] = []
    for label, value in fields:
        if isinstance(value, SectionGrid):
            lines += [f"{margin}{label}:", *_grid(value, indent + 2)]
        elif isinstance(value, str):
            first, *rest = value.split("\n")
            lines.append(f"{margin}{label + ':':<{width}}{first}".rstrip())
            lines += [f"{margin}{'':<{width}}{line}".rstrip() for line in rest]
        elif _inline(value):
            texts = [line for text in value for line in str(text).split("\n")] or [NONE]
            lines.append(f"{margin}{label + ':':<{width}}{texts[0]}")
            lines += [f"{margin}{'':<{width}}{text}" for text in texts[1:]]
        else:
            block: Any = value
            lines += [f"{margin}{label}:", *render_sections(block, indent + 2)]
    return lines


def format_pairs(mapping: Mapping[str, Any] | None, separator: str = "=") -> list[str]:
    return [f"{key}{separator}{value}" for key, value in sorted((mapping or {}).items())]


def format_timestamp(text: str | None) -> str:
    """Returns a timestamp in the format of `describe`, in the local time zone."""
    if not text:
        return "<unknown>"
    return parse_time(text).astimezone().strftime("%a, %d %b %Y %H:%M:%S %z")


def to_section(value: Any) -> SectionValue:
    """Converts any part of an object to sections, for kinds without a description of their own."""
    if isinstance(value, Mapping):
        return [(label_for_key(str(key)), to_section(inner)) for key, inner in sorted(value.items())] or NONE
    if isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            return [field for item in value for field in _item(item)]
        return [_scalar(item) for item in value] or NONE
    return _scalar(value)


def label_for_key(key: str) -> str:
    """Turns `creationTimestamp` into `Creation Timestamp`. Keys that are not identifiers stay unchanged."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", key):
        return key
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", key).split(" ")
    return " ".join({"api": "API", "url": "URL", "uid": "UID"}.get(w.lower(), w[:1].upper() + w[1:]) for w in words)


def _item(item: Any) -> Sections:
    fields = to_section(item)
    if isinstance(fields, list) and fields and isinstance(fields[0], tuple):
        return list(fields)
    return [("Item", fields)]


def _scalar(value: Any) -> str:
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inline(value: SectionValue) -> bool:
    if isinstance(value, str):
        return True
    return not isinstance(value, SectionGrid) and all(isinstance(part, str) for part in value)


def _grid(grid: SectionGrid, indent: int) -> list[str]:
    margin = " " * indent
    cells = [
        list(grid.headers),
        ["-" * len(header) for header in grid.headers],
        *([" ".join(str(v).split("\n")) for v in row] for row in grid.rows),
    ]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(len(grid.headers))]
    return [margin + "".join(f"{text:<{w}}" for text, w in zip(row, widths, strict=True)).rstrip() for row in cells]
