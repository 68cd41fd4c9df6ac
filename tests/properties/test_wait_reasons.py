"""Properties of waiting messages: they exist, and their numbers are correct."""

import re
from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod, Taint, taint_set_of
from fairlead.model.quantities import NANOS
from fairlead.scheduling import evaluation, selectors
from fairlead.scheduling.evaluation import explain_no_fit
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.reasons import describe_amount, name_resource
from tests.properties.clusters import RESOURCES, TAINTS, TOLERATIONS, UNITS

# Hypothesis fails if it finds no example at all for an `assume`; it is expected here that most are discarded.
rare = settings(suppress_health_check=[HealthCheck.filter_too_much])
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, {}]


def amounts(maximum: int) -> st.SearchStrategy[dict[str, int]]:
    """Integer amounts of some resources."""
    counts = st.fixed_dictionaries({}, optional=dict.fromkeys(RESOURCES, st.integers(0, maximum)))
    return counts.map(lambda drawn: {name: count * UNITS.get(name, NANOS) for name, count in drawn.items()})


def all_amounts(least: int, maximum: int) -> st.SearchStrategy[dict[str, int]]:
    """Integer amounts of all resources."""
    counts = st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.integers(least, maximum)))
    return counts.map(lambda drawn: {name: count * UNITS.get(name, NANOS) for name, count in drawn.items()})


