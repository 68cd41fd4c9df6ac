"""Fixtures: a real server with two projects, and in-process servers for tests without runs."""

from collections.abc import Iterator

import pytest

from tests.processes import execution
from tests.processes.machines import Launcher, Machine
from tests.security.neighbors import Neighbors, open_neighbors
from tests.server.conftest import common_site, common_store, log, operations, site  # noqa: F401


@pytest.fixture(scope="package")
def neighbors(launcher: Launcher) -> Iterator[Neighbors]:
    """Two projects on one server, shared by all tests. Each test uses its own object names."""
    with execution.open_folder(0o755) as folder, open_neighbors(Machine(folder, launcher)) as opened:
        yield opened
