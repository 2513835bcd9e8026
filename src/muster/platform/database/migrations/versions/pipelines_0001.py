"""Kubeflow Pipelines: experiments, pipelines, versions, runs, recurring runs, artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "pipelines_0001"
down_revision = None
branch_labels = ("pipelines",)
depends_on = ("users_0001",)


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("namespace", STRING, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_experiments_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_experiments_team_id", ondelete="SET NULL")),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("last_run", UtcDateTime),
        sa.UniqueConstraint("namespace", "name", name="uq_experiments_namespace_name"),
    )
    op.create_index("ix_experiments_namespace_created_id", "experiments", ["namespace", "created", "id"])
    op.create_index("ix_experiments_owner_id", "experiments", ["owner_id"])
    op.create_index("ix_experiments_team_id", "experiments", ["team_id"])
    op.create_table(
        "pipelines",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("display_name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("tags", DOCUMENT, nullable=False),
        sa.Column("namespace", STRING, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_pipelines_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_pipelines_team_id", ondelete="SET NULL")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.UniqueConstraint("namespace", "name", name="uq_pipelines_namespace_name"),
    )
    op.create_index("ix_pipelines_namespace_created_id", "pipelines", ["namespace", "created", "id"])
    op.create_index("ix_pipelines_owner_id", "pipelines", ["owner_id"])
    op.create_index("ix_pipelines_team_id", "pipelines", ["team_id"])
    op.create_table(
        "pipeline_specs",
        sa.Column("hash", STRING, primary_key=True),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
    )
    op.create_table(
        "pipeline_versions",
        sa.Column("id", STRING, primary_key=True),
        sa.Column(
            "pipeline_id",
            STRING,
            sa.ForeignKey("pipelines.id", name="fk_pipeline_versions_pipeline_id"),
            nullable=False,
        ),
        sa.Column("name", STRING, nullable=False),
        sa.Column("display_name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("tags", DOCUMENT, nullable=False),
        sa.Column("code_source_url", STRING, nullable=False),
        sa.Column(
            "spec_hash",
            STRING,
            sa.ForeignKey("pipeline_specs.hash", name="fk_pipeline_versions_spec_hash"),
            nullable=False,
        ),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.UniqueConstraint("pipeline_id", "name", name="uq_pipeline_versions_pipeline_id_name"),
    )
    op.create_index(
        "ix_pipeline_versions_pipeline_id_created_id", "pipeline_versions", ["pipeline_id", "created", "id"]
    )
    op.create_index("ix_pipeline_versions_spec_hash", "pipeline_versions", ["spec_hash"])
    op.create_table(
        "recurring_runs",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("experiment_id", STRING, nullable=False),
        sa.Column("namespace", STRING, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_recurring_runs_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_recurring_runs_team_id", ondelete="SET NULL")),
        sa.Column("pipeline_id", STRING, nullable=False),
        sa.Column("version_id", STRING, nullable=False),
        sa.Column("spec_hash", STRING, sa.ForeignKey("pipeline_specs.hash", name="fk_recurring_runs_spec_hash")),
        sa.Column("parameters", DOCUMENT, nullable=False),
        sa.Column("pipeline_root", STRING, nullable=False),
        sa.Column("service_account", STRING, nullable=False),
        sa.Column("trigger", DOCUMENT, nullable=False),
        sa.Column("max_concurrency", sa.Integer, nullable=False),
        sa.Column("no_catchup", sa.Boolean, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("error", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("last_tick", UtcDateTime),
        sa.Column("ticks", sa.Integer, nullable=False),
    )
    op.create_index("ix_recurring_runs_enabled", "recurring_runs", ["enabled"])
    op.create_index("ix_recurring_runs_experiment_id_created_id", "recurring_runs", ["experiment_id", "created", "id"])
    op.create_index("ix_recurring_runs_namespace_created_id", "recurring_runs", ["namespace", "created", "id"])
    op.create_index("ix_recurring_runs_owner_id", "recurring_runs", ["owner_id"])
    op.create_index("ix_recurring_runs_spec_hash", "recurring_runs", ["spec_hash"])
    op.create_index("ix_recurring_runs_team_id", "recurring_runs", ["team_id"])
    op.create_table(
        "pipeline_runs",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("experiment_id", STRING, nullable=False),
        sa.Column("namespace", STRING, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_pipeline_runs_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_pipeline_runs_team_id", ondelete="SET NULL")),
        sa.Column("pipeline_id", STRING, nullable=False),
        sa.Column("version_id", STRING, nullable=False),
        sa.Column(
            "spec_hash", STRING, sa.ForeignKey("pipeline_specs.hash", name="fk_pipeline_runs_spec_hash"), nullable=False
        ),
        sa.Column("recurring_run_id", STRING, nullable=False),
        sa.Column("parameters", DOCUMENT, nullable=False),
        sa.Column("pipeline_root", STRING, nullable=False),
        sa.Column("service_account", STRING, nullable=False),
        sa.Column("workflow", STRING, nullable=False),
        sa.Column("request", DOCUMENT),
        sa.Column("state", STRING, nullable=False),
        sa.Column("history", DOCUMENT, nullable=False),
        sa.Column("error", STRING, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("scheduled", UtcDateTime, nullable=False),
        sa.Column("finished", UtcDateTime),
        sa.Column("stopped_by", STRING, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("seen", STRING, nullable=False),
    )
    op.create_index("ix_pipeline_runs_deleted", "pipeline_runs", ["deleted"])
    op.create_index("ix_pipeline_runs_experiment_id_created_id", "pipeline_runs", ["experiment_id", "created", "id"])
    op.create_index("ix_pipeline_runs_namespace_created_id", "pipeline_runs", ["namespace", "created", "id"])
    op.create_index("ix_pipeline_runs_owner_id", "pipeline_runs", ["owner_id"])
    op.create_index("ix_pipeline_runs_recurring_run_id_state", "pipeline_runs", ["recurring_run_id", "state"])
    op.create_index("ix_pipeline_runs_spec_hash", "pipeline_runs", ["spec_hash"])
    op.create_index("ix_pipeline_runs_state", "pipeline_runs", ["state"])
    op.create_index("ix_pipeline_runs_team_id", "pipeline_runs", ["team_id"])
    op.create_table(
        "pipeline_run_tasks",
        sa.Column(
            "run_id",
            STRING,
            sa.ForeignKey("pipeline_runs.id", name="fk_pipeline_run_tasks_run_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("id", STRING, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("details", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "id", name="pk_pipeline_run_tasks"),
    )
    op.create_table(
        "pipeline_artifacts",
        sa.Column(
            "run_id",
            STRING,
            sa.ForeignKey("pipeline_runs.id", name="fk_pipeline_artifacts_run_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("task_id", STRING, nullable=False),
        sa.Column("direction", STRING, nullable=False),
        sa.Column("key", STRING, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("artifact_id", STRING, nullable=False),
        sa.Column("name", STRING, nullable=False),
        sa.Column("type", STRING, nullable=False),
        sa.Column("uri", STRING, nullable=False),
        sa.Column("metadata", DOCUMENT, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_id", "direction", "key", "position", name="pk_pipeline_artifacts"),
    )
    op.create_index("ix_pipeline_artifacts_artifact_id", "pipeline_artifacts", ["artifact_id"])
    op.create_index("ix_pipeline_artifacts_uri", "pipeline_artifacts", ["uri"])
