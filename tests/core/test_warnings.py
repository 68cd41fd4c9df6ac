"""Warnings of valid plans: overridden values and surprising settings."""

from typing import Any

import pytest

from fairlead.model.quantities import Quantity
from tests.making import (
    PYTHON,
    SERVED,
    broken,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_template,
    plan,
    setting,
    value,
    warned,
)

LOST: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
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


@pytest.mark.parametrize(("asked", "offered", "path", "mine", "theirs"), LOST)
def test_what_a_user_lost_is_a_warning_with_both_values_and_both_sources(
    asked: dict[str, Any], offered: dict[str, Any], path: str, mine: str, theirs: str
) -> None:
    planned = plan({**asked, "profile": "big"}, make_compute_resource(**offered))
    [warning] = planned.warnings
    assert (warning.path, warning.rule) == (path, "overridden")
    assert "request" in warning.message
    assert "compute resource big" in warning.message
    assert mine in warning.message
    assert theirs in warning.message
    assert warning.requested is not None
    assert (str(warning.requested.value), str(warning.requested.source)) == (mine, "request")
    assert str(warning.source) == "compute resource big"
    assert planned.manifests


@pytest.mark.parametrize(("asked", "offered", "path", "mine", "theirs"), LOST)
def test_strict_turns_what_was_lost_into_violations(
    asked: dict[str, Any], offered: dict[str, Any], path: str, mine: str, theirs: str
) -> None:
    planned = plan({**asked, "profile": "big", "strict": True}, make_compute_resource(**offered))
    assert broken(planned) == [(path, "strict")]
    assert mine in planned.violations[0].message
    assert theirs in planned.violations[0].message
    assert planned.warnings == ()
    assert planned.manifests == ()


def test_what_a_template_lost_is_a_warning_too() -> None:
    planned = plan(
        {"template": "start", "profile": "big", "envs": {"A": "user"}},
        make_template(resources={"cpu": 2}, envs={"A": "template"}),
        make_compute_resource(resources={"cpu": 4}),
    )
    assert warned(planned) == [("envs.A", "overridden"), ("resources.cpu.requests", "overridden")]
    assert "template start" in planned.warnings[0].message


def test_a_default_that_lost_is_remembered_without_a_warning() -> None:
    planned = plan({"fs_group": 5}, make_policy(defaults={"fs_group": 6}), platform={"fs_group": 7})
    assert planned.warnings == ()
    assert [said.value for said in setting(planned, "fs_group").overridden] == [6, 7]


def test_asking_for_what_one_gets_anyway_is_no_warning() -> None:
    resource = make_compute_resource(resources={"mem": "1Gi", "gpu": 1}, envs={"A": "b"})
    planned = plan({"profile": "big", "resources": {"mem": "1024Mi", "gpu": "1"}, "envs": {"A": "b"}}, resource)
    assert planned.warnings == ()


def test_losing_a_limit_to_an_owner_that_says_none_is_a_warning() -> None:
    planned = plan(
        {"profile": "big", "resources": {"mem": {"requests": "1Gi", "limits": "2Gi"}}},
        make_compute_resource(resources={"mem": "1Gi"}),
    )
    assert warned(planned) == [("resources.mem.limits", "overridden")]
    assert "2Gi" in planned.warnings[0].message


def test_losing_a_variable_to_the_platform_is_a_warning() -> None:
    planned = plan({"envs": {"FAIRLEAD_RUN": "mine"}})
    assert warned(planned) == [("envs.FAIRLEAD_RUN", "overridden")]
    assert value(planned, "envs.FAIRLEAD_RUN") == "r7"


def test_losing_a_home_is_nobodys_wish() -> None:
    assert value(plan({"envs": {"HOME": "/mine"}}), "envs.HOME") == "/mine"
    assert value(plan(), "envs.HOME") == "/fairlead"


def test_shares_that_a_cluster_does_not_enforce_are_a_warning() -> None:
    asked = {"resources": {"gpu": {"memory": "50%"}}}
    assert warned(plan(asked, make_cluster(gpu_sharing="kai"))) == [("resources.gpu.memory", "not_enforced")]
    assert warned(plan(asked, make_cluster(gpu_sharing="hami"))) == []


def test_a_gpu_type_that_the_cluster_does_not_list_is_a_warning() -> None:
    asked = {"resources": {"gpu": {"type": "A100"}}}
    assert warned(plan(asked)) == [("resources.gpu.type", "unlisted_gpu_type")]
    assert warned(plan(asked, make_cluster(gpu_types={"A100": ["NVIDIA-A100-SXM4-80GB"]}))) == []


@pytest.mark.parametrize("amount", [16, "16", 1000, 16000, "1k", 1048575])
@pytest.mark.parametrize("resource", ["mem", "disk"])
def test_an_amount_without_a_suffix_is_a_warning_with_the_amount_that_was_meant(resource: str, amount: Any) -> None:
    planned = plan({"resources": {resource: amount}})
    assert warned(planned) == [(f"resources.{resource}.requests", "tiny")]
    meant = str(planned.warnings[0].hint).rpartition(" ")[2]
    assert Quantity.parse(meant) > Quantity.of(2**20)


def test_an_amount_of_a_sensible_size_is_no_warning() -> None:
    assert plan({"resources": {"mem": "1Mi", "disk": "1Gi"}}).warnings == ()


def test_more_shared_memory_than_memory_is_a_warning() -> None:
    planned = plan({"resources": {"shm": "2Gi", "mem": {"limits": "1Gi"}}})
    assert warned(planned) == [("resources.shm", "over_limit")]
    assert plan({"resources": {"shm": "1Gi", "mem": {"limits": "1Gi"}}}).warnings == ()


@pytest.mark.parametrize(
    ("quota", "asked", "path"),
    [
        ({"gpu": 8}, {"resources": {"gpu": 3}, "replicas": 3}, "resources.gpu.devices"),
        ({"cpu": 8}, {"resources": {"cpu": 3}, "replicas": 3}, "resources.cpu.requests"),
        ({"mem": "8Gi"}, {"resources": {"mem": "3Gi"}, "replicas": 3}, "resources.mem.requests"),
        ({"runs": 0}, {}, ""),
    ],
)
def test_a_run_that_alone_exceeds_a_quota_is_warned_and_not_refused(
    quota: dict[str, Any], asked: dict[str, Any], path: str
) -> None:
    planned = plan(asked, make_policy("department/vision", quota=quota))
    assert warned(planned) == [(path, "quota")]
    assert "department/vision" in planned.warnings[0].message
    assert planned.manifests


def test_a_run_within_its_quota_is_not_warned() -> None:
    planned = plan({"resources": {"gpu": 2}, "replicas": 4}, make_policy(quota={"gpu": 8, "cpu": 1, "runs": 1}))
    assert planned.warnings == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"inputs": {"epochs": 3}},
        {"function": SERVED, "action": "serve", "inputs": {"epochs": 3}},
        {"function": PYTHON, "action": "workspace", "inputs": {"epochs": 3}},
        {"function": {**PYTHON, "command": ["python", "mine.py"]}, "inputs": {"epochs": 3}},
    ],
)
def test_inputs_that_reach_no_program_are_not_ignored_in_silence(asked: dict[str, Any]) -> None:
    planned = plan(asked)
    assert [path for path, _ in (*broken(planned), *warned(planned)) if path.startswith("inputs")]
