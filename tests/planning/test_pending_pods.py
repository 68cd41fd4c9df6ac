"""Scheduling pending pods, one after another."""

from typing import Any

from fairlead.model.nodes import NodeTable
from fairlead.planning.fit_reports import PendingPod, read_pending_pods, schedule_all
from tests.scheduling.nodes import make_node, make_pod_request, make_scheduled_pod


def make_pod(
    name: str, *, phase: str = "Pending", created: str = "2026-11-15T08:00:00Z", **spec: Any
) -> dict[str, Any]:
    """The JSON of a pod."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": "forest", "creationTimestamp": created}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}


def test_pending_pods_are_ordered_by_priority_and_age() -> None:
    items = [
        make_pod("young", created="2026-11-15T08:02:00Z"),
        make_pod("old", created="2026-11-15T07:59:00Z"),
        make_pod("urgent", created="2026-11-15T08:03:00Z", priority=1000),
        make_pod("placed", nodeName="box"),
        make_pod("ended", phase="Failed"),
        {"kind": "Node", "metadata": {"name": "box"}},
    ]
    terminating = make_pod("terminating")
    terminating["metadata"]["deletionTimestamp"] = "2026-11-15T08:04:00Z"
    assert [pod.name for pod in read_pending_pods([*items, terminating])] == [
        "forest/urgent",
        "forest/old",
        "forest/young",
    ]


def test_each_placed_pod_reduces_capacity_for_the_next() -> None:
    table = NodeTable([make_node(name="a", gpu=2), make_node(name="b", gpu=2)])
    placed = list(schedule_all([PendingPod(f"p/{number}", make_pod_request(gpu=2)) for number in range(3)], table))
    assert [(pod.verdict, pod.node) for pod in placed] == [("now", "a"), ("now", "b"), ("later", None)]
    assert "none free on any of 2 nodes" in placed[2].reasons[0]
    assert not any(node.pods for node in table), "scheduling must not change the table"


def test_the_least_used_node_is_chosen() -> None:
    table = NodeTable([make_node(make_scheduled_pod(cpu=6), name="a"), make_node(make_scheduled_pod(cpu=1), name="b")])
    assert [pod.node for pod in schedule_all([PendingPod("p/1", make_pod_request(cpu=1))], table)] == ["b"]


def test_an_impossible_pod_has_the_verdict_never_unless_autoscaled() -> None:
    queue, table = [PendingPod("p/1", make_pod_request(gpu=9))], NodeTable([make_node()])
    assert [pod.verdict for pod in schedule_all(queue, table)] == ["never"]
    assert [pod.verdict for pod in schedule_all(queue, table, autoscaled=True)] == ["later"]


def test_a_scheduling_gate_delays_a_pod_despite_free_capacity() -> None:
    (waiting,) = read_pending_pods([make_pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])])
    (placed,) = schedule_all([waiting], NodeTable([make_node()]))
    assert (placed.verdict, placed.node) == ("later", None)
    assert placed.reasons == ["waiting for scheduling gate kueue.x-k8s.io/admission"]
