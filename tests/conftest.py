"""Fixtures for all tests, and markers for slow tests.

`make test` skips tests that are marked `slow`. A test that starts real processes is marked `slow`, unless it is marked
`smoke`: there is one smoke test for each real component.
"""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.suites import examples

pytest_plugins = ("tests.databases", "tests.processes.fixtures")

CLUSTER = Path(__file__).parent / "cluster"
PROCESS_FIXTURES = {"launcher", "browser"}  # they start servers and browsers

settings.register_profile("fairlead", deadline=None, max_examples=examples(fast=25, all=100))
settings.load_profile("fairlead")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the tests on a real Kubernetes unless requested, because it takes minutes to build."""
    if collection_path != CLUSTER:
        return None
    requested = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(CLUSTER) for path in requested) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start real processes as slow."""
    for item in items:
        fixtures = PROCESS_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures and item.get_closest_marker("smoke") is None:
            item.add_marker("slow")
