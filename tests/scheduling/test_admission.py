"""Admission of queued runs on one machine."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.nodes import Node
from fairlead.scheduling.queue_order import PATIENCE_SECONDS, AdmissionDecision, AdmissionSession, QueuedRun
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod

LONGER_THAN_PATIENCE = PATIENCE_SECONDS + 0.001


def queued(name: str, *, waited: float = 0.0, **requested: Any) -> QueuedRun:
    """A run that has waited for a while."""
    return QueuedRun(f"id-{name}", name, make_pod_request(**requested), waited)


def admit(node: Node, *queue: QueuedRun) -> list[AdmissionDecision]:
    """The admission decisions for queued runs."""
    return list(map(AdmissionSession(node).decide, queue))


def admitted_names(node: Node, *queue: QueuedRun) -> list[str]:
    """The names of admitted runs, in order."""
    return [decision.run_id.removeprefix("id-") for decision in admit(node, *queue) if decision.admitted]


def test_an_empty_queue_admits_nothing() -> None:
    assert admit(make_node()) == []


def test_the_oldest_runs_are_admitted_first_while_they_fit() -> None:
    assert admitted_names(make_node(), queued("a", cpu=4), queued("b", cpu=4), queued("c", cpu=4)) == ["a", "b"]


def test_each_run_has_one_decision_in_the_order_of_the_queue() -> None:
    queue = [queued("a", cpu=9), queued("b", cpu=6), queued("c", cpu=6), queued("d", cpu=2)]
    assert [decision.run_id for decision in admit(make_node(), *queue)] == ["id-a", "id-b", "id-c", "id-d"]


def test_resources_of_running_runs_are_subtracted() -> None:
    node = make_node(make_scheduled_pod("x", cpu=6))
    assert admitted_names(node, queued("a", cpu=4), queued("b", cpu=2)) == ["b"]


def test_small_runs_overtake_a_large_one_until_it_has_waited_too_long() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    small = [queued("b", cpu=1), queued("c", cpu=1)]
    assert admitted_names(node, queued("a", waited=PATIENCE_SECONDS, cpu=8), *small) == ["b", "c"]
    assert admitted_names(node, queued("a", waited=LONGER_THAN_PATIENCE, cpu=8), *small) == []


def test_runs_ahead_of_a_large_one_are_always_admitted() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    assert admitted_names(
        node, queued("b", cpu=1), queued("a", waited=LONGER_THAN_PATIENCE, cpu=8), queued("c", cpu=1)
    ) == ["b"]


def test_a_run_waiting_for_its_turn_names_the_run_ahead() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    other_project = replace(queued("b", cpu=1), scope="project/other")
    _, same, other = admit(node, queued("large", waited=LONGER_THAN_PATIENCE, cpu=8), queued("a", cpu=1), other_project)
    assert (same.admitted, same.reason) == (other.admitted, other.reason) == (False, "WaitingForTurn")
    assert same.message == "waiting behind large, which has been queued longer"
    # Users who can read a run may not be allowed to see other projects' runs.
    assert other.message == "waiting behind a larger run, which has been queued longer"


def test_a_run_that_never_fits_blocks_no_other_and_lists_missing_resources() -> None:
    too_large, next_decision = admit(
        make_node(), queued("a", waited=LONGER_THAN_PATIENCE, cpu=9, gpu=3), queued("b", cpu=8)
    )
    assert (too_large.admitted, too_large.reason) == (False, "NeverFits")
    assert too_large.message == "needs 9 CPU cores; box has 8 in total; needs 3 GPUs; box has 2 in total"
    assert next_decision.admitted


def test_never_fits_is_reported_even_behind_a_large_run() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    _, too_large = admit(node, queued("large", waited=LONGER_THAN_PATIENCE, cpu=8), queued("b", gpu=3))
    assert too_large.reason == "NeverFits"


def test_a_missing_node_label_is_reported_without_resource_usage() -> None:
    labeled = QueuedRun("id-a", "a", make_pod_request(selector={"zone": "a"}, cpu=8))
    (decision,) = admit(make_node(make_scheduled_pod("x", cpu=8)), labeled)
    assert decision.message == "needs a node with zone=a; box has no such label"


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({"mem": "16Gi"}, "waiting for 16 GiB memory"),
        ({"cpu": 4, "mem": "16Gi"}, "waiting for 4 CPU cores and 16 GiB memory"),
    ],
)
def test_wait_messages_do_not_depend_on_current_usage(requested: dict[str, Any], message: str) -> None:
    for memory_in_use in ("20Gi", "30Gi"):
        (decision,) = admit(make_node(make_scheduled_pod("x", cpu=7, mem=memory_in_use)), queued("a", **requested))
        assert (decision.admitted, decision.reason, decision.message) == (False, "Unschedulable", message)


def test_a_full_machine_is_reported_without_a_pod_count() -> None:
    (decision,) = admit(make_node(make_scheduled_pod("x"), pods=1), queued("a"))
    assert decision.reason == "Unschedulable"
    assert "1 runs" not in decision.message
