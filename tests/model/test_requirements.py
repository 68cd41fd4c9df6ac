"""Requirements: accepted spellings, the printed spelling, and rejected values."""

import json
from typing import Any

import pytest

from fairlead.model.quantities import UNLIMITED
from fairlead.model.resources import Requirements
from tests.making import find_violations, make_requirements, violated_rules

VOLUME = {"volume_type": "persistent_volume_claim", "name": "my-pvc", "mount_path": "/data", "spec": {"size": "10Gi"}}

# The forms in section 2 of the design, newest to oldest.
AMOUNTS: list[tuple[Any, str | None, str | None]] = [
    ("8", "8", None),
    (8, "8", None),
    (0.5, "500m", None),
    ("500m", "500m", None),
    (0, "0", None),
    ({"requests": 8}, "8", None),
    ({"requests": 8, "limits": 12}, "8", "12"),
    ({"requests": "10", "limits": "12"}, "10", "12"),
    ({"limits": 12}, None, "12"),
    ({"requests": 8, "limits": "unlimited"}, "8", "unlimited"),
    ({"limits": "unlimited"}, None, "unlimited"),
    ({"requests": 8, "limits": None}, "8", None),
    ({}, None, None),
]

INVALID_AMOUNTS: list[tuple[Any, str, str]] = [
    (True, "cpu.requests", "quantity"),
    ([1], "cpu", "mapping"),
    ("a lot", "cpu.requests", "quantity"),
    ("1K", "cpu.requests", "quantity"),
    (" 1", "cpu.requests", "quantity"),
    ("1_000", "cpu.requests", "quantity"),
    ("٣", "cpu.requests", "quantity"),
    (float("inf"), "cpu.requests", "quantity"),
    (float("nan"), "cpu.requests", "quantity"),
    (1e300, "cpu.requests", "quantity"),
    (-1, "cpu.requests", "range"),
    ("-1", "cpu.requests", "range"),
    ("1u", "cpu.requests", "precision"),
    (0.1 + 0.2, "cpu.requests", "precision"),
    ("unlimited", "cpu.requests", "quantity"),
    ({"requests": 2, "limits": 1}, "cpu.limits", "limit_under_request"),
    ({"limits": 0}, "cpu.limits", "range"),
    ({"limits": -1}, "cpu.limits", "range"),
    ({"limits": "Unlimited!"}, "cpu.limits", "quantity"),
    ({"request": 1}, "cpu.request", "unknown_field"),
]

# All requirements in their canonical spelling.
PRINTED: list[dict[str, Any]] = [
    {"resources": {"cpu": {"requests": "8", "limits": "12"}}},
    {"resources": {"mem": {"requests": "32Gi", "limits": "unlimited"}, "disk": {"limits": "10Gi"}}},
    {"resources": {"gpu": {"devices": 2, "type": "A100"}}},
    {"resources": {"gpu": {"devices": 0}}},
    {"resources": {"gpu": {"devices": 1, "memory": {"request": "50%", "limit": "80%"}}}},
    {"resources": {"gpu": {"devices": 1, "memory": {"request": "10GB", "limit": "20GB"}}}},
    {"resources": {"gpu": {"devices": 1, "mig": "1g.5gb"}}},
    {"resources": {"shm": True}},
    {"resources": {"shm": False}},
    {"resources": {"shm": "8Gi", "extended": {"vendor.example/nic": "2"}}},
    {"node_selector": [{"key": "zone", "value": "a"}, {"key": "example.com/disk", "value": ""}]},
    {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]},
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        }
    },
    {"volumes": [{**VOLUME, "spec": {"size": "10Gi", "storage_class": "fast"}}]},
    {"volumes": [{"volume_type": "shared_volume", "name": "s", "mount_path": "/s", "spec": {"claim_name": "c"}}]},
    {"volumes": [{"volume_type": "config_map", "name": "s", "mount_path": "/s", "spec": {"name": "c"}}]},
    {"volumes": [{"volume_type": "secret", "name": "s", "mount_path": "/s", "read_only": True, "sub_path": "a/b"}]},
    {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"size": "1Gi"}}]},
    {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"medium": "Memory"}}]},
    {"volumes": [{"volume_type": "ephemeral", "name": "s", "mount_path": "/s", "spec": {"size": "1Gi"}}]},
    {"secrets": ("MY_TOKEN", "OTHER")},
    {"envs": [{"name": "ENV1", "value": "v"}, {"name": "EMPTY", "value": ""}]},
    {"fs_group": 1000, "run_as_user": 1, "run_as_group": 0},
    {"runtime_class": "nvidia", "priority_class": "high", "profile": "1xa100", "template": "finetune"},
]

