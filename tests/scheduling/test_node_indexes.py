"""Indexes of pods, compared with a scan of all nodes."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.nodes import BLOCK_SIZE, Node, NodeTable, PodRequest, ScheduledPod
from fairlead.scheduling import node_indexes
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.node_indexes import MAX_CHANGED, MAX_INDEXES
from fairlead.scheduling.selectors import PodSelector

HOST = "kubernetes.io/hostname"
SELECTORS = [
    PodSelector({"matchLabels": {"app": "a"}}, frozenset(["lab"])),
    PodSelector({"matchLabels": {"app": "b", "tier": "2"}}, frozenset(["lab", "shop"])),
    PodSelector({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, None),
    PodSelector({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, None),
    PodSelector({}, None),
    PodSelector(None, None),
]


def make_node(number: int, random: Random) -> Node:
    """A node with some pods that have different labels, namespaces and states."""
    pods = tuple(
        ScheduledPod(
            "",
            f"pod-{random.random()}",
            {},
            namespace=random.choice(["lab", "shop"]),
            labels={"app": random.choice("abc"), "tier": random.choice("12")},
            terminating=random.random() < 0.2,
        )
        for _ in range(random.randrange(4))
    )
    return Node(f"node-{number}", {}, {HOST: f"node-{number}"}, pods)


def scan(selector: PodSelector, table: NodeTable, *, terminating: bool = True) -> list[tuple[int, str | None]]:
    """The selected pods, found by testing each of them."""
    return [
        (at, pod.name)
        for at, node in enumerate(table)
        for pod in node.pods
        if selector.selects(pod) and (terminating or not pod.terminating)
    ]


def check_index(table: NodeTable) -> None:
    """Check that the indexes give the same pods as a scan, in the order of nodes."""
    for selector in SELECTORS:
        found = [(at, pod.name) for at, pod in selector.find(table)]
        assert sorted(found) == sorted(scan(selector, table))
        assert [at for at, _ in found] == sorted(at for at, _ in found)
        for terminating in (True, False):
            expected = [at for at, _ in scan(selector, table, terminating=terminating)]
            assert selector.find_positions(table, terminating=terminating) == expected


@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 3 * BLOCK_SIZE), max_size=30), st.booleans())
def test_an_index_equals_a_scan_after_any_changes(random: Random, changed: list[int], in_a_copy: bool) -> None:
    """More changes than MAX_CHANGED build the index again."""
    table = NodeTable(make_node(number, random) for number in range(2 * BLOCK_SIZE))
    check_index(table)
    other = table.copy() if in_a_copy else table
    for number in changed:
        if random.random() < 0.3:
            other.remove(f"node-{number}")
        else:
            other.put(make_node(number, random))
        if random.random() < 0.1:
            check_index(other)
    check_index(other)
    check_index(table)


def test_an_index_is_shared_by_copies_until_many_nodes_have_changed() -> None:
    random = Random(1)
    table = NodeTable(make_node(number, random) for number in range(MAX_CHANGED + 1))
    node_indexes.pods_by_label(table, "app")
    built = list(table.indexes.values())
    other = table.copy()
    for number in range(MAX_CHANGED):
        other.put(make_node(number, random))
    check_index(other)
    assert other.indexes["label app"] is built[0]
    other.put(make_node(MAX_CHANGED, random))
    check_index(other)
    assert other.indexes["label app"] is not built[0]
    check_index(table)


def test_the_number_of_indexes_and_label_columns_is_limited() -> None:
    """Users choose the labels in selectors and topology keys."""
    table = NodeTable([make_node(0, Random(1))])
    for number in range(1000):
        term = {"topologyKey": f"key-{number}", "labelSelector": {"matchLabels": {f"label-{number}": "a"}}}
        assert NodeFilter(PodRequest({}, pod_anti_affinity=(term,)), table.copy()).feasible
    assert len(table.indexes) <= MAX_INDEXES
    assert len(table._static) < 100


def test_a_change_of_a_label_changes_the_column_but_a_change_of_pods_does_not() -> None:
    table = NodeTable(make_node(number, Random(number)) for number in range(3))
    before = table.values_of(HOST)
    # A node that reports its status has the same labels in a new mapping.
    table.put(replace(table.nodes[1], pods=(), labels=dict(table.nodes[1].labels)))
    assert table.values_of(HOST) is before
    copied = table.copy()
    copied.put(replace(table.nodes[1], labels={HOST: "other"}))
    assert copied.values_of(HOST) == ["node-0", "other", "node-2"]
    assert table.values_of(HOST) == ["node-0", "node-1", "node-2"]
