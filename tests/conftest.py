"""Stores for every test that asks for one; and a cluster only for those who ask for its tests."""

from pathlib import Path

import pytest

pytest_plugins = ("tests.databases",)

CLUSTER = Path(__file__).parent / "cluster"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests on a real Kubernetes, which takes minutes to build, unless they are named."""
    if collection_path != CLUSTER:
        return None
    named = [(config.invocation_params.dir / word.partition("::")[0]).resolve() for word in config.args]
    return None if any(path.is_relative_to(CLUSTER) for path in named) else True
