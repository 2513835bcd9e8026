"""The tables of jobs and their history.

They live in the shop's own database, on SQLite or PostgreSQL: every name starts with `dispatch_`, and a version table
of their own (`dispatch_version`) keeps their migrations apart from the shop's.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """A time as microseconds since 1970. In Python it always has a time zone."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else from_microseconds(value)


def to_microseconds(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(since_1970: int) -> datetime:
    return _EPOCH + timedelta(microseconds=since_1970)


DOCUMENT = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows only in a column of this type."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

jobs = Table(
    "dispatch_jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("type", String(200), nullable=False),
    Column("adapter", String(100), nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("key", String(300)),
    Column("project", String(200), nullable=False),
    Column("creator", String(200), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("args", DOCUMENT, nullable=False),
    Column("resources", DOCUMENT, nullable=False),
    Column("retry", DOCUMENT, nullable=False),
    Column("timeout", Double),
    Column("after", DOCUMENT, nullable=False),
    Column("at", UtcTime),
    Column("labels", DOCUMENT, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("external_name", String(100), nullable=False),
    Column("external_id", Text),
    Column("cluster_status", Text, nullable=False),
    Column("hosts", DOCUMENT, nullable=False),
    Column("progress", Double),
    Column("message", Text, nullable=False),
    Column("metrics", DOCUMENT, nullable=False),
    Column("result", DOCUMENT),
    Column("fault", DOCUMENT),
    Column("cancel_requested", UtcTime),
    Column("grace", Double, nullable=False),
    Column("next_at", UtcTime),
    Column("created", UtcTime, nullable=False),
    Column("started", UtcTime),
    Column("ended", UtcTime),
    Column("changed", UtcTime),
    Column("tracking", DOCUMENT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("held_by", String(200)),
    Column("held_until", UtcTime),
    UniqueConstraint("key"),
    Index(None, "state", "held_until"),
    Index(None, "created", "id"),
    Index(None, "type", "created"),
    Index(None, "project", "created"),
)
"""`version` counts writes: a dispatcher that lost its lease cannot write, because the one that took over has written.
`cancel_requested` and `grace` are not covered by it, so that a cancel never collides with a dispatcher's write."""

events = Table(
    "dispatch_events",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("job_id", String(40), nullable=False),
    Column("time", UtcTime, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Index(None, "job_id", "id"),
)

SHARED = frozenset({"id", "created", "version", "cancel_requested", "grace", "priority", "key"})
"""Columns that a dispatcher's write does not touch: they never change, or others change them."""
