"""Fixtures: a real control plane and a fake kubelet per session, and a namespace per test."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import control_planes
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform
from tests.cluster.proxies import Proxy
from tests.cluster.real_nodes import NOT_TESTED
from tests.processes.machines import Machine

CPU_NODE, GPU_NODE = "plain", "gpus"  # names of the nodes
GPU_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}

# The slowest test files, which must start first: a slow file that starts last would run alone at the end.
# xdist keeps this order with --no-loadscope-reorder; without it, files with the most tests come first.
SLOWEST = (
    *("test_crashes", "test_long_outages", "test_faults", "test_real_pods", "test_random_faults"),
    *("test_removals", "test_reasons", "test_kueue", "test_two_servers", "test_killed_servers"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first."""
    positions = {Path(__file__).with_name(f"{name}.py"): position for position, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: positions.get(item.path, len(positions)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what could not be tested on this machine, even in quiet mode."""
    reports = terminalreporter.getreports("skipped")
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple)}
    for reason in sorted(reasons):
        if reason.startswith(NOT_TESTED):
            terminalreporter.write_line(reason, yellow=True, bold=True)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that is shared by all tests."""
    with control_planes.running(audit=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def kubelet(control_plane: ControlPlane) -> Iterator[FakeKubelet]:
    """A fake kubelet with two nodes, one of them with eight GPUs."""
    with FakeKubelet(control_plane) as kubelet:
        kubelet.add_node(CPU_NODE)
        kubelet.add_node(GPU_NODE, gpus=8, labels=GPU_LABELS | {"nvidia.com/gpu.count": "8"})
        yield kubelet


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[Client]:
    """A client with cluster-admin permissions."""
    with control_plane.client() as admin:
        yield admin


@pytest.fixture
def namespace(admin: Client) -> Iterator[str]:
    """A namespace for one test, ready for pods. It is deleted with everything in it."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    until(lambda: admin.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def metrics(kubelet: FakeKubelet) -> Iterator[None]:
    """Provide metrics.k8s.io during a test."""
    kubelet.start_measuring(seconds=0.2)
    yield
    kubelet.stop_measuring()


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that executes runs on the cluster, shared by the tests in a module."""
    return Platform(shared_machine, control_plane, admin)


@pytest.fixture(scope="module")
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy between servers and the API server."""
    with Proxy(control_plane) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def proxied_platform(
    shared_machine: Machine,
    control_plane: ControlPlane,
    kubelet: FakeKubelet,
    admin: Client,
    proxy: Proxy,
) -> Platform:
    """A server that reaches the cluster through the proxy."""
    kubeconfig = proxy.write_kubeconfig(shared_machine.folder / "proxy.kubeconfig")
    return Platform(shared_machine, control_plane, admin, kubeconfig)
