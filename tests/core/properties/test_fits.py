"""Properties of fits for random pods and nodes."""

from collections.abc import Callable, Sized
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.fitting import evaluation, matching
from fairlead.core.fitting.evaluation import LATER, NEVER, NOW
from fairlead.core.fitting.filtering import NodeFilter, place
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.nodes import Node, SchedulingContext
from tests.core.nodes import make_holding, make_node
from tests.core.properties.clusters import (
    EMPTY,
    SURROUNDINGS,
    ZONE,
    clusters,
    name_node,
    node_tables,
    nodes,
    pod_requests,
)

RANKS = {NOW: 0, LATER: 1, NEVER: 2}

Change = Callable[[NodeTable], None]


def rank(pod_request: PodRequest, table: NodeTable) -> int:
    """How bad a verdict is."""
    return RANKS[evaluation.evaluate(pod_request, table).verdict]


def names(table: NodeTable, positions: list[int]) -> set[str]:
    return {table.names[at] for at in positions}


def answers(pod_request: PodRequest, table: NodeTable) -> object:
    """All that a grid answers, whichever way it came about."""
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


def at_best(node: Node) -> Node:
    """A node on which nothing runs, and which is well."""
    taints = tuple(taint for taint in node.taints if not matching.is_temporary(taint))
    devices = tuple(device._replace(healthy=True) for device in node.devices)
    return replace(node, pods=(), taints=taints, unschedulable=False, devices=devices)


@given(pod_requests(), node_tables(), EMPTY)
def test_a_node_more_never_makes_a_verdict_worse(pod_request: PodRequest, table: NodeTable, node: Node) -> None:
    """A node, and not the pods on it: those may bear no other near them. Of spreading, see below."""
    pod_request = replace(pod_request, topology_spread=())
    before = rank(pod_request, table)
    table.put(name_node(node, "more"))
    assert rank(pod_request, table) <= before


def test_a_node_more_can_keep_off_what_is_to_be_spread() -> None:
    """A place that is new has no pod yet: all others are further from the least of them than they were.

    Here the new one is too small to take the pod itself; kube-scheduler says the same.
    """
    spread = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}
    pod_request = PodRequest({"cpu": 10**9, PODS: 10**9}, labels={"app": "web"}, topology_spread=(spread,))
    there = replace(make_holding(cpu=1), labels={"app": "web"})
    table = NodeTable([make_node(there, name="old", labels={ZONE: "a"})])
    assert evaluation.evaluate(pod_request, table).verdict == NOW
    table.put(make_node(name="new", labels={ZONE: "b"}, cpu=0))
    assert evaluation.evaluate(pod_request, table).verdict == LATER
    assert [reason.message for reason in evaluation.find_reasons(NodeFilter(pod_request, table), table.nodes[0])] == [
        f"spreads pods with app=web over {ZONE} with a maximum skew of 1; a would have 2, and the minimum is 0"
    ]


