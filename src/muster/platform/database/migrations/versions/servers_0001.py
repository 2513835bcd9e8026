"""Several servers on one database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING, UtcDateTime

revision = "servers_0001"
down_revision = None
branch_labels = ("servers",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", STRING, primary_key=True),
        sa.Column("holder", STRING, nullable=False),
        sa.Column("until", UtcDateTime, nullable=False),
    )
    op.create_index("ix_leases_holder", "leases", ["holder"])
