"""Checks of requests that are independent of policies: violations and valid cases."""

from typing import Any

import pytest

from tests.making import (
    CODE,
    PYTHON,
    SERVED,
    broken,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_snapshot,
    make_template,
    plan,
)
from tests.validity import check_manifests

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = f"affinity.nodeAffinity.{REQUIRED}"
ALLOW = make_policy(switches={"existing_volumes": "allow"})
KAI = make_cluster(gpu_sharing="kai")
HAMI = make_cluster(gpu_sharing="hami")


def mount(path: str, called: str = "data", kind: str = "empty_dir", /, **spec: Any) -> dict[str, Any]:
    """Volumes of a request: one."""
    return {called: {"volume_type": kind, "mount_path": path, "spec": spec}}


def needs(*terms: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    """An affinity that requires nodes that suit one of the terms."""
    listed = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in term]}
        for term in terms
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


def test_two_layers_cannot_mount_two_volumes_on_one_path() -> None:
    planned = plan(
        {"profile": "big", "volumes": mount("/data", "mine")}, make_compute_resource(volumes=mount("/data/", "theirs"))
    )
    [violation] = planned.violations
    assert violation.rule == "mount_path"
    assert all(word in violation.message for word in ("mine", "theirs", "/data", "request", "compute resource big"))


def test_a_volume_of_one_name_in_two_layers_is_no_clash() -> None:
    planned = plan({"profile": "big", "volumes": mount("/data")}, make_compute_resource(volumes=mount("/data")))
    assert broken(planned) == []


@pytest.mark.parametrize("path", ["/fairlead", "/fairlead/code", "/etc/fairlead", "/etc/fairlead/x"])
def test_the_platforms_folders_are_reserved(path: str) -> None:
    assert broken(plan({"volumes": mount(path)})) == [("volumes.data.mount_path", "reserved")]


@pytest.mark.parametrize("path", ["/fairleader", "/etc", "/etc/fairlead2", "/home"])
def test_other_folders_are_free(path: str) -> None:
    planned = plan({"volumes": mount(path), "function": PYTHON})
    assert broken(planned) == []
    assert check_manifests(planned.manifests) == []


def test_shared_memory_and_a_volume_cannot_share_a_path() -> None:
    asked = {"volumes": mount("/dev/shm")}
    assert broken(plan({**asked, "resources": {"shm": True}})) == [("volumes.data.mount_path", "mount_path")]
    assert broken(plan({**asked, "resources": {"shm": False}})) == []
    assert broken(plan(asked)) == []


def test_an_env_and_a_secret_of_one_name_exclude_each_other() -> None:
    planned = plan({"profile": "big", "secrets": ["TOKEN"]}, make_compute_resource(envs={"TOKEN": "x"}))
    [violation] = planned.violations
    assert (violation.path, violation.rule) == ("envs.TOKEN", "env_and_secret")
    assert "compute resource big" in violation.message
    assert "request" in violation.message


@pytest.mark.parametrize("name", ["FAIRLEAD_RUN", "FAIRLEAD_PROJECT"])
def test_a_secret_cannot_take_the_name_of_a_variable_of_the_platform(name: str) -> None:
    assert broken(plan({"secrets": [name]})) == [(f"envs.{name}", "env_and_secret"), (f"secrets.{name}", "reserved")]


@pytest.mark.parametrize("asked", [{"envs": {"FAIRLEAD_HOME": "/x"}}, {"secrets": ["FAIRLEAD_TOKEN"]}])
def test_the_platforms_prefix_is_its_own(asked: dict[str, Any]) -> None:
    assert [rule for _, rule in broken(plan(asked))] == ["reserved"]


def test_a_secret_of_the_platforms_name_is_not_mounted_either() -> None:
    """Beside the token of the run it would hide it, or be taken for it."""
    asked = {"volumes": mount("/s", "s", "secret", name="FAIRLEAD_RUN_TOKEN")}
    assert broken(plan(asked)) == [("volumes.s.spec.name", "reserved")]


def test_a_home_may_be_a_secret() -> None:
    assert check_manifests(plan({"secrets": ["HOME"]}).manifests) == []


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"secrets": ["HF_TOKN"]}, "secrets.HF_TOKN"),
        ({"volumes": mount("/s", "s", "secret", name="HF_TOKN")}, "volumes.s.spec.name"),
        ({"function": {**SERVED, "pull_secrets": ["HF_TOKN"]}}, "function.pull_secrets.HF_TOKN"),
    ],
)
def test_an_unknown_secret_is_a_violation_with_the_nearest_name(asked: dict[str, Any], path: str) -> None:
    planned = plan(asked, secrets=["HF_TOKEN", "OTHER"])
    assert broken(planned) == [(path, "unknown_secret")]
    assert "HF_TOKEN" in str(planned.violations[0].hint)
    assert plan(asked).violations == ()