@given(pod_requests(), node_tables(), st.data())
def test_asking_for_less_never_makes_a_verdict_worse(
    pod_request: PodRequest, table: NodeTable, data: st.DataObject
) -> None:
    resource = data.draw(st.sampled_from(sorted(pod_request.amounts)))
    amount = data.draw(st.integers(0, pod_request.amounts[resource] // 10**9)) * 10**9
    less = replace(
        pod_request,
        amounts={**pod_request.amounts, resource: min(amount, pod_request.amounts[resource])},
        count=data.draw(st.integers(1, pod_request.count)),
        gpu_share=pod_request.gpu_share
        and replace(
            pod_request.gpu_share, percent=pod_request.gpu_share.percent // 2, memory=pod_request.gpu_share.memory // 2
        ),
    )
    assert rank(less, table) <= rank(pod_request, table)


@given(pod_requests(), node_tables())
def test_a_node_takes_a_pod_exactly_where_there_is_no_reason_against_it(
    pod_request: PodRequest, table: NodeTable
) -> None:
    node_filter = NodeFilter(pod_request, table)
    assert names(table, node_filter.feasible) == {
        node.name for node in table if not list(evaluation.find_reasons(node_filter, node))
    }


@given(pod_requests(), node_tables())
def test_a_node_could_take_a_pod_exactly_where_no_reason_against_it_lasts(
    pod_request: PodRequest, table: NodeTable
) -> None:
    node_filter = NodeFilter(pod_request, table)
    lasting = {node.name for node in table if any(why.lasts for why in evaluation.find_reasons(node_filter, node))}
    assert names(table, node_filter.feasible_when_empty) == set(table.names) - lasting
    assert set(node_filter.feasible) <= set(node_filter.feasible_when_empty)


@given(pod_requests(), node_tables())
def test_what_could_take_a_pod_takes_it_where_nothing_runs_and_all_is_well(
    pod_request: PodRequest, table: NodeTable
) -> None:
    """Without what must be there beside it: pods to be near to, and volumes."""
    pod_request = replace(pod_request, pod_affinity=(), claims=(), count=1)
    emptied = NodeTable(map(at_best, table), table.context)
    assert names(table, NodeFilter(pod_request, table).feasible_when_empty) == names(
        emptied, NodeFilter(pod_request, emptied).feasible
    )


@given(pod_requests(), node_tables(), st.randoms())
def test_the_order_of_nodes_does_not_matter(pod_request: PodRequest, table: NodeTable, random: Random) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)
    other = NodeTable(shuffled, table.context)
    assert evaluation.evaluate(pod_request, other).verdict == evaluation.evaluate(pod_request, table).verdict


@given(pod_requests(), clusters(4), SURROUNDINGS, st.data())
def test_a_grid_that_changed_answers_as_one_made_anew(
    pod_request: PodRequest, there: list[Node], context: SchedulingContext, data: st.DataObject
) -> None:
    table = NodeTable(there, context)
    answers(pod_request, table)  # cached results must not affect this
    for change in data.draw(st.lists(changes(), max_size=8)):
        change(table)
        assert not data.draw(st.booleans()) or len(table) < 9  # looked at in between, or only at the end
    assert answers(pod_request, table) == answers(pod_request, NodeTable(table, context))
    columns: list[Sized] = [
        table.nodes,
        table.names,
        table.labels,
        table.taint_sets,
        *table.capacity.values(),
        *table.free.values(),
    ]
    assert {len(column) for column in columns} == {len(table)}
    for at, node in enumerate(table):
        assert table.position_of(node.name) == at
        assert {name: column[at] for name, column in table.free.items() if name in node.remaining} == dict(
            node.remaining
        )


@given(pod_requests(), node_tables(4), st.lists(st.deferred(lambda: changes()), min_size=1, max_size=8))
def test_a_copy_stays_as_it_was_and_so_does_what_it_was_made_of(
    pod_request: PodRequest, table: NodeTable, later: list[Change]
) -> None:
    kept = table.copy()
    before = answers(pod_request, table)
    for change in later:
        change(table)
    assert answers(pod_request, kept) == before
    after = answers(pod_request, table)
    for change in later:
        change(kept)
    assert answers(pod_request, table) == after


@given(pod_requests(6), node_tables(4))
def test_there_is_room_for_as_many_as_find_a_place_one_after_the_other(
    pod_request: PodRequest, table: NodeTable
) -> None:
    """Whichever node the first of them is on: that one decides where those can go that must be near to it."""
    most = max((schedule_all(pod_request, table, node.name) for node in table), default=0)
    assert NodeFilter(pod_request, table).count_fitting(pod_request.count) == most


def schedule_all(pod_request: PodRequest, table: NodeTable, first: str) -> int:
    """How many find a place, if the first is on some node, and each other one on the first that takes it."""
    there, placed, tried = {node.name: node for node in table}, 0, [first]
    while placed < pod_request.count:
        node_filter = NodeFilter(pod_request, NodeTable(there.values(), table.context))
        name = next((name for name in tried if not list(evaluation.find_reasons(node_filter, there[name]))), None)
        if name is None:
            break
        there[name] = place(pod_request, there[name])
        placed, tried = placed + 1, list(there)
    return placed


@given(pod_requests(6), node_tables(4))
def test_a_verdict_and_its_numbers_agree(pod_request: PodRequest, table: NodeTable) -> None:
    fit, node_filter = evaluation.evaluate(pod_request, table), NodeFilter(pod_request, table)
    assert sum(fit.counts.values()) == len(table)
    assert (fit.verdict == NOW) == (node_filter.count_fitting(pod_request.count) == pod_request.count)
    assert fit.verdict != NEVER or node_filter.count_fitting_when_empty(pod_request.count) < pod_request.count
    assert node_filter.count_fitting(pod_request.count) <= node_filter.count_fitting_when_empty(pod_request.count)
    assert bool(fit.reasons) == (fit.verdict != NOW)
    assert all(fit.reasons)
    assert {node["name"] for node in fit.nodes if node["fits"]} == names(table, node_filter.feasible)
    refused = list(evaluation.explain_never_fits(pod_request, table))
    assert refused or fit.verdict != NEVER
    assert all(violation.hint for violation in refused)


@given(pod_requests(), node_tables())
def test_where_nodes_may_appear_nothing_is_never(pod_request: PodRequest, table: NodeTable) -> None:
    expected = evaluation.evaluate(pod_request, table).verdict
    assert evaluation.evaluate(pod_request, table, autoscaled=True).verdict == (
        LATER if expected == NEVER else expected
    )


@given(pod_requests(), node_tables())
def test_who_may_see_whose_runs_is_no_matter_for_a_verdict_and_no_hidden_name_is_told(
    pod_request: PodRequest, table: NodeTable
) -> None:
    blind = table.visible_to(lambda _project: False)
    fit = evaluation.evaluate(pod_request, blind)
    assert fit.verdict == evaluation.evaluate(pod_request, table).verdict
    assert "train-a" not in repr((fit.nodes, fit.reasons))


def changes() -> st.SearchStrategy[Change]:
    """A node that appears, changes or goes."""
    put = st.builds(lambda node, at: lambda table: table.put(name_node(node, f"node-{at}")), nodes(), st.integers(0, 6))
    drop = st.builds(lambda at: lambda table: table.remove(f"node-{at}"), st.integers(0, 6))
    return put | drop
