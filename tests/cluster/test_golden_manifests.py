"""The real API server accepts every golden manifest and drops no fields."""

import base64
from typing import Any

import pytest
import yaml

from tests.cluster.clients import ApiError, Client, Object, path_of
from tests.cluster.quantities import parse_quantity
from tests.golden import stories

RENDERED = [story for story in stories.STORIES if (stories.FOLDER / story / "manifests.yaml").exists()]
CREDENTIALS = b'{"auths": {}}'
AMOUNTS = {"requests", "limits", "sizeLimit"}  # fields whose quantities the API server may normalize


@pytest.mark.parametrize("story", RENDERED)
def test_api_server_accepts_every_field_of_a_story(story: str, admin: Client) -> None:
    manifests = list(yaml.safe_load_all((stories.FOLDER / story / "manifests.yaml").read_text("utf-8")))
    assert manifests
    for manifest in map(fill_secret, manifests):
        ensure_namespace(admin, manifest["metadata"]["namespace"])
        stored = admin.post(path_of(manifest, named=False), manifest, dryRun="All", fieldValidation="Strict")
        assert list_dropped(manifest, stored) == []


def test_dropped_fields_are_detected() -> None:
    sent = {"a": {"limits": {"cpu": "1000m", "memory": "1Gi"}}, "b": [{"c": 1}, {"d": 2}], "e": "1000m"}
    stored = {"a": {"limits": {"cpu": "1", "memory": "2Gi"}}, "b": [{"c": 1, "more": 0}], "e": "1"}

    dropped = list_dropped(sent, stored)

    assert dropped == ["a.limits.memory: 1Gi became 2Gi", "b: 2 became 1", "e: 1000m became 1"]


def test_unknown_field_is_rejected(admin: Client) -> None:
    ensure_namespace(admin, "forest")
    invalid = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "forest"}, "dat": {}}

    with pytest.raises(ApiError, match='unknown field \\\\"dat\\\\"'):
        admin.post(path_of(invalid, named=False), invalid, dryRun="All", fieldValidation="Strict")


def ensure_namespace(admin: Client, name: str) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if admin.find(path_of(body)) is None:
        admin.create(body)


def fill_secret(manifest: Object) -> Object:
    """Add values to a Secret, as happens when a run starts. The API server validates registry credentials."""
    if manifest["kind"] != "Secret":
        return manifest
    assert set(manifest["data"].values()) == {""}
    return {**manifest, "data": dict.fromkeys(manifest["data"], base64.b64encode(CREDENTIALS).decode())}


def list_dropped(sent: Any, stored: Any, path: tuple[str, ...] = ()) -> list[str]:
    """The fields that the API server dropped. It may add fields and normalize quantities."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [
            line
            for key, value in sent.items()
            for line in (
                list_dropped(value, stored[key], (*path, str(key)))
                if key in stored
                else [f"{'.'.join((*path, str(key)))} is missing"]
            )
        ]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) <= len(stored):
        pairs = enumerate(zip(sent, stored, strict=False))
        return [line for index, (ours, theirs) in pairs for line in list_dropped(ours, theirs, (*path, str(index)))]
    if sent == stored or (AMOUNTS & set(path) and _same_amount(sent, stored)):
        return []
    ours, theirs = (len(value) if isinstance(value, list) else value for value in (sent, stored))
    return [f"{'.'.join(path)}: {ours} became {theirs}"]


def _same_amount(sent: Any, stored: Any) -> bool:
    try:
        return parse_quantity(str(sent)) == parse_quantity(str(stored))
    except ValueError:
        return False
