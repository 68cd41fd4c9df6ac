"""Store what each run needs as typed values, so that manifests are not parsed again."""

import json
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

from fairlead.scheduling.pod_requests import read_pod_request

revision = "0010"
down_revision = "0009"

TEXT, JSON = sa.String(), sa.JSON()
BATCH = 200
RESOURCES = ("gpus", "cpu_millicores", "mem_bytes")
TOKEN, SECRET_NAME = "FAIRLEAD_RUN_TOKEN", "fairlead.dev/secret"


def upgrade() -> None:
    """Add the column, and read its values from the manifests of existing plans."""
    op.add_column("plans", sa.Column("demand", JSON, nullable=False, server_default="{}"))
    plans = sa.table("plans", sa.column("id", TEXT), sa.column("plan", JSON), sa.column("demand", JSON))
    runs = sa.table("runs", sa.column("id", TEXT), *map(sa.column, RESOURCES))
    query = sa.select(plans.c.id, plans.c.plan, *(runs.c[name] for name in RESOURCES))
    query = query.join_from(plans, runs, runs.c.id == plans.c.id).order_by(plans.c.id).limit(BATCH)
    connection, last = op.get_bind(), ""
    # In batches, because all plans together may not fit into memory.
    while rows := connection.execute(query.where(plans.c.id > last)).all():
        for run_id, plan, *resources in rows:
            demand = _read_demand(plan.get("manifests") or [], resources)
            connection.execute(sa.update(plans).where(plans.c.id == run_id).values(demand=demand))
            last = run_id


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("plans") as plans:
        plans.drop_column("demand")


def _read_demand(manifests: list[Any], resources: list[int]) -> dict[str, Any]:
    if not manifests:
        return {"pod_request": {"amounts": {}}, "resources": resources}
    secrets = [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    # An image pull secret has an annotation with its name in the project.
    pulled = [manifest["metadata"].get("annotations", {}).get(SECRET_NAME) for manifest in secrets]
    names = [name for manifest, pull in zip(secrets, pulled, strict=True) if pull is None for name in manifest["data"]]
    programs = [manifest["data"]["call.json"] for manifest in manifests if manifest["kind"] == "ConfigMap"]
    return {
        "pod_request": msgspec.to_builtins(read_pod_request(manifests)),
        "resources": resources,
        "secrets": [name for name in names if name != TOKEN],
        "pull_secrets": [name for name in pulled if name is not None],
        "needs_token": TOKEN in names,
        "call": json.loads(programs[0]) if programs else None,
    }
