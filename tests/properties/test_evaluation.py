"""Properties of fits for random pods and nodes."""

from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.nodes import Node, NodeTable, PodRequest, SchedulingContext
from fairlead.scheduling import evaluation, selectors
from fairlead.scheduling.evaluation import LATER, NEVER, NOW
from fairlead.scheduling.filters import NodeFilter, place
from fairlead.scheduling.pod_requests import PODS
from tests.properties.clusters import (
    EMPTY,
    SCHEDULING_CONTEXTS,
    ZONE,
    clusters,
    name_node,
    node_tables,
    nodes,
    pod_requests,
)
from tests.scheduling.nodes import make_node, make_scheduled_pod

RANKS = {NOW: 0, LATER: 1, NEVER: 2}

Change = Callable[[NodeTable], None]


def rank(pod_request: PodRequest, table: NodeTable) -> int:
    """The rank of a verdict: larger is worse."""
    return RANKS[evaluation.evaluate(pod_request, table).verdict]


def names(table: NodeTable, positions: Sequence[int]) -> set[str]:
    return {table.names[index] for index in positions}


def results_of(pod_request: PodRequest, table: NodeTable) -> object:
    """All results from a node table for a pod request."""
    node_filter = NodeFilter(pod_request, table)
    steps = (
        node_filter.label_matches,
        node_filter.schedulable,
        node_filter.with_free_resources,
        node_filter.feasible,
        node_filter.large_enough,
        node_filter.feasible_when_empty,
    )
    reasons = {node.name: list(evaluation.find_reasons(node_filter, node)) for node in table}
    return (
        evaluation.evaluate(pod_request, table),
        [names(table, step) for step in steps],
        reasons,
        node_filter.count_fitting(5),
    )


def emptied(node: Node) -> Node:
    """The node without pods, temporary taints and unhealthy devices."""
    taints = tuple(taint for taint in node.taints if not selectors.is_temporary(taint))
    devices = tuple(device._replace(healthy=True) for device in node.devices)
    return replace(node, pods=(), taints=taints, unschedulable=False, devices=devices)


@given(pod_requests(), node_tables(), EMPTY)
def test_an_additional_node_never_makes_a_verdict_worse(pod_request: PodRequest, table: NodeTable, node: Node) -> None:
    """The new node is empty, because its pods could have anti-affinity. The next test covers topology spread."""
    pod_request = replace(pod_request, topology_spread=())
    before = rank(pod_request, table)
    table.put(name_node(node, "more"))
    assert rank(pod_request, table) <= before


def test_an_additional_node_can_violate_topology_spread() -> None:
    """A new domain has no pods, which increases the skew of all others.

    Here the new node is too small for the pod; kube-scheduler behaves the same.
    """
    spread = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}
    pod_request = PodRequest({"cpu": 10**9, PODS: 10**9}, labels={"app": "web"}, topology_spread=(spread,))
    existing = replace(make_scheduled_pod(cpu=1), labels={"app": "web"})
    table = NodeTable([make_node(existing, name="old", labels={ZONE: "a"})])
    assert evaluation.evaluate(pod_request, table).verdict == NOW
    table.put(make_node(name="new", labels={ZONE: "b"}, cpu=0))
    assert evaluation.evaluate(pod_request, table).verdict == LATER
    assert [reason.message for reason in evaluation.find_reasons(NodeFilter(pod_request, table), table.nodes[0])] == [
        f"spreads pods with app=web across {ZONE} with a maximum skew of 1; a would have 2, and the minimum is 0"
    ]


