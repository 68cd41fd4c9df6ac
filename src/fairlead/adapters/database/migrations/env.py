"""Runs Alembic migrations on the caller's connection, in the caller's transaction."""

from alembic import context

from fairlead.adapters.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    # Alembic turns this off for SQLite. Our engine begins transactions itself, so DDL can also be rolled back there.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
