"""Tags of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING

revision = "runs_0004"
down_revision = "runs_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("tags", DOCUMENT, nullable=False, server_default="[]"))
    op.create_table(
        "run_tags",
        sa.Column(
            "run_id",
            STRING,
            sa.ForeignKey("runs.id", name="fk_run_tags_run_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("key", STRING, nullable=False),
        sa.Column("value", STRING, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "key", name="pk_run_tags"),
    )
    op.create_index("ix_run_tags_key_value_run_id", "run_tags", ["key", "value", "run_id"])
