"""Served runs: running while a pod is ready, degraded when none are ready anymore."""

import pytest

from fairlead.adapters.kubernetes.clients import KubernetesClient
from fairlead.adapters.kubernetes.starting import find_endpoint
from fairlead.adapters.kubernetes.views import RunView
from fairlead.errors import NotFound, Unavailable
from fairlead.model.project_objects import Connection
from fairlead.model.runs import Phase
from tests.adapters.kubernetes.making import (
    JSON,
    condition,
    make_main,
    make_pod,
    read_main,
    read_pod,
    terminated,
)
from tests.adapters.kubernetes.test_observing import UNSCHEDULED, disrupted, state_of
from tests.making import make_cluster

BEFORE, START, AFTER = "2026-11-15T08:29:00Z", "2026-11-15T08:30:00Z", "2026-11-15T08:45:00Z"
RUNNING: JSON = {"running": {"startedAt": START}}
READY, NOT_YET = condition("Ready", "True", at=AFTER), condition("Ready", "False", at=BEFORE)
NO_MORE = condition("Ready", "False", reason="ContainersNotReady", at=AFTER)
STARTING = "starting: not accepting connections on port 8080 yet"
SERVED = make_main("Deployment")


def make_ready_pod(name: str = "a") -> JSON:
    return make_pod(name, READY, **RUNNING)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            make_pod("a", UNSCHEDULED, phase="Pending", node=""),
            (Phase.PENDING, "Unschedulable", UNSCHEDULED["message"]),
        ),
        (make_pod("a", phase="Pending", waiting={"reason": "ContainerCreating"}), (Phase.STARTING, "", "")),
        (
            make_pod("a", phase="Pending", waiting={"reason": "ErrImagePull", "message": "no route"}),
            (Phase.STARTING, "ImagePullBackOff", "its image cannot be pulled: no route"),
        ),
        (make_pod("a", **RUNNING), (Phase.STARTING, "", STARTING)),
        (make_pod("a", NOT_YET, **RUNNING), (Phase.STARTING, "", STARTING)),
        (make_pod("a", condition("Ready", "False", at=START), **RUNNING), (Phase.STARTING, "", STARTING)),
        (make_ready_pod(), (Phase.RUNNING, "Ready", "ready to serve requests")),
        (
            make_pod("a", NO_MORE, **RUNNING),
            (Phase.DEGRADED, "NotReady", "running, but no longer accepting connections on port 8080"),
        ),
        (
            make_pod("a", NO_MORE, terminated=terminated(3, message="no model\n")),
            (
                Phase.DEGRADED,
                "CrashLoopBackOff",
                "exited with code 3: no model; it has exited once and will restart",
            ),
        ),
        (
            make_pod("a", NO_MORE, waiting={"reason": "CrashLoopBackOff"}, last=terminated(3, message="no model\n")),
            (
                Phase.DEGRADED,
                "CrashLoopBackOff",
                "exited with code 3: no model; it has exited 3 times and will restart after a pause",
            ),
        ),
        (
            make_pod("a", NO_MORE, waiting={"reason": "CrashLoopBackOff"}, last=terminated(137, "OOMKilled")),
            (
                Phase.DEGRADED,
                "OOMKilled",
                "exceeded the memory of its node; it has exited 3 times and will restart after a pause",
            ),
        ),
        (
            make_pod("a", NOT_YET, last=terminated(137, "OOMKilled"), limits={"memory": "1Gi"}, **RUNNING),
            (
                Phase.DEGRADED,
                "OOMKilled",
                "exceeded its memory limit of 1Gi; it has exited twice and was restarted: "
                "not accepting connections on port 8080 yet",
            ),
        ),
        (make_pod("a", READY, last=terminated(3), **RUNNING), (Phase.RUNNING, "Ready", "ready to serve requests")),
    ],
)
def test_served_run_has_the_readiness_of_its_pod(pod: JSON, expected: tuple[Phase, str, str]) -> None:
    assert state_of(SERVED, pod) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], ("Ready", "2 of 3 replicas are ready; the others are starting")),
        ([make_pod("c", NOT_YET, **RUNNING)], ("Ready", "2 of 3 replicas are ready; the others are starting")),
        (
            [make_pod("c", UNSCHEDULED, phase="Pending", node="")],
            ("Unschedulable", f"2 of 3 replicas are ready; {UNSCHEDULED['message']}"),
        ),
        (
            [make_pod("c", NO_MORE, waiting={"reason": "CrashLoopBackOff"}, last=terminated(3))],
            (
                "CrashLoopBackOff",
                "2 of 3 replicas are ready; exited with code 3; it has exited 3 times and will restart after a pause",
            ),
        ),
        ([make_ready_pod("c")], ("Ready", "all 3 replicas are ready")),
    ],
)
def test_partly_ready_run_is_running_and_reports_the_ready_replicas(
    others: list[JSON], expected: tuple[str, str]
) -> None:
    main = make_main("Deployment", replicas=3)
    assert state_of(main, make_ready_pod("a"), make_ready_pod("b"), *others) == (Phase.RUNNING, *expected)


