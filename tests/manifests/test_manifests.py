"""Manifests: valid objects that contain exactly the resolved values."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.manifests.pods import escape_references
from fairlead.planning.plan import plan_run
from tests.making import (
    CODE,
    CONTAINER,
    PYTHON,
    SERVED,
    container,
    make_cluster,
    make_compute_resource,
    make_policy,
    make_request,
    make_snapshot,
    plan,
    pod,
)
from tests.validity import check_manifests

ALLOW_ALL = make_policy(switches={"allow_root": True, "existing_volumes": "allow", "gpu_memory_limits": True})
TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}

REQUESTS: list[dict[str, Any]] = [
    {},
    {"function": PYTHON},
    {"function": PYTHON, "action": "serve", "replicas": 3},
    {"function": PYTHON, "action": "workspace"},
    {"function": SERVED, "action": "serve"},
    {"function": SERVED, "action": "workspace"},
    {"replicas": 4, "deadline": "2h"},
    {"function": {**CONTAINER, "name": "a" * 128}, "replicas": 10_000},
    {"function": {**CONTAINER, "name": "1.2_3+4"}},
    {"resources": {"cpu": 1, "mem": {"requests": "1Gi", "limits": "2Gi"}, "disk": {"limits": "5Gi"}, "shm": True}},
    {"resources": {"cpu": {"requests": "0.1", "limits": "unlimited"}, "shm": "1.5Gi"}},
    {"resources": {"gpu": 2, "extended": {"v.example/nic": 2, "v.example/none": 0}}},
    {"resources": {"gpu": {"type": "A100"}}, "affinity": AFFINITY},
    {"resources": {"gpu": {"mig": "1g.10gb+me"}}},
    {"resources": {"gpu": 0}},
    {"tolerations": [{"operator": "Exists"}], "affinity": AFFINITY, "node_selector": {"a": "b", "c": ""}},
    {"secrets": ["A", "b.c-d"], "envs": {"E": "$(A) $$ \n"}},
    {"volumes": {"d": {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": {"size": "1Gi"}}}},
    {"volumes": {"d": {"volume_type": "ephemeral", "mount_path": "/d", "spec": {"size": "1G", "storage_class": "x"}}}},
    {"volumes": {"d": {"volume_type": "empty_dir", "mount_path": "/d", "spec": {"size": "1G", "medium": "Memory"}}}},
    {"volumes": {"d": {"volume_type": "secret", "mount_path": "/d", "read_only": True, "sub_path": "a/b"}}},
    {"volumes": {"d": {"volume_type": "secret", "mount_path": "/d", "spec": {"name": "A"}}}, "secrets": ["A", "B"]},
    {"volumes": {"d" * 63: {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": {"size": "1Gi"}}}},
    {"run_as_user": 0},
    {"run_as_user": 5, "run_as_group": 0, "fs_group": 7},
    {"run_as_user": 2**31 - 1, "run_as_group": 1, "runtime_class": "nvidia", "priority_class": "high"},
]


@pytest.mark.parametrize("requested", REQUESTS)
@pytest.mark.parametrize("sharing", ["none", "kai", "hami"])
def test_rendered_manifests_are_valid(requested: dict[str, Any], sharing: str) -> None:
    planned = plan(requested, ALLOW_ALL, make_cluster(gpu_sharing=sharing))
    assert planned.violations == ()
    assert check_manifests(planned.manifests) == []


def test_existing_objects_are_referenced_and_not_created() -> None:
    volumes = {
        "shared": {"volume_type": "shared_volume", "mount_path": "/a", "spec": {"claim_name": "theirs"}},
        "settings": {"volume_type": "config_map", "mount_path": "/b"},
    }
    planned = plan({"volumes": volumes}, ALLOW_ALL)
    assert check_manifests(planned.manifests, claims=["theirs"], config_maps=["settings"]) == []
    assert len(check_manifests(planned.manifests)) == 2


@pytest.mark.parametrize(
    ("requested", "kinds"),
    [
        ({}, ["Job"]),
        ({"function": PYTHON}, ["Job", "ConfigMap"]),
        ({"secrets": ["A"]}, ["Job", "Secret"]),
        ({"function": SERVED, "action": "serve"}, ["Deployment", "Service"]),
        ({"function": PYTHON, "action": "workspace"}, ["Deployment", "ConfigMap", "Service"]),
        ({"function": SERVED, "action": "workspace"}, ["Deployment", "Service"]),
        ({"volumes": {"d": {"volume_type": "empty_dir", "mount_path": "/d"}}}, ["Job"]),
        (
            {"volumes": {"d": {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": {"size": "1"}}}},
            ["Job", "PersistentVolumeClaim"],
        ),
    ],
)
def test_the_main_object_of_a_run_comes_first(requested: dict[str, Any], kinds: list[str]) -> None:
    assert [manifest["kind"] for manifest in plan(requested).manifests] == kinds


def test_every_pod_runs_without_privileges() -> None:
    spec = pod(plan())
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {spec["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {1000}
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_runs_as_root_only_if_its_user_id_is_0() -> None:
    assert pod(plan({"run_as_user": 0}, ALLOW_ALL))["securityContext"]["runAsNonRoot"] is False
    assert pod(plan({"run_as_group": 0}, ALLOW_ALL))["securityContext"]["runAsNonRoot"] is True


def test_a_job_starts_suspended_and_is_not_retried_by_kubernetes() -> None:
    job = plan({"deadline": "1h"}).manifests[0]["spec"]
    assert (job["suspend"], job["backoffLimit"]) == (True, 0)
    assert job["template"]["spec"]["activeDeadlineSeconds"] == 3600
    assert "completionMode" not in job


def test_pod_disruptions_do_not_fail_the_job() -> None:
    (rule,) = plan().manifests[0]["spec"]["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_the_termination_message_falls_back_to_logs() -> None:
    assert container(plan())["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_volumes_may_be_mounted_read_only_and_by_sub_path() -> None:
    volumes = {
        "a": {"volume_type": "empty_dir", "mount_path": "/a", "read_only": True, "sub_path": "models"},
        "b": {"volume_type": "empty_dir", "mount_path": "/b"},
    }
    mounts = {mount["mountPath"]: mount for mount in container(plan({"volumes": volumes}))["volumeMounts"]}
    assert mounts["/a"] == {"name": "a", "mountPath": "/a", "readOnly": True, "subPath": "models"}
    assert mounts["/b"] == {"name": "b", "mountPath": "/b"}


def test_a_run_cannot_change_its_own_code() -> None:
    mounts = container(plan({"function": PYTHON}))["volumeMounts"]
    assert [mount.get("readOnly") for mount in mounts if mount["mountPath"] == "/etc/fairlead"] == [True]


def test_a_job_with_replicas_is_indexed() -> None:
    job = plan({"replicas": 3}).manifests[0]["spec"]
    assert (job["parallelism"], job["completions"], job["completionMode"]) == (3, 3, "Indexed")


@pytest.mark.parametrize(
    ("gpu", "sharing", "resources", "annotations"),
    [
        (2, "none", {"nvidia.com/gpu": "2"}, {}),
        (0, "none", {}, {}),
        (2, "kai", {"nvidia.com/gpu": "2"}, {}),
        ({"memory": "50%"}, "kai", {}, {"gpu-fraction": "0.5"}),
        ({"memory": "5%"}, "kai", {}, {"gpu-fraction": "0.05"}),
        ({"memory": "1GB"}, "kai", {}, {"gpu-memory": "954"}),
        ({"memory": "10Gi"}, "kai", {}, {"gpu-memory": "10240"}),
        ({"memory": "50%"}, "hami", {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, {}),
        ({"memory": "10Gi"}, "hami", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10240"}, {}),
        ({"mig": "3g.20gb"}, "none", {"nvidia.com/mig-3g.20gb": "1"}, {}),
        ({"mig": "1g.10gb+me"}, "none", {"nvidia.com/mig-1g.10gb.me": "1"}, {}),
        ({"memory": "100%"}, "none", {"nvidia.com/gpu": "1"}, {}),
    ],
)
def test_gpu_requests_depend_on_the_gpu_sharing_of_the_cluster(
    gpu: Any, sharing: str, resources: dict[str, str], annotations: dict[str, str]
) -> None:
    planned = plan({"resources": {"gpu": gpu}}, make_cluster(gpu_sharing=sharing))
    assert container(planned).get("resources", {}).get("limits", {}) == resources
    pod_annotations = planned.manifests[0]["spec"]["template"]["metadata"].get("annotations", {})
    assert {key: text for key, text in pod_annotations.items() if key.startswith("gpu-")} == annotations
    scheduler = {"none": None, "kai": "kai-scheduler", "hami": "hami-scheduler"}[sharing] if gpu else None
    assert pod(planned).get("schedulerName") == scheduler


def test_a_gpu_type_becomes_the_products_listed_by_the_cluster() -> None:
    cluster = make_cluster(gpu_types={"A100": ["A100-40GB", "A100-80GB"]}, gpu_product_label="own.example/gpu")
    spec = pod(plan({"resources": {"gpu": {"type": "A100"}}}, cluster))
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "own.example/gpu", "operator": "In", "values": ["A100-40GB", "A100-80GB"]}
    ]


@pytest.mark.parametrize(
    ("resources", "shm"),
    [
        ({"shm": True}, {"medium": "Memory"}),
        ({"shm": True, "mem": {"limits": "2Gi"}}, {"medium": "Memory", "sizeLimit": "2Gi"}),
        ({"shm": True, "mem": {"limits": "unlimited"}}, {"medium": "Memory"}),
        ({"shm": "8Gi"}, {"medium": "Memory", "sizeLimit": "8Gi"}),
        ({"shm": False}, None),
        ({}, None),
    ],
)
def test_shared_memory_is_limited_by_its_size_or_the_memory_limit(
    resources: dict[str, Any], shm: dict[str, str] | None
) -> None:
    spec = pod(plan({"resources": resources}))
    [shm_mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["mountPath"] == "/dev/shm"] or [
        None
    ]
    assert (shm_mount is not None) == (shm is not None)
    if shm_mount is not None:
        [volume] = [volume for volume in spec["volumes"] if volume["name"] == shm_mount["name"]]
        assert volume["emptyDir"] == shm


def test_code_and_call_of_a_function_are_in_a_config_map() -> None:
    planned = plan({"function": PYTHON, "inputs": {"epochs": 3}})
    data = planned.manifests[1]["data"]
    call = json.loads(data["call.json"])
    assert data["bootstrap.py"] == CODE.bootstrap
    assert (call["handler"], call["inputs"], call["digest"]) == ("main", {"epochs": 3}, CODE.digest)


def test_a_plan_contains_names_of_secrets_without_values() -> None:
    planned = plan({"secrets": ["B", "A"]}, secrets=["A", "B"])
    assert planned.manifests[1]["data"] == {"A": "", "B": ""}


@pytest.mark.parametrize(
    ("requested", "args"), [({}, ["a"]), ({"args": ["b", "$(X)"]}, ["b", "$$(X)"]), ({"args": []}, None)]
)
def test_arguments_of_a_request_replace_those_of_its_function(
    requested: dict[str, Any], args: list[str] | None
) -> None:
    planned = plan({"function": {**CONTAINER, "command": "run it", "args": "a"}, **requested})
    assert container(planned)["command"] == ["run", "it"]
    assert container(planned).get("args") == args


def expand(text: str) -> str:
    """Expand a text as the kubelet does for a container without environment variables."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda match: "$" if match[0] == "$$" else f"<{match[0]}>", text)


