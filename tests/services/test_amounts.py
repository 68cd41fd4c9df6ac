"""Compute resource amounts: GPUs, shares, MIG slices, units and extended resources."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlead.errors import RequestRejected
from fairlead.model.assets import ComputeResource
from fairlead.model.parsing import violations_of
from tests.services.worlds import World, rejection_rules


@pytest.mark.parametrize(
    ("requested", "stored"),
    [
        (0, {"devices": 0}),
        (1, {"devices": 1}),
        ("3", {"devices": 3}),
        ({"devices": 1, "memory": "50%"}, {"devices": 1, "memory": {"request": "50%"}}),
        ({"memory": "25%"}, {"devices": 1, "memory": {"request": "25%"}}),
        ({"devices": 1, "memory": "500MB"}, {"devices": 1, "memory": {"request": "500MB"}}),
        ({"devices": 1, "memory": "10GB"}, {"devices": 1, "memory": {"request": "10GB"}}),
        (
            {"devices": 1, "memory": {"request": "10GB", "limit": "10GB"}},
            {"devices": 1, "memory": {"request": "10GB", "limit": "10GB"}},
        ),
        ({"devices": 1, "mig": "1g.5gb"}, {"devices": 1, "mig": "1g.5gb"}),
        ({"mig": "2g.10gb"}, {"devices": 1, "mig": "2g.10gb"}),
    ],
)
def test_gpu_requests_are_stored_as_requested(world: World, requested: Any, stored: Any) -> None:
    record = world.add_compute_resource("gpu", resources={"gpu": requested})
    assert record.requirements["resources"]["gpu"] == stored
    assert world.preview(profile="gpu")["violations"] == []


@pytest.mark.parametrize(
    ("requested", "path"),
    [
        (0.5, "gpu"),
        (-1, "gpu"),
        ("one", "gpu"),
        (True, "gpu"),
        ({"devices": 2, "memory": "50%"}, "gpu.memory"),
        ({"devices": 2, "mig": "1g.5gb"}, "gpu.mig"),
        ({"devices": 0, "memory": "50%"}, "gpu.memory"),
        ({"devices": 1, "memory": "50%", "mig": "1g.5gb"}, "gpu"),
        ({"devices": 1, "memory": "0%"}, "gpu.memory"),
        ({"devices": 1, "memory": "101%"}, "gpu.memory"),
        ({"devices": 1, "memory": {"request": "50%", "limit": "40%"}}, "gpu.memory"),
        ({"devices": 1, "memory": {"request": "10GB", "limit": "5GB"}}, "gpu.memory"),
        ({"devices": 1, "memory": {"request": "10GB", "limit": "50%"}}, "gpu.memory"),
        ({"requests": 1, "limits": 2}, "gpu"),
    ],
)
def test_invalid_gpu_requests_are_rejected(requested: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ComputeResource.model_validate({"name": "gpu", "requirements": {"resources": {"gpu": requested}}})
    violations = violations_of(caught.value, ComputeResource)
    assert violations
    for violation in violations:
        assert violation.path.startswith(f"requirements.resources.{path}")
        assert violation.message
        assert violation.hint


def test_gpu_memory_limit_above_the_request_needs_the_switch(world: World) -> None:
    gpu = {"devices": 1, "memory": {"request": "10GB", "limit": "20GB"}}
    with pytest.raises(RequestRejected) as caught:
        world.add_compute_resource("gpu", resources={"gpu": gpu})
    assert rejection_rules(caught) == [("requirements.resources.gpu.memory.limit", "gpu_memory_limits")]
    world.put_policy(switches={"gpu_memory_limits": True})
    assert world.add_compute_resource("gpu", resources={"gpu": gpu}).revision == 1
    assert world.preview(profile="gpu")["violations"] == []


def test_gpu_share_is_rejected_if_the_only_reachable_cluster_has_whole_gpus(world: World) -> None:
    share = {"gpu": {"devices": 1, "memory": "50%"}}
    with pytest.raises(RequestRejected) as caught:
        world.add_compute_resource("half", scope="project/default", resources=share)
    assert rejection_rules(caught) == [("requirements.resources.gpu.memory", "gpu_sharing")]
    world.add_compute_resource("half", resources=share)  # another cluster on the platform shares GPUs
    assert world.preview("project/default", profile="half")["violations"]
    assert world.preview(profile="half")["violations"] == []


@pytest.mark.parametrize(
    ("resources", "stored"),
    [
        ({"cpu": "0.5"}, {"cpu": {"requests": "500m"}}),
        ({"cpu": {"requests": "500m", "limits": 2}}, {"cpu": {"requests": "500m", "limits": "2"}}),
        ({"cpu": {"limits": "unlimited"}}, {"cpu": {"limits": "unlimited"}}),
        ({"mem": "500M"}, {"mem": {"requests": "500M"}}),
        ({"mem": {"requests": "1Gi", "limits": "2Gi"}}, {"mem": {"requests": "1Gi", "limits": "2Gi"}}),
        ({"shm": True}, {"shm": True}),
        ({"shm": "8Gi"}, {"shm": "8Gi"}),
        ({"extended": {"vendor.example/nic": 2}}, {"extended": {"vendor.example/nic": "2"}}),
        ({"disk": "1Ti"}, {"disk": {"requests": "1Ti"}}),
    ],
)
def test_other_amounts_are_stored_in_canonical_form(world: World, resources: Any, stored: Any) -> None:
    record = world.add_compute_resource("some", resources=resources)
    assert record.requirements["resources"] == stored


@pytest.mark.parametrize(
    "resources",
    [
        {"cpu": {"requests": 2, "limits": 1}},
        {"mem": {"requests": "2Gi", "limits": "1Gi"}},
        {"cpu": "0.0001"},
        {"mem": "1 Gi"},
        {"mem": "-1Gi"},
        {"mem": "500m"},
        {"shm": "lots"},
        {"extended": {"nic": 1}},
        {"extended": {"vendor.example/nic": 1.5}},
        {"gpus": 1},
    ],
)
def test_invalid_amounts_are_rejected_with_a_hint(resources: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        ComputeResource.model_validate({"name": "some", "requirements": {"resources": resources}})
    for violation in violations_of(caught.value, ComputeResource):
        assert violation.path.startswith("requirements.resources.")
        assert violation.message
        assert violation.hint


def test_gpu_as_an_extended_resource_is_rejected(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.add_compute_resource("sly", resources={"extended": {"nvidia.com/gpu": 8}})
    assert rejection_rules(caught) == [("requirements.resources.extended.nvidia.com/gpu", "gpu_as_extended")]
