"""The tables of workflows. A row of `versions` is never changed, except that it may be archived."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from muster.platform.database.columns import DOCUMENT, STRING, Moment, metadata

workflows = Table(
    "workflows",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("archived", Moment),
    Column("versions", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "updated"),
)
"""`versions` is how many there are, and so the number of the latest."""

versions = Table(
    "versions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("workflow_id", STRING, ForeignKey("workflows.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("type", STRING, nullable=False),
    Column("document", DOCUMENT, nullable=False),
    Column("hash", STRING, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("author_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("copied_from", STRING, nullable=False),
    Column("created", Moment, nullable=False),
    Column("archived", Moment),
    UniqueConstraint("workflow_id", "number"),
    UniqueConstraint("workflow_id", "name"),
    Index(None, "author_id"),
)
"""`copied_from` is the id of another version, or ''."""
