"""Servers of the tests of real processes, and databases for them."""

from collections.abc import Iterator

import pytest

from tests.processes import execution
from tests.processes.execution import Platform
from tests.processes.machines import Launcher, Machine, Running


@pytest.fixture(scope="module")
def server(shared_machine: Machine) -> Running:
    """A server on SQLite that the tests of a module share: each uses names of its own."""
    return shared_machine.up()


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Platform]:
    """A server on which many runs fit, with a secret in its environment. The tests of a worker share it."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64,mem=64Gi", "OWN_SECRET": "the-servers-own"}
    machine = Machine(tmp_path_factory.mktemp("platform"), launcher)
    with execution.open_platform(machine, variables=variables) as opened:
        opened.allow(allow_root=True, existing_volumes="allow")
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options of a server for a database without any data, of every kind in turn."""
    return () if request.param == "sqlite" else ("--database", request.getfixturevalue("postgresql_url"))
