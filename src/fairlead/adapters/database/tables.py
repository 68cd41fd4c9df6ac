"""Database tables: one per kind of record, with a column per field and per computed list column."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from fairlead.model import records
from fairlead.model.plans import Demand

# Migrations refer to constraints by name. Without a convention, SQLite stores no names and PostgreSQL makes up its own.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=NAMING)


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A timestamp in UTC. SQLite stores no time zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class DemandJson(sa.types.TypeDecorator[Demand]):
    """A demand, stored as JSON."""

    impl = sa.JSON
    cache_ok = True

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> Demand | None:
        return None if value is None else msgspec.convert(value, Demand)


# Both databases compare text by code point, so that cursors work the same on both.
Text = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
# Stored as written: queries do not look inside, and users see the fields in the order in which they wrote them.
Json = sa.JSON(none_as_null=True)


def _column(name: str, kind: Any, *more: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, *more, nullable=options.pop("nullable", False), **options)


def _scope(name: str = "scope", *, nullable: bool = False, index: bool = True) -> sa.Column[Any]:
    """Return a column with a record's scope. Renaming a scope updates the column; a scope in use cannot be deleted."""
    # NO ACTION is checked at the end of the statement, so a scope can be deleted together with its children; RESTRICT
    # would reject that.
    reference = sa.ForeignKey("places.scope", onupdate="CASCADE", ondelete="NO ACTION")
    return sa.Column(name, Text, reference, nullable=nullable, index=index)


def _record(name: str, *rest: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("id", Text, primary_key=True),
        _column("revision", sa.Integer),
        _column("created_by", Text),
        _column("created_at", UtcDateTime),
        _column("updated_by", Text),
        _column("updated_at", UtcDateTime),
        *rest,
    )


def _asset(name: str, *rest: sa.schema.SchemaItem) -> sa.Table:
    # Computed from the requirements on each save, so that lists can be sorted and filtered by them.
    numbers = ("gpu_devices", "gpu_memory", "cpu_request", "cpu_limit", "mem_request", "mem_limit")
    return _record(
        name,
        _column("name", Text, unique=True),
        _column("description", Text),
        _scope(),
        _scope("cluster", nullable=True),
        _column("requirements", Json),
        _column("archived", sa.Boolean(create_constraint=False)),
        _column("successor", Text, nullable=True, index=True),
        _column("managed_by", Text, nullable=True),
        *(_column(number, sa.BigInteger, nullable=True) for number in numbers),
        *rest,
    )


