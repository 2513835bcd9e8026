"""The tables of Kubeflow Pipelines: experiments, pipelines and their versions, runs, recurring runs, artifacts.

They are here because the platform keeps a namespace for as long as pipeline runs are in it.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, UniqueConstraint

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime, metadata

experiments = Table(
    "experiments",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("namespace", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("archived", Boolean, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("last_run", UtcDateTime),
    UniqueConstraint("namespace", "name"),
    Index(None, "namespace", "created", "id"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
)

pipelines = Table(
    "pipelines",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("display_name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("tags", DOCUMENT, nullable=False),
    Column("namespace", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("created", UtcDateTime, nullable=False),
    UniqueConstraint("namespace", "name"),
    Index(None, "namespace", "created", "id"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
)

pipeline_specs = Table(
    "pipeline_specs",
    metadata,
    Column("hash", STRING, primary_key=True),
    Column("document", DOCUMENT, nullable=False),
    Column("size", Integer, nullable=False),
)
"""Each spec once, by the SHA-256 of its JSON: the runs of a recurring run share one. `size` is that of the JSON."""

pipeline_versions = Table(
    "pipeline_versions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("pipeline_id", STRING, ForeignKey("pipelines.id"), nullable=False),
    Column("name", STRING, nullable=False),
    Column("display_name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("tags", DOCUMENT, nullable=False),
    Column("code_source_url", STRING, nullable=False),
    Column("spec_hash", STRING, ForeignKey("pipeline_specs.hash"), nullable=False),
    Column("created", UtcDateTime, nullable=False),
    UniqueConstraint("pipeline_id", "name"),
    Index(None, "pipeline_id", "created", "id"),
    Index(None, "spec_hash"),
)

recurring_runs = Table(
    "recurring_runs",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("experiment_id", STRING, nullable=False),
    Column("namespace", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("pipeline_id", STRING, nullable=False),
    Column("version_id", STRING, nullable=False),
    Column("spec_hash", STRING, ForeignKey("pipeline_specs.hash")),
    Column("parameters", DOCUMENT, nullable=False),
    Column("pipeline_root", STRING, nullable=False),
    Column("service_account", STRING, nullable=False),
    Column("trigger", DOCUMENT, nullable=False),
    Column("max_concurrency", Integer, nullable=False),
    Column("no_catchup", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("error", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("last_tick", UtcDateTime),
    Column("ticks", Integer, nullable=False),
    Index(None, "experiment_id", "created", "id"),
    Index(None, "namespace", "created", "id"),
    Index(None, "enabled"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "spec_hash"),
)
"""`version_id` is '' for the newest version at each tick; `spec_hash` is NULL unless the spec itself was given.
`last_tick` and `ticks` change in the transaction that stores the run of a tick, so no tick is lost or played twice."""

pipeline_runs = Table(
    "pipeline_runs",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("experiment_id", STRING, nullable=False),
    Column("namespace", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("pipeline_id", STRING, nullable=False),
    Column("version_id", STRING, nullable=False),
    Column("spec_hash", STRING, ForeignKey("pipeline_specs.hash"), nullable=False),
    Column("recurring_run_id", STRING, nullable=False),
    Column("parameters", DOCUMENT, nullable=False),
    Column("pipeline_root", STRING, nullable=False),
    Column("service_account", STRING, nullable=False),
    Column("workflow", STRING, nullable=False),
    Column("request", DOCUMENT),
    Column("state", STRING, nullable=False),
    Column("history", DOCUMENT, nullable=False),
    Column("error", STRING, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("scheduled", UtcDateTime, nullable=False),
    Column("finished", UtcDateTime),
    Column("stopped_by", STRING, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("seen", STRING, nullable=False),
    Index(None, "experiment_id", "created", "id"),
    Index(None, "namespace", "created", "id"),
    Index(None, "recurring_run_id", "state"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "spec_hash"),
    Index(None, "state"),
    Index(None, "deleted"),
)
"""`workflow` is the name of its Workflow; `request` is the Workflow to create, NULL once it exists. `deleted`: the row
goes when the Workflow is gone. `seen`: the resourceVersion of the Workflow that the row describes."""

pipeline_run_tasks = Table(
    "pipeline_run_tasks",
    metadata,
    Column("run_id", STRING, ForeignKey("pipeline_runs.id", ondelete="CASCADE"), nullable=False),
    Column("id", STRING, nullable=False),
    Column("position", Integer, nullable=False),
    Column("details", DOCUMENT, nullable=False),
    PrimaryKeyConstraint("run_id", "id"),
)
"""The tasks of a run that ended: what the API says about them, with their inputs and outputs, after the Workflow and
its Pods are gone."""

pipeline_artifacts = Table(
    "pipeline_artifacts",
    metadata,
    Column("run_id", STRING, ForeignKey("pipeline_runs.id", ondelete="CASCADE"), nullable=False),
    Column("task_id", STRING, nullable=False),
    Column("direction", STRING, nullable=False),
    Column("key", STRING, nullable=False),
    Column("position", Integer, nullable=False),
    Column("artifact_id", STRING, nullable=False),
    Column("name", STRING, nullable=False),
    Column("type", STRING, nullable=False),
    Column("uri", STRING, nullable=False),
    Column("metadata", DOCUMENT, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("run_id", "task_id", "direction", "key", "position"),
    Index(None, "artifact_id"),
    Index(None, "uri"),
)
"""The artifacts that the tasks of ended runs made (`output`) and used (`input`): their lineage."""
