"""What-if: hypothetical nodes added to or removed from a cluster."""

import pytest

from fairlead.errors import RequestRejected
from fairlead.model.nodes import NodeTable, SchedulingContext
from fairlead.model.plans import AddedNodes
from fairlead.planning.fit_reports import HOSTNAME, MAX_ADDED_NODES, NodeAddition, parse_addition, simulate_cluster
from fairlead.scheduling import evaluation
from tests.making import make_cluster
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod

A100, L4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"


def make_node_table() -> NodeTable:
    """Two nodes in a pool with A100s, one node in another pool with L4s, and one node without GPUs."""
    product = "nvidia.com/gpu.product"
    return NodeTable(
        [
            make_node(
                make_scheduled_pod(gpu=2),
                make_scheduled_pod("other", cpu=1),
                name="a100-2",
                labels={"pool": "train", product: A100, HOSTNAME: "a100-2", "zone": "b"},
            ),
            make_node(
                make_scheduled_pod(gpu=2),
                name="a100-1",
                labels={"pool": "train", product: A100, HOSTNAME: "a100-1", "zone": "a"},
                taints=["team=vision:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"],
                cordoned=True,
            ),
            make_node(name="l4-1", labels={"pool": "serve", product: L4}),
            make_node(name="plain", gpu=0),
        ],
        SchedulingContext(namespaces={"forest": {}}),
    )


def violations_of(caught: pytest.ExceptionInfo[RequestRejected]) -> list[tuple[str, str, str | None]]:
    return [(violation.path, violation.message, violation.hint) for violation in caught.value.violations]


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("a100", (), NodeAddition(1, "a100")),
        ("2xa100", (), NodeAddition(2, "a100")),
        ("10xbox-1", (), NodeAddition(10, "box-1")),
        ("2xlarge", ("2xlarge",), NodeAddition(1, "2xlarge")),
        ("3x2xlarge", ("2xlarge",), NodeAddition(3, "2xlarge")),
        ("x2", (), NodeAddition(1, "x2")),
        ("2x", (), NodeAddition(1, "2x")),
        ("-1xa", (), NodeAddition(1, "-1xa")),
    ],
)
def test_an_addition_is_parsed_as_count_and_node(text: str, known: tuple[str, ...], expected: NodeAddition) -> None:
    assert parse_addition(text, known) == expected


def test_added_nodes_are_empty_and_ready_copies_with_new_names() -> None:
    table = make_node_table()
    simulated = simulate_cluster(table, ["2xa100-1"])
    assert simulated.added_nodes == (AddedNodes("a100-1", ("a100-1+1", "a100-1+2")),)
    new = simulated.table.nodes[-1]
    assert (new.name, new.labels[HOSTNAME], new.labels["zone"]) == ("a100-1+2", "a100-1+2", "a")
    assert (new.pods, new.unschedulable) == ((), False)
    assert [str(taint) for taint in new.taints] == ["team=vision:NoSchedule"]
    assert new.capacity == make_node().capacity


def test_simulation_does_not_change_the_cluster() -> None:
    table = make_node_table()
    simulated = simulate_cluster(table, ["l4-1"], ["plain"])
    assert sorted(table.names) == ["a100-1", "a100-2", "l4-1", "plain"]
    assert sorted(simulated.table.names) == ["a100-1", "a100-2", "l4-1", "l4-1+1"]
    assert simulated.table.context is table.context


def test_an_empty_simulation_returns_the_same_nodes() -> None:
    table = make_node_table()
    assert simulate_cluster(table).table is table
    assert simulate_cluster(table).changes.sentences == []


@pytest.mark.parametrize(("like", "first"), [("train", "a100-1"), (A100, "a100-1"), (L4, "l4-1"), ("A100", "a100-1")])
def test_a_group_or_gpu_type_selects_its_first_node(like: str, first: str) -> None:
    cluster = make_cluster(gpu_types={"A100": [A100], "H100": ["none-has-it"]})
    assert simulate_cluster(make_node_table(), [like], cluster=cluster).added_nodes[0].like == first


