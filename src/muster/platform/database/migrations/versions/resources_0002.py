"""How virtual clusters were used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING, UtcDateTime

revision = "resources_0002"
down_revision = "resources_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    cluster = sa.ForeignKey("virtual_clusters.id", name="fk_cluster_usage_cluster_id", ondelete="CASCADE")
    op.create_table(
        "cluster_usage",
        sa.Column("cluster_id", STRING, cluster, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("looks", sa.Integer, nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("peak", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer),
        sa.PrimaryKeyConstraint("cluster_id", "at", name="pk_cluster_usage"),
    )
