"""Alembic runs this for every upgrade. The migrations run in the caller's transaction."""

from __future__ import annotations

from alembic import context

from muster.platform.database.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
