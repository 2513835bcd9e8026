"""Alembic runs this for every upgrade. The migrations run in the caller's transaction."""

from __future__ import annotations

from alembic import context

from muster.dispatch.database import VERSION_TABLE
from muster.dispatch.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
