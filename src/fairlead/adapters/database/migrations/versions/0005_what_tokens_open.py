"""Sessions and sign-in links say which token they were made with, so that they end with it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the token. Of sessions that were kept before it is not known: they end by themselves, within hours."""
    op.add_column("tokens", sa.Column("made_with", TEXT, nullable=True))


def downgrade() -> None:
    """Forget it."""
    with op.batch_alter_table("tokens") as tokens:
        tokens.drop_column("made_with")
