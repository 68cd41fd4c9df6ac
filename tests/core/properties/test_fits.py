"""What must hold of every fit, whatever pods ask for and whatever is on the nodes."""

from collections.abc import Callable, Sized
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.fitting import evaluation, matching
from fairlead.core.fitting.pod_requests import Ask
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.evaluation import LATER, NEVER, NOW
from fairlead.core.fitting.filtering import Sieve, place
from fairlead.model.nodes import Node, Surroundings
from tests.core.nodes import make_holding, make_node
from tests.core.properties.clusters import EMPTY, SURROUNDINGS, ZONE, asks, clusters, grids, name_node, nodes

RANKS = {NOW: 0, LATER: 1, NEVER: 2}

Change = Callable[[Grid], None]


def rank(ask: Ask, grid: Grid) -> int:
    """How bad a verdict is."""
    return RANKS[evaluation.judge(ask, grid).verdict]


def names(grid: Grid, positions: list[int]) -> set[str]:
    return {grid.names[at] for at in positions}


def answers(ask: Ask, grid: Grid) -> object:
    """All that a grid answers, whichever way it came about."""
    sieve = Sieve(ask, grid)
    steps = (sieve.suited, sieve.open, sieve.roomy, sieve.now, sieve.large, sieve.best)
    reasons = {node.name: list(evaluation.find_reasons(sieve, node)) for node in grid}
    return evaluation.judge(ask, grid), [names(grid, step) for step in steps], reasons, sieve.count_now(5)


def at_best(node: Node) -> Node:
    """A node on which nothing runs, and which is well."""
    taints = tuple(taint for taint in node.taints if not matching.is_passing(taint))
    devices = tuple(device._replace(healthy=True) for device in node.devices)
    return replace(node, holdings=(), taints=taints, unschedulable=False, devices=devices)


@given(asks(), grids(), EMPTY)
def test_a_node_more_never_makes_a_verdict_worse(ask: Ask, grid: Grid, node: Node) -> None:
    """A node, and not the pods on it: those may bear no other near them. Of spreading, see below."""
    ask = replace(ask, spread=())
    before = rank(ask, grid)
    grid.put(name_node(node, "more"))
    assert rank(ask, grid) <= before


def test_a_node_more_can_keep_off_what_is_to_be_spread() -> None:
    """A place that is new has no pod yet: all others are further from the least of them than they were.

    Here the new one is too small to take the pod itself; kube-scheduler says the same.
    """
    spread = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}
    ask = Ask({"cpu": 10**9, PODS: 10**9}, labels={"app": "web"}, spread=(spread,))
    there = replace(make_holding(cpu=1), labels={"app": "web"})
    grid = Grid([make_node(there, name="old", labels={ZONE: "a"})])
    assert evaluation.judge(ask, grid).verdict == NOW
    grid.put(make_node(name="new", labels={ZONE: "b"}, cpu=0))
    assert evaluation.judge(ask, grid).verdict == LATER
    assert [reason.message for reason in evaluation.find_reasons(Sieve(ask, grid), grid.nodes[0])] == [
        f"spreads pods with app=web over {ZONE}, at most 1 apart; a would have 2, and the least has 0"
    ]


