"""Nodes that an administrator imagines, or imagines away."""

import pytest

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.what_if import HOSTNAME, MAX_ADDED_NODES, AddedNodes, NodeAddition, parse_addition, simulate
from fairlead.errors import RequestRejected
from fairlead.model.nodes import SchedulingContext
from tests.core.nodes import make_holding, make_node, make_pod_request
from tests.making import make_cluster

A100, L4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"


def make_node_table() -> NodeTable:
    """Two nodes of a pool with A100s, one of another with L4s, and one without GPUs."""
    product = "nvidia.com/gpu.product"
    return NodeTable(
        [
            make_node(
                make_holding(gpu=2),
                make_holding("other", cpu=1),
                name="a100-2",
                labels={"pool": "train", product: A100, HOSTNAME: "a100-2", "zone": "b"},
            ),
            make_node(
                make_holding(gpu=2),
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


def mistakes_of(caught: pytest.ExceptionInfo[RequestRejected]) -> list[tuple[str, str, str | None]]:
    return [(found.path, found.message, found.hint) for found in caught.value.violations]


@pytest.mark.parametrize(
    ("text", "known", "meant"),
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
def test_how_many_and_like_which_node_is_one_word(text: str, known: tuple[str, ...], meant: NodeAddition) -> None:
    assert parse_addition(text, known) == meant


def test_nodes_that_are_added_are_like_another_but_empty_well_and_called_something_else() -> None:
    table = make_node_table()
    hypothetical = simulate(table, ["2xa100-1"])
    assert hypothetical.added_nodes == (AddedNodes("a100-1", ("a100-1+1", "a100-1+2")),)
    new = hypothetical.table.nodes[-1]
    assert (new.name, new.labels[HOSTNAME], new.labels["zone"]) == ("a100-1+2", "a100-1+2", "a")
    assert (new.pods, new.unschedulable) == ((), False)
    assert [str(taint) for taint in new.taints] == ["team=vision:NoSchedule"]
    assert new.capacity == make_node().capacity


def test_the_cluster_itself_stays_as_it_is() -> None:
    table = make_node_table()
    hypothetical = simulate(table, ["l4-1"], ["plain"])
    assert sorted(table.names) == ["a100-1", "a100-2", "l4-1", "plain"]
    assert sorted(hypothetical.table.names) == ["a100-1", "a100-2", "l4-1", "l4-1+1"]
    assert hypothetical.table.context is table.context


def test_nothing_supposed_is_the_cluster_as_it_is() -> None:
    table = make_node_table()
    assert simulate(table).table is table
    assert simulate(table).sentences == []


@pytest.mark.parametrize(("like", "first"), [("train", "a100-1"), (A100, "a100-1"), (L4, "l4-1"), ("A100", "a100-1")])
def test_a_group_or_a_type_of_gpu_stands_for_its_first_node(like: str, first: str) -> None:
    cluster = make_cluster(gpu_types={"A100": [A100], "H100": ["none-has-it"]})
    assert simulate(make_node_table(), [like], cluster=cluster).added_nodes[0].like == first


@pytest.mark.parametrize(
    ("without", "gone", "pods"),
    [
        (["l4-1"], ("l4-1",), 0),
        (["train"], ("a100-1", "a100-2"), 3),
        (["a100-2", "train", "a100-2"], ("a100-1", "a100-2"), 3),
        ([L4], ("l4-1",), 0),
    ],
)
def test_what_is_left_out_takes_its_pods_with_it(without: list[str], gone: tuple[str, ...], pods: int) -> None:
    hypothetical = simulate(make_node_table(), without=without)
    assert (hypothetical.removed_nodes, hypothetical.removed_pods) == (gone, pods)
    assert not set(gone) & set(hypothetical.table.names)


def test_a_node_goes_before_a_group_of_its_name() -> None:
    table = NodeTable([make_node(name="train"), make_node(name="a", labels={"pool": "train"})])
    assert simulate(table, without=["train"]).removed_nodes == ("train",)


def test_a_node_can_be_replaced_by_others_like_it() -> None:
    hypothetical = simulate(make_node_table(), ["2xl4-1"], ["l4-1"])
    assert sorted(hypothetical.table.names) == ["a100-1", "a100-2", "l4-1+1", "l4-1+2", "plain"]


def test_no_name_is_given_twice() -> None:
    table = NodeTable([make_node(name="a"), make_node(name="a+1")])
    hypothetical = simulate(table, ["2xa", "a", "a+1"], ["a+1"])
    assert [part.names for part in hypothetical.added_nodes] == [("a+2", "a+3"), ("a+4",), ("a+1+1",)]


def test_more_nodes_make_room() -> None:
    table, pod_request = make_node_table(), make_pod_request(gpu=2, selector={"pool": "train"})
    assert evaluation.evaluate(pod_request, table).verdict == "later"
    assert evaluation.evaluate(pod_request, simulate(table, ["a100-2"]).table).verdict == "now"
    assert evaluation.evaluate(pod_request, simulate(table, without=["train"]).table).verdict == "never"


def test_what_is_supposed_is_told() -> None:
    hypothetical = simulate(make_node_table(), ["a100-1", "6xl4-1"], ["train", "plain"])
    assert hypothetical.sentences == [
        "1 empty node like a100-1: a100-1+1",
        "6 empty nodes like l4-1: l4-1+1, l4-1+2, l4-1+3 and 3 more",
        "without 3 nodes: a100-1, a100-2 and plain; 3 pods there are not rescheduled",
    ]
    assert simulate(make_node_table(), without=["plain"]).sentences == ["without 1 node: plain (empty)"]


def test_every_mistake_is_told_with_its_place_and_the_suggestion() -> None:
    with pytest.raises(RequestRejected) as caught:
        simulate(make_node_table(), ["2xa100-3", "0xl4-1", f"{MAX_ADDED_NODES + 1}xplain"], ["trian", "zzz"])
    nothing = "no node, node group or GPU type is named"
    assert mistakes_of(caught) == [
        ("add_nodes.0", f"{nothing} 'a100-3'", "did you mean a100-2 or a100-1?"),
        ("add_nodes.1", "adds no nodes, found '0xl4-1'", "use 1xl4-1"),
        ("add_nodes", "adds 5,003 nodes; at most 5,000 are allowed", "add fewer nodes"),
        ("without.0", f"{nothing} 'trian'", "did you mean train?"),
        ("without.1", f"{nothing} 'zzz'", f"known: {A100}, {L4}, a100-1, a100-2, l4-1, plain, serve, train"),
    ]


def test_without_any_node_there_is_none_to_be_like() -> None:
    with pytest.raises(RequestRejected) as caught:
        simulate(NodeTable(), ["a"])
    assert mistakes_of(caught)[0][2] == "there are none"
