"""Policy switches: allowed features. The strictest scope applies."""

from typing import Any

import pytest

from tests.making import CONTAINER, PYTHON, make_cluster, make_compute_resource, make_policy, plan, violated_rules

KAI = make_cluster(gpu_sharing="kai")
CLAIM = {"volume_type": "persistent_volume_claim", "mount_path": "/data"}
ROOT = {"run_as_user": 0}
GPU_MEMORY_LIMIT = {"resources": {"gpu": {"memory": {"request": "50%", "limit": "80%"}}}}


def volume_request(kind: str, **spec: Any) -> dict[str, Any]:
    """A request for one volume."""
    return {"volumes": {"data": {"volume_type": kind, "mount_path": "/data", "spec": spec}}}


def image(name: str) -> dict[str, Any]:
    """A request for an image."""
    return {"function": {**CONTAINER, "image": name}}


# Request, platform and project switches, and the violated rule.
SWITCHES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str | None]] = [
    (volume_request("shared_volume"), {}, {}, "existing_volumes"),
    (volume_request("config_map"), {}, {}, "existing_volumes"),
    (volume_request("empty_dir"), {}, {}, None),
    (volume_request("secret"), {}, {}, None),
    (volume_request("persistent_volume_claim", size="1Gi"), {}, {}, None),
    (volume_request("shared_volume"), {"existing_volumes": "allow"}, {}, None),
    (volume_request("shared_volume"), {}, {"existing_volumes": "allow"}, None),
    (volume_request("config_map"), {"existing_volumes": "allow"}, {"existing_volumes": "block"}, "existing_volumes"),
    (volume_request("config_map"), {"existing_volumes": "block"}, {"existing_volumes": "allow"}, "existing_volumes"),
    (volume_request("config_map"), {"existing_volumes": "allow"}, {"existing_volumes": "allow"}, None),
    (volume_request("persistent_volume_claim", size="1Gi"), {"storage_classes": ["fast"]}, {}, "storage_classes"),
    (
        volume_request("ephemeral", size="1Gi", storage_class="slow"),
        {"storage_classes": ["fast"]},
        {},
        "storage_classes",
    ),
    (volume_request("ephemeral", size="1Gi", storage_class="fast"), {"storage_classes": ["fast"]}, {}, None),
    (volume_request("empty_dir"), {"storage_classes": []}, {}, None),
    (volume_request("ephemeral", size="1Gi", storage_class="a"), {"storage_classes": []}, {}, "storage_classes"),
    (
        volume_request("ephemeral", size="1Gi", storage_class="a"),
        {"storage_classes": ["a", "b"]},
        {"storage_classes": ["b", "c"]},
        "storage_classes",
    ),
    (
        volume_request("ephemeral", size="1Gi", storage_class="c"),
        {"storage_classes": ["a", "b"]},
        {"storage_classes": ["b", "c"]},
        "storage_classes",
    ),
    (
        volume_request("ephemeral", size="1Gi", storage_class="b"),
        {"storage_classes": ["a", "b"]},
        {"storage_classes": ["b", "c"]},
        None,
    ),
    (image("ghcr.io/lab/a:1"), {"registries": ["ghcr.io"]}, {}, None),
    (image("ghcr.io/lab/a:1"), {"registries": ["ghcr.io/"]}, {}, None),
    (image("ghcr.io/lab/a:1"), {"registries": ["ghcr.io/lab"]}, {}, None),
    (image("ghcr.io/labour/a:1"), {"registries": ["ghcr.io/lab"]}, {}, "registries"),
    (image("ghcr.io.evil.example/a"), {"registries": ["ghcr.io"]}, {}, "registries"),
    (image("evil.example/ghcr.io/a"), {"registries": ["ghcr.io"]}, {}, "registries"),
    (image("python:3.12"), {"registries": ["docker.io"]}, {}, None),
    (image("python:3.12"), {"registries": ["docker.io/library"]}, {}, None),
    (image("lab/a:1"), {"registries": ["docker.io/lab"]}, {}, None),
    (image("lab/a:1"), {"registries": ["docker.io/library"]}, {}, "registries"),
    (image("localhost:5000/a"), {"registries": ["localhost:5000"]}, {}, None),
    (image("localhost/a"), {"registries": ["docker.io"]}, {}, "registries"),
    (image("ghcr.io/a"), {"registries": []}, {}, "registries"),
    (image("ghcr.io/a"), {"registries": ["ghcr.io", "quay.io"]}, {"registries": ["quay.io"]}, "registries"),
    (image("quay.io/a"), {"registries": ["ghcr.io", "quay.io"]}, {"registries": ["quay.io"]}, None),
    ({"function": PYTHON}, {"registries": ["ghcr.io"]}, {}, "registries"),
    ({}, {"compute_resource": "required"}, {}, "compute_resource"),
    ({}, {"compute_resource": "optional"}, {}, None),
    ({}, {"compute_resource": "required"}, {"compute_resource": "optional"}, "compute_resource"),
    ({}, {"compute_resource": "optional"}, {"compute_resource": "required"}, "compute_resource"),
    ({"profile": "big"}, {"compute_resource": "required"}, {}, None),
    (ROOT, {}, {}, "allow_root"),
    ({"run_as_group": 0, "fs_group": 1}, {}, {}, "allow_root"),
    ({"fs_group": 0}, {}, {}, "allow_root"),
    (ROOT, {"allow_root": True}, {}, None),
    (ROOT, {"allow_root": True}, {"allow_root": False}, "allow_root"),
    (ROOT, {"allow_root": False}, {"allow_root": True}, "allow_root"),
    (GPU_MEMORY_LIMIT, {}, {}, "gpu_memory_limits"),
    (GPU_MEMORY_LIMIT, {"gpu_memory_limits": True}, {}, None),
    (GPU_MEMORY_LIMIT, {"gpu_memory_limits": False}, {"gpu_memory_limits": True}, "gpu_memory_limits"),
    (GPU_MEMORY_LIMIT, {"gpu_memory_limits": True}, {"gpu_memory_limits": False}, "gpu_memory_limits"),
    ({"resources": {"gpu": {"memory": {"request": "50%", "limit": "50%"}}}}, {}, {}, None),
    ({"resources": {"gpu": {"memory": {"limit": "50%"}}}}, {}, {}, None),
    ({"resources": {"gpu": {"memory": "50%"}}}, {}, {}, None),
]