# The table keeps its original name: SQLite cannot rename the constraints that contain it.
scopes = _record(
    "places",
    _column("kind", Text),
    _column("name", Text),
    _column("scope", Text, unique=True),
    _scope("parent", nullable=True),
    _column("details", Json),
    _column("managed_by", Text, nullable=True),
)
compute_resources = _asset(
    "compute_resources",
    _column("workload_types", Json, nullable=True),
)
templates = _asset("templates", _column("compute_resource", Text, nullable=True))
# Append-only: triggers reject updates and deletions. There is no foreign key, because revisions outlive their objects.
revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("object_id", Text),
    _column("number", sa.Integer),
    _column("name", Text, index=True),
    _column("content", Json),
    _column("created_by", Text),
    _column("created_at", UtcDateTime),
    sa.UniqueConstraint("object_id", "number"),
)
policies = _record(
    "policies",
    sa.Column(
        "scope",
        Text,
        sa.ForeignKey("places.scope", onupdate="CASCADE", ondelete="NO ACTION"),
        nullable=False,
        unique=True,
    ),
    _column("content", Json),
    _column("managed_by", Text, nullable=True),
)
secrets = _record(
    "secrets",
    _scope(),
    _column("name", Text),
    _column("sealed", sa.LargeBinary),
    _column("key_id", Text),
    sa.UniqueConstraint("scope", "name"),
)
volumes = _record(
    "volumes",
    _scope(),
    _column("name", Text),
    _column("size", Text),
    _column("storage_class", Text, nullable=True),
    _column("description", Text),
    sa.UniqueConstraint("scope", "name"),
)
functions = _record(
    "functions",
    _scope(),
    _column("name", Text),
    _column("kind", Text),
    _column("content", Json),
    _column("code", Text, nullable=True, index=True),
    sa.UniqueConstraint("scope", "name"),
)
grants = _record(
    "grants",
    _column("subject", Text),
    _column("role", Text),
    _scope(),
    sa.UniqueConstraint("subject", "role", "scope"),
)
tokens = _record(
    "tokens",
    _column("user", Text),
    _column("groups", Json),
    _column("name", Text),
    _column("purpose", Text),
    _column("digest", Text, unique=True),
    _column("expires_at", UtcDateTime, nullable=True),
    _column("created_with", Text, nullable=True),
)
# A partial index: most runs have no schedule.
_scheduled: Any = dict.fromkeys(("sqlite_where", "postgresql_where"), sa.text("schedule IS NOT NULL"))
_without_server: Any = dict.fromkeys(("sqlite_where", "postgresql_where"), sa.text("server_id IS NULL"))
# Columns with a server_default were added by later migrations, which need a value for existing rows.
runs = _record(
    "runs",
    _scope(index=False),  # other indexes begin with it
    _column("function", Text),
    _column("action", Text),
    _column("state", Text),
    _column("reason", Text),
    _column("message", Text),
    _column("active", sa.Boolean(create_constraint=False)),
    _column("compute_resource", Text, nullable=True),
    _column("compute_resource_id", Text, nullable=True),
    _column("compute_resource_revision", sa.Integer, nullable=True),
    _column("template", Text, nullable=True),
    _column("template_id", Text, nullable=True),
    _column("uses", Json),
    _column("gpus", sa.Integer, server_default="0"),
    _column("cpu_millicores", sa.BigInteger, server_default="0"),
    _column("mem_bytes", sa.BigInteger, server_default="0"),
    _column("disk_bytes", sa.BigInteger, server_default="0"),
    _column("code", Text, nullable=True, index=True),
    _scope("cluster", nullable=True),
    _column("server_id", Text, nullable=True),
    _column("stopped_by", Text, nullable=True),
    _column("exit_code", sa.Integer, nullable=True),
    _column("started_at", UtcDateTime, nullable=True),
    _column("finished_at", UtcDateTime, nullable=True, index=True),
    _column("priority", sa.Integer, server_default="0"),
    _column("queue_key", Text, server_default=""),
    _column("request_key", Text, server_default=""),
    _column("reserved_by", Text, nullable=True),
    _column("attempt", sa.Integer, server_default="1"),
    _column("retry_at", UtcDateTime, nullable=True),
    _column("idle_seconds", sa.Integer, nullable=True),
    _column("last_used_at", UtcDateTime, nullable=True),
    _column("schedule", Text, nullable=True),
    sa.Index("ix_runs_active", "active", "server_id", "queue_key", "id"),  # the queue, in order
    # The waiting runs of each group of equal requests, in order. It contains all columns that find the first of each.
    sa.Index(
        "ix_runs_waiting",
        *("active", "state", "scope", "cluster", "request_key", "mem_bytes", "priority", "queue_key", "id"),
        *("retry_at", "server_id"),
        **_without_server,
    ),
    sa.Index("ix_runs_reserved_by", "reserved_by", "active", "server_id", "queue_key", "id"),
    sa.Index("ix_runs_retry_at", "active", "retry_at"),
    sa.Index("ix_runs_compute_resource", "compute_resource_id", "active"),
    sa.Index("ix_runs_template", "template_id", "active"),
    sa.Index("ix_runs_scope_active", "scope", "active"),  # quota usage
    sa.Index("ix_runs_scope_created_at", "scope", "created_at", "id"),  # the list of a project
    sa.Index("ix_runs_scope_function", "scope", "function", "created_at"),
    sa.Index("ix_runs_scope_schedule", "scope", "schedule", "created_at", **_scheduled),
    sa.Index("ix_runs_updated_at", "updated_at", "id"),  # changes by other servers, for the event stream
)
attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("run_id", Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    _column("number", sa.Integer),
    _column("state", Text),
    _column("reason", Text),
    _column("message", Text),
    _column("exit_code", sa.Integer, nullable=True),
    _column("started_at", UtcDateTime, nullable=True),
    _column("finished_at", UtcDateTime, nullable=True),
    _column("mem_bytes", sa.BigInteger),
    _column("server_id", Text, nullable=True),
    _column("error", Json, nullable=True),
    _column("usage", Json),
)
schedules = _record(
    "schedules",
    _scope(),
    _column("name", Text),
    _column("function", Text),
    _column("cron", Text),
    _column("timezone", Text),
    _column("missed", Text),
    _column("overlap", Text),
    _column("request", Json),
    _column("code", Text, nullable=True, index=True),
    _column("user", Text),
    _column("groups", Json),
    _column("paused", sa.Boolean(create_constraint=False)),
    _column("next_at", UtcDateTime, nullable=True, index=True),
    _column("last_at", UtcDateTime, nullable=True),
    _column("last_run_id", Text, nullable=True),
    _column("last_problem", Text, nullable=True),
    sa.UniqueConstraint("scope", "name"),
)
# Plans are large, and lists of runs do not need them, so they have their own table.
plans = sa.Table(
    "plans",
    metadata,
    sa.Column("id", Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    _column("request", Json),
    _column("plan", Json),
    _column("demand", DemandJson, server_default="{}"),
)
events = sa.Table(
    "events",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("run_id", Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    _column("at", UtcDateTime),
    _column("state", Text),
    _column("reason", Text),
    _column("message", Text),
    _column("revision", sa.Integer, server_default="0"),
)
outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("id", Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    _column("result", Json, nullable=True),
    _column("error", Json, nullable=True),
    _column("usage", Json),
)
run_files = sa.Table(
    "run_files",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("run_id", Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    _column("path", Text),
    _column("size", sa.BigInteger),
    _column("modified_at", UtcDateTime),
)
file_parts = sa.Table(
    "file_parts",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("file_id", Text, sa.ForeignKey("run_files.id", ondelete="CASCADE"), index=True),
    _column("number", sa.Integer),
    _column("content", sa.LargeBinary),
)
codes = sa.Table(
    "codes",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("digest", Text, index=True),
    _column("size", sa.Integer),
    _column("created_by", Text),
    _column("created_at", UtcDateTime, index=True),
)
blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("content", sa.LargeBinary),
)
servers = _record(
    "servers",
    _column("name", Text),
    _column("url", Text),
    _column("seen_at", UtcDateTime),
)
# Append-only, like revisions. The scope is not a foreign key: an entry keeps the name that the scope had at the time.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("at", UtcDateTime),
    _column("user", Text, index=True),
    _column("via", Text),
    _column("address", Text),
    _column("request_id", Text),
    _column("action", Text),
    _column("kind", Text),
    _column("object_id", Text, index=True),
    _column("name", Text),
    _column("scope", Text, index=True),
    _column("scope_id", Text, index=True),
    _column("before", Json, nullable=True),
    _column("after", Json, nullable=True),
    sa.Index("ix_audit_at", "at", "id"),
)
# Responses to requests with an Idempotency-Key, and used one-time codes. `answer` is NULL for one-time codes and for
# responses that contained a new token.
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("id", Text, primary_key=True),
    _column("user", Text),
    _column("digest", Text),
    _column("answer", Json, nullable=True),
    _column("created_at", UtcDateTime, index=True),
)
settings = _record("settings", _column("defaults", Json), _scope("default_cluster", nullable=True, index=False))
# A single row, whose lock serializes configuration changes (see DatabaseStore).
generations = sa.Table(
    "generations",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("organization", sa.BigInteger),
    _column("assets", sa.BigInteger),
)

TABLES: Mapping[type, sa.Table] = {
    records.ScopeRecord: scopes,
    records.ComputeResourceRecord: compute_resources,
    records.TemplateRecord: templates,
    records.RevisionRecord: revisions,
    records.PolicyRecord: policies,
    records.SecretRecord: secrets,
    records.VolumeRecord: volumes,
    records.FunctionRecord: functions,
    records.GrantRecord: grants,
    records.TokenRecord: tokens,
    records.RunRecord: runs,
    records.AttemptRecord: attempts,
    records.ScheduleRecord: schedules,
    records.PlanRecord: plans,
    records.EventRecord: events,
    records.OutcomeRecord: outcomes,
    records.RunFileRecord: run_files,
    records.FilePartRecord: file_parts,
    records.CodeRecord: codes,
    records.BlobRecord: blobs,
    records.ServerRecord: servers,
    records.AuditRecord: audit,
    records.IdempotencyRecord: answers,
    records.SettingsRecord: settings,
}