POD_REQUESTS = st.builds(
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

# Nodes that differ only in their free amounts, some of them cordoned, and requests for one common resource:
# random nodes and requests rarely wait only for capacity.
BUSY_NODES = st.builds(
    Node,
    name=st.just(""),
    capacity=all_amounts(4, 5).map(lambda drawn: {**drawn, "pods": 9 * NANOS}),
    pods=st.lists(st.builds(ScheduledPod, st.just("x"), st.just("x"), all_amounts(2, 4)), min_size=1, max_size=3).map(
        tuple
    ),
    unschedulable=st.sampled_from([False, False, False, True]),
)
BUSY_CLUSTERS = st.lists(BUSY_NODES, min_size=2, max_size=5).map(
    lambda nodes: [replace(node, name=f"node-{number}") for number, node in enumerate(nodes)]
)
BUSY_POD_REQUESTS = st.builds(
    lambda name, count: PodRequest(amounts={name: count * UNITS.get(name, NANOS)}),
    st.sampled_from([name for name in RESOURCES if name != "pods"]),
    st.integers(3, 4),
)


def is_available(pod_request: PodRequest, node: Node) -> bool:
    """Whether the node matches, apart from amounts."""
    return not list(selectors.find_mismatches(pod_request, node))


def has_labels(pod_request: PodRequest, node: Node) -> bool:
    """Whether the node would match without its taints and if it were not cordoned."""
    return is_available(pod_request, replace(node, taints=(), unschedulable=False))


def reported_taints(pod_request: PodRequest, node: Node) -> list[Taint]:
    """The taints that exclude the node, excluding the taint that cordoning adds."""
    cordoned = selectors.is_cordoned(pod_request, taint_set_of(node))
    taints = selectors.find_taints(pod_request, taint_set_of(node))
    return [taint for taint in taints if not (cordoned and taint.key == selectors.CORDONED.key)]


def is_large(pod_request: PodRequest, node: Node) -> bool:
    return all(amount <= node.capacity.get(resource, 0) for resource, amount in pod_request.amounts.items())


@given(POD_REQUESTS, CLUSTERS)
def test_there_is_a_message_if_and_only_if_the_run_does_not_fit(pod_request: PodRequest, nodes: list[Node]) -> None:
    node_filter = NodeFilter(pod_request, NodeTable(nodes))
    message = explain_no_fit(node_filter)
    assert bool(message) == (evaluation.evaluate(pod_request, NodeTable(nodes)).verdict != "now")
    assert "\n" not in message
    assert "None" not in message
    assert all(list(evaluation.find_reasons(node_filter, node)) for node in nodes if node.name in message.split())


@rare
@given(BUSY_POD_REQUESTS, BUSY_CLUSTERS)
def test_the_free_amount_in_the_message_is_the_maximum_of_suitable_nodes(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    match = re.fullmatch(
        r"needs (\S+(?: [GM]iB)?) ([^;]+) on one node; "
        r"(?:at most (\S+(?: [GM]iB)?)|none) free on any of (\d+)( suitable)? nodes?(?: \((\S+)\))?"
        r"(?:; run (\S+) uses (.+))?",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(match)
    assert match
    suitable = [node for node in nodes if is_available(pod_request, node) and is_large(pod_request, node)]
    (resource,) = [name for name in RESOURCES if name_resource(name) == match[2].removesuffix("s")]
    maximum = max(max(node.free(resource), 0) for node in suitable)
    assert match[1] == describe_amount(resource, pod_request.amounts[resource])
    assert (match[3] or "0") == describe_amount(resource, maximum)
    assert int(match[4]) == len(suitable)
    assert bool(match[5]) == (len(suitable) < len(nodes))
    assert match[6] is None or [node.free(resource) for node in nodes if node.name == match[6]] == [maximum]
    assert maximum < pod_request.amounts[resource]
    usage = [
        pod.amounts.get(resource, 0) for node in suitable if max(node.free(resource), 0) >= maximum for pod in node.pods
    ]
    assert bool(match[7]) == any(usage)
    assert match[8] is None or match[8] in [describe_amount(resource, pod) for pod in usage if pod]


@rare
@given(POD_REQUESTS, CLUSTERS)
def test_the_largest_node_in_the_message_is_the_largest_matching_node(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    match = re.fullmatch(
        r"needs (\d\S*(?: [GM]iB)?) ([^;]+); (?:the largest|none) of (\d+)( matching)? nodes has "
        r"(?:(\S+(?: [GM]iB)?) \((\S+)\)|any)",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(match)
    assert match
    labeled = [node for node in nodes if has_labels(pod_request, node)]
    (resource,) = [name for name in RESOURCES if name_resource(name) == match[2].removesuffix("s")]
    maximum = max(node.capacity.get(resource, 0) for node in labeled)
    assert not any(is_large(pod_request, node) for node in labeled)
    assert int(match[3]) == len(labeled)
    assert bool(match[4]) == (len(labeled) < len(nodes))
    assert (match[5] or "0") == describe_amount(resource, maximum)
    assert match[1] == describe_amount(resource, pod_request.amounts[resource])
    assert match[6] is None or [node.capacity.get(resource, 0) for node in nodes if node.name == match[6]] == [maximum]


@given(POD_REQUESTS, CLUSTERS)
def test_labels_are_reported_only_if_no_node_has_them(pod_request: PodRequest, nodes: list[Node]) -> None:
    message = explain_no_fit(NodeFilter(pod_request, NodeTable(nodes)))
    assert message.startswith("no node has ") == (
        bool(nodes) and not any(has_labels(pod_request, node) for node in nodes)
    )
    if match := re.search(r": (\d+) nodes? checked(?:, (\d+) (?:is|are) tainted with (\S+))?$", message):
        assert int(match[1]) == len(nodes)
        if match[2]:
            assert int(match[2]) == sum(match[3] in map(str, reported_taints(pod_request, node)) for node in nodes)
    for count, key, value in re.findall(r"(\d+) (?:has|have) (\w+)=(\w+)", message):
        assert int(count) == sum(node.labels.get(key) == value for node in nodes)


@rare
@given(POD_REQUESTS, CLUSTERS)
def test_suitable_nodes_in_the_message_are_large_enough_but_unavailable(
    pod_request: PodRequest, nodes: list[Node]
) -> None:
    match = re.match(
        r"(\d+) suitable nodes? \((.*)\) (accepts? no|only)",
        explain_no_fit(NodeFilter(pod_request, NodeTable(nodes))),
    )
    assume(match)
    assert match
    large = [node for node in nodes if has_labels(pod_request, node) and is_large(pod_request, node)]
    assert not any(is_available(pod_request, node) for node in large)
    permanent = [node for node in large if not NodeFilter(pod_request, NodeTable([node])).feasible_when_empty]
    reported = [node for node in large if node not in permanent] if match[3] != "only" else large
    assert int(match[1]) == len(reported)
    assert all(name in match[2] for name in [node.name for node in reported][:3])


@given(POD_REQUESTS, CLUSTERS)
def test_temporary_causes_are_reported_before_permanent_ones(pod_request: PodRequest, nodes: list[Node]) -> None:
    """A run that waits for capacity gets no message about labels or about nodes that are too small."""
    message = explain_no_fit(NodeFilter(pod_request, NodeTable(nodes)))
    if message.startswith("no node has") or (
        message.startswith("needs ") and " has " in message and "free" not in message
    ):
        assert evaluation.evaluate(pod_request, NodeTable(nodes)).verdict == "never"
    if any(is_available(pod_request, node) and is_large(pod_request, node) for node in nodes) and message:
        assert message.startswith("needs ")