def test_known_secrets_are_given_to_the_run() -> None:
    asked = {
        "secrets": ["HF_TOKEN"],
        "volumes": mount("/s", "s", "secret", name="OTHER"),
        "function": {**SERVED, "pull_secrets": ["OTHER", "HF_TOKEN"]},
    }
    assert plan(asked, secrets=["HF_TOKEN", "OTHER"]).violations == ()


def test_an_unknown_shared_volume_is_a_violation_with_the_nearest_name() -> None:
    asked = {"volumes": mount("/d", "d", "shared_volume", claim_name="dateset")}
    planned = plan(asked, ALLOW, volumes=["dataset"])
    assert broken(planned) == [("volumes.d.spec.claim_name", "unknown_volume")]
    assert "dataset" in str(planned.violations[0].hint)
    assert plan(asked, ALLOW, volumes=["dateset"]).violations == ()
    assert plan(asked, ALLOW).violations == ()


def test_a_claim_of_one_node_cannot_serve_several_pods() -> None:
    asked = {"volumes": mount("/d", "d", "persistent_volume_claim", size="1Gi")}
    assert broken(plan({**asked, "replicas": 2})) == [("volumes.d.volume_type", "replicas")]
    assert broken(plan({**asked, "replicas": 1})) == []
    each = {"volumes": mount("/d", "d", "ephemeral", size="1Gi"), "replicas": 2}
    assert broken(plan(each)) == []


@pytest.mark.parametrize(
    ("gpu", "sharing", "path"),
    [
        ({"memory": "50%"}, "none", "resources.gpu.memory"),
        ({"memory": "10GB"}, "none", "resources.gpu.memory"),
        ({"memory": "50%"}, "kai", None),
        ({"memory": "10GB"}, "kai", None),
        ({"memory": "50%"}, "hami", None),
        ({"memory": {"request": "50%", "limit": "80%"}}, "kai", None),
        ({"memory": {"request": "50%", "limit": "80%"}}, "hami", "resources.gpu.memory.limit"),
        ({"memory": {"request": "50%", "limit": "50%"}}, "hami", None),
        ({"memory": "100%"}, "none", None),
        ({"memory": {"limit": "100%"}}, "none", None),
        ({"devices": 8}, "none", None),
        ({"mig": "1g.5gb"}, "none", None),
    ],
)
def test_a_cluster_gives_the_parts_of_gpus_that_it_can_schedule(
    gpu: dict[str, Any], sharing: str, path: str | None
) -> None:
    lending = make_policy(switches={"gpu_memory_limits": True})
    planned = plan({"resources": {"gpu": gpu}}, make_cluster(gpu_sharing=sharing), lending)
    assert broken(planned) == ([(path, "gpu_sharing")] if path else [])
    assert check_manifests(planned.manifests) == []


def test_what_a_cluster_cannot_schedule_names_one_that_can() -> None:
    planned = plan({"resources": {"gpu": {"memory": "50%"}}}, sharing_clusters=["west", "main"])
    assert "west" in str(planned.violations[0].hint)


def test_mig_is_for_nvidia_gpus() -> None:
    planned = plan({"resources": {"gpu": {"mig": "1g.5gb"}}}, make_cluster(gpu_resource="amd.com/gpu"))
    assert broken(planned) == [("resources.gpu.mig", "gpu_sharing")]


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "gpu.intel.com/i915", "own.example/gpu"]
)
def test_gpus_are_not_asked_for_as_extended_resources(name: str) -> None:
    planned = plan({"resources": {"extended": {name: 1}}}, make_cluster(gpu_resource="own.example/gpu"))
    assert broken(planned) == [(f"resources.extended.{name}", "gpu_as_extended")]


def test_other_extended_resources_are_free() -> None:
    assert broken(plan({"resources": {"extended": {"vendor.example/nic": 1}}})) == []


