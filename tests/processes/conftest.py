"""Machines to start processes on, and databases for their servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.machines import Launcher, Machine, Running


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """What starts servers."""
    made = Launcher(tmp_path_factory.mktemp("launcher"))
    yield made
    made.close()


@pytest.fixture
def machine(tmp_path: Path, launcher: Launcher) -> Iterator[Machine]:
    """A machine of this test alone."""
    made = Machine(tmp_path, launcher)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Machine]:
    """A machine that the tests of a module share."""
    made = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(shared_machine: Machine) -> Running:
    """A server on SQLite that the tests of a module share: each uses names of its own."""
    return shared_machine.up()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options of a server for a database without any data, of every kind in turn."""
    return () if request.param == "sqlite" else ("--database", request.getfixturevalue("postgresql_url"))
