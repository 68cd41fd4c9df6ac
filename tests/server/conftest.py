"""Servers for tests: one per test, or one per file whose tests only read or only fail."""

import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.model.runs import Endpoint
from fairlead.server.proxy.connections import ConnectionPool
from fairlead.server.proxy.http import ProxyConfig
from tests.server.samples import fill
from tests.server.sites import Operation, Site, open_site, operations_of
from tests.server.stages import Stage, open_stage
from tests.server.upstreams import Program, run_server

Lines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log() -> Iterator[Lines]:
    """The server's captured log."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def site(database_store: DatabaseStore) -> Iterator[Site]:
    """A server with an empty database."""
    with open_site(database_store) as opened:
        yield opened


@pytest.fixture(scope="module")
def common_store(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseStore]:
    """A SQLite database shared by all tests in a file."""
    file = tmp_path_factory.mktemp("common") / "fairlead.db"
    shutil.copy(sqlite_template, file)
    store = DatabaseStore(f"sqlite:///{file}")
    yield store
    store.close()


@pytest.fixture(scope="module")
def common_site(common_store: DatabaseStore) -> Iterator[Site]:
    """A server shared by all tests in a file."""
    with open_site(common_store) as opened:
        yield opened


@pytest.fixture(scope="module")
def objects(common_site: Site) -> dict[str, str]:
    """The objects in the shared server's project alpha, by kind."""
    return fill(common_site, "alpha")


@pytest.fixture(scope="module")
def operations(common_site: Site) -> list[Operation]:
    """Every API operation."""
    return operations_of(common_site.document)


@pytest.fixture
def filled_site(site: Site) -> Site:
    """A server with a project alpha that contains objects of every kind."""
    fill(site, "alpha")
    return site


@pytest.fixture
def stage(sqlite_store: DatabaseStore) -> Iterator[Stage]:
    """A server on a local port, with served runs."""
    with open_stage(sqlite_store) as opened:
        yield opened


@pytest.fixture
def short_timeout_stage(sqlite_store: DatabaseStore) -> Iterator[Stage]:
    """A stage with a timeout of one second, access checks every 100 ms, and two connections per run."""
    with open_stage(
        sqlite_store, ProxyConfig(ConnectionPool(2), response_timeout_seconds=1, renewal_interval_seconds=0.1)
    ) as opened:
        yield opened


@pytest.fixture
def program() -> Program:
    """A served run's program."""
    return Program()


@pytest.fixture
def endpoint(program: Program) -> Iterator[Endpoint]:
    """The endpoint of that program on a local port."""
    with run_server(program) as opened:
        yield opened


@pytest.fixture(scope="module")
def common_stage(common_store: DatabaseStore) -> Iterator[Stage]:
    """A server shared by all tests in a file. Each test has its own runs."""
    with open_stage(common_store) as opened:
        yield opened


@pytest.fixture(scope="module")
def common_program() -> Program:
    """The shared program of all served runs."""
    return Program()


@pytest.fixture(scope="module")
def endpoints(common_program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Endpoint]]:
    """The endpoints of that program: a Unix socket and a local port."""
    path = tmp_path_factory.mktemp("run") / "run.sock"
    with run_server(common_program, path=path) as by_socket, run_server(common_program) as by_port:
        yield {"socket": by_socket, "port": by_port}
