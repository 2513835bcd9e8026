"""The namespace of a run. Runs from before stay in `default`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING

revision = "runs_0002"
down_revision = "runs_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("runs", "run_removals"):
        op.add_column(table, sa.Column("namespace", STRING, nullable=False, server_default="default"))
