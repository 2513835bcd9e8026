"""Runs, their nodes and attempts, and Workflows that are still to be made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "runs_0001"
down_revision = None
branch_labels = ("runs",)
depends_on = ("users_0001", "workflows_0001")


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("workflow_id", STRING, sa.ForeignKey("workflows.id", name="fk_runs_workflow_id"), nullable=False),
        sa.Column("version_id", STRING, sa.ForeignKey("versions.id", name="fk_runs_version_id"), nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_runs_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_runs_team_id", ondelete="SET NULL")),
        sa.Column("parameters", DOCUMENT, nullable=False),
        sa.Column("copied_from", STRING, nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("message", STRING, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("started", UtcDateTime),
        sa.Column("finished", UtcDateTime),
        sa.Column("stopping", UtcDateTime),
        sa.Column("seen", STRING, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("ix_runs_created_id", "runs", ["created", "id"])
    op.create_index("ix_runs_name_id", "runs", ["name", "id"])
    for column in ("state", "workflow_id", "version_id", "owner_id", "team_id"):
        op.create_index(f"ix_runs_{column}_created_id", "runs", [column, "created", "id"])
    op.create_table(
        "run_nodes",
        sa.Column("run_id", STRING, _of_run("run_nodes"), nullable=False),
        sa.Column("name", STRING, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("kind", STRING, nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("message", STRING, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("started", UtcDateTime),
        sa.Column("finished", UtcDateTime),
        sa.Column("cluster", STRING, nullable=False),
        sa.Column("skus", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_run_nodes"),
    )
    op.create_index("ix_run_nodes_cluster_state", "run_nodes", ["cluster", "state"])
    op.create_table(
        "run_attempts",
        sa.Column("run_id", STRING, _of_run("run_attempts"), nullable=False),
        sa.Column("node", STRING, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", STRING, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("pod", STRING, nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("message", STRING, nullable=False),
        sa.Column("exit_code", STRING, nullable=False),
        sa.Column("host", STRING, nullable=False),
        sa.Column("started", UtcDateTime),
        sa.Column("finished", UtcDateTime),
        sa.PrimaryKeyConstraint("run_id", "node", "number", name="pk_run_attempts"),
    )
    op.create_table(
        "run_orders",
        sa.Column("run_id", STRING, _of_run("run_orders"), primary_key=True),
        sa.Column("workflow", DOCUMENT, nullable=False),
        sa.Column("secret", DOCUMENT, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
    )
    op.create_table(
        "run_removals",
        sa.Column("run_id", STRING, primary_key=True),
        sa.Column("created", UtcDateTime, nullable=False),
    )


def _of_run(table: str) -> sa.ForeignKey:
    return sa.ForeignKey("runs.id", name=f"fk_{table}_run_id", ondelete="CASCADE")
