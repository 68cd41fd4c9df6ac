"""A real control plane with a fake kubelet, of one session of tests; and a namespace of each test's own."""

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

PLAIN, GPUS = "plain", "gpus"  # the nodes that are there
GPU_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}

# Files that take longest, in the order in which workers take them: one that began last would run alone at the end.
# xdist keeps this order with --no-loadscope-reorder; without it, files with the most tests come first.
LONGEST = (
    *("test_crashes", "test_long_outages", "test_faults", "test_real_pods", "test_random_faults"),
    *("test_removals", "test_reasons", "test_kueue", "test_two_servers", "test_killed_servers"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first."""
    places = {Path(__file__).with_name(f"{name}.py"): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what this machine could not test, however quiet the rest is."""
    reports = terminalreporter.getreports("skipped")
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple)}
    for reason in sorted(reasons):
        if reason.startswith(NOT_TESTED):
            terminalreporter.write_line(reason, yellow=True, bold=True)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that all tests share."""
    with control_planes.running(audit=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def kubelet(control_plane: ControlPlane) -> Iterator[FakeKubelet]:
    """The kubelet of two nodes, one of them with eight GPUs."""
    with FakeKubelet(control_plane) as kubelet:
        kubelet.add_node(PLAIN)
        kubelet.add_node(GPUS, gpus=8, labels=GPU_LABELS | {"nvidia.com/gpu.count": "8"})
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
    """A cluster that has metrics.k8s.io, as long as this test."""
    kubelet.start_measuring(seconds=0.2)
    yield
    kubelet.stop_measuring()


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that executes runs on the cluster, which the tests of a module share."""
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
