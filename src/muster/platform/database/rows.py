"""Rows as the dataclasses that the rest of the platform speaks of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from sqlalchemy import Row

T = TypeVar("T")

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"


def as_record(row: AnyRow, record: type[T], **other: Any) -> T:
    """Fields are taken from the columns of the same name; `other` gives those that have none, or are kept otherwise."""
    places = _places(cast(Hashable, record), row._fields)
    return record(**{name: row[place] for name, place in places if name not in other}, **other)


@cache
def _places(record: Any, columns: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Where in a row each field is: looked up once for all rows of a query."""
    return tuple((each.name, columns.index(each.name)) for each in fields(record) if each.init and each.name in columns)
