"""Store files of runs on clusters: uploaded output files, saved logs and outcomes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    """Create tables for files and for the parts of their content. Both are deleted with the run."""
    op.create_table(
        "run_files",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("run_id", TEXT, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("modified_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "file_parts",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("file_id", TEXT, sa.ForeignKey("run_files.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_run_files_run_id", "run_files", ["run_id"])
    op.create_index("ix_file_parts_file_id", "file_parts", ["file_id"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("file_parts")
    op.drop_table("run_files")
