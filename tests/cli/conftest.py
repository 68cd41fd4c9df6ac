"""A server that all tests of the terminal share, each with names of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.processes.machines import Launcher, Machine, Running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on SQLite."""
    launcher = Launcher(tmp_path_factory.mktemp("launcher"))
    machine = Machine(tmp_path_factory.mktemp("machine"), launcher)
    yield machine.up()
    machine.close()
    launcher.close()


@pytest.fixture
def terminal(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty folder that knows the server."""
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    monkeypatch.setenv("FAIRLEAD_TOKEN", server.token)
    monkeypatch.delenv("FAIRLEAD_PROJECT", raising=False)
    return Terminal(tmp_path)
