"""Store the token with which a session or sign-in link was created, so that it ends with that token."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column. It stays empty for existing sessions, which expire within hours."""
    op.add_column("tokens", sa.Column("made_with", TEXT, nullable=True))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("tokens") as tokens:
        tokens.drop_column("made_with")
