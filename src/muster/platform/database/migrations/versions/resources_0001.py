"""Virtual clusters and storage roots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "resources_0001"
down_revision = None
branch_labels = ("resources",)
depends_on = ("users_0001",)


def upgrade() -> None:
    op.create_table(
        "virtual_clusters",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("node_selector", DOCUMENT, nullable=False),
        sa.Column("sku", DOCUMENT, nullable=False),
        sa.Column("total", sa.Integer),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_virtual_clusters_team_id")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_virtual_clusters_name"),
    )
    op.create_table(
        "storage_roots",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("path", STRING, nullable=False),
        sa.Column("host_path", STRING, nullable=False),
        sa.Column("claim", STRING, nullable=False),
        sa.Column("read_only", sa.Boolean, nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_storage_roots_team_id")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_storage_roots_name"),
    )