@pytest.mark.parametrize(
    ("selector", "affinity", "impossible"),
    [
        ({"zone": "a"}, needs([("zone", "In", ["b"])]), True),
        ({"zone": "a"}, needs([("zone", "In", ["a", "b"])]), False),
        ({"zone": "a"}, needs([("zone", "In", ["b"])], [("zone", "In", ["a"])]), False),
        ({"zone": "a"}, needs([("zone", "NotIn", ["a"])]), True),
        ({"zone": "a"}, needs([("zone", "NotIn", ["b"])]), False),
        ({"zone": "a"}, needs([("zone", "DoesNotExist", [])]), True),
        ({}, needs([("zone", "In", ["a"]), ("zone", "In", ["b"])]), True),
        ({}, needs([("zone", "In", ["a"]), ("zone", "NotIn", ["a"])]), True),
        ({}, needs([("zone", "NotIn", ["a"])]), False),
        ({}, needs([("zone", "Exists", []), ("zone", "DoesNotExist", [])]), True),
        ({}, needs([("zone", "Gt", ["5"]), ("zone", "DoesNotExist", [])]), True),
        ({}, needs([("zone", "Exists", []), ("rack", "DoesNotExist", [])]), False),
        ({"rack": "1"}, needs([("zone", "In", ["a"])]), False),
    ],
)
def test_conditions_that_exclude_each_other_fit_no_node(
    selector: dict[str, str], affinity: dict[str, Any], impossible: bool
) -> None:
    planned = plan({"node_selector": selector, "affinity": affinity})
    assert broken(planned) == ([(NODES, "contradiction")] if impossible else [])


def test_a_contradiction_names_the_layers_that_contradict_each_other() -> None:
    resource = make_compute_resource(affinity=needs([("zone", "In", ["b"])]))
    planned = plan({"profile": "big", "affinity": needs([("zone", "In", ["a"])])}, resource)
    assert "compute resource big" in planned.violations[0].message
    assert "request" in planned.violations[0].message


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"action": "serve"}, [("function.port", "required")]),
        ({"action": "serve", "function": SERVED}, []),
        ({"action": "serve", "function": PYTHON}, []),
        ({"action": "serve", "function": SERVED, "replicas": 3}, []),
        ({"action": "workspace"}, [("function.port", "required")]),
        ({"action": "workspace", "function": SERVED}, []),
        ({"action": "workspace", "function": SERVED, "replicas": 2}, [("replicas", "workspace")]),
        ({"action": "serve", "function": SERVED, "deadline": "1h"}, [("deadline", "action")]),
        ({"action": "workspace", "function": SERVED, "deadline": "1h"}, [("deadline", "action")]),
        ({"action": "job", "deadline": "1h", "replicas": 3}, []),
    ],
)
def test_each_action_gets_what_it_needs(asked: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert broken(plan(asked)) == found


@pytest.mark.parametrize("text", ["a" * 2_000_000, "é" * 400_000, "😀" * 200_000, '"' * 900_000, "\0" * 300_000])
def test_more_inputs_than_a_config_map_holds_are_a_violation(text: str) -> None:
    planned = plan({"function": PYTHON, "inputs": {"text": text}})
    assert [rule for _, rule in broken(planned)] == ["size"]


@pytest.mark.parametrize("inputs", [{"a": [[[[[0] * 5000] * 2] * 2] * 2]}, {"a": "b" * 100_000}, {"a": "é" * 50_000}])
def test_inputs_that_a_config_map_holds_are_no_violation(inputs: dict[str, Any]) -> None:
    planned = plan({"function": PYTHON, "inputs": inputs})
    assert broken(planned) == []
    assert check_manifests(planned.manifests) == []


def test_more_code_than_a_config_map_holds_is_a_violation() -> None:
    large = type(CODE)(CODE.bootstrap, b"x" * 1_100_000, CODE.digest)
    assert [rule for _, rule in broken(plan({"function": PYTHON}, code=large))] == ["size"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    planned = plan(
        {
            "profile": "bg",
            "template": "gone",
            "action": "workspace",
            "function": SERVED,
            "replicas": 2,
            "run_as_user": 0,
            "secrets": ["A"],
            "envs": {"A": "b"},
            "volumes": mount("/fairlead", "d", "shared_volume"),
            "resources": {"gpu": {"memory": "50%"}, "extended": {"nvidia.com/gpu": 1}},
        },
        make_template(),
        secrets=[],
        volumes=[],
    )
    assert {rule for _, rule in broken(planned)} == {
        "unknown_profile",
        "unknown_template",
        "workspace",
        "allow_root",
        "unknown_secret",
        "env_and_secret",
        "reserved",
        "existing_volumes",
        "unknown_volume",
        "gpu_sharing",
        "gpu_as_extended",
    }
    assert planned.manifests == ()


def test_what_is_not_known_is_not_checked() -> None:
    snapshot = make_snapshot()
    assert snapshot.secrets is None
    assert plan({"secrets": ["ANY"]}).violations == ()


@pytest.mark.parametrize(("selected", "found"), [("H100", [("resources.gpu.type", "contradiction")]), ("A100", [])])
def test_a_type_of_gpu_and_a_selector_may_exclude_each_other(selected: str, found: list[tuple[str, str]]) -> None:
    asked = {"resources": {"gpu": {"type": "A100"}}, "node_selector": {"nvidia.com/gpu.product": selected}}
    assert broken(plan(asked)) == found
