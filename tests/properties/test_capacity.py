"""Properties of capacity reports for random clusters."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.nodes import Amounts, Node, NodeTable, PodRequest, ScheduledPod, Taint
from fairlead.model.quantities import NANOS
from fairlead.planning import capacity
from fairlead.scheduling.filters import NodeFilter, place

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "pods")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6).map(lambda number: number * NANOS))
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "karpenter.sh/nodepool": st.sampled_from(["a", "b"]),
        "pool": st.sampled_from(["b", "c"]),
        "nvidia.com/gpu.product": st.sampled_from(["A100", "H100"]),
    },
)
TAINTS = st.sampled_from(
    [(), (), (Taint("team", "b", "NoSchedule"),), (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)]
)
SCHEDULED_PODS = st.builds(ScheduledPod, run_id=st.just("x"), name=st.just("x"), amounts=AMOUNTS)
NODES = st.builds(
    Node,
    name=st.integers(0, 9).map(str),
    capacity=AMOUNTS,
    labels=LABELS,
    pods=st.lists(SCHEDULED_PODS, max_size=3).map(tuple),
    taints=TAINTS,
    unschedulable=st.sampled_from([False, False, True]),
)
NODE_TABLES = st.lists(NODES, max_size=10).map(NodeTable)
POD_REQUESTS = st.builds(PodRequest, amounts=AMOUNTS.map(lambda amounts: {**amounts, "pods": NANOS}))


@given(NODE_TABLES)
def test_requested_plus_free_equals_capacity(table: NodeTable) -> None:
    for pool in (
        capacity.total_capacity(table),
        *capacity.capacity_by_group(table),
        *capacity.capacity_by_gpu_type(table),
    ):
        assert list(pool.requested) == list(pool.free) == list(pool.capacity)
        for resource, amount in pool.capacity.items():
            assert pool.requested[resource] + pool.free[resource] == amount, resource


@given(NODE_TABLES)
def test_groups_and_gpu_types_add_up_to_all_nodes(table: NodeTable) -> None:
    total = capacity.total_capacity(table)
    for pools in (capacity.capacity_by_group(table), capacity.capacity_by_gpu_type(table)):
        if pools:  # otherwise no node has a group
            assert sum(pool.nodes for pool in pools) == total.nodes == len(table)
            assert sum(pool.unavailable for pool in pools) == total.unavailable
            assert _add(pool.capacity for pool in pools) == _drop_zeros(total.capacity)
            assert _add(pool.free for pool in pools) == _drop_zeros(total.free)


@given(NODE_TABLES)
def test_the_largest_block_is_the_largest_of_available_nodes(table: NodeTable) -> None:
    by_name = {node.name: node for node in table}
    for pool in (capacity.total_capacity(table), *capacity.capacity_by_group(table)):
        for resource, block in pool.largest.items():
            assert by_name[block.node].free(resource) == block.amount > 0
    available = [
        node for node, kind in zip(table, table.taint_sets, strict=True) if not capacity.is_cordoned_or_unhealthy(kind)
    ]
    largest = capacity.total_capacity(table).largest
    for resource in RESOURCES:
        expected = max((node.free(resource) for node in available), default=0)
        assert max(expected, 0) == (largest[resource].amount if resource in largest else 0)


@given(NODE_TABLES, POD_REQUESTS, st.integers(1, 30))
def test_the_count_equals_the_number_of_pods_placed_one_by_one(
    table: NodeTable, pod_request: PodRequest, maximum: int
) -> None:
    count, more = capacity.count_additional(NodeFilter(pod_request, table), maximum)
    placed, remaining = 0, table.copy()
    while placed < maximum and (fitting := NodeFilter(pod_request, remaining).feasible):
        remaining.put(place(pod_request, remaining.nodes[fitting[-1]]))
        placed += 1
    assert (count, more) == (placed, placed == maximum)


def _add(parts: Iterable[Amounts]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return _drop_zeros(total)


def _drop_zeros(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
