"""Request checks that do not depend on policies: violations and valid cases."""

from typing import Any

import pytest

from fairlead.planning.checks import SYSTEM_FOLDERS
from tests.making import (
    CODE,
    PYTHON,
    SERVED,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_snapshot,
    make_template,
    plan,
    violated_rules,
)
from tests.validity import check_manifests

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED_NODE_AFFINITY = f"affinity.nodeAffinity.{REQUIRED}"
ALLOW = make_policy(switches={"existing_volumes": "allow"})
KAI = make_cluster(gpu_sharing="kai")
HAMI = make_cluster(gpu_sharing="hami")


def mount(path: str, name: str = "data", kind: str = "empty_dir", /, **spec: Any) -> dict[str, Any]:
    """The volumes for a request with one volume."""
    return {name: {"volume_type": kind, "mount_path": path, "spec": spec}}


def require_nodes(*terms: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    """A node affinity with required terms."""
    node_selector_terms = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in term]}
        for term in terms
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": node_selector_terms}}}


def test_two_layers_cannot_mount_two_volumes_on_one_path() -> None:
    planned = plan(
        {"profile": "big", "volumes": mount("/data", "mine")}, make_compute_resource(volumes=mount("/data/", "theirs"))
    )
    [violation] = planned.violations
    assert violation.rule == "mount_path"
    assert all(text in violation.message for text in ("mine", "theirs", "/data", "request", "compute resource big"))


def test_volumes_of_the_same_name_in_two_layers_do_not_conflict() -> None:
    planned = plan({"profile": "big", "volumes": mount("/data")}, make_compute_resource(volumes=mount("/data")))
    assert violated_rules(planned) == []


@pytest.mark.parametrize("path", ["/fairlead", "/fairlead/code", "/etc/fairlead", "/etc/fairlead/x"])
def test_mount_paths_of_the_platform_are_reserved(path: str) -> None:
    assert violated_rules(plan({"volumes": mount(path)})) == [("volumes.data.mount_path", "reserved")]


@pytest.mark.parametrize("path", sorted(SYSTEM_FOLDERS))
def test_mount_paths_that_hide_system_folders_are_rejected(path: str) -> None:
    [violation] = plan({"volumes": mount(path)}).violations
    assert (violation.path, violation.rule) == ("volumes.data.mount_path", "system_path")
    assert violation.message == f"a volume at {path} would hide system files that programs need"
    assert violation.hint == f"use another path, for example /data or {path}/data"
    assert violated_rules(plan({"volumes": mount(f"{path}/data")})) == []


@pytest.mark.parametrize("path", ["/dev", "/dev/data", "/dev/shm2", "/sys", "/sys/fs/cgroup"])
def test_mount_paths_in_folders_of_the_kernel_are_rejected(path: str) -> None:
    assert violated_rules(plan({"volumes": mount(path)})) == [("volumes.data.mount_path", "system_path")]


OTHER_PATHS = [
    *("/fairleader", "/etc/config", "/etc/fairlead2", "/etcetera", "/usr/share/data", "/usrlocal", "/var/lib/data"),
    *("/dev/shm/data", "/dev/hugepages", "/home", "/opt", "/root", "/run/data", "/srv", "/tmp", "/device", "/system"),
]


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_other_mount_paths_are_allowed(path: str) -> None:
    planned = plan({"volumes": mount(path), "function": PYTHON})
    assert violated_rules(planned) == []
    assert check_manifests(planned.manifests) == []


def test_shared_memory_and_a_volume_cannot_share_a_path() -> None:
    requested = {"volumes": mount("/dev/shm")}
    assert violated_rules(plan({**requested, "resources": {"shm": True}})) == [
        ("volumes.data.mount_path", "mount_path")
    ]
    assert violated_rules(plan({**requested, "resources": {"shm": False}})) == []
    assert violated_rules(plan(requested)) == []


def test_a_variable_and_a_secret_of_the_same_name_are_rejected() -> None:
    planned = plan({"profile": "big", "secrets": ["TOKEN"]}, make_compute_resource(envs={"TOKEN": "x"}))
    [violation] = planned.violations
    assert (violation.path, violation.rule) == ("envs.TOKEN", "env_and_secret")
    assert "compute resource big" in violation.message
    assert "request" in violation.message


@pytest.mark.parametrize("name", ["FAIRLEAD_RUN", "FAIRLEAD_PROJECT"])
def test_a_secret_cannot_have_the_name_of_a_platform_variable(name: str) -> None:
    assert violated_rules(plan({"secrets": [name]})) == [
        (f"envs.{name}", "env_and_secret"),
        (f"secrets.{name}", "reserved"),
    ]


