"""The tables of runs. What a run is asked to do is written by whoever asks; how it fares, by the observer alone."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table

from muster.platform.database.columns import DOCUMENT, STRING, Moment, metadata

runs = Table(
    "runs",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("workflow_id", STRING, ForeignKey("workflows.id"), nullable=False),
    Column("version_id", STRING, ForeignKey("versions.id"), nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("parameters", DOCUMENT, nullable=False),
    Column("copied_from", STRING, nullable=False),
    Column("state", STRING, nullable=False),
    Column("message", STRING, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
    Column("stopping", Moment),
    Column("seen", STRING, nullable=False),
    Column("revision", Integer, nullable=False),
    Index(None, "created", "id"),
    Index(None, "name", "id"),
    Index(None, "state", "created", "id"),
    Index(None, "workflow_id", "created", "id"),
    Index(None, "version_id", "created", "id"),
    Index(None, "owner_id", "created", "id"),
    Index(None, "team_id", "created", "id"),
)
"""`stopping`: when somebody asked for it. `seen`: the resourceVersion of the Workflow that the row tells of.
The indexes end as lists are sorted, so that a page is read and not searched for."""

run_nodes = Table(
    "run_nodes",
    metadata,
    Column("run_id", STRING, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("name", STRING, nullable=False),
    Column("position", Integer, nullable=False),
    Column("kind", STRING, nullable=False),
    Column("state", STRING, nullable=False),
    Column("message", STRING, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
    Column("cluster", STRING, nullable=False),
    Column("skus", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "name"),
    Index(None, "cluster", "state"),
)
"""`cluster` and `skus`: what a compute task takes, of all its replicas together."""

run_attempts = Table(
    "run_attempts",
    metadata,
    Column("run_id", STRING, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("node", STRING, nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", STRING, nullable=False),
    Column("round", Integer, nullable=False),
    Column("pod", STRING, nullable=False),
    Column("state", STRING, nullable=False),
    Column("message", STRING, nullable=False),
    Column("exit_code", STRING, nullable=False),
    Column("host", STRING, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
    PrimaryKeyConstraint("run_id", "node", "number"),
)
"""`key` is the id of the Workflow's node; `round` is how often the run had been retried when it began: names of nodes
and Pods are used again then."""

run_orders = Table(
    "run_orders",
    metadata,
    Column("run_id", STRING, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("workflow", DOCUMENT, nullable=False),
    Column("secret", DOCUMENT, nullable=False),
    Column("created", Moment, nullable=False),
)
"""Workflows that are still to be made. An order is written with its run, and goes when the Workflow is there."""

run_removals = Table(
    "run_removals",
    metadata,
    Column("run_id", STRING, primary_key=True),
    Column("created", Moment, nullable=False),
)
"""Runs that are deleted, and whose Workflows and logs are still to go."""
