"""Make the audit log and the revisions append-only, for every database user."""

from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = ("audit", "revisions")


def upgrade() -> None:
    """Create triggers that reject updates and deletions, so that a bug in the server cannot change history."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    if postgresql:
        op.execute(
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        )
    for table in TABLES:
        for event in ("UPDATE", "DELETE"):
            name = f"{table}_refuses_{event.lower()}"
            if postgresql:
                body = "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
            else:
                body = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            op.execute(f"CREATE TRIGGER {name} BEFORE {event} ON {table} {body}")
        if postgresql:
            # TRUNCATE does not fire row triggers. SQLite has no such statement.
            body = "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            op.execute(f"CREATE TRIGGER {table}_refuses_truncate BEFORE TRUNCATE ON {table} {body}")


def downgrade() -> None:
    """Drop the triggers."""
    on_table = op.get_bind().dialect.name == "postgresql"
    for table in TABLES:
        for event in ("UPDATE", "DELETE"):
            op.execute(f"DROP TRIGGER {table}_refuses_{event.lower()}" + (f" ON {table}" if on_table else ""))
        if on_table:
            op.execute(f"DROP TRIGGER {table}_refuses_truncate ON {table}")
    if on_table:
        op.execute("DROP FUNCTION refuse_change()")
