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
    columns, named = row._mapping, _fields(cast(Hashable, record))
    return record(**{name: columns[name] for name in named if name in columns and name not in other}, **other)


@cache
def _fields(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record) if field.init)
