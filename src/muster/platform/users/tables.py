"""The tables of users. Secrets are never in them: passwords are argon2 hashes, tokens are SHA-256 hashes."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, UniqueConstraint

from muster.platform.database.columns import DOCUMENT, STRING, Moment, metadata

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
    Column("created", Moment, nullable=False),
    Column("last_login", Moment),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
    UniqueConstraint("issuer", "subject"),
)
"""`issuer` and `subject` are those of OpenID Connect; a local account has '' and NULL."""

teams = Table(
    "teams",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("name", STRING, nullable=False),
    Column("description", STRING, nullable=False),
    Column("created", Moment, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name"),
)

memberships = Table(
    "memberships",
    metadata,
    Column("team_id", STRING, ForeignKey("teams.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("role", STRING, nullable=False),
    Column("created", Moment, nullable=False),
    PrimaryKeyConstraint("team_id", "user_id"),
    Index(None, "user_id"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("hash", STRING, nullable=False),
    Column("created", Moment, nullable=False),
    Column("last_used", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
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
    Column("created", Moment, nullable=False),
    Column("last_used", Moment),
    Column("expires", Moment),
    Column("revoked", Moment),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
    Index(None, "run_id"),
)
"""`hint` is the end of the token, by which its owner recognizes it."""

links = Table(
    "links",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("user_id", STRING, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("hash", STRING, nullable=False),
    Column("created", Moment, nullable=False),
    Column("expires", Moment),
    Column("used", Moment),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
)
"""Links that let somebody choose a password once."""

audit = Table(
    "audit",
    metadata,
    Column("id", STRING, primary_key=True),
    Column("at", Moment, nullable=False),
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
"""What the platform has to remember of itself."""
