"""Rename columns to the names used in the API, such as active, server_id and user."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

COLUMNS = (
    ("runs", "live", "active"),
    ("runs", "held_by", "server_id"),
    ("runs", "turn", "queue_key"),
    ("runs", "due_at", "retry_at"),
    ("runs", "used_at", "last_used_at"),
    ("attempts", "held_by", "server_id"),
    ("audit", "who", "user"),
    ("audit", "place_id", "scope_id"),
    ("tokens", "made_with", "created_with"),
    ("generations", "organisation", "organization"),
)
# A renamed column stays in its indexes, but the index names contain the old name.
INDEXES = (
    ("runs", "ix_runs_live", "ix_runs_active", ["live", "held_by", "turn", "id"]),
    ("runs", "ix_runs_scope_live", "ix_runs_scope_active", ["scope", "live"]),
    ("audit", "ix_audit_who", "ix_audit_user", ["who"]),
    ("audit", "ix_audit_place_id", "ix_audit_scope_id", ["place_id"]),
)


def upgrade() -> None:
    """Rename in place, so that rows, foreign keys and triggers are not affected."""
    for table, old, new in COLUMNS:
        _rename_column(table, old, new)
    for table, old, new, columns in INDEXES:
        names = {before: after for of, before, after in COLUMNS if of == table}
        op.drop_index(old, table)
        op.create_index(new, table, [names.get(column, column) for column in columns])


def downgrade() -> None:
    """Restore the former names."""
    for table, _, new, _ in INDEXES:
        op.drop_index(new, table)
    for table, old, new in COLUMNS:
        _rename_column(table, new, old)
    for table, old, _, columns in INDEXES:
        op.create_index(old, table, columns)


def _rename_column(table: str, old: str, new: str) -> None:
    # Alembic copies the whole table to rename a column on SQLite; both databases can do it in place.
    quote = op.get_bind().dialect.identifier_preparer.quote  # `user` is a reserved word
    op.execute(sa.text(f"ALTER TABLE {table} RENAME COLUMN {quote(old)} TO {quote(new)}"))
