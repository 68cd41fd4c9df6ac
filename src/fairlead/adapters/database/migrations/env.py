"""Runs Alembic migrations on the connection and in the transaction of the caller."""

from alembic import context

from fairlead.adapters.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    # Alembic turns this off for SQLite. Our engine begins transactions itself, so DDL can be rolled back there too.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
