"""Properties of waiting messages: they exist, and their numbers are correct."""

import re
from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead.core.fitting import evaluation, matching
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import describe_amount, name_resource
from fairlead.core.fitting.node_tables import NodeTable, taint_set_of
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.wait_reasons import explain_no_fit
from fairlead.model.nodes import Node, ScheduledPod, Taint
from fairlead.model.quantities import NANOS
from tests.core.properties.clusters import RESOURCES, TAINTS, TOLERATIONS, UNITS

# Hypothesis fails if it finds no example at all for an `assume`; that most are discarded is expected here.
rare = settings(suppress_health_check=[HealthCheck.filter_too_much])
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, {}]


def amounts(most: int) -> st.SearchStrategy[dict[str, int]]:
    """Whole amounts of some resources."""
    counts = st.fixed_dictionaries({}, optional=dict.fromkeys(RESOURCES, st.integers(0, most)))
    return counts.map(lambda found: {name: count * UNITS.get(name, NANOS) for name, count in found.items()})


def whole(least: int, most: int) -> st.SearchStrategy[dict[str, int]]:
    """Whole amounts of all resources."""
    counts = st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.integers(least, most)))
    return counts.map(lambda found: {name: count * UNITS.get(name, NANOS) for name, count in found.items()})


ASKS = st.builds(
    PodRequest,
    amounts=amounts(6),
    node_selector=st.sampled_from([{}, {}, {}, {"zone": "a"}, {"zone": "b"}, {"zone": "a", "pool": "x"}]),
    node_terms=st.none() | st.lists(st.sampled_from(TERMS), max_size=2).map(tuple),
    tolerations=st.lists(st.sampled_from(TOLERATIONS), max_size=2).map(tuple),
)
NODES = st.builds(
    Node,
    name=st.just(""),
    capacity=amounts(8),
    labels=st.sampled_from([{}, {"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {"pool": "x"}]),
    pods=st.lists(st.builds(ScheduledPod, st.just("x"), st.just("x"), amounts(4)), max_size=2).map(tuple),
    taints=st.lists(st.sampled_from(TAINTS), max_size=2).map(tuple),
    unschedulable=st.sampled_from([False, False, True]),
)
CLUSTERS = st.lists(NODES, max_size=5).map(
    lambda nodes: [replace(node, name=f"node-{number}") for number, node in enumerate(nodes)]
)

# Nodes that differ only in what is free, some of them cordoned, and a request for one resource that most of them have:
# random nodes and requests rarely wait for room alone.
BUSY_NODES = st.builds(
    Node,
    name=st.just(""),
    capacity=whole(4, 5).map(lambda found: {**found, "pods": 9 * NANOS}),
    pods=st.lists(st.builds(ScheduledPod, st.just("x"), st.just("x"), whole(2, 4)), min_size=1, max_size=3).map(tuple),
    unschedulable=st.sampled_from([False, False, False, True]),
)
BUSY_CLUSTERS = st.lists(BUSY_NODES, min_size=2, max_size=5).map(
    lambda nodes: [replace(node, name=f"node-{number}") for number, node in enumerate(nodes)]
)
BUSY_ASKS = st.builds(
    lambda name, count: PodRequest(amounts={name: count * UNITS.get(name, NANOS)}),
    st.sampled_from([name for name in RESOURCES if name != "pods"]),
    st.integers(3, 4),
)


def is_open(pod_request: PodRequest, node: Node) -> bool:
    """Whether only amounts can keep it off the node."""
    return not list(matching.find_mismatches(pod_request, node))


def has_labels(pod_request: PodRequest, node: Node) -> bool:
    """Whether the node would be open if it had no taints and were not cordoned."""
    return is_open(pod_request, replace(node, taints=(), unschedulable=False))


def told_taints(pod_request: PodRequest, node: Node) -> list[Taint]:
    """The taints that keep it off; that of a cordoned node says no more than that it is."""
    cordoned = matching.is_cordoned(pod_request, taint_set_of(node))
    found = matching.find_taints(pod_request, taint_set_of(node))
    return [taint for taint in found if not (cordoned and taint.key == matching.CORDONED.key)]


def is_large(pod_request: PodRequest, node: Node) -> bool:
    return all(amount <= node.capacity.get(resource, 0) for resource, amount in pod_request.amounts.items())


@given(ASKS, CLUSTERS)
def test_there_is_a_sentence_where_it_fits_nowhere_and_none_where_it_fits(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    node_filter = NodeFilter(pod_request, NodeTable(nodes))
    told = explain_no_fit(node_filter)
    assert bool(told) == (evaluation.evaluate(pod_request, NodeTable(nodes)).verdict != "now")
    assert "\n" not in told
    assert "None" not in told
    assert all(list(evaluation.find_reasons(node_filter, node)) for node in nodes if node.name in told.split())


@rare
@given(BUSY_ASKS, BUSY_CLUSTERS)
def test_what_is_said_to_be_free_is_the_most_that_is_free_on_the_nodes_that_match(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    found = re.fullmatch(
        r"needs (\S+(?: [GM]iB)?) ([^;]+) on one node; "
        r"(?:at most (\S+(?: [GM]iB)?)|none) free on any of (\d+)( suitable)? nodes?(?: \((\S+)\))?"
        r"(?:; run (\S+) uses (.+))?",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(found)
    assert found
    open_ones = [node for node in nodes if is_open(pod_request, node) and is_large(pod_request, node)]
    (resource,) = [name for name in RESOURCES if name_resource(name) == found[2].removesuffix("s")]
    most = max(max(node.free(resource), 0) for node in open_ones)
    assert found[1] == describe_amount(resource, pod_request.amounts[resource])
    assert (found[3] or "0") == describe_amount(resource, most)
    assert int(found[4]) == len(open_ones)
    assert bool(found[5]) == (len(open_ones) < len(nodes))
    assert found[6] is None or [node.free(resource) for node in nodes if node.name == found[6]] == [most]
    assert most < pod_request.amounts[resource]
    of_it = [
        held.amounts.get(resource, 0) for node in open_ones if max(node.free(resource), 0) >= most for held in node.pods
    ]
    assert bool(found[7]) == any(of_it)
    assert found[8] is None or found[8] in [describe_amount(resource, held) for held in of_it if held]


@rare
@given(ASKS, CLUSTERS)
def test_what_is_said_to_be_the_largest_is_the_largest_with_the_labels(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    found = re.fullmatch(
        r"needs (\d\S*(?: [GM]iB)?) ([^;]+); (?:the largest|none) of (\d+)( matching)? nodes has "
        r"(?:(\S+(?: [GM]iB)?) \((\S+)\)|any)",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(found)
    assert found
    labeled = [node for node in nodes if has_labels(pod_request, node)]
    (resource,) = [name for name in RESOURCES if name_resource(name) == found[2].removesuffix("s")]
    most = max(node.capacity.get(resource, 0) for node in labeled)
    assert not any(is_large(pod_request, node) for node in labeled)
    assert int(found[3]) == len(labeled)
    assert bool(found[4]) == (len(labeled) < len(nodes))
    assert (found[5] or "0") == describe_amount(resource, most)
    assert found[1] == describe_amount(resource, pod_request.amounts[resource])
    assert found[6] is None or [node.capacity.get(resource, 0) for node in nodes if node.name == found[6]] == [most]


@given(ASKS, CLUSTERS)
def test_labels_are_blamed_only_where_no_node_has_them(pod_request: PodRequest, nodes: list[Node]) -> None:
    told = explain_no_fit(NodeFilter(pod_request, NodeTable(nodes)))
    assert told.startswith("no node has ") == (bool(nodes) and not any(has_labels(pod_request, node) for node in nodes))
    if found := re.search(r": (\d+) nodes? checked(?:, (\d+) (?:is|are) tainted (\S+))?$", told):
        assert int(found[1]) == len(nodes)
        if found[2]:
            assert int(found[2]) == sum(found[3] in map(str, told_taints(pod_request, node)) for node in nodes)
    for count, key, value in re.findall(r"(\d+) (?:has|have) (\w+)=(\w+)", told):
        assert int(count) == sum(node.labels.get(key) == value for node in nodes)


@rare
@given(ASKS, CLUSTERS)
def test_nodes_that_could_take_it_are_those_that_are_large_enough_and_kept_for_others(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    found = re.match(
        r"(\d+) suitable nodes? \((.*)\) (accepts? no|only)",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(found)
    assert found
    large = [node for node in nodes if has_labels(pod_request, node) and is_large(pod_request, node)]
    assert not any(is_open(pod_request, node) for node in large)
    well = [node for node in large if not NodeFilter(pod_request, NodeTable([node])).feasible_when_empty]
    spoken_of = [node for node in large if node not in well] if found[3] != "only" else large
    assert int(found[1]) == len(spoken_of)
    assert all(name in found[2] for name in [node.name for node in spoken_of][:3])


@given(ASKS, CLUSTERS)
def test_a_cause_that_passes_is_told_before_one_that_stays(pod_request: PodRequest, nodes: list[Node]) -> None:
    """A run that waits for capacity gets no message about labels or about nodes that are too small."""
    told = explain_no_fit(NodeFilter(pod_request, NodeTable(nodes)))
    if told.startswith("no node has") or (told.startswith("needs ") and " has " in told and "free" not in told):
        assert evaluation.evaluate(pod_request, NodeTable(nodes)).verdict == "never"
    if any(is_open(pod_request, node) and is_large(pod_request, node) for node in nodes) and told:
        assert told.startswith("needs ")
