"""Assertions about golden manifests that an update of the golden files cannot change."""

from typing import Any

import pytest
import yaml

from tests.golden import stories

GPU = "nvidia.com/gpu"

# Story, a part of its manifests, and the expected values of that part.
EXPECTED_PARTS: list[tuple[str, str, dict[str, Any]]] = [
    ("seed000-empty-request", "resources", {"requests": None, "limits": None}),
    (
        "seed000-cpu-mem-gpu",
        "resources",
        {"requests": {"cpu": "8", "memory": "32Gi", GPU: "1"}, "limits": {GPU: "1"}},
    ),
    ("seed000-profile-only", "resources", {"requests": {"cpu": "8", "memory": "64Gi", GPU: "1"}}),
    ("seed001-node-selector", "pod", {"nodeSelector": {"selectorKey": "selectValue"}}),
    ("seed001-node-selector-serve", "pod", {"nodeSelector": {"selectorKey": "selectValue"}}),
    ("seed001-volume-claim", "mounts", {"my-pvc": "/data"}),
    (
        "seed001-volume-claim",
        "claim",
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    ),
    ("seed001-config-map-volume", "mounts", {"settings": "/etc/settings"}),
    ("seed001-cpu", "resources", {"requests": {"cpu": "10"}, "limits": {"cpu": "12"}}),
    ("seed001-mem", "resources", {"requests": {"memory": "32Gi"}, "limits": {"memory": "64Gi"}}),
    ("seed001-gpu", "resources", {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
    ("seed001-secret", "envs", {"my-secret-key": "secret my-secret-key"}),
    ("seed001-envs", "envs", {"ENV1": "VALU123123", "ENV2": "VALU123123"}),
    ("seed001-fs-group", "security", {"fsGroup": 1000}),
    ("seed001-run-as-user", "security", {"runAsUser": 1000, "runAsNonRoot": True}),
    ("seed001-run-as-group", "security", {"runAsGroup": 1000, "runAsNonRoot": True}),
    (
        "seed002-cpu-mem-gpu-disk",
        "resources",
        {
            "requests": {"cpu": "8", "memory": "32Gi", GPU: "1", "ephemeral-storage": "10Gi"},
            "limits": {GPU: "1"},
        },
    ),
    ("seed002-deforestation", "resources", {"requests": {"cpu": "6", "memory": "32Gi"}, "limits": None}),
    ("seed002-deforestation", "security", {"fsGroup": 8877}),
    ("seed002-deforestation", "mounts", {"volume-deforestation": "/app/files"}),
    ("seed002-deforestation", "claim", {"resources": {"requests": {"storage": "350Gi"}}}),
    (
        "seed002-profile-overrides",
        "resources",
        {"requests": {"memory": "64Gi", GPU: "1"}, "limits": {"memory": "80Gi", GPU: "1"}},
    ),
    ("seed002-profile-without-mem", "resources", {"requests": {"memory": "6Gi", GPU: "1"}}),
    ("seed002-profile-without-mem", "mounts", {"train-volume": "/local-data"}),
    ("seed002-profile-without-mem", "claim", {"resources": {"requests": {"storage": "10Gi"}}}),
    ("seed002-cpu", "resources", {"requests": {"cpu": "10"}, "limits": None}),
    ("seed002-mem", "resources", {"requests": {"memory": "32Gi"}, "limits": None}),
    ("seed002-gpu", "resources", {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
    ("seed002-disk", "resources", {"requests": {"ephemeral-storage": "10Gi"}, "limits": None}),
    (
        "seed002-secrets",
        "envs",
        {
            "CDSETOOL_ESA_USER": "secret CDSETOOL_ESA_USER",
            "CDSETOOL_ESA_PASSWORD": "secret CDSETOOL_ESA_PASSWORD",
        },
    ),
    (
        "seed002-envs",
        "envs",
        {"HF_HOME": "/local-data/huggingface", "TRANSFORMERS_CACHE": "/local-data/huggingface"},
    ),
    ("seed002-fs-group", "security", {"fsGroup": 8877}),
    ("seed004-gpu-none", "resources", {"requests": {"cpu": "4"}, "limits": None}),
    ("seed004-gpu-one", "resources", {"limits": {GPU: "1"}}),
    ("seed004-gpu-three", "resources", {"limits": {GPU: "3"}}),
    ("seed004-gpu-three", "job", {"parallelism": 3, "completions": 3}),
    ("seed004-gpu-half-kai", "annotations", {"gpu-fraction": "0.5"}),
    ("seed004-gpu-mb-kai", "annotations", {"gpu-memory": "3815"}),
    ("seed004-gpu-gb-kai", "annotations", {"gpu-memory": "9537"}),
    ("seed004-gpu-half-hami", "resources", {"limits": {GPU: "1", "nvidia.com/gpumem-percentage": "50"}}),
    ("seed004-gpu-mb-hami", "resources", {"limits": {GPU: "1", "nvidia.com/gpumem": "3815"}}),
    ("seed004-gpu-gb-hami", "resources", {"limits": {GPU: "1", "nvidia.com/gpumem": "9537"}}),
    ("seed004-gpu-mig", "resources", {"limits": {"nvidia.com/mig-1g.5gb": "1"}}),
    ("seed004-gpu-memory-limit", "annotations", {"gpu-memory": "9537"}),
    ("seed004-cpu-cores", "resources", {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}),
    ("seed004-cpu-millicores", "resources", {"requests": {"cpu": "500m"}, "limits": {"cpu": "1500m"}}),
    ("seed004-cpu-unlimited", "resources", {"requests": {"cpu": "4"}, "limits": None}),
    ("seed004-mem-gb", "resources", {"requests": {"memory": "32G"}, "limits": {"memory": "64G"}}),
    ("seed004-mem-mb", "resources", {"requests": {"memory": "500M"}, "limits": {"memory": "1500M"}}),
    ("seed004-mem-unlimited", "resources", {"requests": {"memory": "32G"}, "limits": None}),
    ("seed004-shm", "mounts", {"fairlead-shm": "/dev/shm"}),
    ("seed004-shm-under-limit", "mounts", {"fairlead-shm": "/dev/shm"}),
    ("seed004-extended", "resources", {"limits": {"vendor.example/nic": "2", "vendor.example/fpga": "1"}}),
    ("seed004-workload-type", "resources", {"limits": {GPU: "1"}}),
]

# Forbidden requests, and the rule that rejects them.
REJECTED: list[tuple[str, set[str]]] = [
    ("seed001-existing-volume-blocked", {"existing_volumes"}),
    ("seed001-unknown-secret", {"unknown_secret"}),
    ("seed001-run-as-root", {"allow_root"}),
    ("seed004-gpu-half-unshared", {"gpu_sharing"}),
    ("seed004-gpu-share-of-two", {"gpu_share_of_many"}),
    ("seed004-gpu-memory-limit-off", {"gpu_memory_limits"}),
    ("seed004-gpu-memory-limit-under", {"limit_under_request"}),
    ("seed004-mem-limit-under", {"limit_under_request"}),
    ("seed004-scope", {"unknown_profile"}),
    ("seed004-workload-type-other", {"workload_types"}),
]


@pytest.mark.parametrize(("story", "part", "expected"), EXPECTED_PARTS)
def test_manifests_contain_the_values_of_the_seed(story: str, part: str, expected: dict[str, Any]) -> None:
    actual = read_parts(story)[part]
    assert {name: actual.get(name) for name in expected} == expected


@pytest.mark.parametrize(("story", "rules"), REJECTED)
def test_forbidden_requests_of_the_seeds_are_rejected(story: str, rules: set[str]) -> None:
    result = stories.plan_story(story)
    assert {violation.rule for violation in result.violations} == rules
    assert all(violation.hint for violation in result.violations)


def test_an_overriding_profile_produces_a_warning() -> None:
    plan = stories.plan_story("seed002-profile-overrides").plan
    assert plan is not None
    assert [(warning.path, warning.rule) for warning in plan.warnings] == [("resources.mem.requests", "overridden")]


def read_parts(story: str) -> dict[str, dict[str, Any]]:
    """The parts of a story's manifests that the seeds specify."""
    manifests = list(yaml.safe_load_all(stories.outputs(story)["manifests.yaml"]))
    job, template = manifests[0]["spec"], manifests[0]["spec"]["template"]
    pod, container = template["spec"], template["spec"]["containers"][0]
    claims = [manifest["spec"] for manifest in manifests if manifest["kind"] == "PersistentVolumeClaim"]
    return {
        "job": job,
        "pod": pod,
        "annotations": template["metadata"].get("annotations", {}),
        "security": pod["securityContext"],
        "resources": container.get("resources", {}),
        "mounts": {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]},
        "envs": {env["name"]: env.get("value") or _describe(env["valueFrom"]) for env in container["env"]},
        "claim": claims[0] if claims else {},
    }


def _describe(source: dict[str, Any]) -> str:
    return f"secret {source['secretKeyRef']['key']}"
