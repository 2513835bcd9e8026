"""Users, teams, sessions, tokens, links, the audit log and settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "users_0001"
down_revision = None
branch_labels = ("users",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("display_name", STRING, nullable=False),
        sa.Column("email", STRING, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("password", STRING),
        sa.Column("issuer", STRING, nullable=False),
        sa.Column("subject", STRING),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("last_login", UtcDateTime),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sa.UniqueConstraint("issuer", "subject", name="uq_users_issuer_subject"),
    )
    op.create_table(
        "teams",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_teams_name"),
    )
    op.create_table(
        "memberships",
        sa.Column(
            "team_id",
            STRING,
            sa.ForeignKey("teams.id", name="fk_memberships_team_id", ondelete="CASCADE"),
            nullable=False,
        ),
        _user("memberships"),
        sa.Column("role", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("team_id", "user_id", name="pk_memberships"),
    )
    op.create_index("ix_memberships_user_id", "memberships", ["user_id"])
    op.create_table(
        "sessions",
        sa.Column("id", STRING, primary_key=True),
        _user("sessions"),
        sa.Column("hash", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("last_used", UtcDateTime, nullable=False),
        sa.Column("expires", UtcDateTime, nullable=False),
        sa.Column("address", STRING, nullable=False),
        sa.Column("browser", STRING, nullable=False),
        sa.UniqueConstraint("hash", name="uq_sessions_hash"),
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_table(
        "api_tokens",
        sa.Column("id", STRING, primary_key=True),
        _user("api_tokens"),
        sa.Column("name", STRING, nullable=False),
        sa.Column("hash", STRING, nullable=False),
        sa.Column("hint", STRING, nullable=False),
        sa.Column("scopes", DOCUMENT, nullable=False),
        sa.Column("run_id", STRING),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("last_used", UtcDateTime),
        sa.Column("expires", UtcDateTime),
        sa.Column("revoked", UtcDateTime),
        sa.UniqueConstraint("hash", name="uq_api_tokens_hash"),
    )
    op.create_index("ix_api_tokens_user_id", "api_tokens", ["user_id"])
    op.create_index("ix_api_tokens_run_id", "api_tokens", ["run_id"])
    op.create_table(
        "links",
        sa.Column("id", STRING, primary_key=True),
        _user("links"),
        sa.Column("hash", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("expires", UtcDateTime),
        sa.Column("used", UtcDateTime),
        sa.UniqueConstraint("hash", name="uq_links_hash"),
    )
    op.create_index("ix_links_user_id", "links", ["user_id"])
    op.create_table(
        "audit",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("actor_id", STRING, nullable=False),
        sa.Column("actor_name", STRING, nullable=False),
        sa.Column("via", STRING, nullable=False),
        sa.Column("address", STRING, nullable=False),
        sa.Column("action", STRING, nullable=False),
        sa.Column("kind", STRING, nullable=False),
        sa.Column("subject_id", STRING, nullable=False),
        sa.Column("subject_name", STRING, nullable=False),
        sa.Column("details", DOCUMENT, nullable=False),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_actor_id_at", "audit", ["actor_id", "at"])
    op.create_index("ix_audit_kind_subject_id", "audit", ["kind", "subject_id"])
    op.create_table(
        "settings",
        sa.Column("key", STRING, primary_key=True),
        sa.Column("value", DOCUMENT, nullable=False),
    )


def _user(table: str) -> sa.Column[str]:
    reference = sa.ForeignKey("users.id", name=f"fk_{table}_user_id", ondelete="CASCADE")
    return sa.Column("user_id", STRING, reference, nullable=False)
