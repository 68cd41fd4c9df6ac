"""The real scheduler places runs on the nodes of their compute resource. Runs that do not fit get a reason."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform
from tests.processes.machines import Machine

PRODUCT = "nvidia.com/gpu.product"
A100, T4, L40 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "NVIDIA-L40S"
GPU_TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
# Two node pools with A100 GPUs, one with T4 GPUs reserved for a team, and one without GPUs.
NODES: dict[str, dict[str, Any]] = {
    "a100-1": {"gpus": 4, "labels": {"pool": "a100", PRODUCT: A100}, "capacity": {"cpu": "32"}},
    "a100-2": {"gpus": 4, "labels": {"pool": "a100-reserved", PRODUCT: A100}, "capacity": {"cpu": "32"}},
    "t4-1": {"gpus": 2, "labels": {"pool": "t4", PRODUCT: T4}, "taints": [GPU_TAINT], "capacity": {"cpu": "8"}},
    "cpu-1": {"labels": {"pool": "cpu"}, "capacity": {"cpu": "8", "memory": "16Gi"}},
}
RESOURCES: dict[str, dict[str, Any]] = {
    "one-a100": {"resources": {"gpu": {"devices": 1, "type": "A100"}, "cpu": 1}},
    "reserved": {"resources": {"gpu": 2}, "node_selector": {"pool": "a100-reserved"}},
    "vision-t4": {
        "resources": {"gpu": {"devices": 1, "type": "T4"}},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}],
    },
    "small": {"resources": {"cpu": 1, "mem": "1Gi"}, "node_selector": {"pool": "cpu"}},
    "four-a100": {"resources": {"gpu": 4}, "node_selector": {"pool": "a100"}},
    "l40": {"resources": {"gpu": {"devices": 1, "type": "L40"}}},
}


@pytest.fixture(scope="module")
def nodes(kubelet: FakeKubelet) -> Iterator[None]:
    """Add nodes with pools and GPU products during these tests."""
    for name, node in NODES.items():
        kubelet.add_node(name, **node)
    yield
    for name in NODES:
        kubelet.delete_node(name)


@pytest.fixture(scope="module")
def platform(
    shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client, nodes: None
) -> Platform:
    """A platform with compute resources for certain nodes. It is autoscaled, so runs that do not fit wait."""
    types = {"A100": [A100], "T4": [T4], "L40": [L40]}
    platform = Platform(shared_machine, control_plane, admin, gpu_types=types, autoscaled=True)
    for name, requirements in RESOURCES.items():
        platform.api("POST", "/compute-resources", {"name": name, "requirements": requirements})
    until(lambda: {node["name"] for node in platform.api("GET", "/nodes") if node["capacity"]} >= set(NODES))
    return platform


@pytest.fixture
def started(platform: Platform) -> Iterator[list[Run]]:
    """A list of runs that are stopped after the test."""
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.stop()
    for run in runs:
        until(lambda run=run: not platform.pods_of(run))  # type: ignore[misc]


def node_of(platform: Platform, run: Run) -> str:
    """Wait until a run is running, and return its node."""
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    return str(pod["spec"]["nodeName"])


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("one-a100", {"a100-1", "a100-2"}),
        ("reserved", {"a100-2"}),
        ("vision-t4", {"t4-1"}),
        ("small", {"cpu-1"}),
        ("four-a100", {"a100-1"}),
    ],
)
def test_run_is_on_a_node_of_its_compute_resource(
    platform: Platform, started: list[Run], profile: str, expected: set[str]
) -> None:
    started.append(platform.run(profile=profile))
    node_name = node_of(platform, started[0])
    assert node_name in expected
    (node,) = [node for node in platform.api("GET", "/nodes") if node["name"] == node_name]
    assert started[0].id in node["runs"]


def test_runs_are_spread_over_all_suitable_nodes(platform: Platform, started: list[Run]) -> None:
    started += [platform.run(profile="one-a100") for _ in range(8)]
    nodes_of_runs = [node_of(platform, run) for run in started]
    assert sorted(nodes_of_runs) == ["a100-1"] * 4 + ["a100-2"] * 4


def test_waiting_run_gives_a_reason_with_numbers_and_starts_when_it_fits(
    platform: Platform, started: list[Run]
) -> None:
    started += [platform.run(profile="four-a100"), platform.run(profile="one-a100")]
    assert node_of(platform, started[0]) == "a100-1"
    assert node_of(platform, started[1]) == "a100-2"
    waiting = platform.run(profile="four-a100")
    status = platform.until(waiting, "Unschedulable")
    holder = f"train-{started[0].id}"
    our_message = f"needs 4 GPUs; 0 of 4 free on a100-1, the only suitable node; run {holder} uses 4"
    assert (status["state"], status["message"].partition("; the scheduler says: ")[0]) == ("pending", our_message)
    scheduler_message = status["message"].partition("; the scheduler says: ")[2]
    assert scheduler_message.startswith("0/6 nodes are available: 1 Insufficient nvidia.com/gpu")
    assert "preemption" not in scheduler_message
    why = platform.api("GET", f"/runs/{waiting.id}/why")
    assert (why["message"], why["details"][0]) == (our_message, f"the scheduler says: {scheduler_message}")
    assert f"wait for run {holder}, which uses 4 GPUs on a100-1" in [
        suggestion["message"] for suggestion in why["fit"]["suggestions"]
    ]
    assert platform.api("GET", f"/runs/{waiting.id}/explain")["fit"]["verdict"] == "later"
    assert our_message in platform.terminal("runs", "why", waiting.id).out
    assert waiting.why().startswith(f"pending: {our_message}\n  the scheduler says: ")
    started.pop(0).stop()
    started.append(waiting)
    assert node_of(platform, waiting) == "a100-1"


def test_waiting_reason_names_the_best_node(platform: Platform, started: list[Run]) -> None:
    started += [platform.run(profile="reserved"), platform.run(profile="four-a100")]
    for run in started:
        platform.until(run, "running")
    waiting = platform.run(resources={"gpu": {"devices": 3, "type": "A100"}})
    status = platform.until(waiting, "Unschedulable")
    started.append(waiting)
    our_message = "needs 3 GPUs on one node; at most 2 free on any of 2 suitable nodes (a100-2)"
    assert status["message"].startswith(f"{our_message}; run ")
    assert "; the scheduler says: 0/6 nodes are available: " in status["message"]


def test_missing_toleration_is_named(platform: Platform, started: list[Run]) -> None:
    started.append(platform.run(node_selector={"pool": "t4"}))
    status = platform.until(started[0], "Unschedulable")
    our_message = (
        "1 suitable node (t4-1) only accepts pods that tolerate its taints: 1 is tainted with team=vision:NoSchedule"
    )
    assert status["message"].startswith(f"{our_message}; the scheduler says: ")


def test_run_larger_than_every_node_gives_a_reason(platform: Platform, started: list[Run]) -> None:
    started.append(platform.run(resources={"mem": "32Gi"}, node_selector={"pool": "cpu"}))
    status = platform.until(started[0], "Unschedulable")
    our_message = "needs 32 GiB memory; cpu-1, the only matching node, has 16 GiB"
    assert status["message"].startswith(f"{our_message}; the scheduler says: ")


def test_run_starts_when_a_node_is_added(platform: Platform, kubelet: FakeKubelet, started: list[Run]) -> None:
    started.append(platform.run(profile="l40"))
    status = platform.until(started[0], "Unschedulable")
    assert status["message"].startswith(f"no node has a GPU of type {L40}: 6 nodes")
    kubelet.add_node("l40-1", gpus=1, labels={PRODUCT: L40})
    assert node_of(platform, started[0]) == "l40-1"
    started[0].stop()
    platform.until(started.pop(), "stopped")
    kubelet.delete_node("l40-1")


def test_run_that_fits_no_node_is_rejected_without_autoscaling(platform: Platform, started: list[Run]) -> None:
    """A change to the cluster triggers a reconnect; its runs continue and are still observed."""
    started.append(platform.run(profile="small"))
    platform.until(started[0], "running")
    platform.terminal("clusters", "edit", "main", "--autoscaled=false")
    function = {"name": "train", "kind": "container", "image": "example.test/sleep"}
    with platform.server.client() as client:
        response = client.post("/projects/forest/runs", json={"function": function, "profile": "l40"})
    (violation,) = response.json()["violations"]
    assert (violation["path"], violation["rule"]) == ("resources.gpu.type", "never_fits")
    assert violation["message"].startswith(f"needs a node with a GPU of type {L40}; ")
    assert platform.get_run(started[0])["state"] == "running"
    second = platform.run(profile="small")
    assert node_of(platform, second) == "cpu-1"
    started.append(second)
