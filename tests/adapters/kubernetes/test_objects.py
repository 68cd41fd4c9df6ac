"""Parsing Kubernetes objects: the states of our pods, and other pods' resource usage."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes import objects
from fairlead.model.nodes import Taint
from fairlead.model.quantities import NANOS, Quantity
from fairlead.scheduling.pod_requests import PODS, count_amounts
from tests.adapters.kubernetes.making import (
    JSON,
    PLATFORM,
    condition,
    make_main,
    make_node,
    make_pod,
    make_warning,
    read_main,
    read_pod,
    terminated,
)


def nanos(**amounts: str) -> dict[str, int]:
    return {name: Quantity.parse(text).nanos for name, text in amounts.items()}


def test_job_and_deployment_are_distinguished() -> None:
    job, deployment = read_main(make_main(completions=3)), read_main(make_main("Deployment", replicas=2))
    assert (job.kind, job.wanted, job.suspended) == ("Job", 3, False)
    assert (deployment.kind, deployment.wanted, deployment.suspended) == ("Deployment", 2, False)
    # Kubernetes also gives Jobs a selector.
    assert read_main(make_main(selector={"matchLabels": {}})).kind == "Job"


@pytest.mark.parametrize("labels", [{}, {"fairlead.dev/run": "r1"}, {"fairlead.dev/platform": PLATFORM}])
def test_objects_of_other_platforms_have_no_run(labels: JSON) -> None:
    raw = make_main()
    raw["metadata"]["labels"] = labels
    assert objects.read_main(PLATFORM, raw) is None
    pod = objects.read_pod(PLATFORM, make_pod(labels=labels, limits={"cpu": "2"}))
    assert pod is not None
    assert (pod.run_id, pod.project_id, pod.pod_request) == ("", "", None)
    assert pod.scheduled_pod.amounts == {**nanos(cpu="2"), PODS: NANOS}  # it still uses resources


def test_project_is_identified_by_its_id_not_by_its_name() -> None:
    raw = make_main()
    labels = {**raw["metadata"]["labels"], "fairlead.dev/project": "name-before-a-rename"}
    raw["metadata"]["labels"] = {**labels, "fairlead.dev/project-id": "id-1"}
    assert read_main(raw).project_id == "id-1"
    del raw["metadata"]["labels"]["fairlead.dev/project-id"]
    assert read_main(raw).project_id == ""


def test_pod_request_is_stored_only_while_the_pod_is_unscheduled() -> None:
    assert read_pod(make_pod(node="", phase="Pending")).pod_request is not None
    assert read_pod(make_pod(node="box")).pod_request is None


def test_last_termination_is_known_while_the_container_restarts() -> None:
    restarting = read_pod(make_pod(waiting={"reason": "CrashLoopBackOff"}, last=terminated(3)))
    assert restarting.ended is not None
    assert (restarting.ended.code, restarting.began, restarting.running_since, restarting.restarts) == (
        3,
        True,
        None,
        2,
    )
    fresh = read_pod(make_pod(phase="Pending", waiting={"reason": "ContainerCreating"}))
    assert (fresh.ended, fresh.began, fresh.waiting) == (None, False, ("ContainerCreating", ""))


def container(restart: str | None = None, **requests: str) -> JSON:
    return {"resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"containers": [container()]}, {}),
        ({"containers": [container(cpu="1"), container(cpu="500m", memory="1Gi")]}, {"cpu": "1500m", "memory": "1Gi"}),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="4")]}, {"cpu": "4"}),
        ({"containers": [container(cpu="4")], "initContainers": [container(cpu="1")]}, {"cpu": "4"}),
        ({"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="4")]}, {"cpu": "5"}),
        (
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": "1250m", "memory": "1Mi"},
        ),
    ],
)
def test_pod_amounts_are_the_effective_requests(spec: JSON, amounts: dict[str, str]) -> None:
    assert count_amounts(spec) == {**nanos(**amounts), PODS: NANOS}


def test_node_capacity_taints_and_readiness_are_read() -> None:
    taints = [{"key": "team", "value": "vision", "effect": "NoSchedule"}, {"key": "broken", "effect": "NoExecute"}]
    observed = objects.read_node(make_node(allocatable={"memory": "128974848Ki"}, taints=taints, unschedulable=True))
    node = observed.node
    assert node.capacity == nanos(cpu="8", pods="110", memory="128974848Ki")
    assert node.taints == (Taint("team", "vision", "NoSchedule"), Taint("broken", "", "NoExecute"))
    assert (node.unschedulable, observed.ready) == (True, True)
    assert not objects.read_node(make_node(ready="Unknown")).ready
    bare: dict[str, Any] = make_node()
    del bare["status"]
    assert not objects.read_node(bare).ready


def test_only_relevant_conditions_are_stored() -> None:
    conditions = [condition(name) for name in ("Complete", "Suspended", "DisruptionTarget", "ContainersReady")]
    assert set(read_main(make_main("Job", *conditions)).conditions) == {"Complete", "DisruptionTarget"}


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"lastTimestamp": "2026-11-15T08:30:00Z"}, "2026-11-15 08:30:00+00:00"),
        ({"lastTimestamp": None, "eventTime": "2026-11-15T08:30:00.123456Z"}, "2026-11-15 08:30:00.123456+00:00"),
        (
            {"eventTime": "2026-11-15T08:30:00.000000Z", "series": {"lastObservedTime": "2026-11-15T09:00:00.000000Z"}},
            "2026-11-15 09:00:00+00:00",
        ),
        ({"lastTimestamp": None}, "None"),
    ],
)
def test_warning_time_is_the_latest_of_its_timestamps(times: JSON, at: str) -> None:
    warning = {**make_warning(make_main(), "FailedCreate", "no"), **times}
    assert str(objects.read_warning(warning).at) == at
