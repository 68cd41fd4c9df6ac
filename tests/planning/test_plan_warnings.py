"""Warnings for valid plans: overridden values and surprising settings."""

from typing import Any

import pytest

from fairlead.model.quantities import Quantity
from tests.making import (
    PYTHON,
    SERVED,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_template,
    plan,
    setting,
    value,
    violated_rules,
    warning_rules,
)

OVERRIDDEN: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    ({"resources": {"cpu": 2}}, {"resources": {"cpu": 4}}, "resources.cpu.requests", "2", "4"),
    ({"resources": {"mem": "6Gi"}}, {"resources": {"mem": "64Gi"}}, "resources.mem.requests", "6Gi", "64Gi"),
    ({"resources": {"gpu": 2}}, {"resources": {"gpu": 1}}, "resources.gpu.devices", "2", "1"),
    ({"resources": {"shm": "2Gi"}}, {"resources": {"shm": "1Gi"}}, "resources.shm", "2Gi", "1Gi"),
    (
        {"resources": {"extended": {"v.example/a": 1}}},
        {"resources": {"extended": {"v.example/a": 2}}},
        "resources.extended.v.example/a",
        "1",
        "2",
    ),
    ({"node_selector": {"a": "b"}}, {"node_selector": {"a": "c"}}, "node_selector.a", "b", "c"),
    ({"envs": {"A": "b"}}, {"envs": {"A": "c"}}, "envs.A", "b", "c"),
    ({"fs_group": 5}, {"fs_group": 6}, "fs_group", "5", "6"),
    ({"run_as_user": 5}, {"run_as_user": 6}, "run_as_user", "5", "6"),
    ({"runtime_class": "a"}, {"runtime_class": "b"}, "runtime_class", "a", "b"),
    ({"priority_class": "a"}, {"priority_class": "b"}, "priority_class", "a", "b"),
    (
        {"volumes": {"v": {"volume_type": "empty_dir", "mount_path": "/a"}}},
        {"volumes": {"v": {"volume_type": "empty_dir", "mount_path": "/b"}}},
        "volumes.v.mount_path",
        "/a",
        "/b",
    ),
]


@pytest.mark.parametrize(("requested", "resource_fields", "path", "user_value", "resource_value"), OVERRIDDEN)
def test_an_overridden_value_is_a_warning_with_both_values_and_sources(
    requested: dict[str, Any], resource_fields: dict[str, Any], path: str, user_value: str, resource_value: str
) -> None:
    planned = plan({**requested, "profile": "big"}, make_compute_resource(**resource_fields))
    [warning] = planned.warnings
    assert (warning.path, warning.rule) == (path, "overridden")
    assert "request" in warning.message
    assert "compute resource big" in warning.message
    assert user_value in warning.message
    assert resource_value in warning.message
    assert warning.requested is not None
    assert (str(warning.requested.value), str(warning.requested.source)) == (user_value, "request")
    assert str(warning.source) == "compute resource big"
    assert planned.manifests


@pytest.mark.parametrize(("requested", "resource_fields", "path", "user_value", "resource_value"), OVERRIDDEN)
def test_strict_turns_overridden_values_into_violations(
    requested: dict[str, Any], resource_fields: dict[str, Any], path: str, user_value: str, resource_value: str
) -> None:
    planned = plan({**requested, "profile": "big", "strict": True}, make_compute_resource(**resource_fields))
    assert violated_rules(planned) == [(path, "strict")]
    assert user_value in planned.violations[0].message
    assert resource_value in planned.violations[0].message
    assert planned.warnings == ()
    assert planned.manifests == ()


def test_an_overridden_template_value_is_a_warning() -> None:
    planned = plan(
        {"template": "start", "profile": "big", "envs": {"A": "user"}},
        make_template(resources={"cpu": 2}, envs={"A": "template"}),
        make_compute_resource(resources={"cpu": 4}),
    )
    assert warning_rules(planned) == [("envs.A", "overridden"), ("resources.cpu.requests", "overridden")]
    assert "template start" in planned.warnings[0].message


def test_overridden_defaults_produce_no_warning() -> None:
    planned = plan({"fs_group": 5}, make_policy(defaults={"fs_group": 6}), platform={"fs_group": 7})
    assert planned.warnings == ()
    assert [default.value for default in setting(planned, "fs_group").overridden] == [6, 7]


def test_equal_values_produce_no_warning() -> None:
    resource = make_compute_resource(resources={"mem": "1Gi", "gpu": 1}, envs={"A": "b"})
    planned = plan({"profile": "big", "resources": {"mem": "1024Mi", "gpu": "1"}, "envs": {"A": "b"}}, resource)
    assert planned.warnings == ()


