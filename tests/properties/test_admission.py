"""Properties of admission for random queues and nodes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod, Taint
from fairlead.scheduling import evaluation
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS, AdmissionSession, QueuedRun, fits, with_reservation
from fairlead.scheduling.filters import NodeFilter

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6).map(lambda n: n * 10**9))
SELECTORS = st.sampled_from([{}, {}, {}, {"zone": "a"}, {"zone": "b"}])
TOLERATIONS = st.sampled_from([(), (), ({"operator": "Exists"},), ({"key": "team", "operator": "Exists"},)])
POD_REQUESTS = st.builds(PodRequest, amounts=AMOUNTS, node_selector=SELECTORS, tolerations=TOLERATIONS)
SCHEDULED_PODS = st.builds(ScheduledPod, run_id=st.just("x"), name=st.sampled_from([None, "x"]), amounts=AMOUNTS)
NODES = st.builds(
    Node,
    name=st.just("box"),
    capacity=st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.integers(0, 8).map(lambda n: n * 10**9))),
    labels=st.just({"zone": "a"}),
    pods=st.lists(SCHEDULED_PODS, max_size=2).map(tuple),
    taints=st.sampled_from([(), (), (Taint("team", "b", "NoSchedule"),), (Taint("gpu", "", "NoExecute"),)]),
    unschedulable=st.sampled_from([False, False, False, True]),
)


@st.composite
def queues(draw: st.DrawFn) -> list[QueuedRun]:
    """Queued runs, oldest first."""
    pod_requests = draw(st.lists(POD_REQUESTS, max_size=8))
    waited = sorted((draw(st.integers(0, 20)) * 60.0 for _ in pod_requests), reverse=True)
    return [
        QueuedRun(f"r{number}", f"train-{number}", pod_request, seconds)
        for number, (pod_request, seconds) in enumerate(zip(pod_requests, waited, strict=True))
    ]


@given(queues(), NODES)
def test_admitted_runs_never_exceed_the_capacity(queue: list[QueuedRun], node: Node) -> None:
    pod_requests = {queued.run_id: queued.pod_request for queued in queue}
    before = {resource: node.free(resource) for resource in node.capacity}
    for decision in map(AdmissionSession(node).decide, queue):
        if decision.admitted:
            node = replace(
                node, pods=(*node.pods, ScheduledPod(decision.run_id, "", pod_requests[decision.run_id].amounts))
            )
    for resource, free in before.items():
        assert node.free(resource) >= min(free, 0), resource


@given(queues(), NODES)
def test_each_run_has_one_decision_in_order_and_waiting_runs_have_a_reason(queue: list[QueuedRun], node: Node) -> None:
    decisions = list(map(AdmissionSession(node).decide, queue))
    assert [decision.run_id for decision in decisions] == [queued.run_id for queued in queue]
    for decision in decisions:
        assert decision.admitted or (decision.reason and decision.message)


@given(queues(), NODES)
def test_never_fits_means_infeasible_on_an_empty_node(queue: list[QueuedRun], node: Node) -> None:
    for queued, decision in zip(queue, map(AdmissionSession(node).decide, queue), strict=True):
        assert (decision.reason == "NeverFits") == (
            not NodeFilter(queued.pod_request, NodeTable([node])).feasible_when_empty
        )


@given(queues(), NODES)
def test_no_run_takes_what_is_reserved(queue: list[QueuedRun], node: Node) -> None:
    session = AdmissionSession(node)
    for queued in queue:
        before, reserved = session.node, session.reserved
        decision = session.decide(queued)
        if reserved is None:
            waited = queued.waited_seconds >= RESERVE_AFTER_SECONDS
            assert session.reserved is (queued if decision.reason == "Unschedulable" and waited else None)
            assert decision.admitted == fits(queued.pod_request, before)
        else:
            assert session.reserved is reserved
            left = fits(queued.pod_request, with_reservation(before, reserved))
            assert decision.admitted == (left and fits(queued.pod_request, before))


@given(queues(), NODES)
def test_the_first_run_is_admitted_if_it_fits(queue: list[QueuedRun], node: Node) -> None:
    decisions = list(map(AdmissionSession(node).decide, queue[:1]))
    for queued, decision in zip(queue, decisions, strict=False):
        assert decision.admitted == (
            not list(evaluation.find_reasons(NodeFilter(queued.pod_request, NodeTable([node])), node))
        )


@given(POD_REQUESTS, st.lists(NODES, max_size=3))
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


@given(POD_REQUESTS, NODES)
def test_a_run_that_fits_a_used_node_fits_an_empty_one(pod_request: PodRequest, node: Node) -> None:
    node_filter = NodeFilter(pod_request, NodeTable([node]))
    # Not `assume`: with some seeds most pods do not fit, and Hypothesis reports that as a failure.
    assert list(evaluation.find_reasons(node_filter, node)) or node_filter.feasible_when_empty
