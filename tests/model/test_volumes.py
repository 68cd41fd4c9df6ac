"""Volumes: types, allowed fields and mount paths."""

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from fairlead.model.resources import Volume
from tests.making import find_violations, violated_rules

TYPES: list[tuple[str, dict[str, Any]]] = [
    ("persistent_volume_claim", {"size": "10Gi"}),
    ("persistent_volume_claim", {"size": "10Gi", "storage_class": "fast"}),
    ("ephemeral", {"size": "10Gi"}),
    ("ephemeral", {"size": "10Gi", "storage_class": "fast"}),
    ("empty_dir", {}),
    ("empty_dir", {"size": "1Gi", "medium": "Memory"}),
    ("shared_volume", {}),
    ("shared_volume", {"claim_name": "claim"}),
    ("config_map", {}),
    ("config_map", {"name": "settings"}),
    ("secret", {}),
    ("secret", {"name": "MY_TOKEN"}),
]

PATHS = [
    ("/data", "/data"),
    ("/data/", "/data"),
    ("//data", "/data"),
    ("/a/./b//c", "/a/b/c"),
    ("/with space", "/with space"),
    ("/...", "/..."),
]

INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"mount_path": "data"}, "mount_path", "absolute"),
    ({"mount_path": ""}, "mount_path", "absolute"),
    ({"mount_path": 5}, "mount_path", "absolute"),
    ({"mount_path": "/"}, "mount_path", "path"),
    ({"mount_path": "//"}, "mount_path", "path"),
    ({"mount_path": "/."}, "mount_path", "path"),
    ({"mount_path": "/a/../b"}, "mount_path", "path"),
    ({"mount_path": "/a:b"}, "mount_path", "path"),
    ({"mount_path": "/proc"}, "mount_path", "path"),
    ({"mount_path": "//proc/./1/cwd"}, "mount_path", "path"),
    ({"mount_path": "/dev/fd/3"}, "mount_path", "path"),
    ({"mount_path": "/a\nb"}, "mount_path", "path"),
    ({"mount_path": "/a\0b"}, "mount_path", "path"),
    ({"sub_path": "/a"}, "sub_path", "path"),
    ({"sub_path": "a/../b"}, "sub_path", "path"),
    ({"sub_path": ""}, "sub_path", "path"),
    ({"sub_path": "a\0b"}, "sub_path", "path"),
    ({"name": "My_Volume"}, "name", "name"),
    ({"name": ""}, "name", "name"),
    ({"name": "a" * 64}, "name", "too_long"),
    ({"name": "fairlead-home"}, "name", "reserved"),
    ({"volume_type": "host_path"}, "volume_type", "options"),
    ({"read_only": "yes"}, "read_only", "type"),
    ({"readonly": True}, "readonly", "unknown_field"),
    ({"spec": {"size": "0"}}, "spec.size", "range"),
    ({"spec": {"size": "10GB"}}, "spec.size", "quantity"),
    ({"spec": {"size": "100m"}}, "spec.size", "precision"),
    ({"spec": {}}, "spec.size", "required"),
    ({"volume_type": "ephemeral", "spec": {}}, "spec.size", "required"),
    ({"spec": {"size": "1Gi", "claim_name": "a"}}, "spec.claim_name", "unknown_field"),
    ({"spec": {"size": "1Gi", "medium": "Memory"}}, "spec.medium", "unknown_field"),
    ({"spec": {"size": "1Gi", "name": "a"}}, "spec.name", "unknown_field"),
    ({"spec": {"size": "1Gi", "storage_class": "Fast"}}, "spec.storage_class", "name"),
    ({"spec": {"size": "1Gi", "sizeLimit": "1Gi"}}, "spec.size", "duplicate"),
    ({"volume_type": "empty_dir", "spec": {"storage_class": "fast"}}, "spec.storage_class", "unknown_field"),
    ({"volume_type": "empty_dir", "spec": {"medium": "HugePages"}}, "spec.medium", "options"),
    ({"volume_type": "shared_volume", "spec": {"size": "1Gi"}}, "spec.size", "unknown_field"),
    ({"volume_type": "shared_volume", "spec": {"claim_name": "A"}}, "spec.claim_name", "name"),
    ({"volume_type": "config_map", "spec": {"name": "A_B"}}, "spec.name", "name"),
    ({"volume_type": "secret", "spec": {"name": "A B"}}, "spec.name", "name"),
    ({"volume_type": "secret", "spec": {"name": ".."}}, "spec.name", "name"),
    ({"volume_type": "secret", "spec": {"claim_name": "a"}}, "spec.claim_name", "unknown_field"),
]

CLAIM = {"name": "a", "volume_type": "persistent_volume_claim", "mount_path": "/a", "spec": {"size": "1Gi"}}


@pytest.mark.parametrize(("kind", "spec"), TYPES)
def test_each_volume_type_has_its_own_spec(kind: str, spec: dict[str, Any]) -> None:
    volume = Volume.model_validate({"name": "a", "volume_type": kind, "mount_path": "/a", "spec": spec})
    assert volume.volume_type == kind
    assert volume.read_only is False


@pytest.mark.parametrize(("path", "normalized"), PATHS)
def test_mount_paths_are_normalized(path: str, normalized: str) -> None:
    assert Volume.model_validate(CLAIM | {"mount_path": path}).mount_path == normalized


@pytest.mark.parametrize(("change", "path", "rule"), INVALID)
def test_invalid_volumes_are_rejected(change: dict[str, Any], path: str, rule: str) -> None:
    assert violated_rules(find_violations(Volume, CLAIM | change)) == [(path, rule)]


# Mostly characters that are valid in paths: almost every arbitrary text would be rejected.
@given(st.text("abZ09._-/ :ä\n", max_size=20).map(lambda text: f"/{text}"))
def test_accepted_mount_paths_are_absolute_and_normalized(path: str) -> None:
    try:
        normalized = Volume.model_validate(CLAIM | {"mount_path": path}).mount_path
    except ValueError:
        reject()
    assert normalized.startswith("/")
    assert normalized != "/"
    assert ":" not in normalized
    assert not {"..", ".", ""} & set(normalized[1:].split("/"))
    assert Volume.model_validate(CLAIM | {"mount_path": normalized}).mount_path == normalized


def test_the_hint_for_an_existing_claim_names_shared_volumes() -> None:
    [violation] = find_violations(Volume, CLAIM | {"spec": {"size": "1Gi", "claim_name": "mine"}})
    assert "shared_volume" in str(violation.hint)
