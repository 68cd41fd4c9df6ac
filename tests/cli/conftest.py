"""A server shared by all CLI tests; each test uses its own names."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.processes.machines import RunningServer


@pytest.fixture(scope="session")
def server(shared_server: RunningServer) -> RunningServer:
    """A server on SQLite."""
    return shared_server


@pytest.fixture
def terminal(server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty folder, connected to the server."""
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    monkeypatch.setenv("FAIRLEAD_TOKEN", server.token)
    monkeypatch.delenv("FAIRLEAD_PROJECT", raising=False)
    return Terminal(tmp_path)