def test_unready_run_reports_its_worst_replica() -> None:
    main = make_main("Deployment", replicas=2)
    loop = make_pod("b", NO_MORE, waiting={"reason": "CrashLoopBackOff"}, last=terminated(3))
    assert state_of(main, make_pod("a", NOT_YET, **RUNNING), loop)[:2] == (Phase.DEGRADED, "CrashLoopBackOff")


def test_terminating_pod_is_not_ready() -> None:
    terminating, new = make_ready_pod("a"), make_pod("b", NOT_YET, **RUNNING)
    terminating["metadata"]["deletionTimestamp"] = AFTER
    assert state_of(SERVED, terminating, new) == (Phase.STARTING, "", STARTING)
    assert state_of(SERVED, terminating) == (Phase.PENDING, "", "")


def test_served_run_is_pending_after_its_pod_was_preempted() -> None:
    state = state_of(SERVED, disrupted("PreemptionByScheduler"))
    assert state[:2] == (Phase.PENDING, "Preempted")


def test_served_run_on_a_lost_node_is_degraded() -> None:
    state = state_of(SERVED, make_ready_pod(), describe_node_loss=lambda pod: f"{pod.node} is not ready")
    assert state[:2] == (Phase.DEGRADED, "NodeLost")


# Endpoints

OUTSIDE = make_cluster(name="main", executor="kubernetes")
INSIDE = make_cluster(name="main", executor="kubernetes", connection="in_cluster")
API = KubernetesClient(Connection("https://cluster.test:6443/k8s/", token="hunter2", tls_server_name="inner.test"))


def make_view(main: JSON, *pods: JSON) -> RunView:
    parsed = [read_pod(pod) for pod in pods]
    return RunView(read_main(main), {pod.uid: pod for pod in parsed})


def test_endpoint_outside_the_cluster_uses_the_api_server_proxy() -> None:
    endpoint = find_endpoint(API, OUTSIDE, "r1", make_view(SERVED, make_ready_pod()))
    path = "/k8s/api/v1/namespaces/forest/services/http:train-1:8080/proxy"
    assert (endpoint.url, endpoint.prefix) == (f"https://cluster.test:6443{path}", path)
    assert (endpoint.headers, endpoint.server_name) == ({"Authorization": "Bearer hunter2"}, "inner.test")
    assert endpoint.verify is not None
    assert "hunter2" not in repr(endpoint)


def test_endpoint_inside_the_cluster_uses_the_service_without_credentials() -> None:
    endpoint = find_endpoint(API, INSIDE, "r1", make_view(SERVED, make_ready_pod()))
    assert (endpoint.url, endpoint.headers, endpoint.prefix) == ("http://train-1.forest.svc:8080", {}, "")


@pytest.mark.parametrize("pods", [[], [make_pod("a", NOT_YET, **RUNNING)], [make_pod("a", NO_MORE, **RUNNING)]])
def test_unready_run_has_no_endpoint_for_now(pods: list[JSON]) -> None:
    with pytest.raises(Unavailable):
        find_endpoint(API, OUTSIDE, "r1", make_view(SERVED, *pods))


def test_run_that_serves_nothing_has_no_endpoint() -> None:
    terminating = make_main("Deployment")
    terminating["metadata"]["deletionTimestamp"] = AFTER
    for view in (None, RunView(), make_view(make_main(), make_ready_pod()), make_view(terminating, make_ready_pod())):
        with pytest.raises(NotFound):
            find_endpoint(API, OUTSIDE, "r1", view)