def test_removing_a_limit_is_a_warning() -> None:
    planned = plan(
        {"profile": "big", "resources": {"mem": {"requests": "1Gi", "limits": "2Gi"}}},
        make_compute_resource(resources={"mem": "1Gi"}),
    )
    assert warning_rules(planned) == [("resources.mem.limits", "overridden")]
    assert "2Gi" in planned.warnings[0].message


def test_overriding_a_platform_variable_is_a_warning() -> None:
    planned = plan({"envs": {"FAIRLEAD_RUN": "mine"}})
    assert warning_rules(planned) == [("envs.FAIRLEAD_RUN", "overridden")]
    assert value(planned, "envs.FAIRLEAD_RUN") == "r7"


def test_the_home_variable_may_be_set_by_the_user() -> None:
    assert value(plan({"envs": {"HOME": "/mine"}}), "envs.HOME") == "/mine"
    assert value(plan(), "envs.HOME") == "/fairlead"


def test_gpu_shares_that_are_not_enforced_are_a_warning() -> None:
    requested = {"resources": {"gpu": {"memory": "50%"}}}
    assert warning_rules(plan(requested, make_cluster(gpu_sharing="kai"))) == [("resources.gpu.memory", "not_enforced")]
    assert warning_rules(plan(requested, make_cluster(gpu_sharing="hami"))) == []


def test_a_gpu_type_that_the_cluster_does_not_list_is_a_warning() -> None:
    requested = {"resources": {"gpu": {"type": "A100"}}}
    assert warning_rules(plan(requested)) == [("resources.gpu.type", "unlisted_gpu_type")]
    assert warning_rules(plan(requested, make_cluster(gpu_types={"A100": ["NVIDIA-A100-SXM4-80GB"]}))) == []


@pytest.mark.parametrize("amount", [16, "16", 1000, 16000, "1k", 1048575])
@pytest.mark.parametrize("resource", ["mem", "disk"])
def test_an_amount_without_a_suffix_is_a_warning_with_the_likely_amount(resource: str, amount: Any) -> None:
    planned = plan({"resources": {resource: amount}})
    assert warning_rules(planned) == [(f"resources.{resource}.requests", "tiny")]
    suggested = str(planned.warnings[0].hint).rpartition(" ")[2]
    assert Quantity.parse(suggested) > Quantity.of(2**20)


def test_reasonable_amounts_produce_no_warning() -> None:
    assert plan({"resources": {"mem": "1Mi", "disk": "1Gi"}}).warnings == ()


def test_more_shared_memory_than_memory_is_a_warning() -> None:
    planned = plan({"resources": {"shm": "2Gi", "mem": {"limits": "1Gi"}}})
    assert warning_rules(planned) == [("resources.shm", "over_limit")]
    assert plan({"resources": {"shm": "1Gi", "mem": {"limits": "1Gi"}}}).warnings == ()


@pytest.mark.parametrize(
    ("quota", "requested", "path"),
    [
        ({"gpu": 8}, {"resources": {"gpu": 3}, "replicas": 3}, "resources.gpu.devices"),
        ({"cpu": 8}, {"resources": {"cpu": 3}, "replicas": 3}, "resources.cpu.requests"),
        ({"mem": "8Gi"}, {"resources": {"mem": "3Gi"}, "replicas": 3}, "resources.mem.requests"),
        ({"runs": 0}, {}, ""),
    ],
)
def test_a_run_that_exceeds_a_quota_alone_gets_a_warning(
    quota: dict[str, Any], requested: dict[str, Any], path: str
) -> None:
    planned = plan(requested, make_policy("department/vision", quota=quota))
    assert warning_rules(planned) == [(path, "quota")]
    assert "department/vision" in planned.warnings[0].message
    assert planned.manifests


def test_a_run_within_its_quota_gets_no_warning() -> None:
    planned = plan({"resources": {"gpu": 2}, "replicas": 4}, make_policy(quota={"gpu": 8, "cpu": 1, "runs": 1}))
    assert planned.warnings == ()


@pytest.mark.parametrize(
    "requested",
    [
        {"inputs": {"epochs": 3}},
        {"function": SERVED, "action": "serve", "inputs": {"epochs": 3}},
        {"function": PYTHON, "action": "workspace", "inputs": {"epochs": 3}},
        {"function": {**PYTHON, "command": ["python", "mine.py"]}, "inputs": {"epochs": 3}},
    ],
)
def test_inputs_that_the_program_does_not_receive_are_reported(requested: dict[str, Any]) -> None:
    planned = plan(requested)
    assert [path for path, _ in (*violated_rules(planned), *warning_rules(planned)) if path.startswith("inputs")]