@pytest.mark.parametrize("requested", [{"envs": {"FAIRLEAD_HOME": "/x"}}, {"secrets": ["FAIRLEAD_TOKEN"]}])
def test_the_platform_prefix_is_reserved(requested: dict[str, Any]) -> None:
    assert [rule for _, rule in violated_rules(plan(requested))] == ["reserved"]


def test_a_secret_with_a_reserved_name_cannot_be_mounted() -> None:
    """Such a variable would hide the run token or be mistaken for it."""
    requested = {"volumes": mount("/s", "s", "secret", name="FAIRLEAD_RUN_TOKEN")}
    assert violated_rules(plan(requested)) == [("volumes.s.spec.name", "reserved")]


def test_a_secret_may_be_named_home() -> None:
    assert check_manifests(plan({"secrets": ["HOME"]}).manifests) == []


@pytest.mark.parametrize(
    ("requested", "path"),
    [
        ({"secrets": ["HF_TOKN"]}, "secrets.HF_TOKN"),
        ({"volumes": mount("/s", "s", "secret", name="HF_TOKN")}, "volumes.s.spec.name"),
        ({"function": {**SERVED, "pull_secrets": ["HF_TOKN"]}}, "function.pull_secrets.HF_TOKN"),
    ],
)
def test_an_unknown_secret_is_a_violation_with_the_nearest_name(requested: dict[str, Any], path: str) -> None:
    planned = plan(requested, secrets=["HF_TOKEN", "OTHER"])
    assert violated_rules(planned) == [(path, "unknown_secret")]
    assert "HF_TOKEN" in str(planned.violations[0].hint)
    assert plan(requested).violations == ()


def test_known_secrets_are_accepted() -> None:
    requested = {
        "secrets": ["HF_TOKEN"],
        "volumes": mount("/s", "s", "secret", name="OTHER"),
        "function": {**SERVED, "pull_secrets": ["OTHER", "HF_TOKEN"]},
    }
    assert plan(requested, secrets=["HF_TOKEN", "OTHER"]).violations == ()


def test_an_unknown_shared_volume_is_a_violation_with_the_nearest_name() -> None:
    requested = {"volumes": mount("/d", "d", "shared_volume", claim_name="dateset")}
    planned = plan(requested, ALLOW, volumes=["dataset"])
    assert violated_rules(planned) == [("volumes.d.spec.claim_name", "unknown_volume")]
    assert "dataset" in str(planned.violations[0].hint)
    assert plan(requested, ALLOW, volumes=["dateset"]).violations == ()
    assert plan(requested, ALLOW).violations == ()


def test_a_volume_claim_cannot_be_shared_by_replicas() -> None:
    requested = {"volumes": mount("/d", "d", "persistent_volume_claim", size="1Gi")}
    assert violated_rules(plan({**requested, "replicas": 2})) == [("volumes.d.volume_type", "replicas")]
    assert violated_rules(plan({**requested, "replicas": 1})) == []
    ephemeral = {"volumes": mount("/d", "d", "ephemeral", size="1Gi"), "replicas": 2}
    assert violated_rules(plan(ephemeral)) == []


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
def test_gpu_shares_need_a_cluster_that_supports_them(gpu: dict[str, Any], sharing: str, path: str | None) -> None:
    policy = make_policy(switches={"gpu_memory_limits": True})
    planned = plan({"resources": {"gpu": gpu}}, make_cluster(gpu_sharing=sharing), policy)
    assert violated_rules(planned) == ([(path, "gpu_sharing")] if path else [])
    assert check_manifests(planned.manifests) == []


def test_the_hint_names_a_cluster_that_supports_gpu_sharing() -> None:
    planned = plan({"resources": {"gpu": {"memory": "50%"}}}, sharing_clusters=["west", "main"])
    assert "west" in str(planned.violations[0].hint)


def test_mig_requires_nvidia_gpus() -> None:
    planned = plan({"resources": {"gpu": {"mig": "1g.5gb"}}}, make_cluster(gpu_resource="amd.com/gpu"))
    assert violated_rules(planned) == [("resources.gpu.mig", "gpu_sharing")]


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "gpu.intel.com/i915", "own.example/gpu"]
)
def test_gpus_cannot_be_requested_as_extended_resources(name: str) -> None:
    planned = plan({"resources": {"extended": {name: 1}}}, make_cluster(gpu_resource="own.example/gpu"))
    assert violated_rules(planned) == [(f"resources.extended.{name}", "gpu_as_extended")]


