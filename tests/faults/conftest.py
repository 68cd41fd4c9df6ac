"""Fixtures for servers with injected faults, and platforms with a changed clock."""

from collections.abc import Iterator

import pytest

from tests.faults.sites import FaultyLauncher
from tests.processes.machines import Launcher
from tests.services.conftest import platform  # noqa: F401


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """A launcher that starts servers with injected faults."""
    started = FaultyLauncher(tmp_path_factory.mktemp("launcher"))
    yield started
    started.close()
