"""Who stopped a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING

revision = "runs_0003"
down_revision = "runs_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("stopped_by", STRING, nullable=False, server_default=""))