@pytest.mark.parametrize(("requested", "platform", "project", "violated"), SWITCHES)
def test_the_strictest_scope_determines_a_switch(
    requested: dict[str, Any], platform: dict[str, Any], project: dict[str, Any], violated: str | None
) -> None:
    policies = (make_policy(switches=platform), make_policy("project/forest", switches=project))
    planned = plan(requested, KAI, make_compute_resource(), *policies)
    assert {rule for _, rule in violated_rules(planned)} == ({violated} if violated else set())
    assert all(violation.hint and violation.source for violation in planned.violations)


@pytest.mark.parametrize(
    ("platform", "project", "scope"),
    [
        ({"allow_root": False}, {"allow_root": True}, "platform"),
        ({"allow_root": True}, {"allow_root": False}, "project/forest"),
    ],
)
def test_a_violation_names_the_scope_of_the_switch(
    platform: dict[str, Any], project: dict[str, Any], scope: str
) -> None:
    policies = (make_policy(switches=platform), make_policy("project/forest", switches=project))
    [violation] = plan({"run_as_user": 0, "run_as_group": 5}, *policies).violations
    assert violation.source is not None
    assert violation.source.scope == scope


def test_switches_apply_to_compute_resources() -> None:
    planned = plan({"profile": "big"}, make_compute_resource(run_as_user=0))
    assert violated_rules(planned) == [("run_as_user", "allow_root")]


def test_the_hint_lists_compute_resources_if_one_is_required() -> None:
    planned = plan({}, make_policy(switches={"compute_resource": "required"}), make_compute_resource("1xa100"))
    assert "1xa100" in str(planned.violations[0].hint)


@pytest.mark.parametrize(
    ("image", "allowed"), [("r.example/a/b/c", True), ("r.example/a/c", False), ("r.example/ab/c", False)]
)
def test_a_lower_scope_may_narrow_the_registries(image: str, allowed: bool) -> None:
    platform = make_policy(switches={"registries": ["r.example/a"]})
    department = make_policy(scope="department/vision", switches={"registries": ["r.example/a/b"]})
    planned = plan({"function": {"name": "a", "kind": "container", "image": image}}, platform, department)
    assert (violated_rules(planned) == []) is allowed