@given(pod_requests(), node_tables(), st.data())
def test_a_smaller_request_never_makes_a_verdict_worse(
    pod_request: PodRequest, table: NodeTable, data: st.DataObject
) -> None:
    resource = data.draw(st.sampled_from(sorted(pod_request.amounts)))
    amount = data.draw(st.integers(0, pod_request.amounts[resource] // 10**9)) * 10**9
    smaller = replace(
        pod_request,
        amounts={**pod_request.amounts, resource: min(amount, pod_request.amounts[resource])},
        count=data.draw(st.integers(1, pod_request.count)),
        gpu_share=pod_request.gpu_share
        and replace(
            pod_request.gpu_share, percent=pod_request.gpu_share.percent // 2, memory=pod_request.gpu_share.memory // 2
        ),
    )
    assert rank(smaller, table) <= rank(pod_request, table)


@given(pod_requests(), node_tables())
def test_feasible_nodes_are_those_without_reasons(pod_request: PodRequest, table: NodeTable) -> None:
    node_filter = NodeFilter(pod_request, table)
    assert names(table, node_filter.feasible) == {
        node.name for node in table if not list(evaluation.find_reasons(node_filter, node))
    }


@given(pod_requests(), node_tables())
def test_nodes_feasible_when_empty_are_those_without_permanent_reasons(
    pod_request: PodRequest, table: NodeTable
) -> None:
    node_filter = NodeFilter(pod_request, table)
    excluded = {
        node.name for node in table if any(reason.lasts for reason in evaluation.find_reasons(node_filter, node))
    }
    assert names(table, node_filter.feasible_when_empty) == set(table.names) - excluded
    assert set(node_filter.feasible) <= set(node_filter.feasible_when_empty)


@given(pod_requests(), node_tables())
def test_feasible_when_empty_equals_feasible_on_empty_healthy_nodes(pod_request: PodRequest, table: NodeTable) -> None:
    """The request has no pod affinity and no volumes, which depend on other objects."""
    pod_request = replace(pod_request, pod_affinity=(), claims=(), count=1)
    empty_table = NodeTable(map(emptied, table), table.context)
    assert names(table, NodeFilter(pod_request, table).feasible_when_empty) == names(
        empty_table, NodeFilter(pod_request, empty_table).feasible
    )


@given(pod_requests(), node_tables(), st.randoms())
def test_the_order_of_nodes_does_not_matter(pod_request: PodRequest, table: NodeTable, random: Random) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)
    other = NodeTable(shuffled, table.context)
    assert evaluation.evaluate(pod_request, other).verdict == evaluation.evaluate(pod_request, table).verdict


@given(pod_requests(), clusters(4), SCHEDULING_CONTEXTS, st.data())
def test_a_changed_table_equals_a_new_one(
    pod_request: PodRequest, initial: list[Node], context: SchedulingContext, data: st.DataObject
) -> None:
    table = NodeTable(initial, context)
    results_of(pod_request, table)  # cached results must not affect this
    for change in data.draw(st.lists(changes(), max_size=8)):
        change(table)
        assert not data.draw(st.booleans()) or len(table) < 9  # random draws in between the changes
    assert results_of(pod_request, table) == results_of(pod_request, NodeTable(table, context))
    columns: list[Sized] = [
        table.nodes,
        table.names,
        table.labels,
        table.taint_sets,
        *table.capacity.values(),
        *table.free.values(),
    ]
    assert {len(column) for column in columns} == {len(table)}
    for index, node in enumerate(table):
        assert table.position_of(node.name) == index
        assert {name: column[index] for name, column in table.free.items() if name in node.remaining} == dict(
            node.remaining
        )


@given(pod_requests(), node_tables(4), st.lists(st.deferred(lambda: changes()), min_size=1, max_size=8))
def test_a_copy_and_its_original_are_independent(
    pod_request: PodRequest, table: NodeTable, drawn_changes: list[Change]
) -> None:
    copied = table.copy()
    before = results_of(pod_request, table)
    for change in drawn_changes:
        change(table)
    assert results_of(pod_request, copied) == before
    after = results_of(pod_request, table)
    for change in drawn_changes:
        change(copied)
    assert results_of(pod_request, table) == after


@given(pod_requests(6), node_tables(4))
def test_the_count_equals_the_number_of_pods_scheduled_one_by_one(pod_request: PodRequest, table: NodeTable) -> None:
    """The first pod is tried on every node, because it determines where pods with affinity to it can run."""
    expected = max((schedule_all(pod_request, table, node.name) for node in table), default=0)
    assert NodeFilter(pod_request, table).count_fitting(pod_request.count) == expected


def schedule_all(pod_request: PodRequest, table: NodeTable, first: str) -> int:
    """The number of scheduled pods: the first on a given node, every other on the first feasible node."""
    nodes_by_name, placed, candidates = {node.name: node for node in table}, 0, [first]
    while placed < pod_request.count:
        node_filter = NodeFilter(pod_request, NodeTable(nodes_by_name.values(), table.context))
        name = next(
            (name for name in candidates if not list(evaluation.find_reasons(node_filter, nodes_by_name[name]))), None
        )
        if name is None:
            break
        nodes_by_name[name] = place(pod_request, nodes_by_name[name])
        placed, candidates = placed + 1, list(nodes_by_name)
    return placed


@given(pod_requests(6), node_tables(4))
def test_verdict_counts_and_reasons_are_consistent(pod_request: PodRequest, table: NodeTable) -> None:
    fit, node_filter = evaluation.evaluate(pod_request, table), NodeFilter(pod_request, table)
    assert sum(fit.counts.values()) == len(table)
    assert (fit.verdict == NOW) == (node_filter.count_fitting(pod_request.count) == pod_request.count)
    assert fit.verdict != NEVER or node_filter.count_fitting_when_empty(pod_request.count) < pod_request.count
    assert node_filter.count_fitting(pod_request.count) <= node_filter.count_fitting_when_empty(pod_request.count)
    assert bool(fit.reasons) == (fit.verdict != NOW)
    assert all(fit.reasons)
    assert {node["name"] for node in fit.nodes if node["fits"]} == names(table, node_filter.feasible)
    violations = list(evaluation.explain_never_fits(pod_request, table))
    assert violations or fit.verdict != NEVER
    assert all(violation.hint for violation in violations)


@given(pod_requests(), node_tables())
def test_autoscaled_clusters_never_have_the_verdict_never(pod_request: PodRequest, table: NodeTable) -> None:
    expected = evaluation.evaluate(pod_request, table).verdict
    assert evaluation.evaluate(pod_request, table, autoscaled=True).verdict == (
        LATER if expected == NEVER else expected
    )


@given(pod_requests(), node_tables())
def test_visibility_does_not_change_the_verdict_and_hidden_names_are_not_shown(
    pod_request: PodRequest, table: NodeTable
) -> None:
    hidden = table.visible_to(lambda _project: False)
    fit = evaluation.evaluate(pod_request, hidden)
    assert fit.verdict == evaluation.evaluate(pod_request, table).verdict
    assert "train-a" not in repr((fit.nodes, fit.reasons))


def changes() -> st.SearchStrategy[Change]:
    """Changes that add, replace or remove a node."""
    put = st.builds(
        lambda node, index: lambda table: table.put(name_node(node, f"node-{index}")), nodes(), st.integers(0, 6)
    )
    drop = st.builds(lambda index: lambda table: table.remove(f"node-{index}"), st.integers(0, 6))
    return put | drop
