"""Logins to workspaces, which have origins of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING, UtcDateTime

revision = "users_0003"
down_revision = "users_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    session = sa.ForeignKey("sessions.id", name="fk_workspace_sessions_session_id", ondelete="CASCADE")
    token = sa.ForeignKey("api_tokens.id", name="fk_workspace_sessions_token_id", ondelete="CASCADE")
    op.create_table(
        "workspace_sessions",
        sa.Column("hash", STRING, primary_key=True),
        sa.Column("workspace", STRING, nullable=False),
        sa.Column("session_id", STRING, session),
        sa.Column("token_id", STRING, token),
        sa.Column("is_ticket", sa.Boolean, nullable=False),
        sa.Column("expires", UtcDateTime, nullable=False),
    )
    for column in ("session_id", "token_id", "expires"):
        op.create_index(f"ix_workspace_sessions_{column}", "workspace_sessions", [column])
