"""Secrets: set, listed, deleted, and passed to runs; values are stored only in sealed form."""

import json
from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.errors import Changed, Forbidden, NotFound, RequestRejected, Unavailable
from fairlead.model.project_objects import SecretValue
from fairlead.model.records import AuditRecord, IdempotencyRecord, PlanRecord, RunRecord, SecretRecord
from fairlead.ports import Sealed
from tests.services.worlds import (
    FOREST,
    KEY,
    LAKE,
    OTHER_KEY,
    World,
    call_as,
    finding_rules,
    listing,
    make_world,
    names,
    rejection_rules,
)

VALUE = "hunter2-planted-value"


def load_secret(world: World, name: str = "TOKEN") -> SecretRecord:
    """The stored record of a secret."""
    with world.store.reading() as tx:
        record = tx.get(SecretRecord, scope=FOREST, name=name)
    assert record is not None
    return record


def test_secret_is_set_listed_and_deleted(world: World) -> None:
    secrets, root = world.services.secrets, world.root
    created, new = secrets.put(root, FOREST, "TOKEN", VALUE)
    assert (created.name, created.scope, created.revision, created.created_by, new) == (
        "TOKEN",
        FOREST,
        1,
        "root",
        True,
    )
    updated, new = secrets.put(root, FOREST, "TOKEN", "other")
    assert (updated.revision, new) == (2, False)
    secrets.put(root, FOREST, "API_KEY", "x")
    assert names(secrets.page(root, FOREST, listing()).items) == ["API_KEY", "TOKEN"]
    assert names(secrets.page(root, FOREST, listing(sort="-created_at")).items) == ["API_KEY", "TOKEN"]
    assert names(secrets.page(root, LAKE, listing()).items) == []
    secrets.delete(root, FOREST, "TOKEN")
    with pytest.raises(NotFound, match="secret 'TOKEN' does not exist in project/forest"):
        secrets.delete(root, FOREST, "TOKEN")


@pytest.mark.every_store
def test_value_is_sealed_for_its_secret_only(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", VALUE)
    world.services.secrets.put(world.root, FOREST, "OTHER", VALUE)
    record, other = load_secret(world), load_secret(world, "OTHER")
    assert VALUE.encode() not in record.sealed
    assert record.sealed != other.sealed
    assert world.keyring.open(Sealed(record.sealed, record.key_id), record.id) == VALUE.encode()
    with pytest.raises(Unavailable):
        world.keyring.open(Sealed(record.sealed, record.key_id), other.id)


def test_value_is_never_shown(world: World) -> None:
    services, root = world.services, world.root
    outputs: list[Any] = [services.secrets.put(root, FOREST, "TOKEN", VALUE)]
    outputs.append(services.secrets.put(root, FOREST, "TOKEN", VALUE + "!"))
    run = world.submit(secrets=["TOKEN"])
    outputs += [services.runs.plan(root, run.id), world.preview(secrets=["TOKEN"])]
    outputs.append(services.secrets.page(root, FOREST, listing(search="hunter2")))
    outputs.append(services.secrets.page(root, FOREST, listing()))
    services.secrets.delete(root, FOREST, "TOKEN")
    outputs += [world.audit(), services.config_files.export(root)]
    with world.store.reading() as tx:
        outputs += [tx.find(kind) for kind in (AuditRecord, RunRecord, PlanRecord, IdempotencyRecord)]
    for item in outputs:
        assert "hunter2" not in repr(item)
        assert b"hunter2" not in msgspec.json.encode(item)
    assert "hunter2" not in repr(SecretValue(value=VALUE))
    assert "hunter2" not in str(SecretValue(value=VALUE))


def test_audit_of_a_secret_contains_neither_value_nor_seal(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", VALUE)
    record = load_secret(world)
    entry = world.audit(kind="secret")[0]
    entry_text = json.dumps(asdict(entry), default=str)
    assert record.key_id not in entry_text
    assert entry.after is not None
    assert set(entry.after) == {
        "id", "revision", "created_by", "created_at", "updated_by", "updated_at", "scope", "name",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "1ST", "with space", "a/b", "..", "x" * 254, "ä", "\0"])
def test_name_that_is_not_an_environment_variable_is_rejected(world: World, name: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.services.secrets.put(world.root, FOREST, name, VALUE)
    assert [path for path, _ in rejection_rules(caught)] == ["name"]
    assert VALUE not in str(caught.value)


def test_runs_can_use_only_secrets_of_their_project(world: World) -> None:
    world.services.secrets.put(world.root, LAKE, "TOKEN", VALUE)
    violations = world.preview(secrets=["TOKEN"])["violations"]
    assert finding_rules(violations) == [("secrets.TOKEN", "unknown_secret")]
    assert violations[0]["message"] == "project forest has no secret TOKEN"
    world.services.secrets.put(world.root, FOREST, "TOKEN", VALUE)
    assert world.submit(secrets=["TOKEN"]).uses == ["secret/TOKEN"]
    volume = {"volume_type": "secret", "name": "s", "mount_path": "/s", "spec": {"name": "TOKEN"}}
    assert world.submit(volumes=[volume]).uses == ["secret/TOKEN"]
    image = {"name": "f", "kind": "container", "image": "registry.example/a:1", "pull_secrets": ["TOKEN"]}
    assert world.submit(function=image).uses == ["secret/TOKEN"]


def test_second_write_of_the_same_revision_is_rejected(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", "a")
    call = call_as(revision=1)
    world.services.secrets.put(call, FOREST, "TOKEN", "b")
    with pytest.raises(Changed):
        world.services.secrets.put(call, FOREST, "TOKEN", "c")
    with pytest.raises(Changed):
        world.services.secrets.delete(call, FOREST, "TOKEN")


def test_only_members_can_change_secrets(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", "a")
    for role in ("viewer", "editor"):
        user = world.grant(role, role, FOREST)
        assert names(world.services.secrets.page(user, FOREST, listing()).items) == ["TOKEN"]
        with pytest.raises(Forbidden):
            world.services.secrets.put(user, FOREST, "TOKEN", "b")
        with pytest.raises(Forbidden):
            world.services.secrets.delete(user, FOREST, "TOKEN")
        with pytest.raises(NotFound):
            world.services.secrets.page(user, LAKE, listing())
    mia = world.grant("mia", "member", FOREST)
    assert world.services.secrets.put(mia, FOREST, "TOKEN", "b")[0].updated_by == "mia"


@pytest.mark.every_store
def test_every_secret_is_resealed_after_a_key_rotation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "OTHER"):
        world.services.secrets.put(world.root, FOREST, name, VALUE)
    old = load_secret(world)
    rotated = make_world(world.store, monkeypatch, keys=f"{OTHER_KEY},{KEY}")
    assert rotated.services.secrets.reseal(world.root) == 2
    assert rotated.services.secrets.reseal(world.root) == 0
    record = load_secret(world)
    assert (record.key_id != old.key_id, record.revision) == (True, 2)
    only_new = AesKeyring(parse_keys(OTHER_KEY))
    assert only_new.open(Sealed(record.sealed, record.key_id), record.id) == VALUE.encode()
    assert len(world.audit(action="secret.reseal")) == 2


def test_secret_with_a_lost_key_is_not_resealed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", VALUE)
    lost = make_world(world.store, monkeypatch, keys=OTHER_KEY)
    with pytest.raises(Unavailable):
        lost.services.secrets.reseal(world.root)
    assert load_secret(world).revision == 1
