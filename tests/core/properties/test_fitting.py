"""Properties of admission for random queues and nodes."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.core.fitting import admission, evaluation
from fairlead.core.fitting.admission import PATIENCE_SECONDS, QueuedRun
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.model.nodes import Node, ScheduledPod, Taint

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6).map(lambda n: n * 10**9))
SELECTORS = st.sampled_from([{}, {}, {}, {"zone": "a"}, {"zone": "b"}])
TOLERATIONS = st.sampled_from([(), (), ({"operator": "Exists"},), ({"key": "team", "operator": "Exists"},)])
ASKS = st.builds(PodRequest, amounts=AMOUNTS, node_selector=SELECTORS, tolerations=TOLERATIONS)
HOLDINGS = st.builds(ScheduledPod, run_id=st.just("x"), name=st.sampled_from([None, "x"]), amounts=AMOUNTS)
NODES = st.builds(
    Node,
    name=st.just("box"),
    capacity=st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.integers(0, 8).map(lambda n: n * 10**9))),
    labels=st.just({"zone": "a"}),
    pods=st.lists(HOLDINGS, max_size=2).map(tuple),
    taints=st.sampled_from([(), (), (Taint("team", "b", "NoSchedule"),), (Taint("gpu", "", "NoExecute"),)]),
    unschedulable=st.sampled_from([False, False, False, True]),
)


@st.composite
def queues(draw: st.DrawFn) -> list[QueuedRun]:
    """Runs that wait, the oldest first."""
    asks = draw(st.lists(ASKS, max_size=8))
    waited = sorted((draw(st.integers(0, 20)) * 60.0 for _ in asks), reverse=True)
    return [
        QueuedRun(f"r{number}", f"train-{number}", pod_request, seconds)
        for number, (pod_request, seconds) in enumerate(zip(asks, waited, strict=True))
    ]


@given(queues(), NODES)
def test_what_was_taken_never_exceeds_what_there_is(queue: list[QueuedRun], node: Node) -> None:
    asks = {waiting.run_id: waiting.pod_request for waiting in queue}
    before = {resource: node.free(resource) for resource in node.capacity}
    for verdict in admission.admit(queue, node):
        if verdict.admitted:
            node = replace(node, pods=(*node.pods, ScheduledPod(verdict.run_id, "", asks[verdict.run_id].amounts)))
    for resource, free in before.items():
        assert node.free(resource) >= min(free, 0), resource


@given(queues(), NODES)
def test_everybody_has_one_verdict_in_order_and_who_waits_is_told_why(queue: list[QueuedRun], node: Node) -> None:
    verdicts = list(admission.admit(queue, node))
    assert [verdict.run_id for verdict in verdicts] == [waiting.run_id for waiting in queue]
    for verdict in verdicts:
        assert verdict.admitted or (verdict.reason and verdict.message)


@given(queues(), NODES)
def test_nothing_fits_that_a_verdict_says_never_fits(queue: list[QueuedRun], node: Node) -> None:
    for waiting, verdict in zip(queue, admission.admit(queue, node), strict=True):
        assert (verdict.reason == "NeverFits") == (
            not NodeFilter(waiting.pod_request, NodeTable([node])).feasible_when_empty
        )


@given(queues(), NODES)
def test_nobody_overtakes_who_has_waited_for_long(queue: list[QueuedRun], node: Node) -> None:
    patient = False
    for waiting, verdict in zip(queue, admission.admit(queue, node), strict=True):
        assert not (patient and verdict.admitted)
        patient = patient or (verdict.reason == "Unschedulable" and waiting.waited_seconds > PATIENCE_SECONDS)


@given(queues(), NODES)
def test_the_first_that_fits_is_taken(queue: list[QueuedRun], node: Node) -> None:
    verdicts = list(admission.admit(queue[:1], node))
    for waiting, verdict in zip(queue, verdicts, strict=False):
        assert verdict.admitted == (
            not list(evaluation.find_reasons(NodeFilter(waiting.pod_request, NodeTable([node])), node))
        )


@given(ASKS, st.lists(NODES, max_size=3))
def test_a_verdict_agrees_with_its_reasons(pod_request: PodRequest, nodes: list[Node]) -> None:
    nodes = [replace(node, name=f"box-{number}") for number, node in enumerate(nodes)]
    fit = evaluation.evaluate(pod_request, NodeTable(nodes))
    assert (fit.verdict == "now") == any(node["fits"] for node in fit.nodes)
    assert (fit.verdict == "never") == (
        not any(NodeFilter(pod_request, NodeTable([node])).feasible_when_empty for node in nodes)
    )
    assert bool(fit.reasons) == (fit.verdict != "now")
    assert bool(list(evaluation.explain_never_fits(pod_request, NodeTable(nodes)))) or fit.verdict != "never"
    assert not any("None" in reason for reason in fit.reasons)


@given(ASKS, NODES)
def test_an_empty_node_takes_what_a_full_one_takes(pod_request: PodRequest, node: Node) -> None:
    node_filter = NodeFilter(pod_request, NodeTable([node]))
    assume(not list(evaluation.find_reasons(node_filter, node)))
    assert node_filter.feasible_when_empty
