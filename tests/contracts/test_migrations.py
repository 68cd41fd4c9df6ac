"""Migrations: from an empty database to the tables defined in the code, with existing data, and only once."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from fairlead.adapters.database.migrating import FOLDER, HEAD, current_revision, migrate
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.database.tables import metadata
from fairlead.errors import FairleadError
from fairlead.model import explanations
from fairlead.model.records import FunctionRecord, PlanRecord
from fairlead.ports import Generation
from tests.golden import stories

pytestmark = [
    pytest.mark.every_store,
    # The SQL text of these SQLite indexes is compared instead.
    pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index"),
]

FIRST = "0001"
RENAMING = "fairlead.adapters.database.migrations.versions.0009_standard_names"
VALUES: dict[type, Any] = {
    str: "platform",  # also the only scope's name
    int: 1,
    bool: True,
    bytes: b"\x00\xff",
    object: {"a": [1, None]},  # JSON
    datetime: datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC),
}
HUGE_SETTINGS = [{"path": "replicas", "value": 10_000}, {"path": "resources.mem.requests", "value": "7Ei"}]
EACH_APPEND_ONLY_TABLE = pytest.mark.parametrize("table", ["audit", "revisions"])


@pytest.fixture
def empty(empty_url: str) -> Iterator[sa.Engine]:
    """A database without any table."""
    store = DatabaseStore(empty_url)
    yield store.engine
    store.close()


def test_the_newest_migration_is_the_required_one() -> None:
    assert ScriptDirectory(str(FOLDER)).get_heads() == [HEAD]


def test_an_empty_database_is_migrated(empty: sa.Engine, empty_url: str) -> None:
    assert current_revision(empty) is None
    migrate(empty)
    assert current_revision(empty) == HEAD
    migrate(empty)
    store = DatabaseStore(empty_url)
    with store.reading() as tx:
        assert tx.generation == Generation(1, 1)
    store.close()


def test_migrations_create_the_tables_of_the_code(empty: sa.Engine, tmp_path: Path) -> None:
    migrate(empty)
    actual = _describe(empty)
    expected = _describe_expected(empty, tmp_path)
    assert actual.keys() == expected.keys()
    for table in expected:
        assert actual[table] == expected[table], table


def test_migrations_keep_all_rows(empty: sa.Engine) -> None:
    migrate(empty, FIRST)
    assert current_revision(empty) == FIRST
    tables = _reflect(empty).sorted_tables
    with empty.begin() as connection:
        for table in tables:
            if table.name not in ("alembic_version", "generations"):  # these tables already have a row
                connection.execute(sa.insert(table), _make_row(table))
    before = {table.name: _read_rows(empty, table) for table in tables if table.name != "alembic_version"}
    assert {name: len(rows) for name, rows in before.items()} == dict.fromkeys(before, 1)
    migrate(empty)
    after = {table.name: _read_rows(empty, table) for table in _reflect(empty).sorted_tables}
    renamed = {(table, old): new for table, old, new in import_module(RENAMING).COLUMNS}
    for name, rows in before.items():
        expected = [{renamed.get((name, column), column): value for column, value in row.items()} for row in rows]
        stored = [{column: row[column] for column in expected[0]} for row in after[name]]
        assert stored == expected


def test_a_migration_computes_resources_of_existing_runs(empty: sa.Engine) -> None:
    migrate(empty, "0003")
    tables = _reflect(empty).tables
    amounts = {
        "replicas": 3,
        "resources.gpu.devices": 2,
        "resources.cpu.requests": "500m",
        "resources.mem.requests": "1Gi",
    }
    settings = [{"path": path, "value": value} for path, value in amounts.items()]
    plans = {
        "live": settings,
        "ended": settings,
        "small": [{"path": "resources.mem.limits", "value": None}],
        "huge": HUGE_SETTINGS,
    }
    with empty.begin() as connection:
        connection.execute(sa.insert(tables["places"]), _make_row(tables["places"]))
        for name, plan_settings in plans.items():
            row = _make_row(tables["runs"]) | {"id": name, "live": name != "ended"}
            connection.execute(sa.insert(tables["runs"]), row)
            connection.execute(
                sa.insert(tables["plans"]), {"id": name, "request": {}, "plan": {"settings": plan_settings}}
            )
    migrate(empty)
    runs = {row["id"]: row for row in _read_rows(empty, _reflect(empty).tables["runs"])}
    resources = {name: (row["gpus"], row["cpu_millicores"], row["mem_bytes"]) for name, row in runs.items()}
    assert resources == {
        "live": (6, 1500, 3 * 2**30),
        "ended": (0, 0, 0),
        "small": (0, 0, 0),
        "huge": (0, 0, 2**63 - 1),
    }


def test_a_migration_creates_functions_of_existing_runs(empty: sa.Engine, empty_url: str) -> None:
    migrate(empty, "0006")
    tables = _reflect(empty).tables
    runs = {
        "1": ("train", {"name": "train", "command": ["old"]}),
        "2": ("train", {"name": "train", "command": ["new"]}),
        "3": ("named", {"name": "named"}),
        "4": ("serve", {"name": "serve", "kind": "container", "image": "a:1"}),
    }
    with empty.begin() as connection:
        connection.execute(sa.insert(tables["places"]), _make_row(tables["places"]))
        for run_id, (name, function) in runs.items():
            connection.execute(sa.insert(tables["runs"]), _make_row(tables["runs"]) | {"id": run_id, "function": name})
            plan = {"id": run_id, "request": {"function": function}, "plan": {"settings": []}}
            connection.execute(sa.insert(tables["plans"]), plan)
    migrate(empty)
    with contextlib.closing(DatabaseStore(empty_url)) as store, store.reading() as tx:
        functions = {function.name: function for function in tx.find(FunctionRecord)}
    contents = {name: (function.kind, function.content) for name, function in functions.items()}
    assert contents == {
        "train": ("python", {"command": ["new"]}),
        "serve": ("container", {"kind": "container", "image": "a:1"}),
    }
    assert functions["train"].runs == 2


def test_a_migration_reads_the_demands_of_existing_plans(empty: sa.Engine, empty_url: str) -> None:
    migrate(empty, "0009")
    tables = _reflect(empty).tables
    plans = {story: plan for story in stories.STORIES if (plan := stories.plan_story(story).plan) and plan.demand}
    assert len(plans) > 50  # many kinds of requests, not just a few
    with empty.begin() as connection:
        connection.execute(sa.insert(tables["places"]), _make_row(tables["places"]))
        for run_id, plan in plans.items():
            assert plan.demand is not None
            amounts = {name: getattr(plan.demand.resources, name) for name in ("gpus", "cpu_millicores", "mem_bytes")}
            connection.execute(sa.insert(tables["runs"]), _make_row(tables["runs"]) | {"id": run_id} | amounts)
            row = {"id": run_id, "request": {}, "plan": explanations.to_data(plan)}
            connection.execute(sa.insert(tables["plans"]), row)
    migrate(empty)
    with contextlib.closing(DatabaseStore(empty_url)) as store, store.reading() as tx:
        demands = {record.id: record.demand for record in tx.find(PlanRecord)}
    assert demands == {run_id: plan.demand for run_id, plan in plans.items()}


@EACH_APPEND_ONLY_TABLE
@pytest.mark.parametrize("statement", ["UPDATE {} SET name = 'b'", "UPDATE {} SET id = id", "DELETE FROM {}"])
def test_append_only_tables_cannot_be_changed(database_store: DatabaseStore, table: str, statement: str) -> None:
    _check_rejected(database_store.engine, table, statement)


@EACH_APPEND_ONLY_TABLE
def test_append_only_tables_cannot_be_truncated(postgresql_store: DatabaseStore, table: str) -> None:
    _check_rejected(postgresql_store.engine, table, "TRUNCATE {}")


@EACH_APPEND_ONLY_TABLE
def test_rows_of_append_only_tables_cannot_be_replaced(sqlite_store: DatabaseStore, table: str) -> None:
    _check_rejected(sqlite_store.engine, table, "INSERT OR REPLACE INTO {0} SELECT * FROM {0}")


def test_servers_that_start_concurrently_migrate_once(empty_url: str) -> None:
    barrier = threading.Barrier(2)

    def start() -> str | None:
        store = DatabaseStore(empty_url)
        barrier.wait(10)
        migrate(store.engine)
        revision = current_revision(store.engine)
        with store.reading() as tx:
            assert tx.generation == Generation(1, 1)
        store.close()
        return revision

    with ThreadPoolExecutor(2) as threads:
        assert [task.result(30) for task in [threads.submit(start), threads.submit(start)]] == [HEAD, HEAD]


def test_a_database_locked_by_another_program_is_waited_for(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("INSERT INTO t VALUES (1)")
        commit_timer = threading.Timer(0.3, other.commit)
        commit_timer.start()
        store = DatabaseStore(f"sqlite:///{tmp_path}/new.db")
        assert current_revision(store.engine) is None
        store.close()
        commit_timer.join()


def test_a_database_of_a_newer_version_is_rejected(empty: sa.Engine) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(FairleadError, match="is at revision 9999, which this version does not support") as caught:
        migrate(empty)
    assert "later" in (caught.value.hint or "")
    assert current_revision(empty) == "9999"


def test_a_failed_migration_is_rolled_back(empty: sa.Engine) -> None:
    def fail(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        assert not statement.startswith("INSERT INTO generations")

    sa.event.listen(empty, "before_cursor_execute", fail)
    with pytest.raises(AssertionError):
        migrate(empty)
    sa.event.remove(empty, "before_cursor_execute", fail)
    assert sa.inspect(empty).get_table_names() == []
    migrate(empty)
    assert current_revision(empty) == HEAD


def _check_rejected(engine: sa.Engine, name: str, statement: str) -> None:
    table = _reflect(engine).tables[name]
    with engine.begin() as connection:
        connection.execute(sa.insert(table), _make_row(table))
    before = _read_rows(engine, table)
    with pytest.raises(DBAPIError, match="is append-only"), engine.begin() as connection:
        connection.execute(sa.text(statement.format(name)))
    assert _read_rows(engine, table) == before


def _make_row(table: sa.Table) -> dict[str, Any]:
    """A value in every column. A scope has no parent, so that it can be the first."""
    return {
        column.name: None
        if any(key.column.table is table for key in column.foreign_keys)
        else VALUES[column.type.python_type]
        for column in table.columns
    }


def _read_rows(engine: sa.Engine, table: sa.Table) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def _reflect(engine: sa.Engine) -> sa.MetaData:
    reflected = sa.MetaData()
    reflected.reflect(engine)
    return reflected


def _describe_expected(engine: sa.Engine, folder: Path) -> dict[str, Any]:
    """The tables defined in the code, created in an empty database of the same kind."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        metadata.create_all(engine)
        return _describe(engine)
    expected = sa.create_engine(f"sqlite:///{folder / 'expected.db'}")
    metadata.create_all(expected)
    description = _describe(expected)
    expected.dispose()
    return description


def _describe(engine: sa.Engine) -> dict[str, Any]:
    """All properties of the tables except the order of their columns."""
    inspector = sa.inspect(engine)
    if engine.dialect.name == "postgresql":
        indexes = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    else:
        indexes = "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    with engine.connect() as connection:
        index_rows = [tuple(row) for row in connection.exec_driver_sql(indexes)]
    return {
        table: {
            "columns": {
                column["name"]: (column["type"].compile(engine.dialect), column["nullable"], column["default"])
                for column in inspector.get_columns(table)
            },
            "key": inspector.get_pk_constraint(table),
            "unique": sorted(inspector.get_unique_constraints(table), key=str),
            "references": sorted(_references(engine, table), key=str),
            "indexes": {name: " ".join(sql.split()) for table_name, name, sql in index_rows if table_name == table},
        }
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }


def _references(engine: sa.Engine, table: str) -> list[Any]:
    """The foreign keys of a table. SQLAlchemy parses SQLite's DDL and misses the options of added columns."""
    if engine.dialect.name != "sqlite":
        return list(sa.inspect(engine).get_foreign_keys(table))
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"PRAGMA foreign_key_list({table})").mappings()
        return [{name: value for name, value in row.items() if name not in ("id", "seq")} for row in rows]
