"""The pod request of a compute resource without other requirements."""

from typing import Any

import pytest

from fairlead.model.assets import ComputeResource, Policy
from fairlead.model.nodes import PodRequest
from fairlead.model.plans import Violation
from fairlead.model.scopes import Cluster
from fairlead.planning.compute_catalog import find_pod_request
from tests.making import make_cluster, make_compute_resource, make_policy, make_snapshot
from tests.scheduling.nodes import make_amounts

LOCAL = make_cluster(executor="local")


def pod_request_of(resource: ComputeResource, *more: Cluster | Policy) -> PodRequest:
    """The pod request, if the compute resource can be used."""
    pod_request = find_pod_request(resource, make_snapshot(resource, *more))
    assert isinstance(pod_request, PodRequest), pod_request
    return pod_request


def violation_of(resource: ComputeResource, *more: Cluster | Policy) -> Violation:
    """The violation, if the compute resource cannot be used."""
    violation = find_pod_request(resource, make_snapshot(resource, *more))
    assert isinstance(violation, Violation), violation
    return violation


@pytest.mark.parametrize("cluster", [make_cluster(), LOCAL], ids=["kubernetes", "local"])
def test_the_pod_request_contains_the_resources_of_the_compute_resource(cluster: Cluster) -> None:
    resource = make_compute_resource(resources={"cpu": 2, "mem": "4Gi"}, node_selector={"pool": "a"})
    pod_request = pod_request_of(resource, cluster)
    assert pod_request.amounts == make_amounts(cpu=2, mem="4Gi", pods=1)
    assert (pod_request.node_selector, pod_request.count) == ({"pool": "a"}, 1)


def test_the_pod_request_contains_policy_defaults() -> None:
    policy = make_policy(defaults={"resources": {"mem": "2Gi"}})
    assert pod_request_of(make_compute_resource(resources={"cpu": 2}), policy).amounts == make_amounts(
        cpu=2, mem="2Gi", pods=1
    )


@pytest.mark.parametrize("cluster", [make_cluster(), LOCAL], ids=["kubernetes", "local"])
@pytest.mark.parametrize("types", [["inference"], ["workspace"], ["inference", "training"], None])
def test_the_action_matches_the_workload_types(types: list[str] | None, cluster: Cluster) -> None:
    resource = make_compute_resource(resources={"cpu": 2}, workload_types=types)
    assert pod_request_of(resource, cluster).amounts["cpu"] == 2 * 10**9


def test_actions_forbidden_by_a_policy_are_skipped() -> None:
    policy = make_policy(rules={"action": {"options": ["serve"]}})
    assert pod_request_of(make_compute_resource(resources={"cpu": 2}), policy).amounts["cpu"] == 2 * 10**9


@pytest.mark.parametrize(
    "policy",
    [
        {"switches": {"registries": ["registry.example/lab"]}},
        {"rules": {"deadline": {"required": True, "max": "2d"}}},
        {"rules": {"envs.TEAM": {"required": True}}},
        {"rules": {"resources.mem.limits": {"required": True}}},
    ],
)
def test_rules_that_users_can_satisfy_are_ignored(policy: dict[str, Any]) -> None:
    defaults = {"resources": {"disk": "1Gi"}}
    pod_request = pod_request_of(make_compute_resource(resources={"cpu": 2}), make_policy(defaults=defaults, **policy))
    assert pod_request.amounts == make_amounts(cpu=2, disk="1Gi", pods=1)


@pytest.mark.parametrize(
    ("resource", "more", "path"),
    [
        ({"resources": {"gpu": 4}}, make_policy(rules={"resources.gpu": {"max": 2}}), "resources.gpu.devices"),
        ({"resources": {"gpu": {"devices": 1, "memory": "50%"}}}, make_cluster(), "resources.gpu.memory"),
        ({"resources": {"gpu": {"devices": 1, "memory": "50%"}}}, LOCAL, "resources.gpu.memory"),
        ({"run_as_user": 0}, make_policy(), "run_as_user"),
        ({"workload_types": ["inference"]}, make_policy(rules={"action": {"options": ["job"]}}), "action"),
    ],
)
def test_forbidden_or_impossible_compute_resources_are_violations(
    resource: dict[str, Any], more: Policy | Cluster, path: str
) -> None:
    assert violation_of(make_compute_resource(**resource), more).path == path


def test_violations_of_the_compute_resource_come_before_those_of_the_action() -> None:
    shared = {"gpu": {"devices": 1, "memory": "50%"}}
    resource = make_compute_resource(resources=shared, workload_types=["inference"])
    assert violation_of(resource, LOCAL, make_policy(rules={"action": {"options": ["job"]}})).rule == "gpu_sharing"
