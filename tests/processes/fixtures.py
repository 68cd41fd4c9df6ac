"""Fixtures that start real processes: a launcher per worker, and machines that start servers through it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.machines import Launcher, Machine, RunningServer


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """The launcher that starts this worker's servers."""
    started = Launcher(tmp_path_factory.mktemp("launcher"))
    yield started
    started.close()


@pytest.fixture
def machine(tmp_path: Path, launcher: Launcher) -> Iterator[Machine]:
    """A machine for a single test."""
    opened = Machine(tmp_path, launcher)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Machine]:
    """A machine that is shared by the tests in a module."""
    opened = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[RunningServer]:
    """A server on SQLite, shared by all of this worker's tests. Each test uses its own object names."""
    opened = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield opened.up()
    opened.close()
