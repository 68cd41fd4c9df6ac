"""Store each project's functions as they were last run, and index runs by the time of their last change."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
from uuid_utils import uuid7

revision = "0007"
down_revision = "0006"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
TIMESTAMP = sa.DateTime(timezone=True)
STAMPS = ("created_by", "created_at", "updated_by", "updated_at")


def upgrade() -> None:
    """Create the table and indexes, and store the functions of existing runs."""
    functions = op.create_table(
        "functions",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", TEXT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column(
            "scope",
            TEXT,
            sa.ForeignKey("places.scope", onupdate="CASCADE", ondelete="NO ACTION"),
            nullable=False,
        ),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("code", TEXT, nullable=True),
        sa.UniqueConstraint("scope", "name"),
    )
    op.create_index("ix_functions_scope", "functions", ["scope"])
    op.create_index("ix_functions_code", "functions", ["code"])
    op.create_index("ix_runs_scope_function", "runs", ["scope", "function", "created_at"])
    op.create_index("ix_runs_updated_at", "runs", ["updated_at", "id"])
    records = _find_functions()
    if records:
        op.bulk_insert(functions, records)


def downgrade() -> None:
    """Drop the table and indexes."""
    op.drop_index("ix_runs_updated_at", "runs")
    op.drop_index("ix_runs_scope_function", "runs")
    op.drop_table("functions")


def _find_functions() -> list[dict[str, object]]:
    """Return the function of the newest run for each name in each project."""
    stamp_columns = [sa.column(name, TIMESTAMP if name.endswith("_at") else TEXT) for name in STAMPS]
    runs = sa.table("runs", *(sa.column(name, TEXT) for name in ("id", "scope", "function", "code")), *stamp_columns)
    plans = sa.table("plans", sa.column("id", TEXT), sa.column("request", sa.JSON))
    # IDs begin with the creation time, so the largest one belongs to the newest run.
    newest = sa.select(sa.func.max(runs.c.id)).group_by(runs.c.scope, runs.c.function)
    query = sa.select(runs, plans.c.request).join(plans, plans.c.id == runs.c.id).where(runs.c.id.in_(newest))
    records = []
    for row in op.get_bind().execute(query).mappings():
        function = row["request"].get("function")
        content = (
            {name: value for name, value in function.items() if name != "name"} if isinstance(function, dict) else {}
        )
        if set(content) - {"kind"}:  # a request with only a name has no function to store
            fields = {"scope": row["scope"], "name": row["function"], "code": row["code"], "content": content}
            stamps = {name: row[name] for name in STAMPS}
            kind = content.get("kind", "python")
            records.append({"id": uuid7().hex, "revision": 1, "kind": kind, **fields, **stamps})
    return records
