"""The tables of virtual clusters, of how they were used, and of storage roots."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Integer, PrimaryKeyConstraint, Table, UniqueConstraint

from muster.platform.database.columns import DOCUMENT, STRING, Moment, metadata

virtual_clusters = Table(
    "virtual_clusters",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("node_selector", DOCUMENT, nullable=False),
    Column("sku", DOCUMENT, nullable=False),
    Column("total", Integer),
    Column("team_id", STRING, ForeignKey("teams.id")),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)
"""`sku` is amounts by resource; `total` is how many SKUs there are, NULL for as many as the machines have."""

storage_roots = Table(
    "storage_roots",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("path", STRING, nullable=False),
    Column("host_path", STRING, nullable=False),
    Column("claim", STRING, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id")),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)
"""`team_id`: who may use it; NULL for everybody. It stays when the team is to go: it must not become everybody's."""

cluster_usage = Table(
    "cluster_usage",
    metadata,
    Column("cluster_id", STRING, ForeignKey("virtual_clusters.id", ondelete="CASCADE"), nullable=False),
    Column("at", Moment, nullable=False),
    Column("looks", Integer, nullable=False),
    Column("used", Integer, nullable=False),
    Column("peak", Integer, nullable=False),
    Column("total", Integer),
    PrimaryKeyConstraint("cluster_id", "at"),
)
"""A row for every five minutes in which somebody looked: `used` is the sum of all looks, in SKUs. A week of them."""
