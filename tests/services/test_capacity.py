"""Free capacity, how many more runs of each compute resource fit, and permissions."""

from dataclasses import replace

import pytest

from fairlead.errors import NotFound, Unavailable
from fairlead.model.nodes import Node, NodeTable, Taint
from fairlead.model.scopes import Cluster
from fairlead.ports import Store
from fairlead.services.runs.capacity import Capacity, ComputeResourceCapacity
from fairlead.services.transactions.unit_of_work import Call
from tests.contracts.executors import MemoryExecutor
from tests.services.executing import FAR, HERE, HOME, OTHER, Platform, initialize_platform
from tests.services.worlds import call_as

LABELS = {"pool": "big", "nvidia.com/gpu.product": "A100"}


def show(platform: Platform, call: Call | None = None, **filters: str) -> list[Capacity]:
    """The capacity for a caller."""
    return platform.world.services.capacity.show(call or platform.world.root, **filters)


def home_capacity(platform: Platform, call: Call | None = None) -> Capacity:
    """The capacity of project home's cluster."""
    (capacity,) = show(platform, call, project="home")
    return capacity


def fits(capacity: Capacity) -> dict[str, int | None]:
    """How many more runs of each compute resource fit now."""
    return {resource.name: resource.fits_now for resource in capacity.compute_resources}


def find_compute_resource(capacity: Capacity, name: str) -> ComputeResourceCapacity:
    """The capacity of one compute resource."""
    (match,) = [resource for resource in capacity.compute_resources if resource.name == name]
    return match


