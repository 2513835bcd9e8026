"""Workflows and their versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "workflows_0001"
down_revision = None
branch_labels = ("workflows",)
depends_on = ("users_0001",)


def upgrade() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_workflows_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_workflows_team_id", ondelete="SET NULL")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("archived", UtcDateTime),
        sa.Column("versions", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_workflows_name"),
    )
    op.create_index("ix_workflows_owner_id", "workflows", ["owner_id"])
    op.create_index("ix_workflows_team_id", "workflows", ["team_id"])
    op.create_index("ix_workflows_updated", "workflows", ["updated"])
    workflow = sa.ForeignKey("workflows.id", name="fk_versions_workflow_id", ondelete="CASCADE")
    op.create_table(
        "versions",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("workflow_id", STRING, workflow, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("type", STRING, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("hash", STRING, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("author_id", STRING, sa.ForeignKey("users.id", name="fk_versions_author_id"), nullable=False),
        sa.Column("copied_from", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("archived", UtcDateTime),
        sa.UniqueConstraint("workflow_id", "number", name="uq_versions_workflow_id_number"),
        sa.UniqueConstraint("workflow_id", "name", name="uq_versions_workflow_id_name"),
    )
    op.create_index("ix_versions_author_id", "versions", ["author_id"])