@given(asks(), grids(), st.data())
def test_asking_for_less_never_makes_a_verdict_worse(ask: Ask, grid: Grid, data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(sorted(ask.amounts)))
    amount = data.draw(st.integers(0, ask.amounts[resource] // 10**9)) * 10**9
    less = replace(
        ask,
        amounts={**ask.amounts, resource: min(amount, ask.amounts[resource])},
        count=data.draw(st.integers(1, ask.count)),
        share=ask.share and replace(ask.share, percent=ask.share.percent // 2, memory=ask.share.memory // 2),
    )
    assert rank(less, grid) <= rank(ask, grid)


@given(asks(), grids())
def test_a_node_takes_a_pod_exactly_where_there_is_no_reason_against_it(ask: Ask, grid: Grid) -> None:
    sieve = Sieve(ask, grid)
    assert names(grid, sieve.now) == {node.name for node in grid if not list(evaluation.find_reasons(sieve, node))}


@given(asks(), grids())
def test_a_node_could_take_a_pod_exactly_where_no_reason_against_it_lasts(ask: Ask, grid: Grid) -> None:
    sieve = Sieve(ask, grid)
    lasting = {node.name for node in grid if any(why.lasts for why in evaluation.find_reasons(sieve, node))}
    assert names(grid, sieve.best) == set(grid.names) - lasting
    assert set(sieve.now) <= set(sieve.best)


@given(asks(), grids())
def test_what_could_take_a_pod_takes_it_where_nothing_runs_and_all_is_well(ask: Ask, grid: Grid) -> None:
    """Without what must be there beside it: pods to be near to, and volumes."""
    ask = replace(ask, near=(), claims=(), count=1)
    emptied = Grid(map(at_best, grid), grid.surroundings)
    assert names(grid, Sieve(ask, grid).best) == names(emptied, Sieve(ask, emptied).now)


@given(asks(), grids(), st.randoms())
def test_the_order_of_nodes_does_not_matter(ask: Ask, grid: Grid, random: Random) -> None:
    shuffled = list(grid)
    random.shuffle(shuffled)
    other = Grid(shuffled, grid.surroundings)
    assert evaluation.judge(ask, other).verdict == evaluation.judge(ask, grid).verdict


@given(asks(), clusters(4), SURROUNDINGS, st.data())
def test_a_grid_that_changed_answers_as_one_made_anew(
    ask: Ask, there: list[Node], around: Surroundings, data: st.DataObject
) -> None:
    grid = Grid(there, around)
    answers(ask, grid)  # what is remembered of it must not be in the way
    for change in data.draw(st.lists(changes(), max_size=8)):
        change(grid)
        assert not data.draw(st.booleans()) or len(grid) < 9  # looked at in between, or only at the end
    assert answers(ask, grid) == answers(ask, Grid(grid, around))
    columns: list[Sized] = [
        grid.nodes,
        grid.names,
        grid.labels,
        grid.kinds,
        *grid.capacity.values(),
        *grid.free.values(),
    ]
    assert {len(column) for column in columns} == {len(grid)}
    for at, node in enumerate(grid):
        assert grid.find(node.name) == at
        assert {name: column[at] for name, column in grid.free.items() if name in node.left} == dict(node.left)


@given(asks(), grids(4), st.lists(st.deferred(lambda: changes()), min_size=1, max_size=8))
def test_a_copy_stays_as_it_was_and_so_does_what_it_was_made_of(ask: Ask, grid: Grid, later: list[Change]) -> None:
    kept = grid.copy()
    before = answers(ask, grid)
    for change in later:
        change(grid)
    assert answers(ask, kept) == before
    after = answers(ask, grid)
    for change in later:
        change(kept)
    assert answers(ask, grid) == after


@given(asks(6), grids(4))
def test_there_is_room_for_as_many_as_find_a_place_one_after_the_other(ask: Ask, grid: Grid) -> None:
    """Whichever node the first of them is on: that one decides where those can go that must be near to it."""
    most = max((place_all(ask, grid, node.name) for node in grid), default=0)
    assert Sieve(ask, grid).count_now(ask.count) == most


def place_all(ask: Ask, grid: Grid, first: str) -> int:
    """How many find a place, if the first is on some node, and each other one on the first that takes it."""
    there, placed, tried = {node.name: node for node in grid}, 0, [first]
    while placed < ask.count:
        sieve = Sieve(ask, Grid(there.values(), grid.surroundings))
        name = next((name for name in tried if not list(evaluation.find_reasons(sieve, there[name]))), None)
        if name is None:
            break
        there[name] = place(ask, there[name])
        placed, tried = placed + 1, list(there)
    return placed


@given(asks(6), grids(4))
def test_a_verdict_and_its_numbers_agree(ask: Ask, grid: Grid) -> None:
    fit, sieve = evaluation.judge(ask, grid), Sieve(ask, grid)
    assert sum(fit.counts.values()) == len(grid)
    assert (fit.verdict == NOW) == (sieve.count_now(ask.count) == ask.count)
    assert fit.verdict != NEVER or sieve.count_best(ask.count) < ask.count
    assert sieve.count_now(ask.count) <= sieve.count_best(ask.count)
    assert bool(fit.reasons) == (fit.verdict != NOW)
    assert all(fit.reasons)
    assert {node["name"] for node in fit.nodes if node["fits"]} == names(grid, sieve.now)
    refused = list(evaluation.refuse(ask, grid))
    assert refused or fit.verdict != NEVER
    assert all(violation.hint for violation in refused)


@given(asks(), grids())
def test_where_nodes_may_appear_nothing_is_never(ask: Ask, grid: Grid) -> None:
    expected = evaluation.judge(ask, grid).verdict
    assert evaluation.judge(ask, grid, autoscaled=True).verdict == (LATER if expected == NEVER else expected)


@given(asks(), grids())
def test_who_may_see_whose_runs_is_no_matter_for_a_verdict_and_no_hidden_name_is_told(ask: Ask, grid: Grid) -> None:
    blind = grid.seen_by(lambda _project: False)
    fit = evaluation.judge(ask, blind)
    assert fit.verdict == evaluation.judge(ask, grid).verdict
    assert "train-a" not in repr((fit.nodes, fit.reasons))


def changes() -> st.SearchStrategy[Change]:
    """A node that appears, changes or goes."""
    put = st.builds(lambda node, at: lambda grid: grid.put(name_node(node, f"node-{at}")), nodes(), st.integers(0, 6))
    drop = st.builds(lambda at: lambda grid: grid.drop(f"node-{at}"), st.integers(0, 6))
    return put | drop
