"""The executor contract, on a real control plane."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from tests.cluster.benches import KubernetesBench, serving
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.contracts.test_executors import *  # noqa: F403


@pytest.fixture  # type: ignore[no-redef]
def bench(
    control_plane: ControlPlane, kubelet: FakeKubelet, sqlite_store: DatabaseStore, tmp_path: Path
) -> Iterator[KubernetesBench]:
    """A cluster executor without any runs."""
    with serving(sqlite_store) as url:
        bench = KubernetesBench(control_plane, tmp_path, sqlite_store, f"t{uuid.uuid4().hex[:8]}", url)
        yield bench
        bench.close()