FIELD_ALIASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"nodeSelector": {"zone": "a"}}, {"node_selector": [{"key": "zone", "value": "a"}]}),
    ({"node_selector": {"zone": "a"}}, {"node_selector": [{"key": "zone", "value": "a"}]}),
    ({"envs": {"ENV1": "v"}}, {"envs": [{"name": "ENV1", "value": "v"}]}),
    ({"fsGroup": 5, "runAsUser": 6, "runAsGroup": 7}, {"fs_group": 5, "run_as_user": 6, "run_as_group": 7}),
    ({"runtimeClass": "a", "priorityClass": "b"}, {"runtime_class": "a", "priority_class": "b"}),
    ({"fs_group": "8877"}, {"fs_group": 8877}),
    (
        {"resources": [{"resource_type": "cpu", "requests": "1", "limits": "2"}]},
        {"resources": {"cpu": {"requests": "1", "limits": "2"}}},
    ),
    (
        {"resources": [{"resource_type": "mem", "requests": "1Gi"}, {"resource_type": "gpu", "limits": "2"}]},
        {"resources": {"mem": {"requests": "1Gi"}, "gpu": {"devices": 2}}},
    ),
    (
        {"volumes": [{**VOLUME, "spec": {"size": "10Gi", "storageClass": "fast"}}]},
        {"volumes": [{**VOLUME, "spec": {"size": "10Gi", "storage_class": "fast"}}]},
    ),
    (
        {"volumes": [{"volumeType": "shared_volume", "name": "s", "mountPath": "/s", "spec": {"claimName": "c"}}]},
        {"volumes": [{"volume_type": "shared_volume", "name": "s", "mount_path": "/s", "spec": {"claim_name": "c"}}]},
    ),
    (
        {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"size": "1Gi"}}]},
    ),
    (
        {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"size_limit": "1Gi"}}]},
        {"volumes": [{"volume_type": "empty_dir", "name": "s", "mount_path": "/s", "spec": {"size": "1Gi"}}]},
    ),
    ({"volumes": {"my-pvc": {key: VOLUME[key] for key in VOLUME if key != "name"}}}, {"volumes": [VOLUME]}),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "toleration_seconds": 5}]},
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]},
    ),
]

INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"resuorces": {}}, "resuorces", "unknown_field"),
    ({"resources": {"memory": "1Gi"}}, "resources.memory", "unknown_field"),
    ({"resources": "1Gi"}, "resources", "mapping"),
    ({"resources": ["cpu"]}, "resources.0", "required"),
    ({"resources": [{"resource_type": "cpu"}, {"resource_type": "cpu"}]}, "resources.1.resource_type", "duplicate"),
    ({"resources": [{"resource_type": "tpu"}]}, "resources.0.resource_type", "unknown_field"),
    ({"resources": {"mem": "100m"}}, "resources.mem.requests", "precision"),
    ({"resources": {"mem": "16GB"}}, "resources.mem.requests", "quantity"),
    ({"resources": {"shm": "0"}}, "resources.shm", "range"),
    ({"resources": {"shm": "yes"}}, "resources.shm", "quantity"),
    ({"resources": {"extended": {"nic": 1}}}, "resources.extended.nic", "name"),
    ({"resources": {"extended": {"requests.example/nic": 1}}}, "resources.extended.requests.example/nic", "name"),
    ({"resources": {"extended": {"v.example/nic": 1.5}}}, "resources.extended.v.example/nic", "whole_number"),
    ({"resources": {"extended": {"v.example/nic": -1}}}, "resources.extended.v.example/nic", "range"),
    ({"node_selector": "zone"}, "node_selector", "list"),
    ({"node_selector": ["zone"]}, "node_selector.0", "mapping"),
    ({"node_selector": [{"value": "a"}]}, "node_selector.0.key", "required"),
    ({"node_selector": [{"key": "a"}]}, "node_selector.a.value", "required"),
    ({"node_selector": [{"key": "a", "value": "b", "x": 1}]}, "node_selector.a.x", "unknown_field"),
    (
        {"node_selector": [{"key": "a", "value": "b"}, {"key": "a", "value": "c"}]},
        "node_selector.a.key",
        "duplicate",
    ),
    ({"node_selector": {"a b": "c"}}, "node_selector.a b", "label"),
    ({"node_selector": {"a": "b c"}}, "node_selector.a", "label"),
    ({"node_selector": {"a": 1}}, "node_selector.a", "text"),
    ({"nodeSelector": {"a": "b"}, "node_selector": {}}, "node_selector", "duplicate"),
    ({"envs": {"1A": "b"}}, "envs.1A", "name"),
    ({"envs": {"A=B": "b"}}, "envs.A=B", "name"),
    ({"envs": {"A": 1}}, "envs.A", "text"),
    ({"envs": {".": "b"}}, "envs..", "name"),
    ({"envs": {"..": "b"}}, "envs...", "name"),
    ({"envs": {"..a": "b"}}, "envs...a", "name"),
    ({"envs": [{"name": "A", "value": None}]}, "envs.A.value", "required"),
    ({"secrets": "TOKEN"}, "secrets", "list"),
    ({"secrets": ["A B"]}, "secrets.0", "name"),
    ({"secrets": [".."]}, "secrets.0", "name"),
    ({"tolerations": {"key": "a"}}, "tolerations", "list"),
    ({"fs_group": -1}, "fs_group", "range"),
    ({"fs_group": 2**31}, "fs_group", "range"),
    ({"fs_group": "wheel"}, "fs_group", "whole_number"),
    ({"fs_group": True}, "fs_group", "whole_number"),
    ({"fs_group": 1.5}, "fs_group", "whole_number"),
    ({"fs_group": "٣"}, "fs_group", "whole_number"),
    ({"runtime_class": "NVIDIA"}, "runtime_class", "name"),
    ({"priority_class": ""}, "priority_class", "name"),
    ({"profile": "a/b"}, "profile", "name"),
    ({"profile": 5}, "profile", "text"),
    ({"template": "-a"}, "template", "name"),
    ({"volumes": {"a": {**VOLUME, "name": "b"}}}, "volumes.a.name", "contradiction"),
    ({"volumes": [VOLUME, VOLUME]}, "volumes.my-pvc.name", "duplicate"),
    ({"volumes": [{**VOLUME, "name": None}]}, "volumes.0.name", "required"),
    ({"volumes": [VOLUME, {**VOLUME, "name": "b", "mount_path": "/data/"}]}, "volumes.b.mount_path", "mount_path"),
]


@pytest.mark.parametrize(("raw", "requests", "limits"), AMOUNTS)
def test_an_amount_is_a_request_or_a_request_and_a_limit(raw: Any, requests: str | None, limits: str | None) -> None:
    cpu = make_requirements(resources={"cpu": raw}).resources.cpu
    assert cpu is not None
    assert cpu.requests == (None if requests is None else type(cpu).model_validate(requests).requests)
    assert (None if cpu.limits is None else str(cpu.limits)) == limits


@pytest.mark.parametrize(("raw", "path", "rule"), INVALID_AMOUNTS)
def test_invalid_amounts_are_rejected(raw: Any, path: str, rule: str) -> None:
    assert violated_rules(find_violations(Requirements, {"resources": {"cpu": raw}})) == [(f"resources.{path}", rule)]


def test_unlimited_differs_from_a_missing_limit() -> None:
    unlimited = make_requirements(resources={"mem": {"requests": "1Gi", "limits": "unlimited"}}).resources.mem
    without_limit = make_requirements(resources={"mem": {"requests": "1Gi"}}).resources.mem
    assert unlimited is not None
    assert without_limit is not None
    assert unlimited.limits is UNLIMITED
    assert without_limit.limits is None
    assert unlimited != without_limit


@pytest.mark.parametrize(
    ("text", "printed"), [("0.1Gi", "107374183"), ("1.5", "2"), (1.5, "2"), ("1e3", "1e3"), (10**9, "1G")]
)
def test_bytes_are_rounded_up(text: Any, printed: str) -> None:
    assert make_requirements(resources={"mem": text}).to_data() == {"resources": {"mem": {"requests": printed}}}


