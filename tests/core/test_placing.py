"""Pods that wait, placed one after the other."""

from typing import Any

from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.pending_pods import Waiting, place_all, read_waiting
from tests.core.nodes import make_ask, make_holding, make_node


def make_pod(
    name: str, *, phase: str = "Pending", created: str = "2026-11-15T08:00:00Z", **spec: Any
) -> dict[str, Any]:
    """A pod as Kubernetes tells of it."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": "forest", "creationTimestamp": created}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}


def test_pods_that_wait_are_taken_by_priority_and_then_by_age() -> None:
    items = [
        make_pod("young", created="2026-11-15T08:02:00Z"),
        make_pod("old", created="2026-11-15T07:59:00Z"),
        make_pod("urgent", created="2026-11-15T08:03:00Z", priority=1000),
        make_pod("placed", nodeName="box"),
        make_pod("ended", phase="Failed"),
        {"kind": "Node", "metadata": {"name": "box"}},
    ]
    leaving = make_pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-15T08:04:00Z"
    assert [pod.name for pod in read_waiting([*items, leaving])] == ["forest/urgent", "forest/old", "forest/young"]


def test_each_pod_leaves_less_for_those_behind_it() -> None:
    grid = Grid([make_node(name="a", gpu=2), make_node(name="b", gpu=2)])
    placed = list(place_all([Waiting(f"p/{number}", make_ask(gpu=2)) for number in range(3)], grid))
    assert [(pod.verdict, pod.node) for pod in placed] == [("now", "a"), ("now", "b"), ("later", None)]
    assert "none has any free" in placed[2].reasons[0]
    assert not any(node.holdings for node in grid), "the cluster itself stays as it is"


def test_the_node_that_is_least_taken_is_chosen() -> None:
    grid = Grid([make_node(make_holding(cpu=6), name="a"), make_node(make_holding(cpu=1), name="b")])
    assert [pod.node for pod in place_all([Waiting("p/1", make_ask(cpu=1))], grid)] == ["b"]


def test_what_no_node_could_take_is_never_placed_unless_nodes_come_by_themselves() -> None:
    queue, grid = [Waiting("p/1", make_ask(gpu=9))], Grid([make_node()])
    assert [pod.verdict for pod in place_all(queue, grid)] == ["never"]
    assert [pod.verdict for pod in place_all(queue, grid, autoscaled=True)] == ["later"]


def test_a_gate_holds_back_whatever_room_there_is() -> None:
    (waiting,) = read_waiting([make_pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])])
    (placed,) = place_all([waiting], Grid([make_node()]))
    assert (placed.verdict, placed.node) == ("later", None)
    assert placed.reasons == ["is held back by kueue.x-k8s.io/admission, whatever room there is"]
