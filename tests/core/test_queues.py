"""Descriptions of queue positions for readers with different permissions."""

import pytest

from fairlead.core.descriptions.queues import describe_queue_position
from fairlead.model.quantities import NANOS
from fairlead.model.queues import QueuePosition, QueueWorkload, QuotaUsage

GPU, POOL = "nvidia.com/gpu", "ClusterQueue shared"
ASKS = {GPU: 4 * NANOS, "cpu": 2 * NANOS}
FULL = (QuotaUsage(GPU, "large", 8 * NANOS, 6 * NANOS), QuotaUsage("cpu", "large", 64 * NANOS, 12 * NANOS))


def holds(gpus: int, name: str = "", project: str = "") -> QueueWorkload:
    """One that holds GPUs."""
    return QueueWorkload(name, project, {GPU: gpus * NANOS})


def told(queue_position: QueuePosition, *projects: str) -> list[str]:
    """The description for a reader of these projects."""
    return list(describe_queue_position(queue_position, projects.__contains__))


def test_of_what_is_lacking_it_says_how_much_is_taken_and_who_holds_it() -> None:
    queue_position = QueuePosition(
        POOL, requests=ASKS, quotas=FULL, admitted=(holds(4, "a", "forest"), holds(2, "b", "lake"))
    )
    assert told(queue_position, "forest", "lake") == [
        "needs 4 GPUs; 6 of 8 in use in ClusterQueue shared",
        "GPUs in use by run a (4) and run b (2)",
    ]


def test_whom_the_reader_may_not_see_is_only_counted() -> None:
    holders = (holds(4, "a", "forest"), holds(2, "b", "lake"), holds(2))
    queue_position = QueuePosition(POOL, requests=ASKS, quotas=FULL, admitted=holders)
    assert told(queue_position, "forest")[1] == "GPUs in use by run a (4) and 2 more (4)"
    assert told(queue_position, "lake")[1] == "GPUs in use by run b (2) and 2 more (6)"
    assert told(queue_position)[1] == "GPUs in use by 3 other workloads (8)"
    assert told(queue_position, "")[1] == "GPUs in use by 3 other workloads (8)"  # what is no run has no project


def test_of_many_the_first_are_named() -> None:
    ahead = tuple(QueueWorkload(f"run-{number}", "forest") for number in range(9))
    (line,) = told(QueuePosition(POOL, ahead=ahead, pending=True, strict=True), "forest")
    named = ", ".join(f"run run-{number}" for number in range(5))
    assert line == f"position 10 in ClusterQueue shared, behind {named} and 4 more"


@pytest.mark.parametrize(
    ("queue_position", "line"),
    [
        (QueuePosition(POOL, pending=True), "position 1 in ClusterQueue shared"),
        (
            QueuePosition(POOL, pending=True, ahead=(QueueWorkload("a", "forest"),)),
            "position 2 in ClusterQueue shared, behind run a; workloads that fit may start earlier",
        ),
        (
            QueuePosition(POOL, pending=True, ahead=(QueueWorkload(), QueueWorkload()), strict=True),
            "position 3 in ClusterQueue shared, behind 2 other workloads",
        ),
        (QueuePosition(message="4 more needed"), "Kueue reports: 4 more needed"),
        (QueuePosition(unavailable="it is forbidden"), "the queue cannot be read: it is forbidden"),
    ],
)
def test_its_place_and_what_else_is_known(queue_position: QueuePosition, line: str) -> None:
    assert told(queue_position, "forest") == [line]


def test_of_several_flavors_each_is_told_where_none_has_enough() -> None:
    flavors = (QuotaUsage(GPU, "large", 8 * NANOS, 8 * NANOS), QuotaUsage(GPU, "small", 4 * NANOS, NANOS))
    shown = "8 of 8 (flavor large), 1 of 4 (flavor small) in use in ClusterQueue shared"
    lent = "the rest is shared with cohort all"
    assert told(QueuePosition(POOL, "all", requests=ASKS, quotas=flavors)) == [f"needs 4 GPUs; {shown}; {lent}"]
    roomy = (*flavors, QuotaUsage(GPU, "other", 16 * NANOS, 0))
    assert told(QueuePosition(POOL, requests=ASKS, quotas=roomy)) == []
