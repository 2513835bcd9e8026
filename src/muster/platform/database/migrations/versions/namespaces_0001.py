"""The namespaces of users and teams."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from muster.platform.database.tables import STRING
from muster.platform.users.namespace_names import choose_name

revision = "namespaces_0001"
down_revision = None
branch_labels = ("namespaces",)
depends_on = "users_0001"


def upgrade() -> None:
    op.create_table(
        "namespaces",
        sa.Column("name", STRING, primary_key=True),
        sa.Column("user_id", STRING),
        sa.Column("team_id", STRING),
        sa.UniqueConstraint("user_id", name="uq_namespaces_user_id"),
        sa.UniqueConstraint("team_id", name="uq_namespaces_team_id"),
    )
    connection = op.get_bind()
    taken: set[str] = set()
    for column, prefix, table in (("user_id", "user", "users"), ("team_id", "team", "teams")):
        for identifier, name in connection.execute(sa.text(f"SELECT id, name FROM {table} ORDER BY id")).all():  # noqa: S608
            chosen = choose_name(prefix, name, identifier, taken)
            taken.add(chosen)
            insert = f"INSERT INTO namespaces (name, {column}) VALUES (:name, :id)"  # noqa: S608
            connection.execute(sa.text(insert), {"name": chosen, "id": identifier})
