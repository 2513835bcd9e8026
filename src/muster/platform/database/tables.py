"""The tables of the platform, and the column types they are made of. They are the same on SQLite and PostgreSQL.

Secrets are never stored: passwords are argon2 hashes, tokens are SHA-256 hashes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB, TEXT
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Compared by code point on both, so that lists have the same order everywhere.
STRING = Text().with_variant(TEXT(collation="C"), "postgresql")
"""Text of any length, including ids."""

DOCUMENT = JSON().with_variant(JSONB(), "postgresql")
"""Any JSON value."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time with microseconds. In Python it always has a time zone."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else from_microseconds(value)


def to_microseconds(value: datetime) -> int:
    """Since 1970."""
    return (value - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(since_1970: int) -> datetime:
    return _EPOCH + timedelta(microseconds=since_1970)


def now() -> datetime:
    return datetime.now(UTC)


users = Table(
    "users",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("display_name", STRING, nullable=False),
    Column("email", STRING, nullable=False),
    Column("admin", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("password", STRING),
    Column("issuer", STRING, nullable=False),
    Column("subject", STRING),
    Column("created", UtcDateTime, nullable=False),
    Column("last_login", UtcDateTime),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
    UniqueConstraint("issuer", "subject"),
)
"""`issuer` and `subject` come from OpenID Connect; a local account has '' and NULL."""

teams = Table(
    "teams",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)

memberships = Table(
    "memberships",
    metadata,
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("role", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("team_id", "user_id"),
    Index(None, "user_id"),
)

namespaces = Table(
    "namespaces",
    metadata,
    Column("name", STRING, primary_key=True),
    Column("user_id", STRING),
    Column("team_id", STRING),
    UniqueConstraint("user_id"),
    UniqueConstraint("team_id"),
)
"""The namespace of each user and team on the cluster. The row of a deleted team stays until its namespace is gone."""

sessions = Table(
    "sessions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("hash", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("last_used", UtcDateTime, nullable=False),
    Column("expires", UtcDateTime, nullable=False),
    Column("address", STRING, nullable=False),
    Column("browser", STRING, nullable=False),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", STRING, nullable=False),
    Column("hash", STRING, nullable=False),
    Column("hint", STRING, nullable=False),
    Column("scopes", DOCUMENT, nullable=False),
    Column("run_id", STRING),
    Column("created", UtcDateTime, nullable=False),
    Column("last_used", UtcDateTime),
    Column("expires", UtcDateTime),
    Column("revoked", UtcDateTime),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
    Index(None, "run_id"),
)
"""`hint` is the end of the token, by which its owner recognizes it."""

workspace_sessions = Table(
    "workspace_sessions",
    metadata,
    Column("hash", STRING, primary_key=True),
    Column("workspace", STRING, nullable=False),
    Column("session_id", STRING, ForeignKey("sessions.id", ondelete="CASCADE")),
    Column("token_id", STRING, ForeignKey("api_tokens.id", ondelete="CASCADE")),
    Column("is_ticket", Boolean, nullable=False),
    Column("expires", UtcDateTime, nullable=False),
    Index(None, "session_id"),
    Index(None, "token_id"),
    Index(None, "expires"),
)
"""Who is logged in to a workspace, which has an origin of its own: by a session or a token of the platform, and no
longer than that. A ticket is exchanged for a cookie once."""

known_devices = Table(
    "known_devices",
    metadata,
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("hash", STRING, nullable=False),
    Column("network", STRING, nullable=False),
    Column("last_used", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("user_id", "hash", "network"),
    Index(None, "hash"),
)
"""Where users have logged in: `hash` is that of the browser's device cookie, `network` an IPv4 address or IPv6 /64."""

links = Table(
    "links",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("hash", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("expires", UtcDateTime),
    Column("used", UtcDateTime),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
)
"""One-time links to choose a password."""

audit = Table(
    "audit",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor_id", STRING, nullable=False),
    Column("actor_name", STRING, nullable=False),
    Column("via", STRING, nullable=False),
    Column("address", STRING, nullable=False),
    Column("action", STRING, nullable=False),
    Column("kind", STRING, nullable=False),
    Column("subject_id", STRING, nullable=False),
    Column("subject_name", STRING, nullable=False),
    Column("details", DOCUMENT, nullable=False),
    Index(None, "at"),
    Index(None, "actor_id", "at"),
    Index(None, "kind", "subject_id"),
)
"""Names are copied: the record outlives what it is about."""

settings = Table(
    "settings",
    metadata,
    Column("key", STRING, primary_key=True),
    Column("value", DOCUMENT, nullable=False),
)
"""Settings that the platform stores for itself."""


leases = Table(
    "leases",
    metadata,
    Column("name", STRING, primary_key=True),
    Column("holder", STRING, nullable=False),
    Column("until", UtcDateTime, nullable=False),
    Index(None, "holder"),
)
"""What each of several servers is doing; see `leases.py`."""


ACCESS_TABLES = frozenset({"users", "teams", "memberships", "sessions", "api_tokens"})
"""The rights of users depend on these."""

workflows = Table(
    "workflows",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("archived", UtcDateTime),
    Column("versions", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "updated"),
)
"""`versions` is the number of versions, and so the number of the latest."""

versions = Table(
    "versions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("workflow_id", STRING, ForeignKey("workflows.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("type", STRING, nullable=False),
    Column("document", DOCUMENT, nullable=False),
    Column("hash", STRING, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("author_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("copied_from", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("archived", UtcDateTime),
    UniqueConstraint("workflow_id", "number"),
    UniqueConstraint("workflow_id", "name"),
    Index(None, "author_id"),
)
"""`copied_from` is the id of another version, or ''."""


categories = Table(
    "categories",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)

modules = Table(
    "modules",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("category_id", STRING, ForeignKey("categories.id"), nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="SET NULL")),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("versions", Integer, nullable=False),
    Column("state", STRING, nullable=False),
    Column("public_number", Integer, nullable=False),
    Column("public_state", STRING, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
    Index(None, "category_id"),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "updated"),
)
"""`versions` is the number of versions, `state` that of the newest. `public_number` and `public_state` describe the
version that all users may use: the newest published one, else the newest deprecated one; 0 and '' if there is none."""

module_versions = Table(
    "module_versions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("module_id", STRING, ForeignKey("modules.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("author_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("git_url", STRING, nullable=False),
    Column("git_ref", STRING, nullable=False),
    Column("dockerfile", STRING, nullable=False),
    Column("build_dir", STRING, nullable=False),
    Column("readme_path", STRING, nullable=False),
    Column("env", DOCUMENT, nullable=False),
    Column("inputs", DOCUMENT, nullable=False),
    Column("outputs", DOCUMENT, nullable=False),
    Column("state", STRING, nullable=False),
    Column("reason", STRING, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("git_commit", STRING, nullable=False),
    Column("image", STRING, nullable=False),
    Column("entrypoint", DOCUMENT, nullable=False),
    Column("working_dir", STRING, nullable=False),
    Column("image_env", DOCUMENT, nullable=False),
    Column("folder", STRING, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("readme", STRING, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("built", UtcDateTime),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("module_id", "number"),
    Index(None, "author_id"),
    Index(None, "state"),
)
"""`reason` says why it failed or was rejected. `attempts` counts the starts of its build: only the latest may store a
result. `interruptions` counts how often the server stopped during the build. `folder` is the path of the code, '' if
there is an image."""

reviews = Table(
    "reviews",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("module_id", STRING, ForeignKey("modules.id", ondelete="CASCADE"), nullable=False),
    Column("version_id", STRING, ForeignKey("module_versions.id", ondelete="CASCADE"), nullable=False),
    Column("author_id", STRING, ForeignKey("users.id"), nullable=False),
    Column("state", STRING, nullable=False),
    Column("message", STRING, nullable=False),
    Column("reason", STRING, nullable=False),
    Column("decided_by", STRING, ForeignKey("users.id")),
    Column("created", UtcDateTime, nullable=False),
    Column("decided", UtcDateTime),
    Column("revision", Integer, nullable=False),
    Index(None, "module_id"),
    Index(None, "version_id"),
    Index(None, "author_id"),
    Index(None, "state", "created"),
)
"""`state` is open, approved, rejected or withdrawn."""


virtual_clusters = Table(
    "virtual_clusters",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("node_selector", DOCUMENT, nullable=False),
    Column("tolerations", DOCUMENT, nullable=False),
    Column("sku", DOCUMENT, nullable=False),
    Column("total", Integer),
    Column("team_id", STRING, ForeignKey("teams.id")),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)
"""`sku` has amounts by resource; `total` is the number of SKUs, NULL for as many as the nodes have."""

storage_roots = Table(
    "storage_roots",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("path", STRING, nullable=False),
    Column("host_path", STRING, nullable=False),
    Column("claim", STRING, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id")),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)
"""`team_id`: the team that may use it; NULL for all users. A team with resources cannot be deleted, so that its
resources do not become public."""

cluster_usage = Table(
    "cluster_usage",
    metadata,
    Column("cluster_id", STRING, ForeignKey("virtual_clusters.id", ondelete="CASCADE"), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("looks", Integer, nullable=False),
    Column("used", Integer, nullable=False),
    Column("peak", Integer, nullable=False),
    Column("total", Integer),
    PrimaryKeyConstraint("cluster_id", "at"),
)
"""One row for every five minutes with a sample: `used` is the sum of all samples, in SKUs. Rows are kept for a week."""


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
    Column("created", UtcDateTime, nullable=False),
    Column("started", UtcDateTime),
    Column("finished", UtcDateTime),
    Column("stopping", UtcDateTime),
    Column("stopped_by", STRING, nullable=False, server_default=""),
    Column("seen", STRING, nullable=False),
    Column("namespace", STRING, nullable=False, server_default="default"),
    Column("tags", DOCUMENT, nullable=False, server_default="[]"),
    Column("revision", Integer, nullable=False),
    Index(None, "created", "id"),
    Index(None, "name", "id"),
    Index(None, "state", "created", "id"),
    Index(None, "workflow_id", "created", "id"),
    Index(None, "version_id", "created", "id"),
    Index(None, "owner_id", "created", "id"),
    Index(None, "team_id", "created", "id"),
)
"""`stopping`, `stopped_by`: when a user asked it to stop, and who. `seen`: the resourceVersion of the Workflow that the
row describes. The indexes end with the columns that lists are sorted by, so that a page is read, not searched."""

run_tags = Table(
    "run_tags",
    metadata,
    Column("run_id", STRING, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("key", STRING, nullable=False),
    Column("value", STRING, nullable=False),
    PrimaryKeyConstraint("run_id", "key"),
    Index(None, "key", "value", "run_id"),
)
"""`runs.tags` once more, to find runs by them. `value` is '' for a tag that is only a key."""

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
    Column("started", UtcDateTime),
    Column("finished", UtcDateTime),
    Column("cluster", STRING, nullable=False),
    Column("skus", Integer, nullable=False),
    PrimaryKeyConstraint("run_id", "name"),
    Index(None, "cluster", "state"),
)
"""`cluster` and `skus`: what a compute task uses, for all its replicas together."""

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
    Column("started", UtcDateTime),
    Column("finished", UtcDateTime),
    PrimaryKeyConstraint("run_id", "node", "number"),
)
"""`key` is the id of the node in the Workflow; `round` is how often the run was retried before: a retry uses the names
of nodes and Pods again."""

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("owner_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="CASCADE")),
    Column("workflow_id", STRING, ForeignKey("workflows.id", ondelete="CASCADE")),
    Column("states", DOCUMENT, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("address", STRING, nullable=False),
    Column("target", DOCUMENT, nullable=False),
    Column("has_secret", Boolean, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("revision", Integer, nullable=False),
    Index(None, "owner_id"),
    Index(None, "team_id"),
    Index(None, "workflow_id"),
)
"""Where to send a message when a run ends. With a team, runs that are shared with it; without, runs of the owner.
`workflow_id`: only its runs. `target` has the URL and the secret, sealed; `address` is the part of the URL that is
shown."""

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("webhook_id", STRING, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("event", STRING, nullable=False),
    Column("run_id", STRING, nullable=False),
    Column("run_name", STRING, nullable=False),
    Column("run_state", STRING, nullable=False),
    Column("body", STRING, nullable=False),
    Column("state", STRING, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("due", UtcDateTime),
    Column("tried", UtcDateTime),
    Column("status", Integer),
    Column("problem", DOCUMENT),
    Index(None, "state", "due"),
    Index(None, "webhook_id", "created", "id"),
)
"""Messages of webhooks: those to send, and a log of those that were sent. `state` is pending, delivered or failed.
`body` is sent as it is, at every attempt. `status` is that of the last response; `problem` a code of the message
catalog with its values."""

run_orders = Table(
    "run_orders",
    metadata,
    Column("run_id", STRING, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("workflow", DOCUMENT, nullable=False),
    Column("secret", DOCUMENT, nullable=False),
    Column("created", UtcDateTime, nullable=False),
)
"""Workflows to create. A row is written with its run and deleted once the Workflow exists."""

run_removals = Table(
    "run_removals",
    metadata,
    Column("run_id", STRING, primary_key=True),
    Column("namespace", STRING, nullable=False, server_default="default"),
    Column("created", UtcDateTime, nullable=False),
)
"""Deleted runs whose Workflows and logs are still to be deleted."""
