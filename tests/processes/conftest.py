"""Fixtures for tests with real processes: servers and databases."""

from collections.abc import Iterator

import pytest

from tests.processes import execution
from tests.processes.execution import Platform
from tests.processes.machines import Launcher, Machine, RunningServer


@pytest.fixture(scope="module")
def server(shared_machine: Machine) -> RunningServer:
    """A server on SQLite, shared by the tests in a module. Each test uses its own object names."""
    return shared_machine.up()


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Platform]:
    """A server with capacity for many runs and a secret in its environment, shared by a worker's tests."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64,mem=64Gi", "OWN_SECRET": "the-servers-own"}
    machine = Machine(tmp_path_factory.mktemp("platform"), launcher)
    with execution.open_platform(machine, variables=variables) as opened:
        opened.allow(allow_root=True, existing_volumes="allow")
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The command-line options of a server with an empty database, once per database type."""
    return () if request.param == "sqlite" else ("--database", request.getfixturevalue("postgresql_url"))
