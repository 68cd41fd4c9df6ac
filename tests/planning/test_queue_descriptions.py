"""Queue position descriptions for readers with different permissions."""

import pytest

from fairlead.model.nodes import QueuePosition, QueueWorkload, QuotaUsage
from fairlead.model.quantities import NANOS
from fairlead.planning.queue_messages import describe_queue_position

GPU, QUEUE = "nvidia.com/gpu", "ClusterQueue shared"
REQUESTED = {GPU: 4 * NANOS, "cpu": 2 * NANOS}
FULL = (QuotaUsage(GPU, "large", 8 * NANOS, 6 * NANOS), QuotaUsage("cpu", "large", 64 * NANOS, 12 * NANOS))


def make_workload(gpus: int, name: str = "", project: str = "") -> QueueWorkload:
    """An admitted workload with GPUs."""
    return QueueWorkload(name, project, {GPU: gpus * NANOS})


def describe(queue_position: QueuePosition, *projects: str) -> list[str]:
    """The description for a user who can read these projects."""
    return list(describe_queue_position(queue_position, projects.__contains__))


def test_a_shortage_shows_usage_and_workloads() -> None:
    queue_position = QueuePosition(
        QUEUE,
        requests=REQUESTED,
        quotas=FULL,
        admitted=(make_workload(4, "a", "forest"), make_workload(2, "b", "lake")),
    )
    assert describe(queue_position, "forest", "lake") == [
        "needs 4 GPUs; 6 of 8 in use in ClusterQueue shared",
        "GPUs in use by run a (4) and run b (2)",
    ]


def test_invisible_workloads_are_only_counted() -> None:
    workloads = (make_workload(4, "a", "forest"), make_workload(2, "b", "lake"), make_workload(2))
    queue_position = QueuePosition(QUEUE, requests=REQUESTED, quotas=FULL, admitted=workloads)
    assert describe(queue_position, "forest")[1] == "GPUs in use by run a (4) and 2 more (4)"
    assert describe(queue_position, "lake")[1] == "GPUs in use by run b (2) and 2 more (6)"
    assert describe(queue_position)[1] == "GPUs in use by 3 other workloads (8)"
    assert (
        describe(queue_position, "")[1] == "GPUs in use by 3 other workloads (8)"
    )  # workloads that are not runs have no project


def test_only_the_first_workloads_ahead_are_named() -> None:
    ahead = tuple(QueueWorkload(f"run-{number}", "forest") for number in range(9))
    (line,) = describe(QueuePosition(QUEUE, ahead=ahead, pending=True, strict=True), "forest")
    names = ", ".join(f"run run-{number}" for number in range(5))
    assert line == f"position 10 in ClusterQueue shared, behind {names} and 4 more"


@pytest.mark.parametrize(
    ("queue_position", "line"),
    [
        (QueuePosition(QUEUE, pending=True), "position 1 in ClusterQueue shared"),
        (
            QueuePosition(QUEUE, pending=True, ahead=(QueueWorkload("a", "forest"),)),
            "position 2 in ClusterQueue shared, behind run a; workloads that fit may start earlier",
        ),
        (
            QueuePosition(QUEUE, pending=True, ahead=(QueueWorkload(), QueueWorkload()), strict=True),
            "position 3 in ClusterQueue shared, behind 2 other workloads",
        ),
        (QueuePosition(message="4 more needed"), "Kueue reports: 4 more needed"),
        (QueuePosition(unavailable="it is forbidden"), "the queue cannot be read: it is forbidden"),
    ],
)
def test_position_and_messages_are_described(queue_position: QueuePosition, line: str) -> None:
    assert describe(queue_position, "forest") == [line]


def test_all_flavors_are_listed_if_none_has_enough() -> None:
    flavors = (QuotaUsage(GPU, "large", 8 * NANOS, 8 * NANOS), QuotaUsage(GPU, "small", 4 * NANOS, NANOS))
    usage = "8 of 8 (flavor large), 1 of 4 (flavor small) in use in ClusterQueue shared"
    cohort = "unused quota is shared with cohort all"
    assert describe(QueuePosition(QUEUE, "all", requests=REQUESTED, quotas=flavors)) == [
        f"needs 4 GPUs; {usage}; {cohort}"
    ]
    sufficient = (*flavors, QuotaUsage(GPU, "other", 16 * NANOS, 0))
    assert describe(QueuePosition(QUEUE, requests=REQUESTED, quotas=sufficient)) == []
