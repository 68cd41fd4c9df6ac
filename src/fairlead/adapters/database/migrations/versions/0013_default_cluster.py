"""Store the default cluster in the settings."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column. Without a value, the default cluster is the oldest one."""
    text = TEXT.compile(dialect=op.get_bind().dialect)
    # Raw SQL, because SQLite can add a foreign key only with its column, but Alembic would use two statements.
    op.execute(
        f"ALTER TABLE settings ADD COLUMN default_cluster {text} CONSTRAINT fk_settings_default_cluster "
        "REFERENCES places (scope) ON DELETE NO ACTION ON UPDATE CASCADE"
    )


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("settings") as settings:
        settings.drop_column("default_cluster")
