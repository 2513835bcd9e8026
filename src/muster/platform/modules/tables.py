"""The tables of modules. What was built of a row of `module_versions` never changes; its state does."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from muster.platform.database.columns import DOCUMENT, STRING, Moment, metadata

categories = Table(
    "categories",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("created", Moment, nullable=False),
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
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
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
"""`versions` is how many there are, `state` that of the newest. `public_number` and `public_state` are of the version
that everybody is offered: the newest published one, else the newest deprecated one; 0 and '' if there is neither."""

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
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("built", Moment),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("module_id", "number"),
    Index(None, "author_id"),
    Index(None, "state"),
)
"""`reason` says why it failed or was rejected. `attempts` counts how often its build was begun: only the latest one
may write down how it ended. `interruptions` counts how often the server ended meanwhile. `folder` is where the code is,
'' if there is an image."""

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
    Column("created", Moment, nullable=False),
    Column("decided", Moment),
    Column("revision", Integer, nullable=False),
    Index(None, "module_id"),
    Index(None, "version_id"),
    Index(None, "author_id"),
    Index(None, "state", "created"),
)
"""`state` is open, approved, rejected or withdrawn."""
