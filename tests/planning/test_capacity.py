"""Total capacity, capacity by node group and by GPU type, and how many more runs fit."""

from dataclasses import replace

import pytest

from fairlead.model.nodes import Amounts, GpuShare, HostPort, Node, NodeTable, SharedGpu
from fairlead.model.quantities import NANOS
from fairlead.planning import capacity
from fairlead.planning.capacity import MAX_PLACED, LargestBlock, count_additional, gpu_type_of, group_of
from fairlead.scheduling.filters import NodeFilter
from tests.scheduling.nodes import make_amounts, make_node, make_pod_request, make_scheduled_pod

EKS, INSTANCE, POOL = "eks.amazonaws.com/nodegroup", "node.kubernetes.io/instance-type", "pool"
NVIDIA, AMD, INTEL = "nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product"
NOT_READY = "node.kubernetes.io/not-ready:NoExecute"


def with_capacity(node: Node, more: Amounts) -> Node:
    """The node with additional capacity."""
    return replace(node, capacity={**node.capacity, **more})


def test_a_pool_has_totals_of_its_nodes_and_the_largest_free_blocks() -> None:
    nodes = [
        make_node(make_scheduled_pod(cpu=6, mem="8Gi"), name="a"),
        make_node(make_scheduled_pod(cpu=1, gpu=2), make_scheduled_pod(cpu=1), name="b"),
    ]
    pool = capacity.total_capacity(NodeTable(nodes), "all")
    assert (pool.name, pool.nodes, pool.unavailable) == ("all", 2, 0)
    assert pool.capacity == make_amounts(cpu=16, mem="64Gi", disk="200Gi", gpu=4, pods=32)
    assert pool.requested == make_amounts(cpu=8, mem="8Gi", disk=0, gpu=2, pods=3)
    assert pool.free == make_amounts(cpu=8, mem="56Gi", disk="200Gi", gpu=2, pods=29)
    assert pool.largest["cpu"] == LargestBlock(6 * NANOS, "b")
    assert pool.largest["nvidia.com/gpu"] == LargestBlock(2 * NANOS, "a")


def test_resources_are_ordered_by_relevance_and_empty_ones_are_omitted() -> None:
    more = {"amd.com/gpu": 0, "hugepages-2Mi": 0, "example.com/fpga": NANOS, "nvidia.com/mig-1g.5gb": 7 * NANOS}
    node = with_capacity(make_node(), more)
    names = ["cpu", "memory", "ephemeral-storage", "example.com/fpga", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]
    assert list(capacity.total_capacity(NodeTable([node])).capacity) == [*names, "pods"]
    assert list(capacity.total_capacity(NodeTable([make_node(gpu=0, disk=0)])).capacity)[:3] == names[:3]


def test_overcommitted_resources_have_negative_free_and_no_block() -> None:
    pool = capacity.total_capacity(NodeTable([make_node(make_scheduled_pod(cpu=9))]))
    assert (pool.requested["cpu"], pool.free["cpu"]) == (9 * NANOS, -NANOS)
    assert "cpu" not in pool.largest


def test_resources_that_only_pods_report_count_as_requested() -> None:
    """The device plugin that reported the devices may have stopped."""
    pod = replace(make_scheduled_pod(), amounts={"example.com/fpga": NANOS})
    pool = capacity.total_capacity(NodeTable([make_node(pod)]))
    assert (pool.capacity["example.com/fpga"], pool.requested["example.com/fpga"]) == (0, NANOS)


@pytest.mark.parametrize("unavailable", [make_node(cordoned=True), make_node(taints=[NOT_READY])])
def test_unavailable_nodes_are_counted_and_have_no_free_block(unavailable: Node) -> None:
    nodes = [with_capacity(replace(unavailable, name="large"), make_amounts(cpu=64)), make_node(name="small", cpu=2)]
    pool = capacity.total_capacity(NodeTable(nodes))
    assert (pool.nodes, pool.unavailable) == (2, 1)
    assert pool.capacity["cpu"] == 66 * NANOS
    assert pool.largest["cpu"] == LargestBlock(2 * NANOS, "small")


@pytest.mark.parametrize(
    "taint", ["dedicated=vision:NoSchedule", "node.kubernetes.io/memory-pressure:PreferNoSchedule"]
)
def test_nodes_with_tolerable_or_soft_taints_are_available(taint: str) -> None:
    assert capacity.total_capacity(NodeTable([make_node(taints=[taint])])).unavailable == 0


def test_a_cluster_without_available_nodes_has_no_free_block() -> None:
    assert capacity.total_capacity(NodeTable([make_node(cordoned=True)])).largest == {}
    empty = capacity.total_capacity(NodeTable())
    assert (empty.nodes, empty.capacity, empty.largest) == (0, {}, {})


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({EKS: "gpu", INSTANCE: "p4d.24xlarge", POOL: "x"}, "gpu"),
        ({"cloud.google.com/gke-nodepool": "a", INSTANCE: "n2"}, "a"),
        ({"kubernetes.azure.com/agentpool": "a", INSTANCE: "Standard_D4"}, "a"),
        ({"karpenter.sh/nodepool": "spot", INSTANCE: "g5"}, "spot"),
        ({INSTANCE: "g5", POOL: "x"}, "g5"),
        ({POOL: "x"}, "x"),
        ({EKS: "", POOL: "x"}, "x"),
        ({"zone": "a"}, ""),
    ],
)
def test_the_provider_label_determines_the_node_group_first(labels: dict[str, str], group: str) -> None:
    assert group_of(labels) == group