@pytest.mark.parametrize("data", PRINTED)
def test_printed_requirements_round_trip(data: dict[str, Any]) -> None:
    requirements = Requirements.model_validate(data)
    assert requirements != Requirements()
    assert Requirements.model_validate(requirements.to_data()) == requirements


@pytest.mark.parametrize("data", PRINTED)
def test_the_canonical_spelling_is_printed_unchanged(data: dict[str, Any]) -> None:
    printed = Requirements.model_validate(data).to_data()
    assert json.loads(json.dumps(printed)) == json.loads(json.dumps(data))


def test_missing_values_are_not_printed() -> None:
    assert Requirements().to_data() == {}
    assert make_requirements(resources={"gpu": 1}).to_data() == {"resources": {"gpu": {"devices": 1}}}


@pytest.mark.parametrize(("older", "printed"), FIELD_ALIASES)
def test_older_spellings_are_accepted_and_printed_canonically(older: dict[str, Any], printed: dict[str, Any]) -> None:
    assert Requirements.model_validate(older) == Requirements.model_validate(printed)
    assert Requirements.model_validate(older).to_data() == printed


@pytest.mark.parametrize("field", [*Requirements.model_fields])
def test_null_is_the_same_as_a_missing_field(field: str) -> None:
    assert Requirements.model_validate({field: None}) == Requirements()


@pytest.mark.parametrize("field", ["cpu", "mem", "disk", "gpu", "shm", "extended"])
def test_a_null_resource_is_the_same_as_a_missing_one(field: str) -> None:
    assert Requirements.model_validate({"resources": {field: None}}) == Requirements()


@pytest.mark.parametrize(("data", "path", "rule"), INVALID)
def test_invalid_requirements_are_rejected_with_their_path(data: dict[str, Any], path: str, rule: str) -> None:
    violations = find_violations(Requirements, data)
    assert violated_rules(violations) == [(path, rule)]
    assert violations[0].message


def test_an_unknown_field_names_the_nearest_known_one() -> None:
    [violation] = find_violations(Requirements, {"resuorces": {}})
    assert violation.hint == "did you mean resources?"
    [violation] = find_violations(
        Requirements, {"volumes": {"a": {**VOLUME, "name": "a", "spec": {"storage_clas": "b"}}}}
    )
    assert (violation.path, violation.hint) == ("volumes.a.spec.storage_clas", "did you mean storage_class?")


def test_decimal_bytes_are_rejected_with_both_suggestions() -> None:
    [violation] = find_violations(Requirements, {"resources": {"mem": "16GB"}})
    assert "16G (decimal)" in str(violation.hint)
    assert "16Gi (binary)" in str(violation.hint)


def test_all_violations_are_reported_together() -> None:
    violations = find_violations(
        Requirements,
        {
            "resources": {"cpu": "a", "mem": "b", "gpu": "c"},
            "node_selector": [{"key": "a"}, {"value": "b"}],
            "fs_group": -1,
            "secret": [],
        },
    )
    assert {path for path, _ in violated_rules(violations)} == {
        "resources.cpu.requests",
        "resources.mem.requests",
        "resources.gpu.devices",
        "node_selector.a.value",
        "node_selector.1.key",
        "fs_group",
        "secret",
    }


@pytest.mark.parametrize("sign", [1, -1])
def test_huge_numbers_are_rejected(sign: int) -> None:
    number = sign * 10**5000
    for data in ({"fs_group": number}, {"resources": {"cpu": number}}, {"profile": number}, {"envs": {"A": number}}):
        assert all(violation.message for violation in find_violations(Requirements, data))


@pytest.mark.parametrize("key", [0, None, 1.5, True, (1, 2)])
def test_keys_that_are_not_strings_are_rejected(key: Any) -> None:
    for data in ({key: 1}, {"resources": {key: 1}}, {"affinity": {key: 1}}, {"node_selector": {key: "a"}}):
        assert all(violation.message for violation in find_violations(Requirements, data))


def test_requirements_are_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_requirements().fs_group = 5  # type: ignore[misc]
