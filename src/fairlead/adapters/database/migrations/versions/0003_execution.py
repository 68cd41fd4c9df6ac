"""Add the data for executing runs: their server, code, events and outcomes, and the servers."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
JSON = sa.JSON()
TIMESTAMP = sa.DateTime(timezone=True)
ADDED: dict[str, Any] = {
    "code": TEXT,
    "held_by": TEXT,
    "stopped_by": TEXT,
    "exit_code": sa.Integer(),
    "started_at": TIMESTAMP,
}
INDEXES = {
    "ix_runs_code": ("runs", ["code"]),
    "ix_runs_live": ("runs", ["live", "held_by", "id"]),
    "ix_runs_cluster": ("runs", ["cluster"]),
    "ix_runs_finished_at": ("runs", ["finished_at"]),
    "ix_events_run_id": ("events", ["run_id"]),
    "ix_codes_created_at": ("codes", ["created_at"]),
    "ix_codes_digest": ("codes", ["digest"]),
}


def upgrade() -> None:
    """Add columns and tables. Existing runs have no server yet, so they wait until one claims them."""
    for name, kind in ADDED.items():
        op.add_column("runs", sa.Column(name, kind, nullable=True))
    text = TEXT.compile(dialect=op.get_bind().dialect)
    # Raw SQL, because SQLite can add a foreign key only with its column, but Alembic would use two statements.
    op.execute(
        f"ALTER TABLE runs ADD COLUMN cluster {text} CONSTRAINT fk_runs_cluster "
        "REFERENCES places (scope) ON DELETE NO ACTION ON UPDATE CASCADE"
    )
    op.create_table(
        "events",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("run_id", TEXT, _run(), nullable=False),
        sa.Column("at", TIMESTAMP, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
    )
    op.create_table(
        "outcomes",
        sa.Column("id", TEXT, _run(), primary_key=True),
        sa.Column("result", JSON, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("usage", JSON, nullable=False),
    )
    op.create_table(
        "codes",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
    )
    op.create_table(
        "blobs",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "servers",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", TEXT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("url", TEXT, nullable=False),
        sa.Column("seen_at", TIMESTAMP, nullable=False),
    )
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)
    # Servers create the `local` cluster on an empty platform. It represents the server's machine.
    op.execute("""UPDATE places SET details = '{"executor": "local"}' WHERE scope = 'cluster/local'""")


def downgrade() -> None:
    """Drop the tables and columns."""
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
    for table in ("servers", "blobs", "codes", "outcomes", "events"):
        op.drop_table(table)
    with op.batch_alter_table("runs") as runs:
        for name in ("cluster", *ADDED):
            runs.drop_column(name)


def _run() -> sa.ForeignKey:
    return sa.ForeignKey("runs.id", ondelete="CASCADE")
