"""The tables that `get` prints."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from muster.kube.jsonpath import first_value
from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, meta, parse_time

NAME: Final = Column("Name", ".metadata.name")
AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
CREATED_AT: Final = Column("Created At", ".metadata.creationTimestamp")

_NAMESPACE = Column("Namespace", ".metadata.namespace")
_COLUMN_TYPES = {"date": "string"}


class Row(NamedTuple):
    cells: tuple[Any, ...]
    object: Object


class Table(NamedTuple):
    """Cells are strings, numbers and booleans; print them with `str`. Headings are printed in capitals."""

    columns: tuple[Column, ...]
    rows: list[Row]


def build_table(
    kind: Kind, objects: Iterable[Object], now: datetime, *, wide: bool = False, with_namespace: bool = False
) -> Table:
    """NAME comes first unless the kind places it itself; a kind without columns shows its age."""
    columns = columns_of(kind)
    if not wide:
        columns = tuple(column for column in columns if column.priority == 0)
    if with_namespace and kind.namespaced:
        columns = (_NAMESPACE, *columns)
    return Table(columns, [Row(tuple(format_cell(column, obj, now) for column in columns), obj) for obj in objects])


def columns_of(kind: Kind) -> tuple[Column, ...]:
    columns = kind.columns or (AGE,)
    return columns if any(column.name == "Name" for column in columns) else (NAME, *columns)


def format_cell(column: Column, obj: Object, now: datetime) -> Any:
    if column.cell is not None:
        return column.cell(obj, now)
    value = first_value(obj, column.json_path)
    if column.type == "date":
        return format_age(value, now)
    return "" if value is None else value


def format_age(since: Any, now: datetime) -> str:
    """Returns how long ago a timestamp was; `<unknown>` if it is missing."""
    if not since:
        return "<unknown>"
    try:
        return format_duration((now - parse_time(str(since))).total_seconds())
    except ValueError:
        return "<invalid>"


def table_to_object(
    answer: Table, *, resource_version: str = "", continue_: str = "", include: str = "Metadata"
) -> Object:
    """Returns the `meta.k8s.io/v1` Table that kubectl requests. `include`: None, Metadata or Object, as in its
    query."""
    list_meta = {"resourceVersion": resource_version}
    if continue_:
        list_meta["continue"] = continue_
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": _COLUMN_TYPES.get(column.type, column.type),
                "format": "name" if column.name == "Name" and column.priority == 0 else "",
                "description": column.description,
                "priority": column.priority,
            }
            for column in answer.columns
        ],
        "rows": [_row_object(row, include) for row in answer.rows],
    }


def format_duration(seconds: float) -> str:
    """Formats a duration like kubectl: `42s`, `3m12s`, `25m`, `5h3m`, `2d4h`, `400d`, `3y20d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _format_two_units(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _format_two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _format_two_units(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _format_two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _format_two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _row_object(row: Row, include: str) -> Object:
    wire: Object = {"cells": list(row.cells)}
    if include == "Object":
        wire["object"] = row.object
    elif include != "None":
        wire["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta(row.object),
        }
    return wire
