"""What tables are made of, the same on SQLite and PostgreSQL. Every table of the platform belongs to `metadata`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, MetaData, Text
from sqlalchemy.dialects.postgresql import JSONB, TEXT
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Compared by code point on both, so that a list has the same order wherever it is kept.
STRING = Text().with_variant(TEXT(collation="C"), "postgresql")
"""Any text, ids among them."""

DOCUMENT = JSON().with_variant(JSONB(), "postgresql")
"""Anything JSON can say."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(TypeDecorator[datetime]):
    """A point in time, exact to the microsecond; in Python always with a time zone."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else microseconds(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else moment(value)


def microseconds(value: datetime) -> int:
    """Since 1970."""
    return (value - _EPOCH) // timedelta(microseconds=1)


def moment(since_1970: int) -> datetime:
    return _EPOCH + timedelta(microseconds=since_1970)


def now() -> datetime:
    return datetime.now(UTC)
