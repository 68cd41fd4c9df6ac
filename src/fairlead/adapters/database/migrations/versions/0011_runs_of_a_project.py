"""Index the runs of a project by time, so that their list is as fast as the list of all runs."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Replace the index on the scope. The new index begins with the same column."""
    op.create_index("ix_runs_scope_created_at", "runs", ["scope", "created_at", "id"])
    op.drop_index("ix_runs_scope", "runs")


def downgrade() -> None:
    """Restore the former index."""
    op.create_index("ix_runs_scope", "runs", ["scope"])
    op.drop_index("ix_runs_scope_created_at", "runs")