def break_nodes(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the nodes unavailable."""

    def nodes() -> NodeTable:
        raise Unavailable("cluster/here was not seen yet")

    monkeypatch.setattr(platform.executor, "nodes", nodes)


def test_requests_of_runs_are_subtracted_from_the_free_capacity(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = initialize_platform(store, monkeypatch)
    platform.world.add_compute_resource("small", resources={"cpu": 2})
    platform.submit(HOME, resources={"cpu": "500m", "gpu": 1})
    platform.control().sync(set())
    capacity = home_capacity(platform)
    assert (capacity.cluster, capacity.reachable, capacity.error, capacity.autoscaled) == ("here", True, "", False)
    assert capacity.total is not None
    assert (capacity.total.nodes, capacity.total.unavailable) == (1, 0)
    assert (capacity.total.capacity["cpu"], capacity.total.requested["cpu"]) == ("8", "500m")
    assert (capacity.total.free["cpu"], capacity.total.free["nvidia.com/gpu"]) == ("7500m", "1")
    assert (capacity.total.largest["cpu"].amount, capacity.total.largest["cpu"].node) == ("7500m", "box")
    assert find_compute_resource(capacity, "small") == ComputeResourceCapacity("small", "platform", None, 3)


def test_node_groups_and_gpu_types_come_from_node_labels(platform: Platform) -> None:
    assert [pool.name for pool in (*home_capacity(platform).groups, *home_capacity(platform).gpu_types)] == [
        "nvidia.com/gpu"
    ]
    platform.executor.node = replace(platform.executor.node, labels=LABELS)
    capacity = home_capacity(platform)
    assert [pool.name for pool in capacity.groups] == ["big"]
    assert [(pool.name, pool.free["nvidia.com/gpu"]) for pool in capacity.gpu_types] == [("A100", "2")]
    platform.executor.node = Node("plain", {"cpu": 10**9})
    assert home_capacity(platform).gpu_types == []


def test_smaller_compute_resource_fits_more_often(platform: Platform) -> None:
    world = platform.world
    world.add_compute_resource("small", resources={"cpu": 8})
    assert fits(home_capacity(platform)) == {"small": 1}
    world.services.compute_resources.edit(world.root, "small", {"requirements": {"resources": {"cpu": 2}}})
    assert fits(home_capacity(platform)) == {"small": 4}
    platform.executor.node = replace(platform.executor.node, capacity={"cpu": 2 * 10**9, "pods": 10**9})
    assert fits(home_capacity(platform)) == {"small": 1}


def test_reason_why_nothing_fits_is_reported(platform: Platform) -> None:
    platform.world.add_compute_resource("gpus", resources={"gpu": 2})
    platform.world.add_compute_resource("huge", resources={"cpu": 64})
    platform.world.put_policy(HOME, rules={"resources.gpu": {"max": 1}})
    capacity = home_capacity(platform)
    assert find_compute_resource(capacity, "gpus").fits_now == find_compute_resource(capacity, "huge").fits_now == 0
    assert find_compute_resource(capacity, "gpus").message == (
        "2 (from the compute resource gpus); the project/home policy allows at most 1"
    )
    assert "64 CPU" in find_compute_resource(capacity, "huge").message
    (elsewhere,) = show(platform, project="other")
    assert fits(elsewhere) == {"gpus": 1, "huge": 0}


def test_count_above_the_maximum_is_reported_as_more(platform: Platform) -> None:
    platform.world.add_compute_resource("small", resources={"cpu": "1m"})
    platform.executor.node = replace(platform.executor.node, capacity={"cpu": 10**12, "pods": 10**14})
    capacity = find_compute_resource(home_capacity(platform), "small")
    assert (capacity.fits_now, capacity.more) == (1000, True)


def test_unavailable_nodes_give_no_count(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.world.add_compute_resource("small", resources={"cpu": 2})
    platform.world.add_compute_resource("gpus", resources={"gpu": 2})
    platform.world.put_policy(HOME, rules={"resources.gpu": {"max": 1}})
    break_nodes(platform, monkeypatch)
    capacity = home_capacity(platform)
    assert (capacity.reachable, capacity.error, capacity.total) == (False, "cluster/here was not seen yet", None)
    assert fits(capacity) == {"gpus": 0, "small": None}  # a request that violates a policy fits nowhere


def test_cluster_without_an_executor_is_reported(platform: Platform) -> None:
    (capacity,) = show(platform, project="far")
    assert (capacity.reachable, capacity.error) == (False, "no server executes the runs of cluster/far yet")


def test_connection_error_is_shown_only_to_cluster_administrators(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe_error(cluster: Cluster) -> str:
        return f"{cluster.scope} has an unreadable kubeconfig"

    monkeypatch.setattr(platform.world.services.capacity.executors, "connection_error", describe_error)
    member, admin = platform.world.grant("mia", "member", FAR), platform.world.grant("ada", "admin", "cluster/far")
    errors = [show(platform, call, cluster="far")[0].error for call in (member, admin)]
    assert errors == ["no server executes the runs of cluster/far yet", describe_error(Cluster(name="far"))]


def test_visible_clusters_are_listed_with_the_compute_resources_that_reach_them(platform: Platform) -> None:
    world = platform.world
    for name, scope in (("all", "platform"), ("on-here", HERE), ("of-home", HOME), ("of-other", OTHER)):
        world.add_compute_resource(name, resources={"cpu": 2}, scope=scope)
    world.add_compute_resource("old", resources={"cpu": 2})
    world.services.compute_resources.archive(world.root, "old", None)
    vic = world.grant("vic", "viewer", HOME)
    assert {capacity.cluster: list(fits(capacity)) for capacity in show(platform)} == {
        "far": ["all"],
        "here": ["all", "of-home", "of-other", "on-here"],
        "local": ["all"],
    }
    assert {capacity.cluster: list(fits(capacity)) for capacity in show(platform, vic)} == {
        "here": ["all", "of-home", "on-here"]
    }
    assert list(fits(home_capacity(platform, vic))) == ["all", "of-home", "on-here"]
    assert show(platform, call_as("nobody")) == []


def test_compute_resource_of_a_project_is_checked_with_its_policies(platform: Platform) -> None:
    platform.world.add_compute_resource("gpus", resources={"gpu": 2}, scope=HOME)
    platform.world.put_policy(HOME, rules={"resources.gpu": {"max": 1}})
    (capacity,) = show(platform, cluster="here")
    assert fits(capacity) == {"gpus": 0}


@pytest.mark.parametrize(
    "filters", [{"project": "other"}, {"project": "none"}, {"cluster": "far"}, {"cluster": "none"}]
)
def test_invisible_scope_is_not_found(platform: Platform, filters: dict[str, str]) -> None:
    vic = platform.world.grant("vic", "viewer", HOME)
    with pytest.raises(NotFound, match="does not exist"):
        show(platform, vic, **filters)


def test_project_has_capacity_only_on_its_own_cluster(platform: Platform) -> None:
    assert show(platform, project="home", cluster="far") == []
    assert [capacity.cluster for capacity in show(platform, project="home", cluster="here")] == ["here"]


def test_nodes_show_cluster_group_and_taints(platform: Platform) -> None:
    world, taint = platform.world, Taint("dedicated", "vision", "NoSchedule")
    platform.executor.node = replace(platform.executor.node, labels=LABELS, taints=(taint,), unschedulable=True)
    vic = world.grant("vic", "viewer", HOME)
    (node,) = world.services.executions.nodes(vic)
    assert (node.name, node.cluster, node.group, node.gpu_type) == ("box", "here", "big", "A100")
    assert (node.taints, node.unschedulable) == (["dedicated=vision:NoSchedule"], True)


def test_nodes_of_visible_clusters_are_listed(platform: Platform) -> None:
    world, nodes = platform.world, platform.world.services.executions.nodes
    vic = world.grant("vic", "viewer", HOME)
    assert [node.cluster for node in nodes(world.root)] == ["here", "local"]  # both clusters are this machine
    assert [node.cluster for node in nodes(world.root, "local")] == ["local"]
    assert nodes(world.root, "far") == nodes(call_as("nobody")) == []
    assert nodes(vic) == nodes(vic, "here") != []
    with pytest.raises(NotFound, match="cluster/local does not exist"):
        nodes(vic, "local")


def test_unavailable_machine_is_omitted(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(platform.executor, MemoryExecutor)
    break_nodes(platform, monkeypatch)
    assert platform.world.services.executions.nodes(platform.world.root) == []
