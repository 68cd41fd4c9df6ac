"""Store the requested resources of each run, so that quota usage is computed without reading plans."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from fairlead.model.quantities import MAXIMUM, MILLICORE, NANOS, Quantity

revision = "0004"
down_revision = "0003"

ADDED: dict[str, Any] = {
    "gpus": sa.Integer(),
    "cpu_millicores": sa.BigInteger(),
    "mem_bytes": sa.BigInteger(),
}
TEXT, JSON = sa.String(), sa.JSON()


def upgrade() -> None:
    """Add the columns, and compute them for active runs. Ended runs keep 0, because they do not count toward quotas."""
    for name, kind in ADDED.items():
        op.add_column("runs", sa.Column(name, kind, nullable=False, server_default="0"))
    runs = sa.table("runs", sa.column("id", TEXT), sa.column("live", sa.Boolean()), *map(sa.column, ADDED))
    plans = sa.table("plans", sa.column("id", TEXT), sa.column("plan", JSON))
    connection = op.get_bind()
    live = sa.select(runs.c.id).where(runs.c.live.is_(True))
    for run_id in connection.execute(live).scalars().all():
        plan = connection.execute(sa.select(plans.c.plan).where(plans.c.id == run_id)).scalar()
        connection.execute(sa.update(runs).where(runs.c.id == run_id).values(_amounts(plan or {})))


def downgrade() -> None:
    """Drop the columns."""
    with op.batch_alter_table("runs") as runs:
        for name in ADDED:
            runs.drop_column(name)


def _amounts(plan: Any) -> dict[str, int]:
    values = {setting["path"]: setting["value"] for setting in plan.get("settings", ())}
    pods = values.get("replicas") or 1

    def total(resource: str, step: int) -> int:
        nanos = Quantity.parse(values.get(f"resources.{resource}.requests") or "0").nanos
        return min(-(-nanos * pods // step), MAXIMUM)  # rounded up, and limited to what the column can store

    return {
        "gpus": (values.get("resources.gpu.devices") or 0) * pods,
        "cpu_millicores": total("cpu", MILLICORE),
        "mem_bytes": total("mem", NANOS),
    }
