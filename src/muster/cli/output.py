"""Plain tables as kubectl prints them, and colour where the reader has a terminal for it."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import IO, Any

_STYLES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
    "bright_green": "92", "bright_yellow": "93", "bright_blue": "94", "bright_magenta": "95", "bright_cyan": "96",
}  # fmt: skip
PREFIX_COLOURS = ("cyan", "yellow", "green", "magenta", "blue",
                  "bright_cyan", "bright_yellow", "bright_green", "bright_magenta", "bright_blue")  # fmt: skip
_MIN_WIDTH, _PADDING = 6, 3


def fancy(stream: IO[str] | None = None) -> bool:
    """Whether colours and redrawing are welcome there: a terminal, and nobody said NO_COLOR."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, *, on: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if on and style else text


def colour_of(number: int) -> str:
    """A colour for the n-th of many things that should be told apart."""
    return PREFIX_COLOURS[number % len(PREFIX_COLOURS)]


def say(text: str = "") -> None:
    """A line of the command's answer, now: a reader at the other end of a pipe is not kept waiting."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """A line that is not part of the answer."""
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class TableWriter:
    """Rows under headers. Widths are remembered, so that rows which come later line up."""

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


def table_lines(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return TableWriter(headers).lines(rows)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "<none>" if value is None else ""
    if isinstance(value, bool):
        return str(value).lower()
    # A cell is one line: the rest of a longer text is for `describe`.
    first, newline, _ = str(value).partition("\n")
    return f"{first}..." if newline else first


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
