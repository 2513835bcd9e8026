"""Jobs and their history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.dispatch.tables import DOCUMENT, ROW_ID, UtcTime

revision = "dispatch_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dispatch_jobs",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("type", sa.String(200), nullable=False),
        sa.Column("adapter", sa.String(100), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.String(300)),
        sa.Column("project", sa.String(200), nullable=False),
        sa.Column("creator", sa.String(200), nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("args", DOCUMENT, nullable=False),
        sa.Column("resources", DOCUMENT, nullable=False),
        sa.Column("retry", DOCUMENT, nullable=False),
        sa.Column("timeout", sa.Double),
        sa.Column("after", DOCUMENT, nullable=False),
        sa.Column("at", UtcTime),
        sa.Column("labels", DOCUMENT, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("external_name", sa.String(100), nullable=False),
        sa.Column("external_id", sa.Text),
        sa.Column("cluster_status", sa.Text, nullable=False),
        sa.Column("hosts", DOCUMENT, nullable=False),
        sa.Column("progress", sa.Double),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("metrics", DOCUMENT, nullable=False),
        sa.Column("result", DOCUMENT),
        sa.Column("fault", DOCUMENT),
        sa.Column("cancel_requested", UtcTime),
        sa.Column("grace", sa.Double, nullable=False),
        sa.Column("next_at", UtcTime),
        sa.Column("created", UtcTime, nullable=False),
        sa.Column("started", UtcTime),
        sa.Column("ended", UtcTime),
        sa.Column("changed", UtcTime),
        sa.Column("tracking", DOCUMENT, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("held_by", sa.String(200)),
        sa.Column("held_until", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_dispatch_jobs"),
        sa.UniqueConstraint("key", name="uq_dispatch_jobs_key"),
    )
    for columns in (["state", "held_until"], ["created", "id"], ["type", "created"], ["project", "created"]):
        op.create_index(f"ix_dispatch_jobs_{'_'.join(columns)}", "dispatch_jobs", columns)
    op.create_table(
        "dispatch_events",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("time", UtcTime, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dispatch_events"),
    )
    op.create_index("ix_dispatch_events_job_id_id", "dispatch_events", ["job_id", "id"])