@example(text="$(A)")
@example(text="$$(A)")
@example(text="a$")
@example(text="$$$(")
@given(st.text(alphabet="$()A b", max_size=12))
def test_text_is_escaped_for_the_container(text: str) -> None:
    assert expand(escape_references(text)) == text


def test_a_plan_can_be_changed_without_changing_the_next_one() -> None:
    resource = make_compute_resource(tolerations=[{"operator": "Exists"}], affinity=AFFINITY)
    request, snapshot = make_request(profile="big", affinity=AFFINITY), make_snapshot(resource)
    first = plan_run(request, snapshot, "r7")
    before = copy.deepcopy(first.manifests)
    spec = first.manifests[0]["spec"]["template"]["spec"]
    spec["tolerations"][0]["key"] = "changed"
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms[0]["matchExpressions"][0]["key"] = "changed"
    assert plan_run(request, snapshot, "r7").manifests == before


PROGRAM = """
import json, sys
from fairlead.model.explanations import to_data
from tests.making import find_violations, make_policy, plan
from fairlead.model.resources import Volume

spec = {"size": "1Gi", "storage_class": "fast"}
volume = {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": spec, "sub_path": "s"}
resources = {"gpu": 2, "cpu": 1}
request = {"volumes": {"d": volume}, "envs": {"B": "", "A": ""}, "secrets": ["D", "C"], "resources": resources}
locked = make_policy(rules={"volumes": {"locked": True}, "resources": {"locked": True}, "envs": {"locked": True}})
invalid = {"name": "d", "volume_type": "secret", "mount_path": "/d", "spec": {**spec, "medium": "", "claim_name": "c"}}
violations = [str(violation) for violation in find_violations(Volume, invalid)]
json.dump([to_data(plan(request)), to_data(plan(request, locked)), violations], sys.stdout)
"""


def test_a_plan_is_the_same_in_every_process() -> None:
    root = Path(__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
