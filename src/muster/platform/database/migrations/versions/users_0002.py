"""Browsers and addresses from which users have logged in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING, UtcDateTime

revision = "users_0002"
down_revision = "users_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    user = sa.ForeignKey("users.id", name="fk_known_devices_user_id", ondelete="CASCADE")
    op.create_table(
        "known_devices",
        sa.Column("user_id", STRING, user, nullable=False),
        sa.Column("hash", STRING, nullable=False),
        sa.Column("network", STRING, nullable=False),
        sa.Column("last_used", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "hash", "network", name="pk_known_devices"),
    )
    op.create_index("ix_known_devices_hash", "known_devices", ["hash"])
