"""Which of the waiting runs a machine takes now."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.fitting import admission
from fairlead.core.fitting.admission import PATIENCE_SECONDS, AdmissionDecision, QueuedRun
from fairlead.model.nodes import Node
from tests.core.nodes import make_holding, make_node, make_pod_request

LONG = PATIENCE_SECONDS + 0.001


def wait(name: str, *, waited: float = 0.0, **said: Any) -> QueuedRun:
    """A run that has waited for a while."""
    return QueuedRun(f"id-{name}", name, make_pod_request(**said), waited)


def admit(node: Node, *queue: QueuedRun) -> list[AdmissionDecision]:
    """The admission results of waiting runs."""
    return list(admission.admit(queue, node))


def taken(node: Node, *queue: QueuedRun) -> list[str]:
    """The names of those that are taken, in order."""
    return [verdict.run_id.removeprefix("id-") for verdict in admit(node, *queue) if verdict.admitted]


def test_nobody_waits_where_nobody_waits() -> None:
    assert admit(make_node()) == []


def test_the_oldest_are_taken_first_as_far_as_there_is_room() -> None:
    assert taken(make_node(), wait("a", cpu=4), wait("b", cpu=4), wait("c", cpu=4)) == ["a", "b"]


def test_each_run_has_one_verdict_in_the_order_of_the_queue() -> None:
    queue = [wait("a", cpu=9), wait("b", cpu=6), wait("c", cpu=6), wait("d", cpu=2)]
    assert [verdict.run_id for verdict in admit(make_node(), *queue)] == ["id-a", "id-b", "id-c", "id-d"]


def test_what_runs_already_counts() -> None:
    node = make_node(make_holding("x", cpu=6))
    assert taken(node, wait("a", cpu=4), wait("b", cpu=2)) == ["b"]


def test_small_ones_pass_a_large_one_until_it_has_waited_for_long() -> None:
    node = make_node(make_holding("x", cpu=2))
    small = [wait("b", cpu=1), wait("c", cpu=1)]
    assert taken(node, wait("a", waited=PATIENCE_SECONDS, cpu=8), *small) == ["b", "c"]
    assert taken(node, wait("a", waited=LONG, cpu=8), *small) == []


def test_those_before_a_large_one_are_taken_however_long_it_waited() -> None:
    node = make_node(make_holding("x", cpu=2))
    assert taken(node, wait("b", cpu=1), wait("a", waited=LONG, cpu=8), wait("c", cpu=1)) == ["b"]


def test_who_is_held_back_is_told_for_what() -> None:
    node = make_node(make_holding("x", cpu=2))
    other_project = replace(wait("b", cpu=1), scope="project/other")
    _, same, other = admit(node, wait("large", waited=LONG, cpu=8), wait("a", cpu=1), other_project)
    assert (same.admitted, same.reason) == (other.admitted, other.reason) == (False, "WaitingForTurn")
    assert same.message == "waiting behind large, which has been queued longer"
    # The readers of a run may not be allowed to see runs of other projects.
    assert other.message == "waiting behind a larger run, which has been queued longer"


def test_what_never_fits_blocks_nobody_and_is_told_what_is_missing() -> None:
    never, after = admit(make_node(), wait("a", waited=LONG, cpu=9, gpu=3), wait("b", cpu=8))
    assert (never.admitted, never.reason) == (False, "NeverFits")
    assert never.message == "needs 9 CPU cores; box has 8 in total; needs 3 GPUs; box has 2 in total"
    assert after.admitted


def test_what_never_fits_is_told_so_also_behind_a_large_one() -> None:
    node = make_node(make_holding("x", cpu=2))
    _, never = admit(node, wait("large", waited=LONG, cpu=8), wait("b", gpu=3))
    assert never.reason == "NeverFits"


def test_a_label_that_is_missing_is_told_without_what_others_hold() -> None:
    labeled = QueuedRun("id-a", "a", make_pod_request(selector={"zone": "a"}, cpu=8))
    (never,) = admit(make_node(make_holding("x", cpu=8)), labeled)
    assert never.message == "needs a node with zone=a; box has no such label"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mem": "16Gi"}, "waiting for 16 GiB memory"),
        ({"cpu": 4, "mem": "16Gi"}, "waiting for 4 CPU cores and 16 GiB memory"),
    ],
)
def test_what_a_run_waits_for_is_told_without_what_changes_by_the_second(asked: dict[str, Any], message: str) -> None:
    for held in ("20Gi", "30Gi"):
        (waits,) = admit(make_node(make_holding("x", cpu=7, mem=held)), wait("a", **asked))
        assert (waits.admitted, waits.reason, waits.message) == (False, "Unschedulable", message)


def test_a_run_that_waits_for_others_to_end_says_so_in_words() -> None:
    (waits,) = admit(make_node(make_holding("x"), pods=1), wait("a"))
    assert waits.reason == "Unschedulable"
    assert "1 runs" not in waits.message
