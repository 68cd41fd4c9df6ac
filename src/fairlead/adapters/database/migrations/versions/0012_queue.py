"""Store what the fair queue reads: requested disk space, equal requests, and the machine that reserves a request."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"

TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
JSON = sa.JSON()
BATCH = 200
GIGA = 10**9  # amounts of plans are in nano-units
# Only waiting runs, in the order in which a pass groups them.
WAITING_COLUMNS = [
    *("active", "state", "scope", "cluster", "request_key", "mem_bytes", "priority", "queue_key", "id"),
    *("retry_at", "server_id"),
]
WAITING_ONLY = sa.text("server_id IS NULL")


def upgrade() -> None:
    """Add the columns. Each waiting run gets a key of its own, so that it is examined by itself."""
    op.add_column("runs", sa.Column("disk_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("request_key", TEXT, nullable=False, server_default=""))
    op.add_column("runs", sa.Column("reserved_by", TEXT, nullable=True))
    runs = sa.table("runs", *map(sa.column, ("id", "active", "disk_bytes", "request_key")))
    plans = sa.table("plans", sa.column("id", TEXT), sa.column("plan", JSON), sa.column("demand", JSON))
    query = sa.select(runs.c.id, plans.c.plan, plans.c.demand).join_from(runs, plans, plans.c.id == runs.c.id)
    query = query.where(runs.c.active).order_by(runs.c.id).limit(BATCH)
    connection, last = op.get_bind(), ""
    while rows := connection.execute(query.where(runs.c.id > last)).all():
        for run_id, plan, demand in rows:
            disk = _read_disk(demand)
            values = {"request_key": run_id, "disk_bytes": disk}
            connection.execute(sa.update(runs).where(runs.c.id == run_id).values(values))
            demand |= {"resources": [*demand["resources"][:3], disk], "deadline_seconds": _read_deadline(plan)}
            connection.execute(sa.update(plans).where(plans.c.id == run_id).values(demand=demand))
            last = run_id
    op.create_index(
        "ix_runs_waiting", "runs", WAITING_COLUMNS, sqlite_where=WAITING_ONLY, postgresql_where=WAITING_ONLY
    )
    op.create_index("ix_runs_retry_at", "runs", ["active", "retry_at"])
    op.create_index("ix_runs_reserved_by", "runs", ["reserved_by", "active", "server_id", "queue_key", "id"])


def downgrade() -> None:
    """Drop the indexes and columns."""
    for name in ("ix_runs_waiting", "ix_runs_retry_at", "ix_runs_reserved_by"):
        op.drop_index(name, "runs")
    for name in ("disk_bytes", "request_key", "reserved_by"):
        op.drop_column("runs", name)


def _read_disk(demand: dict[str, Any]) -> int:
    pod_request = demand["pod_request"]
    disk: int = pod_request["amounts"].get("ephemeral-storage", 0) // GIGA * pod_request.get("count", 1)
    return min(disk, 2**63 - 1)


def _read_deadline(plan: dict[str, Any]) -> float | None:
    values = [setting["value"] for setting in plan.get("settings", ()) if setting["path"] == "deadline"]
    return None if not values or values[0] is None else float(values[0])
