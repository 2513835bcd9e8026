"""The shape of `describe`: labels and values, indented, each block's values aligned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from muster.kube.objects import parse_time

NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Grid:
    """A small table under a label."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


Value: TypeAlias = "str | Sequence[str] | Sequence[Field] | Grid"
Field: TypeAlias = "tuple[str, Value]"
Fields: TypeAlias = list[Field]
"""A value that is a list of strings stands in one column, a list of fields is a block of its own."""


def render(fields: Sequence[Field], indent: int = 0) -> list[str]:
    margin = " " * indent
    width = max((len(label) for label, value in fields if _inline(value)), default=0) + 3
    lines: list[str] = []
    for label, value in fields:
        if isinstance(value, Grid):
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
            lines += [f"{margin}{label}:", *render(block, indent + 2)]
    return lines


def pairs(mapping: Mapping[str, Any] | None, separator: str = "=") -> list[str]:
    return [f"{key}{separator}{value}" for key, value in sorted((mapping or {}).items())]


def moment(text: str | None) -> str:
    """A time stamp as `describe` writes it, in the reader's time zone."""
    if not text:
        return "<unknown>"
    return parse_time(text).astimezone().strftime("%a, %d %b %Y %H:%M:%S %z")


def anything(value: Any) -> Value:
    """Any part of an object as fields, for kinds nobody has written a description of."""
    if isinstance(value, Mapping):
        return [(label_of(str(key)), anything(inner)) for key, inner in sorted(value.items())] or NONE
    if isinstance(value, list):
        if any(isinstance(item, Mapping | list) for item in value):
            return [field for item in value for field in _item(item)]
        return [_scalar(item) for item in value] or NONE
    return _scalar(value)


def label_of(key: str) -> str:
    """`creationTimestamp` -> `Creation Timestamp`. What is no identifier stays as it is."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", key):
        return key
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", key).split(" ")
    return " ".join({"api": "API", "url": "URL", "uid": "UID"}.get(w.lower(), w[:1].upper() + w[1:]) for w in words)


def _item(item: Any) -> Fields:
    fields = anything(item)
    if isinstance(fields, list) and fields and isinstance(fields[0], tuple):
        return list(fields)
    return [("Item", fields)]


def _scalar(value: Any) -> str:
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inline(value: Value) -> bool:
    if isinstance(value, str):
        return True
    return not isinstance(value, Grid) and all(isinstance(part, str) for part in value)


def _grid(grid: Grid, indent: int) -> list[str]:
    margin = " " * indent
    cells = [
        list(grid.headers),
        ["-" * len(header) for header in grid.headers],
        *([" ".join(str(v).split("\n")) for v in row] for row in grid.rows),
    ]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(len(grid.headers))]
    return [margin + "".join(f"{text:<{w}}" for text, w in zip(row, widths, strict=True)).rstrip() for row in cells]
