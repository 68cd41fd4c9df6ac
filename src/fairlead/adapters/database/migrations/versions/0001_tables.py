"""Create the first tables."""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

# Copied, not imported from the tables module: a migration must not change when the current tables change.
TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
JSON = sa.JSON()
TIMESTAMP = sa.DateTime(timezone=True)

# The sort orders of asset lists: for each column, the expression in its index. Missing values sort first, but a missing
# limit means unlimited and sorts last, as the largest number that a column can store.
ASSET_ORDERS = {
    "archived": "archived",
    "cluster": "lower(coalesce(cluster, ''))",
    "cpu_limit": "coalesce(cpu_limit, 9223372036854775807)",
    "cpu_request": "coalesce(cpu_request, -1)",
    "created_at": "created_at",
    "created_by": "lower(coalesce(created_by, ''))",
    "gpu_devices": "coalesce(gpu_devices, -1)",
    "gpu_memory": "coalesce(gpu_memory, -1)",
    "managed_by": "lower(coalesce(managed_by, ''))",
    "mem_limit": "coalesce(mem_limit, 9223372036854775807)",
    "mem_request": "coalesce(mem_request, -1)",
    "name": "lower(coalesce(name, ''))",
    "revision": "revision",
    "scope": "lower(coalesce(scope, ''))",
    "successor": "lower(coalesce(successor, ''))",
    "updated_at": "updated_at",
    "updated_by": "lower(coalesce(updated_by, ''))",
}
ORDERS = {
    "compute_resources": ASSET_ORDERS,
    "templates": {**ASSET_ORDERS, "compute_resource": "lower(coalesce(compute_resource, ''))"},
    "runs": {
        "created_at": "created_at",
        "function": "lower(coalesce(function, ''))",
        "state": "lower(coalesce(state, ''))",
    },
}
INDEXES = {
    "ix_answers_created_at": ("answers", ["created_at"]),
    "ix_audit_at": ("audit", ["at", "id"]),
    "ix_audit_object_id": ("audit", ["object_id"]),
    "ix_audit_place_id": ("audit", ["place_id"]),
    "ix_audit_scope": ("audit", ["scope"]),
    "ix_audit_who": ("audit", ["who"]),
    "ix_places_parent": ("places", ["parent"]),
    "ix_revisions_name": ("revisions", ["name"]),
    "ix_compute_resources_cluster": ("compute_resources", ["cluster"]),
    "ix_compute_resources_scope": ("compute_resources", ["scope"]),
    "ix_compute_resources_successor": ("compute_resources", ["successor"]),
    "ix_grants_scope": ("grants", ["scope"]),
    "ix_runs_compute_resource": ("runs", ["compute_resource_id", "live"]),
    "ix_runs_scope": ("runs", ["scope"]),
    "ix_runs_scope_live": ("runs", ["scope", "live"]),
    "ix_runs_template": ("runs", ["template_id", "live"]),
    "ix_secrets_scope": ("secrets", ["scope"]),
    "ix_templates_cluster": ("templates", ["cluster"]),
    "ix_templates_compute_resource": ("templates", ["compute_resource"]),
    "ix_templates_scope": ("templates", ["scope"]),
    "ix_templates_successor": ("templates", ["successor"]),
    "ix_volumes_scope": ("volumes", ["scope"]),
}


