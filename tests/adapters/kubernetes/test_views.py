"""The view of a cluster, built from events in any order."""

import pytest

from fairlead.adapters.kubernetes import views
from fairlead.adapters.kubernetes.views import ClusterView
from fairlead.model.names import RUN_LABEL
from fairlead.model.quantities import NANOS
from fairlead.run_events import RunEvent, RunEvents
from tests.adapters.kubernetes.making import (
    JSON,
    RUN,
    condition,
    make_main,
    make_node,
    make_pod,
    make_warning,
    read_main,
    read_node,
    read_pod,
    read_warning,
)

RUNNING: JSON = {"running": {"startedAt": "2026-11-15T08:30:00Z"}}


class Watched:
    """A view, and its notifications."""

    def __init__(self) -> None:
        self.notified: list[str] = []
        self.deleting: list[str] = []
        run_events = RunEvents()
        run_events.subscribe(self.notified.append, RunEvent.OBSERVED)
        self.view = ClusterView(run_events)
        self.view.on_pod_deleting = lambda pod: self.deleting.append(pod.name)
        self.pods: dict[str, JSON] = {}

    def pod(self, raw: JSON, *, deleted: bool = False) -> None:
        """Add, change or delete a pod."""
        before = self.pods.get(raw["metadata"]["uid"])
        self.pods[raw["metadata"]["uid"]] = raw
        self.view.on_pod_change(None if before is None else read_pod(before), None if deleted else read_pod(raw))

    def free(self, resource: str = "cpu", node_name: str = "box") -> float:
        """The free amount of a resource on a node."""
        (node,) = [candidate for candidate in self.view.nodes() if candidate.name == node_name]
        return node.free(resource) / NANOS


@pytest.fixture
def watched() -> Watched:
    """A cluster with one node."""
    watched = Watched()
    watched.view.on_node_change(None, read_node(make_node()))
    return watched


def test_run_exists_as_long_as_any_of_its_objects(watched: Watched) -> None:
    main, pod = read_main(make_main()), make_pod(**RUNNING)
    assert watched.view.find_run(RUN) is None
    watched.pod(pod)  # the pod watch may be faster
    assert (watched.view.run_ids(), watched.notified) == ([RUN], [RUN])
    watched.view.on_main_change(None, main)
    run_view = watched.view.find_run(RUN)
    assert run_view is not None
    assert (run_view.main, [item.name for item in run_view.pods.values()]) == (main, ["train-1-a"])
    watched.view.on_main_change(main, None)
    assert watched.view.run_ids() == [RUN]
    watched.pod(pod, deleted=True)
    assert (watched.view.run_ids(), watched.view.find_run(RUN), len(watched.notified)) == ([], None, 4)


def test_event_about_a_later_attempt_names_its_run(watched: Watched) -> None:
    watched.pod(make_pod("a", labels={**make_pod()["metadata"]["labels"], RUN_LABEL: f"{RUN}-2"}))
    assert (watched.view.run_ids(), watched.notified) == ([f"{RUN}-2"], [RUN])


def test_returned_run_view_is_a_snapshot(watched: Watched) -> None:
    watched.pod(make_pod("a"))
    run_view = watched.view.find_run(RUN)
    watched.pod(make_pod("b"))
    assert run_view is not None
    assert len(run_view.pods) == 1


def test_free_capacity_excludes_unfinished_pods(watched: Watched) -> None:
    own, foreign = make_pod("a", limits={"cpu": "2"}, **RUNNING), make_pod("b", labels={}, limits={"cpu": "3"})
    watched.view.on_main_change(None, read_main(make_main()))
    for raw in (own, foreign, make_pod("c", node="", phase="Pending", limits={"cpu": "4"})):
        watched.pod(raw)
    assert (watched.free(), watched.free("pods")) == (3, 108)
    (node,) = watched.view.nodes()
    assert sorted((pod.run_id, pod.name, pod.project_id) for pod in node.pods) == [
        ("", None, ""),
        (RUN, "train-1", "id-forest"),
    ]
    watched.pod(make_pod("a", limits={"cpu": "2"}, phase="Succeeded"))
    assert watched.free() == 5
    watched.pod(foreign, deleted=True)
    assert watched.free() == 8
    assert "" not in watched.notified  # no notification about other objects


def test_scheduled_pod_gets_the_name_of_its_run_from_the_main_object(watched: Watched) -> None:
    watched.pod(make_pod(**RUNNING))
    assert [scheduled_pod.name for node in watched.view.nodes() for scheduled_pod in node.pods] == [None]
    watched.view.on_main_change(None, read_main(make_main()))
    assert [scheduled_pod.name for node in watched.view.nodes() for scheduled_pod in node.pods] == ["train-1"]