@pytest.mark.parametrize(
    ("without", "removed", "pods"),
    [
        (["l4-1"], ("l4-1",), 0),
        (["train"], ("a100-1", "a100-2"), 3),
        (["a100-2", "train", "a100-2"], ("a100-1", "a100-2"), 3),
        ([L4], ("l4-1",), 0),
    ],
)
def test_removed_nodes_are_removed_with_their_pods(without: list[str], removed: tuple[str, ...], pods: int) -> None:
    simulated = simulate_cluster(make_node_table(), without=without)
    assert (simulated.removed_nodes, simulated.removed_pods) == (removed, pods)
    assert not set(removed) & set(simulated.table.names)


def test_a_node_name_takes_precedence_over_a_group_name() -> None:
    table = NodeTable([make_node(name="train"), make_node(name="a", labels={"pool": "train"})])
    assert simulate_cluster(table, without=["train"]).removed_nodes == ("train",)


def test_a_node_can_be_replaced_by_copies() -> None:
    simulated = simulate_cluster(make_node_table(), ["2xl4-1"], ["l4-1"])
    assert sorted(simulated.table.names) == ["a100-1", "a100-2", "l4-1+1", "l4-1+2", "plain"]


def test_names_of_added_nodes_are_unique() -> None:
    table = NodeTable([make_node(name="a"), make_node(name="a+1")])
    simulated = simulate_cluster(table, ["2xa", "a", "a+1"], ["a+1"])
    assert [part.names for part in simulated.added_nodes] == [("a+2", "a+3"), ("a+4",), ("a+1+1",)]


def test_simulated_nodes_change_the_verdict() -> None:
    table, pod_request = make_node_table(), make_pod_request(gpu=2, selector={"pool": "train"})
    assert evaluation.evaluate(pod_request, table).verdict == "later"
    assert evaluation.evaluate(pod_request, simulate_cluster(table, ["a100-2"]).table).verdict == "now"
    assert evaluation.evaluate(pod_request, simulate_cluster(table, without=["train"]).table).verdict == "never"


def test_changes_are_described() -> None:
    simulated = simulate_cluster(make_node_table(), ["a100-1", "6xl4-1"], ["train", "plain"])
    assert simulated.changes.sentences == [
        "1 empty node like a100-1: a100-1+1",
        "6 empty nodes like l4-1: l4-1+1, l4-1+2, l4-1+3 and 3 more",
        "without 3 nodes: a100-1, a100-2 and plain; 3 pods there are not rescheduled",
    ]
    assert simulate_cluster(make_node_table(), without=["plain"]).changes.sentences == ["without 1 node: plain (empty)"]


def test_all_invalid_changes_are_reported_with_path_and_hint() -> None:
    with pytest.raises(RequestRejected) as caught:
        simulate_cluster(make_node_table(), ["2xa100-3", "0xl4-1", f"{MAX_ADDED_NODES + 1}xplain"], ["trian", "zzz"])
    unknown = "no node, node group or GPU type is named"
    assert violations_of(caught) == [
        ("add_nodes.0", f"{unknown} 'a100-3'", "did you mean a100-2 or a100-1?"),
        ("add_nodes.1", "must add at least one node, found '0xl4-1'", "use 1xl4-1"),
        ("add_nodes", "adds 5,003 nodes; at most 5,000 are allowed", "add fewer nodes"),
        ("without.0", f"{unknown} 'trian'", "did you mean train?"),
        ("without.1", f"{unknown} 'zzz'", f"known: {A100}, {L4}, a100-1, a100-2, l4-1, plain, serve, train"),
    ]


def test_the_hint_mentions_that_the_cluster_has_no_nodes() -> None:
    with pytest.raises(RequestRejected) as caught:
        simulate_cluster(NodeTable(), ["a"])
    assert violations_of(caught)[0][2] == "there are none"
