"""Servers to ask: one for each test, or one for all tests of a file that only read or only fail."""

import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from fairlead.adapters.database.stores import DatabaseStore
from tests.server.samples import fill
from tests.server.sites import Operation, Site, open_site, operations_of

Lines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log() -> Iterator[Lines]:
    """What the server logs, in place of printing it."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def site(sqlite_store: DatabaseStore) -> Iterator[Site]:
    """A server over an empty SQLite database."""
    with open_site(sqlite_store) as opened:
        yield opened


@pytest.fixture
def any_site(database_store: DatabaseStore) -> Iterator[Site]:
    """A server over an empty database, of every kind in turn."""
    with open_site(database_store) as opened:
        yield opened


@pytest.fixture(scope="module")
def common_site(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that all tests of a file share."""
    file = tmp_path_factory.mktemp("common") / "fairlead.db"
    shutil.copy(sqlite_template, file)
    store = DatabaseStore(f"sqlite:///{file}")
    with open_site(store) as opened:
        yield opened
    store.close()


@pytest.fixture(scope="module")
def things(common_site: Site) -> dict[str, str]:
    """What there is in the project alpha of the common server, by noun."""
    return fill(common_site, "alpha")


@pytest.fixture(scope="module")
def operations(common_site: Site) -> list[Operation]:
    """Everything that can be asked of a server."""
    return operations_of(common_site.document)


@pytest.fixture
def two(any_site: Site) -> Site:
    """A server on every database, with things in it."""
    fill(any_site, "alpha")
    return any_site