def test_pods_count_once_their_node_is_known(watched: Watched) -> None:
    watched.pod(make_pod(node="late", limits={"cpu": "2"}, **RUNNING))
    watched.view.on_node_change(None, read_node(make_node("late")))
    assert watched.free(node_name="late") == 6
    watched.view.on_node_change(read_node(make_node("late")), None)
    assert [node.name for node in watched.view.nodes()] == ["box"]
    assert watched.view.node("late") is None


def test_runs_are_notified_only_when_their_node_is_lost_or_back(watched: Watched) -> None:
    watched.pod(make_pod(**RUNNING))
    watched.notified.clear()
    states = [make_node(), make_node(allocatable={"cpu": "9"}), make_node(ready="Unknown"), make_node(ready="False")]
    for before, after in zip(states, [*states[1:], make_node()], strict=True):
        watched.view.on_node_change(read_node(before), read_node(after))
    assert len(watched.notified) == 2
    watched.view.on_node_change(read_node(make_node()), None)
    assert len(watched.notified) == 3


def test_disruption_is_known_until_another_pod_runs(watched: Watched) -> None:
    preempted = condition("DisruptionTarget", reason="PreemptionByScheduler")
    old = make_pod("old", preempted, **RUNNING)
    watched.view.on_main_change(None, read_main(make_main()))
    for raw in (make_pod("old", **RUNNING), old):
        watched.pod(raw)
    watched.pod(old, deleted=True)
    watched.pod(make_pod("new", phase="Pending", node=""))
    run_view = watched.view.find_run(RUN)
    assert run_view is not None
    assert run_view.disrupted is not None
    assert run_view.disrupted.reason == "PreemptionByScheduler"
    watched.pod(make_pod("new", **RUNNING))
    run_view = watched.view.find_run(RUN)
    assert run_view is not None
    assert run_view.disrupted is None


def test_terminating_pod_is_reported_once_and_only_while_it_runs(watched: Watched) -> None:
    terminating = make_pod("a", **RUNNING)
    terminating["metadata"]["deletionTimestamp"] = "2026-11-15T08:31:00Z"
    watched.pod(make_pod("a", **RUNNING))
    assert watched.deleting == []
    for _ in range(2):
        watched.pod(terminating)
    assert watched.deleting == ["a"]
    ended = make_pod("b", phase="Succeeded")
    ended["metadata"]["deletionTimestamp"] = "2026-11-15T08:31:00Z"
    watched.pod(ended)
    foreign = make_pod("c", labels={}, **RUNNING)
    foreign["metadata"]["deletionTimestamp"] = "2026-11-15T08:31:00Z"
    watched.pod(foreign)
    assert watched.deleting == ["a"]


def test_last_warning_about_each_object_of_a_run_is_known(watched: Watched) -> None:
    main, pod = make_main(), make_pod(**RUNNING)
    watched.view.on_main_change(None, read_main(main))
    watched.pod(pod)
    watched.notified.clear()
    other = {"metadata": {"uid": "o", "name": "other", "namespace": "forest"}}
    for about, message in ((main, "first"), (pod, "second"), (main, "third"), (other, "none of ours")):
        watched.view.on_warning_change(None, read_warning(make_warning(about, "FailedCreate", message)))
    run_view = watched.view.find_run(RUN)
    assert run_view is not None
    assert [warning.message for warning in watched.view.warnings_about(run_view)] == ["third", "second"]
    assert watched.notified == [RUN] * 3
    watched.view.on_warning_change(
        read_warning(make_warning(main, "FailedCreate", "third")), None
    )  # the warning stays when the event expires
    assert len(watched.view.warnings_about(run_view)) == 2


def test_number_of_warnings_is_limited(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_WARNINGS", 3)
    for number in range(10):
        about = {"metadata": {"uid": str(number), "name": str(number), "namespace": "x"}}
        watched.view.on_warning_change(None, read_warning(make_warning(about, "FailedCreate", "no")))
    assert len(watched.view._warnings) == 3


def test_recreated_node_survives_the_late_delete_event_of_the_old_one(watched: Watched) -> None:
    old, new = make_node("late"), make_node("late", allocatable={"cpu": "4"})
    new["metadata"]["uid"] = "another"
    watched.view.on_node_change(None, read_node(old))
    watched.view.on_node_change(None, read_node(new))
    watched.view.on_node_change(read_node(old), None)
    assert watched.free(node_name="late") == 4
