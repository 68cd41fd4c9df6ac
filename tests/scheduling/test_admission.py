"""Admission of queued runs on one machine."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.nodes import Node
from fairlead.scheduling.admission import (
    RESERVE_AFTER_SECONDS,
    STOP_GRACE_SECONDS,
    AdmissionDecision,
    AdmissionSession,
    QueuedRun,
)
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod

SHORTER_THAN_RESERVE_AFTER = RESERVE_AFTER_SECONDS - 0.001


def queued(name: str, *, waited: float = 0.0, deadline: float | None = None, **requested: Any) -> QueuedRun:
    """A run that has waited for a while."""
    return QueuedRun(f"id-{name}", name, make_pod_request(**requested), waited, deadline_seconds=deadline)


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


def test_small_runs_start_before_a_large_one_until_it_has_a_reservation() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    small = [queued("b", cpu=1), queued("c", cpu=1)]
    assert admitted_names(node, queued("a", waited=SHORTER_THAN_RESERVE_AFTER, cpu=8), *small) == ["b", "c"]
    assert admitted_names(node, queued("a", waited=RESERVE_AFTER_SECONDS, cpu=8), *small) == []


def test_runs_ahead_of_a_large_one_are_always_admitted() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    large = queued("a", waited=RESERVE_AFTER_SECONDS, cpu=8)
    assert admitted_names(node, queued("b", cpu=1), large, queued("c", cpu=1)) == ["b"]


def test_a_run_that_needs_no_reserved_resource_is_not_delayed() -> None:
    node = make_node(make_scheduled_pod("x", gpu=2, cpu=1))
    gpu_run = queued("a", waited=RESERVE_AFTER_SECONDS, gpu=1, cpu=2)
    # Five of eight cores are neither in use nor reserved.
    assert admitted_names(node, gpu_run, queued("b", cpu=5), queued("c", cpu=1)) == ["b"]


def test_only_one_run_has_a_reservation() -> None:
    session = AdmissionSession(make_node(make_scheduled_pod("x", cpu=8, gpu=2)))
    first, second = (queued(name, waited=RESERVE_AFTER_SECONDS, gpu=1) for name in "ab")
    for run in (first, second):
        session.decide(run)
    assert session.reserved == first


def test_a_reservation_stays_until_its_run_starts() -> None:
    large = queued("a", waited=RESERVE_AFTER_SECONDS, cpu=8)
    session = AdmissionSession(make_node(), large)
    assert session.decide(queued("b", waited=2 * RESERVE_AFTER_SECONDS, cpu=1)).reason == "WaitingForTurn"
    assert session.decide(large).admitted
    assert session.reserved is None


def test_a_run_that_may_not_reserve_only_waits() -> None:
    session = AdmissionSession(make_node(make_scheduled_pod("x", cpu=8)))
    decision = session.decide(queued("a", waited=RESERVE_AFTER_SECONDS, cpu=1), may_reserve=False)
    assert (decision.reason, session.reserved) == ("Unschedulable", None)


def test_a_reservation_ends_if_the_machine_becomes_too_small() -> None:
    large = queued("a", waited=RESERVE_AFTER_SECONDS, cpu=9)
    session = AdmissionSession(make_node(), large)
    assert session.decide(large).reason == "NeverFits"
    assert session.decide(queued("b", cpu=8)).admitted


@pytest.mark.parametrize(
    ("deadline", "releases", "starts"),
    [
        (None, {"id-x": 600.0}, False),  # it could run forever
        (600.0 - STOP_GRACE_SECONDS, {"id-x": 600.0}, True),
        (600.1 - STOP_GRACE_SECONDS, {"id-x": 600.0}, False),
        (60.0, {}, False),  # the running run could end at any time
    ],
)
def test_a_run_uses_reserved_resources_if_it_ends_before_they_are_needed(
    deadline: float | None, releases: dict[str, float], starts: bool
) -> None:
    node = make_node(make_scheduled_pod("x", gpu=2))
    reserved = queued("a", waited=RESERVE_AFTER_SECONDS, gpu=1, cpu=8)
    session = AdmissionSession(node, reserved, load_releases=lambda: releases)
    assert session.decide(queued("b", cpu=1, deadline=deadline)).admitted == starts


def test_deadlines_of_runs_that_were_just_admitted_count() -> None:
    reserved = queued("a", waited=RESERVE_AFTER_SECONDS, gpu=2, cpu=8)
    session = AdmissionSession(make_node(make_scheduled_pod("x", gpu=1)), reserved, load_releases=lambda: {"id-x": 600})
    assert session.decide(queued("b", cpu=1, deadline=500)).admitted
    # The reserved run can start after 600 seconds, although this run ends later than the one before.
    assert session.decide(queued("c", cpu=1, deadline=580)).admitted
    assert not session.decide(queued("d", cpu=1, deadline=595)).admitted


def test_releases_are_loaded_only_if_a_run_could_use_reserved_resources() -> None:
    def fail() -> dict[str, float]:
        raise AssertionError("releases were loaded")

    node = make_node(make_scheduled_pod("x", gpu=2))
    session = AdmissionSession(node, queued("a", gpu=1, cpu=7), load_releases=fail)
    assert session.decide(queued("b", cpu=1, deadline=60)).admitted
    assert not session.decide(queued("c", cpu=1)).admitted


def test_a_run_waiting_for_its_turn_names_what_it_lacks_and_the_run_ahead() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    other_project = replace(queued("b", cpu=1), scope="project/other")
    _, same, other = admit(
        node, queued("large", waited=RESERVE_AFTER_SECONDS, cpu=8), queued("a", cpu=1), other_project
    )
    assert (same.admitted, same.reason) == (other.admitted, other.reason) == (False, "WaitingForTurn")
    message = "it would fit, but what it needs (1 CPU core) is reserved for {}, which is ahead in the queue"
    assert same.message == message.format("large")
    # Users who can read a run may not be allowed to see other projects' runs.
    assert other.message == message.format("a run of another project")


def test_a_run_that_does_not_fit_says_what_it_lacks_despite_a_reservation() -> None:
    node = make_node(make_scheduled_pod("x", cpu=6))
    _, decision = admit(node, queued("large", waited=RESERVE_AFTER_SECONDS, cpu=8), queued("a", cpu=4))
    assert (decision.reason, decision.message) == ("Unschedulable", "waiting for 4 CPU cores")


def test_a_slot_can_be_reserved() -> None:
    node = make_node(make_scheduled_pod("x"), pods=2)
    session = AdmissionSession(node, queued("a", gpu=2))
    assert session.decide(queued("b")).message.startswith("it would fit, but what it needs (a free slot) is reserved")


def test_a_run_that_never_fits_reserves_nothing_and_lists_missing_resources() -> None:
    too_large, next_decision = admit(
        make_node(), queued("a", waited=RESERVE_AFTER_SECONDS, cpu=9, gpu=3), queued("b", cpu=8)
    )
    assert (too_large.admitted, too_large.reason) == (False, "NeverFits")
    assert too_large.message == "needs 9 CPU cores; box has 8 in total; needs 3 GPUs; box has 2 in total"
    assert next_decision.admitted


def test_never_fits_is_reported_despite_a_reservation() -> None:
    node = make_node(make_scheduled_pod("x", cpu=2))
    _, too_large = admit(node, queued("large", waited=RESERVE_AFTER_SECONDS, cpu=8), queued("b", gpu=3))
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