def upgrade() -> None:
    """Create all tables and indexes, and the single row of the generations table."""
    op.create_table(
        "answers",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("at", TIMESTAMP, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("via", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("object_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("place_id", TEXT, nullable=False),
        sa.Column("before", JSON, nullable=True),
        sa.Column("after", JSON, nullable=True),
    )
    op.create_table(
        "generations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("organisation", sa.BigInteger, nullable=False),
        sa.Column("assets", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "places",
        *_record(),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False, unique=True),
        sa.Column("parent", TEXT, _place(), nullable=True),
        sa.Column("details", JSON, nullable=False),
        sa.Column("managed_by", TEXT, nullable=True),
    )
    op.create_table(
        "revisions",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("object_id", TEXT, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.UniqueConstraint("object_id", "number"),
    )
    op.create_table(
        "settings",
        *_record(),
        sa.Column("defaults", JSON, nullable=False),
    )
    op.create_table(
        "tokens",
        *_record(),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("groups", JSON, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("purpose", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False, unique=True),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
    )
    op.create_table(
        "compute_resources",
        *_record(),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.Column("cluster", TEXT, _place(), nullable=True),
        sa.Column("requirements", JSON, nullable=False),
        sa.Column("archived", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("successor", TEXT, nullable=True),
        sa.Column("managed_by", TEXT, nullable=True),
        sa.Column("gpu_devices", sa.BigInteger, nullable=True),
        sa.Column("gpu_memory", sa.BigInteger, nullable=True),
        sa.Column("cpu_request", sa.BigInteger, nullable=True),
        sa.Column("cpu_limit", sa.BigInteger, nullable=True),
        sa.Column("mem_request", sa.BigInteger, nullable=True),
        sa.Column("mem_limit", sa.BigInteger, nullable=True),
        sa.Column("workload_types", JSON, nullable=True),
    )
    op.create_table(
        "grants",
        *_record(),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.UniqueConstraint("subject", "role", "scope"),
    )
    op.create_table(
        "policies",
        *_record(),
        sa.Column("scope", TEXT, _place(), nullable=False, unique=True),
        sa.Column("content", JSON, nullable=False),
        sa.Column("managed_by", TEXT, nullable=True),
    )
    op.create_table(
        "runs",
        *_record(),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.Column("function", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("live", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("compute_resource", TEXT, nullable=True),
        sa.Column("compute_resource_id", TEXT, nullable=True),
        sa.Column("compute_resource_revision", sa.Integer, nullable=True),
        sa.Column("template", TEXT, nullable=True),
        sa.Column("template_id", TEXT, nullable=True),
        sa.Column("uses", JSON, nullable=False),
        sa.Column("finished_at", TIMESTAMP, nullable=True),
    )
    op.create_table(
        "secrets",
        *_record(),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("key_id", TEXT, nullable=False),
        sa.UniqueConstraint("scope", "name"),
    )
    op.create_table(
        "templates",
        *_record(),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.Column("cluster", TEXT, _place(), nullable=True),
        sa.Column("requirements", JSON, nullable=False),
        sa.Column("archived", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("successor", TEXT, nullable=True),
        sa.Column("managed_by", TEXT, nullable=True),
        sa.Column("gpu_devices", sa.BigInteger, nullable=True),
        sa.Column("gpu_memory", sa.BigInteger, nullable=True),
        sa.Column("cpu_request", sa.BigInteger, nullable=True),
        sa.Column("cpu_limit", sa.BigInteger, nullable=True),
        sa.Column("mem_request", sa.BigInteger, nullable=True),
        sa.Column("mem_limit", sa.BigInteger, nullable=True),
        sa.Column("compute_resource", TEXT, nullable=True),
    )
    op.create_table(
        "volumes",
        *_record(),
        sa.Column("scope", TEXT, _place(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("size", TEXT, nullable=False),
        sa.Column("storage_class", TEXT, nullable=True),
        sa.Column("description", TEXT, nullable=False),
        sa.UniqueConstraint("scope", "name"),
    )
    op.create_table(
        "plans",
        sa.Column("id", TEXT, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("request", JSON, nullable=False),
        sa.Column("plan", JSON, nullable=False),
    )
    for table, orders in ORDERS.items():
        for name, expression in orders.items():
            op.create_index(f"ix_{table}_by_{name}", table, [sa.text(expression), sa.text("id")])
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)
    op.execute("INSERT INTO generations (id, organisation, assets) VALUES (1, 1, 1)")


def downgrade() -> None:
    """Drop all tables. Dependent tables come first because of their foreign keys."""
    for table in (
        "plans",
        "volumes",
        "templates",
        "secrets",
        "runs",
        "policies",
        "grants",
        "compute_resources",
        "tokens",
        "settings",
        "revisions",
        "places",
        "generations",
        "audit",
        "answers",
    ):
        op.drop_table(table)


def _record() -> Iterator[sa.Column[object]]:
    """Return the columns that every record has."""
    yield sa.Column("id", TEXT, primary_key=True)
    yield sa.Column("revision", sa.Integer, nullable=False)
    yield sa.Column("created_by", TEXT, nullable=False)
    yield sa.Column("created_at", TIMESTAMP, nullable=False)
    yield sa.Column("updated_by", TEXT, nullable=False)
    yield sa.Column("updated_at", TIMESTAMP, nullable=False)


def _place() -> sa.ForeignKey:
    return sa.ForeignKey("places.scope", onupdate="CASCADE", ondelete="NO ACTION")
