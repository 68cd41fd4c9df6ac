"""The real API server accepts every golden manifest and drops no field."""

import base64
from typing import Any

import pytest
import yaml

from tests.cluster.clients import Client, Object, Refused, path_of
from tests.cluster.quantities import parse_quantity
from tests.golden import stories

RENDERED = [story for story in stories.STORIES if (stories.FOLDER / story / "manifests.yaml").exists()]
CREDENTIALS = b'{"auths": {}}'
AMOUNTS = {"requests", "limits", "sizeLimit"}  # where the server may write the same amount in another way


@pytest.mark.parametrize("story", RENDERED)
def test_api_server_accepts_every_field_of_a_story(story: str, admin: Client) -> None:
    manifests = list(yaml.safe_load_all((stories.FOLDER / story / "manifests.yaml").read_text("utf-8")))
    assert manifests
    for manifest in map(fill_secret, manifests):
        ensure_namespace(admin, manifest["metadata"]["namespace"])
        taken = admin.post(path_of(manifest, named=False), manifest, dryRun="All", fieldValidation="Strict")
        assert list_dropped(manifest, taken) == []


def test_dropped_fields_are_detected() -> None:
    sent = {"a": {"limits": {"cpu": "1000m", "memory": "1Gi"}}, "b": [{"c": 1}, {"d": 2}], "e": "1000m"}
    taken = {"a": {"limits": {"cpu": "1", "memory": "2Gi"}}, "b": [{"c": 1, "more": 0}], "e": "1"}

    dropped = list_dropped(sent, taken)

    assert dropped == ["a.limits.memory: 1Gi became 2Gi", "b: 2 became 1", "e: 1000m became 1"]


def test_unknown_field_is_rejected(admin: Client) -> None:
    ensure_namespace(admin, "forest")
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "forest"}, "dat": {}}

    with pytest.raises(Refused, match='unknown field \\\\"dat\\\\"'):
        admin.post(path_of(wrong, named=False), wrong, dryRun="All", fieldValidation="Strict")


def ensure_namespace(admin: Client, name: str) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if admin.find(path_of(body)) is None:
        admin.create(body)


def fill_secret(manifest: Object) -> Object:
    """A Secret with values, which the start puts in: the server looks into those for registries."""
    if manifest["kind"] != "Secret":
        return manifest
    assert set(manifest["data"].values()) == {""}
    return {**manifest, "data": dict.fromkeys(manifest["data"], base64.b64encode(CREDENTIALS).decode())}


def list_dropped(sent: Any, taken: Any, path: tuple[str, ...] = ()) -> list[str]:
    """The fields that the API server dropped. It may add fields and normalize quantities."""
    if isinstance(sent, dict) and isinstance(taken, dict):
        return [
            line
            for key, value in sent.items()
            for line in (
                list_dropped(value, taken[key], (*path, str(key)))
                if key in taken
                else [f"{'.'.join((*path, str(key)))} is gone"]
            )
        ]
    if isinstance(sent, list) and isinstance(taken, list) and len(sent) <= len(taken):
        pairs = enumerate(zip(sent, taken, strict=False))
        return [line for at, (ours, theirs) in pairs for line in list_dropped(ours, theirs, (*path, str(at)))]
    if sent == taken or (AMOUNTS & set(path) and _same_amount(sent, taken)):
        return []
    ours, theirs = (len(value) if isinstance(value, list) else value for value in (sent, taken))
    return [f"{'.'.join(path)}: {ours} became {theirs}"]


def _same_amount(sent: Any, taken: Any) -> bool:
    try:
        return parse_quantity(str(sent)) == parse_quantity(str(taken))
    except ValueError:
        return False
