"""Taints that Pods of a virtual cluster tolerate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT

revision = "resources_0003"
down_revision = "resources_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("virtual_clusters", sa.Column("tolerations", DOCUMENT, nullable=False, server_default="[]"))
