"""Modules, their versions, categories and reviews."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import DOCUMENT, STRING, UtcDateTime

revision = "modules_0001"
down_revision = None
branch_labels = ("modules",)
depends_on = ("users_0001",)


def upgrade() -> None:
    op.create_table(
        "categories",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_categories_name"),
    )
    category = sa.ForeignKey("categories.id", name="fk_modules_category_id")
    op.create_table(
        "modules",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("name", STRING, nullable=False),
        sa.Column("description", STRING, nullable=False),
        sa.Column("category_id", STRING, category, nullable=False),
        sa.Column("owner_id", STRING, sa.ForeignKey("users.id", name="fk_modules_owner_id"), nullable=False),
        sa.Column("team_id", STRING, sa.ForeignKey("teams.id", name="fk_modules_team_id", ondelete="SET NULL")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("versions", sa.Integer, nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("public_number", sa.Integer, nullable=False),
        sa.Column("public_state", STRING, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_modules_name"),
    )
    for column in ("category_id", "owner_id", "team_id", "updated"):
        op.create_index(f"ix_modules_{column}", "modules", [column])
    _create_versions()
    _create_reviews()


def _create_versions() -> None:
    module = sa.ForeignKey("modules.id", name="fk_module_versions_module_id", ondelete="CASCADE")
    texts = ("git_url", "git_ref", "dockerfile", "build_dir", "readme_path")
    op.create_table(
        "module_versions",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("module_id", STRING, module, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("author_id", STRING, sa.ForeignKey("users.id", name="fk_module_versions_author_id"), nullable=False),
        *(sa.Column(name, STRING, nullable=False) for name in texts),
        *(sa.Column(name, DOCUMENT, nullable=False) for name in ("env", "inputs", "outputs")),
        sa.Column("state", STRING, nullable=False),
        sa.Column("reason", STRING, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("interruptions", sa.Integer, nullable=False),
        sa.Column("git_commit", STRING, nullable=False),
        sa.Column("image", STRING, nullable=False),
        sa.Column("entrypoint", DOCUMENT, nullable=False),
        sa.Column("working_dir", STRING, nullable=False),
        sa.Column("image_env", DOCUMENT, nullable=False),
        sa.Column("folder", STRING, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("readme", STRING, nullable=False),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("updated", UtcDateTime, nullable=False),
        sa.Column("built", UtcDateTime),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.UniqueConstraint("module_id", "number", name="uq_module_versions_module_id_number"),
    )
    for column in ("author_id", "state"):
        op.create_index(f"ix_module_versions_{column}", "module_versions", [column])


def _create_reviews() -> None:
    module = sa.ForeignKey("modules.id", name="fk_reviews_module_id", ondelete="CASCADE")
    version = sa.ForeignKey("module_versions.id", name="fk_reviews_version_id", ondelete="CASCADE")
    op.create_table(
        "reviews",
        sa.Column("id", STRING, primary_key=True),
        sa.Column("module_id", STRING, module, nullable=False),
        sa.Column("version_id", STRING, version, nullable=False),
        sa.Column("author_id", STRING, sa.ForeignKey("users.id", name="fk_reviews_author_id"), nullable=False),
        sa.Column("state", STRING, nullable=False),
        sa.Column("message", STRING, nullable=False),
        sa.Column("reason", STRING, nullable=False),
        sa.Column("decided_by", STRING, sa.ForeignKey("users.id", name="fk_reviews_decided_by")),
        sa.Column("created", UtcDateTime, nullable=False),
        sa.Column("decided", UtcDateTime),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    for column in ("module_id", "version_id", "author_id"):
        op.create_index(f"ix_reviews_{column}", "reviews", [column])
    op.create_index("ix_reviews_state_created", "reviews", ["state", "created"])
