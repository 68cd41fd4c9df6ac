"""Add retries, priorities, idle timeouts and schedules for runs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
TIMESTAMP = sa.DateTime(timezone=True)
OF_RUNS = ("priority", "turn", "attempt", "due_at", "idle_seconds", "used_at", "schedule")


def upgrade() -> None:
    """Add columns and tables. Waiting runs keep their order: without a priority, `turn` equals the ID."""
    for column in (
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("turn", TEXT, nullable=False, server_default=""),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("due_at", TIMESTAMP, nullable=True),
        sa.Column("idle_seconds", sa.Integer, nullable=True),
        sa.Column("used_at", TIMESTAMP, nullable=True),
        sa.Column("schedule", TEXT, nullable=True),
    ):
        op.add_column("runs", column)
    op.add_column("events", sa.Column("revision", sa.Integer, nullable=False, server_default="0"))
    op.execute(sa.text("UPDATE runs SET turn = id"))
    op.execute(sa.text("UPDATE runs SET reason = 'QuotaExceeded' WHERE live AND reason = 'Quota'"))
    op.drop_index("ix_runs_live", "runs")
    op.create_index("ix_runs_live", "runs", ["live", "held_by", "turn", "id"])
    scheduled = sa.text("schedule IS NOT NULL")
    of_schedules = ("ix_runs_scope_schedule", "runs", ["scope", "schedule", "created_at"])
    op.create_index(*of_schedules, sqlite_where=scheduled, postgresql_where=scheduled)
    op.create_table(
        "attempts",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("run_id", TEXT, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=True),
        sa.Column("started_at", TIMESTAMP, nullable=True),
        sa.Column("finished_at", TIMESTAMP, nullable=True),
        sa.Column("mem_bytes", sa.BigInteger, nullable=False),
        sa.Column("held_by", TEXT, nullable=True),
        sa.Column("error", sa.JSON, nullable=True),
        sa.Column("usage", sa.JSON, nullable=False),
    )
    op.create_index("ix_attempts_run_id", "attempts", ["run_id"])
    op.create_table(
        "schedules",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", TEXT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column(
            "scope", TEXT, sa.ForeignKey("places.scope", onupdate="CASCADE", ondelete="NO ACTION"), nullable=False
        ),
        *(sa.Column(name, TEXT, nullable=False) for name in ("name", "function", "cron", "timezone", "missed")),
        sa.Column("overlap", TEXT, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("code", TEXT, nullable=True),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("paused", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("next_at", TIMESTAMP, nullable=True),
        sa.Column("last_at", TIMESTAMP, nullable=True),
        sa.Column("last_run_id", TEXT, nullable=True),
        sa.Column("last_problem", TEXT, nullable=True),
        sa.UniqueConstraint("scope", "name"),
    )
    op.create_index("ix_schedules_scope", "schedules", ["scope"])
    op.create_index("ix_schedules_code", "schedules", ["code"])
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])


def downgrade() -> None:
    """Drop the tables and columns, and restore the index."""
    op.drop_table("schedules")
    op.drop_table("attempts")
    op.drop_index("ix_runs_scope_schedule", "runs")
    op.drop_index("ix_runs_live", "runs")
    op.create_index("ix_runs_live", "runs", ["live", "held_by", "id"])
    op.drop_column("events", "revision")
    for name in OF_RUNS:
        op.drop_column("runs", name)
