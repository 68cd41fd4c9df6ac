"""The pod request of a compute resource without other requirements."""

from typing import Any

import pytest

from fairlead.core.compute_catalog import find_pod_request
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.plans import Violation
from fairlead.model.policies import Policy
from fairlead.model.scopes import Cluster
from tests.core.nodes import make_amounts
from tests.making import make_cluster, make_compute_resource, make_policy, make_snapshot

LOCAL = make_cluster(executor="local")


def ask(resource: ComputeResource, *more: Cluster | Policy) -> PodRequest:
    """The pod request, if the compute resource can be used."""
    found = find_pod_request(resource, make_snapshot(resource, *more))
    assert isinstance(found, PodRequest), found
    return found


def refuse(resource: ComputeResource, *more: Cluster | Policy) -> Violation:
    """Why it cannot be used."""
    found = find_pod_request(resource, make_snapshot(resource, *more))
    assert isinstance(found, Violation), found
    return found


@pytest.mark.parametrize("cluster", [make_cluster(), LOCAL], ids=["kubernetes", "local"])
def test_one_pod_asks_for_what_the_compute_resource_says(cluster: Cluster) -> None:
    resource = make_compute_resource(resources={"cpu": 2, "mem": "4Gi"}, node_selector={"pool": "a"})
    found = ask(resource, cluster)
    assert found.amounts == make_amounts(cpu=2, mem="4Gi", pods=1)
    assert (found.node_selector, found.count) == ({"pool": "a"}, 1)


def test_what_policies_say_where_nobody_else_does_is_asked_for_too() -> None:
    policy = make_policy(defaults={"resources": {"mem": "2Gi"}})
    assert ask(make_compute_resource(resources={"cpu": 2}), policy).amounts == make_amounts(cpu=2, mem="2Gi", pods=1)


@pytest.mark.parametrize("cluster", [make_cluster(), LOCAL], ids=["kubernetes", "local"])
@pytest.mark.parametrize("types", [["inference"], ["workspace"], ["inference", "training"], None])
def test_it_is_tried_with_an_action_that_it_is_for(types: list[str] | None, cluster: Cluster) -> None:
    resource = make_compute_resource(resources={"cpu": 2}, workload_types=types)
    assert ask(resource, cluster).amounts["cpu"] == 2 * 10**9


def test_an_action_that_a_policy_forbids_is_passed_over() -> None:
    policy = make_policy(rules={"action": {"options": ["serve"]}})
    assert ask(make_compute_resource(resources={"cpu": 2}), policy).amounts["cpu"] == 2 * 10**9


@pytest.mark.parametrize(
    "policy",
    [
        {"switches": {"registries": ["registry.example/lab"]}},
        {"rules": {"deadline": {"required": True, "max": "2d"}}},
        {"rules": {"envs.TEAM": {"required": True}}},
        {"rules": {"resources.mem.limits": {"required": True}}},
    ],
)
def test_what_each_user_has_to_settle_keeps_nobody_from_using_it(policy: dict[str, Any]) -> None:
    defaults = {"resources": {"disk": "1Gi"}}
    found = ask(make_compute_resource(resources={"cpu": 2}), make_policy(defaults=defaults, **policy))
    assert found.amounts == make_amounts(cpu=2, disk="1Gi", pods=1)


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
def test_what_is_forbidden_or_impossible_is_told(resource: dict[str, Any], more: Policy | Cluster, path: str) -> None:
    assert refuse(make_compute_resource(**resource), more).path == path


def test_what_is_wrong_with_it_is_told_before_what_is_wrong_with_the_action() -> None:
    shared = {"gpu": {"devices": 1, "memory": "50%"}}
    resource = make_compute_resource(resources=shared, workload_types=["inference"])
    assert refuse(resource, LOCAL, make_policy(rules={"action": {"options": ["job"]}})).rule == "gpu_sharing"
