"""Fills the databases of the benchmarks with projects, a viewer of one of them, and compute resources or runs.

Rows are inserted directly: 100,000 requests would take longer than the rest of the benchmark.
"""

import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.database.tables import TABLES, compute_resources, runs
from fairlead.model.columns import computed_columns
from fairlead.model.records import ComputeResourceRecord, GrantRecord, RunRecord, ScopeRecord, TokenRecord
from fairlead.services.transactions.unit_of_work import digest_of

CHUNK = 1000
SHAPES = 1000
COPIED = 10_000  # runs that are inserted as rows; the database copies them until there are enough
PROJECTS = 200
FEW = 20  # number of compute resources that the viewer sees
RARE, COMMON = 8, 2  # GPUs of one compute resource in a thousand, and of half of them
VIEWER = "fl_viewer_of_one_project"
PROFILE = "1xa100"
# The project of previews is in a cluster without a connection: this machine may not have the GPUs that they request.
PREVIEW_PROJECT = "vision"
START = datetime(2026, 1, 1, tzinfo=UTC)
RUNS_START = datetime.now(UTC) - timedelta(days=12)  # recent, because servers delete old runs


def fill(sizes: Mapping[str, int]) -> None:
    """Insert compute resources into each database, which a server must have initialized."""
    with contextlib.ExitStack() as stack:
        stores = {url: stack.enter_context(contextlib.closing(DatabaseStore(url))) for url in sizes}
        engines = {url: store.engine for url, store in stores.items()}
        for engine in engines.values():
            _prepare(engine, compute_resources)
        for start in range(0, max(sizes.values()), CHUNK):
            rows = _compute_resources(start)
            for url in (url for url, size in sizes.items() if start < size):
                with engines[url].begin() as connection:
                    connection.execute(sa.insert(compute_resources), rows)
        for engine in engines.values():
            _finish(engine, compute_resources)


def fill_with_runs(sizes: Mapping[str, int]) -> None:
    """Insert runs into each database, which a server must have initialized. Sizes are multiples of `COPIED`."""
    for url, size in sizes.items():
        with contextlib.closing(DatabaseStore(url)) as store:
            _prepare(store.engine, runs)
            with store.engine.begin() as connection:
                connection.execute(sa.insert(runs), [row_of(_run(number)) for number in range(COPIED)])
            for copy in range(1, size // COPIED):
                with store.engine.begin() as connection:
                    connection.execute(_copy_runs(copy, store.dialect))
            _finish(store.engine, runs)


def _prepare(engine: sa.Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        for record in (*_tree(), _grant(), _token()):
            connection.execute(sa.insert(TABLES[type(record)]), row_of(record))
        for index in table.indexes:
            index.drop(connection)


def _finish(engine: sa.Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        for index in table.indexes:  # all at once: row by row takes several times as long
            index.create(connection)
    if engine.dialect.name == "postgresql":  # autovacuum would do this a while later
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")
            connection.exec_driver_sql("CHECKPOINT")


def row_of(record: Any) -> dict[str, Any]:
    derived = record.DERIVED
    stored = {item.name: getattr(record, item.name) for item in fields(record) if item.name not in derived}
    return stored | dict(computed_columns(record))


def _audit_fields(number: int) -> dict[str, Any]:
    at = START + timedelta(seconds=number)
    audit_fields = {
        "created_by": f"user{number % 50}",
        "created_at": at,
        "updated_by": f"user{number % 7}",
        "updated_at": at,
    }
    return {"id": uuid.uuid4().hex, **audit_fields}


def _tree() -> list[ScopeRecord]:
    projects = dict.fromkeys(("seen", *(f"lab-{number}" for number in range(PROJECTS))), "cluster/local")
    projects[PREVIEW_PROJECT] = "cluster/gpus"
    return [
        ScopeRecord(**_audit_fields(0), kind="cluster", name="gpus", scope="cluster/gpus", parent="platform"),
        *(
            ScopeRecord(**_audit_fields(0), kind="project", name=name, scope=f"project/{name}", parent=parent)
            for name, parent in projects.items()
        ),
    ]


def _grant() -> GrantRecord:
    return GrantRecord(**_audit_fields(0), subject="user:viewer", role="viewer", scope="project/seen")


def _token() -> TokenRecord:
    values: dict[str, Any] = {"user": "viewer", "groups": [], "name": "bench", "purpose": "api", "expires_at": None}
    return TokenRecord(**_audit_fields(0), **values, digest=digest_of(VIEWER))


def _compute_resources(start: int) -> list[dict[str, Any]]:
    """Return a chunk of rows. The few that the viewer sees are scattered in every sort order."""
    return [_shape(number % SHAPES) | _identity(number) for number in range(start, start + CHUNK)]


def _identity(number: int) -> dict[str, Any]:
    scope = "project/seen" if 1 <= number <= FEW else f"project/lab-{number % PROJECTS}"
    return {
        **_audit_fields(number),
        "name": f"{digest_of(str(number))[:8]}-{number}" if number else PROFILE,
        "description": f"a compute resource of {scope} for work of kind {number % 13}",
        "scope": scope if number else "platform",
        "cluster": "cluster/local" if number else None,
    }


@cache
def _shape(number: int) -> dict[str, Any]:
    memory = 1 + number * 7919 % 1009
    resources = {
        "cpu": {"requests": 1 + number % 64, "limits": 64},
        "mem": {"requests": f"{memory}Gi", "limits": f"{memory + 16}Gi"},
        "gpu": {"devices": RARE if number == 7 else COMMON if number % 2 else 1, "type": "A100"},
    }
    requirements = {"resources": resources, "node_selector": {"pool": f"pool-{number % 20}"}}
    return row_of(ComputeResourceRecord(**_audit_fields(number), name="", scope="", requirements=requirements))


def _run(number: int) -> RunRecord:
    """One run of each second. All have ended: one in a thousand failed, the others are completed."""
    scope = "project/seen" if number == 1 else f"project/lab-{number % PROJECTS}"
    state, reason = ("failed", "Error") if number % 1000 == 7 else ("completed", "Completed")
    at = RUNS_START + timedelta(seconds=number)
    outcome: dict[str, Any] = {"state": state, "reason": reason, "message": "has ended", "active": False}
    values: dict[str, Any] = {"function": f"train-{number % 20}", "action": "job", "finished_at": at}
    stamps = {**_audit_fields(number), "id": uuid.UUID(int=number).hex, "created_at": at, "updated_at": at}
    return RunRecord(**stamps, **outcome, **values, scope=scope, compute_resource=f"gpu-{number % 50}")


def _copy_runs(copy: int, dialect: str) -> sa.Insert:
    """Copy the inserted runs, with other IDs and later times, inside the database."""
    prefix, later = f"{copy:04x}", timedelta(seconds=copy * COPIED)
    changed: dict[str, Any] = {"id": sa.literal(prefix).concat(sa.func.substr(runs.c.id, len(prefix) + 1))}
    for name in ("created_at", "updated_at", "finished_at"):
        column = runs.c[name]
        if dialect == "sqlite":  # times are text
            changed[name] = sa.func.strftime("%Y-%m-%d %H:%M:%f000", column, f"+{copy * COPIED} seconds")
        else:
            changed[name] = column + sa.literal(later, sa.Interval)
    selected = [changed.get(column.name, column) for column in runs.c]
    return sa.insert(runs).from_select(list(runs.c), sa.select(*selected).where(runs.c.id < "0001"))
