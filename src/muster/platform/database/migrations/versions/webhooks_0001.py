"""Webhooks and their deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "webhooks_0001"
down_revision = None
branch_labels = ("webhooks",)
depends_on = ("users_0001", "workflows_0001")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("owner_id", STRING, _of("users", "owner_id"), nullable=False),
        sa.Column("team_id", STRING, _of("teams", "team_id")),
        sa.Column("workflow_id", STRING, _of("workflows", "workflow_id")),
        sa.Column("states", DOCUMENT, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("address", STRING, nullable=False),
        sa.Column("target", DOCUMENT, nullable=False),
        sa.Column("has_secret", sa.Boolean, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    for column in ("owner_id", "team_id", "workflow_id"):
        op.create_index(f"ix_webhooks_{column}", "webhooks", [column])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", STRING, primary_key=True),
        sa.Column(
            "webhook_id",
            STRING,
            sa.ForeignKey("webhooks.id", name="fk_webhook_deliveries_webhook_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("event", STRING, nullable=False),
        sa.Column("run_id", STRING, nullable=False),
        sa.Column("run_name", STRING, nullable=False),
        sa.Column("run_state", STRING, nullable=False),
        sa.Column("body", STRING, nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("due", UtcDateTime),
        sa.Column("tried", UtcDateTime),
        sa.Column("status", sa.Integer),
        sa.Column("problem", DOCUMENT),
    )
    op.create_index("ix_webhook_deliveries_state_due", "webhook_deliveries", ["state", "due"])
    op.create_index(
        "ix_webhook_deliveries_webhook_id_created_id", "webhook_deliveries", ["webhook_id", "created", "id"]
    )


def _of(table: str, column: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", name=f"fk_webhooks_{column}", ondelete="CASCADE")