def test_other_extended_resources_are_allowed() -> None:
    assert violated_rules(plan({"resources": {"extended": {"vendor.example/nic": 1}}})) == []


@pytest.mark.parametrize(
    ("selector", "affinity", "impossible"),
    [
        ({"zone": "a"}, require_nodes([("zone", "In", ["b"])]), True),
        ({"zone": "a"}, require_nodes([("zone", "In", ["a", "b"])]), False),
        ({"zone": "a"}, require_nodes([("zone", "In", ["b"])], [("zone", "In", ["a"])]), False),
        ({"zone": "a"}, require_nodes([("zone", "NotIn", ["a"])]), True),
        ({"zone": "a"}, require_nodes([("zone", "NotIn", ["b"])]), False),
        ({"zone": "a"}, require_nodes([("zone", "DoesNotExist", [])]), True),
        ({}, require_nodes([("zone", "In", ["a"]), ("zone", "In", ["b"])]), True),
        ({}, require_nodes([("zone", "In", ["a"]), ("zone", "NotIn", ["a"])]), True),
        ({}, require_nodes([("zone", "NotIn", ["a"])]), False),
        ({}, require_nodes([("zone", "Exists", []), ("zone", "DoesNotExist", [])]), True),
        ({}, require_nodes([("zone", "Gt", ["5"]), ("zone", "DoesNotExist", [])]), True),
        ({}, require_nodes([("zone", "Exists", []), ("rack", "DoesNotExist", [])]), False),
        ({"rack": "1"}, require_nodes([("zone", "In", ["a"])]), False),
    ],
)
def test_contradictory_node_conditions_are_rejected(
    selector: dict[str, str], affinity: dict[str, Any], impossible: bool
) -> None:
    planned = plan({"node_selector": selector, "affinity": affinity})
    assert violated_rules(planned) == ([(REQUIRED_NODE_AFFINITY, "contradiction")] if impossible else [])


def test_a_contradiction_names_the_layers_involved() -> None:
    resource = make_compute_resource(affinity=require_nodes([("zone", "In", ["b"])]))
    planned = plan({"profile": "big", "affinity": require_nodes([("zone", "In", ["a"])])}, resource)
    assert "compute resource big" in planned.violations[0].message
    assert "request" in planned.violations[0].message


@pytest.mark.parametrize(
    ("requested", "expected"),
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
def test_each_action_has_its_own_requirements(requested: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert violated_rules(plan(requested)) == expected


@pytest.mark.parametrize("text", ["a" * 2_000_000, "é" * 400_000, "😀" * 200_000, '"' * 900_000, "\0" * 300_000])
def test_inputs_larger_than_a_config_map_are_rejected(text: str) -> None:
    planned = plan({"function": PYTHON, "inputs": {"text": text}})
    assert [rule for _, rule in violated_rules(planned)] == ["size"]


@pytest.mark.parametrize("inputs", [{"a": [[[[[0] * 5000] * 2] * 2] * 2]}, {"a": "b" * 100_000}, {"a": "é" * 50_000}])
def test_inputs_that_fit_a_config_map_are_accepted(inputs: dict[str, Any]) -> None:
    planned = plan({"function": PYTHON, "inputs": inputs})
    assert violated_rules(planned) == []
    assert check_manifests(planned.manifests) == []


def test_code_larger_than_a_config_map_is_rejected() -> None:
    large_code = type(CODE)(CODE.bootstrap, b"x" * 1_100_000, CODE.digest)
    assert [rule for _, rule in violated_rules(plan({"function": PYTHON}, code=large_code))] == ["size"]


def test_all_violations_are_reported_together() -> None:
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
    assert {rule for _, rule in violated_rules(planned)} == {
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


def test_secrets_are_not_checked_if_their_names_are_unknown() -> None:
    snapshot = make_snapshot()
    assert snapshot.secrets is None
    assert plan({"secrets": ["ANY"]}).violations == ()


@pytest.mark.parametrize(("selected", "expected"), [("H100", [("resources.gpu.type", "contradiction")]), ("A100", [])])
def test_gpu_type_and_node_selector_may_contradict(selected: str, expected: list[tuple[str, str]]) -> None:
    requested = {"resources": {"gpu": {"type": "A100"}}, "node_selector": {"nvidia.com/gpu.product": selected}}
    assert violated_rules(plan(requested)) == expected
