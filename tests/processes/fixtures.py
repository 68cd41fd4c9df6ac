"""Fixtures that start real processes: a launcher for each worker, and machines on which it starts servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.machines import Launcher, Machine, Running


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Starts the servers of this worker."""
    started = Launcher(tmp_path_factory.mktemp("launcher"))
    yield started
    started.close()


@pytest.fixture
def machine(tmp_path: Path, launcher: Launcher) -> Iterator[Machine]:
    """A machine of this test alone."""
    opened = Machine(tmp_path, launcher)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Machine]:
    """A machine that the tests of a module share."""
    opened = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Running]:
    """A server on SQLite that all tests of this worker share: each uses names of its own."""
    opened = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield opened.up()
    opened.close()