@pytest.mark.parametrize(
    ("labels", "resource", "kind"),
    [
        ({NVIDIA: "A100"}, "nvidia.com/gpu", "A100"),
        ({AMD: "MI300X"}, "amd.com/gpu", "MI300X"),
        ({INTEL: "Max_1550"}, "gpu.intel.com/i915", "Max_1550"),
        ({"maker": "own", NVIDIA: "A100"}, "nvidia.com/gpu", "own"),  # the label that the cluster settings name
        ({}, "amd.com/gpu", "amd.com/gpu"),
        ({}, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ({}, "example.com/fpga", ""),
        ({NVIDIA: "A100"}, "pods", "A100"),  # the device plugin is not running
    ],
)
def test_gpu_type_comes_from_labels_or_else_the_resource_name(labels: dict[str, str], resource: str, kind: str) -> None:
    node = replace(make_node(labels=labels), capacity={"cpu": NANOS, resource: NANOS})
    assert gpu_type_of(node, "maker") == kind
    assert [pool.name for pool in capacity.capacity_by_gpu_type(NodeTable([node]), "maker")] == [kind]


def test_groups_are_sorted_by_name_with_ungrouped_nodes_first() -> None:
    labeled = [make_node(name=f"n{number}", labels={POOL: name}) for number, name in enumerate("bab")]
    pools = capacity.capacity_by_group(NodeTable([*labeled, make_node(name="other")]))
    assert [(pool.name, pool.nodes) for pool in pools] == [("", 1), ("a", 1), ("b", 2)]


def test_there_are_no_groups_if_no_node_has_one() -> None:
    assert capacity.capacity_by_group(NodeTable([make_node()])) == capacity.capacity_by_group(NodeTable()) == []


def test_gpus_of_two_vendors_are_counted_separately() -> None:
    nodes = [
        make_node(name="n", labels={NVIDIA: "H100"}),
        with_capacity(make_node(name="a", gpu=0, labels={AMD: "MI300X"}), {"amd.com/gpu": 8 * NANOS}),
        make_node(name="c", gpu=0),
    ]
    pools = capacity.capacity_by_gpu_type(NodeTable(nodes))
    assert [(pool.name, pool.nodes) for pool in pools] == [("", 1), ("H100", 1), ("MI300X", 1)]
    assert pools[2].largest["amd.com/gpu"] == LargestBlock(8 * NANOS, "a")
    assert "nvidia.com/gpu" not in pools[2].capacity


def test_additional_runs_are_limited_by_the_scarcest_resource_of_each_node() -> None:
    table = NodeTable(
        [make_node(make_scheduled_pod(cpu=5), name="a"), make_node(name="b"), make_node(name="c", cordoned=True)]
    )
    assert count_additional(NodeFilter(make_pod_request(cpu=2), table), 100) == (5, False)
    assert count_additional(NodeFilter(make_pod_request(cpu=1, gpu=1), table), 100) == (4, False)
    assert count_additional(NodeFilter(make_pod_request(cpu=9), table), 100) == (0, False)


@pytest.mark.parametrize("maximum", [1, 2, 5])
def test_counting_stops_at_the_requested_maximum(maximum: int) -> None:
    table = NodeTable([make_node(name=name) for name in "abc"])
    assert count_additional(NodeFilter(make_pod_request(cpu=1), table), maximum) == (maximum, True)


def test_a_host_port_is_available_once_per_node() -> None:
    pod_request = replace(make_pod_request(cpu=1), ports=(HostPort("TCP", "0.0.0.0", 80),))
    table = NodeTable(
        [
            make_node(name="a"),
            make_node(replace(make_scheduled_pod(), ports=pod_request.ports), name="b"),
            make_node(name="c"),
        ]
    )
    assert count_additional(NodeFilter(pod_request, table), 100) == (2, False)


def test_gpu_shares_are_counted_per_device() -> None:
    devices = tuple(SharedGpu(name, 80_000, 10) for name in ("a", "b"))
    node = replace(make_node(gpu=20), devices=devices)
    table = NodeTable([node, replace(node, name="other")])
    half = replace(make_pod_request(gpu=1), gpu_share=GpuShare("hami", memory=40_000))
    larger = replace(make_pod_request(gpu=1), gpu_share=GpuShare("hami", memory=50_000))
    assert count_additional(NodeFilter(half, table), 100) == (8, False)
    assert count_additional(NodeFilter(larger, table), 100) == (4, False)
    assert count_additional(NodeFilter(make_pod_request(gpu=1), table), 100) == (4, False)


def test_pods_with_anti_affinity_are_counted_by_placing_them() -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    pod_request = replace(make_pod_request(cpu=1), labels={"app": "x"}, pod_anti_affinity=(term,))
    nodes = [make_node(name=f"n{number:02}", labels={"host": str(number)}) for number in range(MAX_PLACED + 5)]
    assert count_additional(NodeFilter(pod_request, NodeTable(nodes[:3])), 100) == (3, False)
    assert count_additional(NodeFilter(pod_request, NodeTable(nodes)), 100) == (MAX_PLACED, True)
