"""Machines whose servers something befalls, and platforms whose clock is set."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.memory import MemoryStore
from tests.faults.sites import FaultyLauncher
from tests.processes.machines import Launcher, Machine
from tests.services.executing import Platform, found_platform


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """What starts servers."""
    made = FaultyLauncher(tmp_path_factory.mktemp("launcher"))
    yield made
    made.close()


@pytest.fixture
def machine(tmp_path: Path, launcher: Launcher) -> Iterator[Machine]:
    """A machine of this test alone."""
    made = Machine(tmp_path, launcher)
    yield made
    made.close()


@pytest.fixture
def platform(memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform in memory, with a clock that tests set."""
    return found_platform(memory_store, monkeypatch)
