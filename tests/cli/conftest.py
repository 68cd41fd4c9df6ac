"""A server that all tests of the terminal share, each with names of its own."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.processes.machines import Running


@pytest.fixture(scope="session")
def server(shared_server: Running) -> Running:
    """A server on SQLite."""
    return shared_server


@pytest.fixture
def terminal(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty folder that knows the server."""
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    monkeypatch.setenv("FAIRLEAD_TOKEN", server.token)
    monkeypatch.delenv("FAIRLEAD_PROJECT", raising=False)
    return Terminal(tmp_path)
