"""The audit log: one entry per change, with user, address, and state before and after; none for rejected changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import FairleadError, Forbidden
from fairlead.model.assets import Defaults, Policy
from fairlead.model.project_objects import SharedVolume, TokenRequest
from fairlead.model.scopes import Grant, Project
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import FOREST, LAKE, SPEECH, VISION, World, call_as, listing, make_request

CALLER = call_as("root", address="10.1.2.3", request_id="r-77")
Operation = Callable[[World, Call], Any]


def _grant(scope: str) -> Grant:
    return Grant.model_validate({"subject": "user:new", "role": "viewer", "scope": scope})


# Every write operation of every service, and the audit entries that it creates.
WRITES: Mapping[str, tuple[Operation, list[tuple[str, str, str]]]] = {
    "create a scope": (
        lambda w, c: w.services.scopes.create(c, Project(name="new", parent=VISION)),
        [("project.create", "new", "project/new")],
    ),
    "rename a scope": (
        lambda w, c: w.services.scopes.edit(c, LAKE, {"name": "sea"}),
        [("project.rename", "sea", "project/sea")],
    ),
    "move a scope": (
        lambda w, c: w.services.scopes.edit(c, LAKE, {"parent": VISION}),
        [("project.move", "lake", LAKE)],
    ),
    "edit a cluster": (
        lambda w, c: w.services.scopes.edit(c, "cluster/main", {"gpu_sharing": "none"}),
        [("cluster.edit", "main", "cluster/main")],
    ),
    "delete a scope": (lambda w, c: w.services.scopes.delete(c, LAKE), [("project.delete", "lake", LAKE)]),
    "create a compute resource": (
        lambda w, c: w.add_compute_resource("new", scope=FOREST, call=c),
        [("compute_resource.create", "new", FOREST)],
    ),
    "edit a compute resource": (
        lambda w, c: w.services.compute_resources.edit(c, "free", {"description": "x"}),
        [("compute_resource.edit", "free", "platform")],
    ),
    "copy a compute resource": (
        lambda w, c: w.services.compute_resources.copy(c, "free", {"name": "copy"}),
        [("compute_resource.create", "copy", "platform")],
    ),
    "rename a used compute resource": (
        lambda w, c: w.services.compute_resources.edit(c, "used", {"name": "renamed"}),
        [
            ("compute_resource.rename", "renamed", "platform"),
            ("template.edit", "t", VISION),
            ("policy.edit", VISION, VISION),
        ],
    ),
    "archive a compute resource": (
        lambda w, c: w.services.compute_resources.archive(c, "free", None),
        [("compute_resource.archive", "free", "platform")],
    ),
    "restore a compute resource": (
        lambda w, c: w.services.compute_resources.restore(c, "old"),
        [("compute_resource.restore", "old", "platform")],
    ),
    "delete a compute resource": (
        lambda w, c: w.services.compute_resources.delete(c, "free"),
        [("compute_resource.delete", "free", "platform")],
    ),
    "create a template": (lambda w, c: w.add_template("new", call=c), [("template.create", "new", "platform")]),
    "delete a template": (lambda w, c: w.services.templates.delete(c, "t"), [("template.delete", "t", VISION)]),
    "create a policy": (
        lambda w, c: w.services.policies.put(c, SPEECH, Policy(scope=SPEECH)),
        [("policy.create", SPEECH, SPEECH)],
    ),
    "edit a policy": (
        lambda w, c: w.services.policies.put(replace(c, any_revision=True), VISION, Policy(scope=VISION)),
        [("policy.edit", VISION, VISION)],
    ),
    "delete a policy": (lambda w, c: w.services.policies.delete(c, VISION), [("policy.delete", VISION, VISION)]),
    "set a secret": (
        lambda w, c: w.services.secrets.put(c, FOREST, "NEW", "x"),
        [("secret.create", "NEW", FOREST)],
    ),
    "set a secret again": (
        lambda w, c: w.services.secrets.put(c, FOREST, "OLD", "x"),
        [("secret.edit", "OLD", FOREST)],
    ),
    "delete a secret": (
        lambda w, c: w.services.secrets.delete(c, FOREST, "OLD"),
        [("secret.delete", "OLD", FOREST)],
    ),
    "create a volume": (
        lambda w, c: w.services.volumes.create(c, FOREST, SharedVolume(name="new", size="1Gi")),
        [("volume.create", "new", FOREST)],
    ),
    "delete a volume": (
        lambda w, c: w.services.volumes.delete(c, FOREST, "data"),
        [("volume.delete", "data", FOREST)],
    ),
    "submit a run": (lambda w, c: w.submit(call=c), [("run.create", "*", FOREST)]),
    "stop a run": (lambda w, c: w.services.runs.stop(c, _run(w, "true")), [("run.stop", "*", FOREST)]),
    "delete a run": (lambda w, c: w.services.runs.delete(c, _run(w, "false")), [("run.delete", "*", FOREST)]),
    "grant a role": (
        lambda w, c: w.services.grants.create(c, _grant(FOREST)),
        [("role.create", "user:new", FOREST)],
    ),
    "revoke a role": (
        lambda w, c: w.services.grants.delete(c, w.services.grants.page(w.root, listing(subject="mia")).items[0].id),
        [("role.delete", "user:mia", FOREST)],
    ),
    "create a token": (
        lambda w, c: w.services.tokens.create(c, TokenRequest(name="laptop")),
        [("token.create", "laptop", "platform")],
    ),
    "revoke a token": (
        lambda w, c: w.services.tokens.delete(c, w.services.tokens.page(w.root, listing()).items[0].id),
        [("token.delete", "old", "platform")],
    ),
    "create the settings": (
        lambda w, c: w.services.settings.put(c, Defaults.model_validate({"fs_group": 7})),
        [("settings.create", "settings", "platform")],
    ),
}


def _run(world: World, active: str) -> str:
    return world.services.runs.page(world.root, listing(active=active)).items[0].id


def create_objects(world: World) -> None:
    """Create an object of every kind."""
    for name in ("free", "used", "old"):
        world.add_compute_resource(name)
    world.services.compute_resources.archive(world.root, "old", None)
    world.add_template("t", scope=VISION, profile="used")
    world.put_policy(VISION, defaults={"profile": "used"})
    world.services.secrets.put(world.root, FOREST, "OLD", "x")
    world.services.volumes.create(world.root, FOREST, SharedVolume(name="data", size="1Gi"))
    world.grant("mia", "member", FOREST)
    world.services.tokens.create(world.root, TokenRequest(name="old"))
    world.services.runs.stop(world.root, world.submit().id)
    world.submit()


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_audited_exactly_once(world: World, write: str) -> None:
    create_objects(world)
    before = world.audit()
    operation, expected = WRITES[write]
    operation(world, CALLER)
    created = world.audit()[len(before) :]
    actual = [(item.action, "*" if item.action.startswith("run.") else item.name, item.scope) for item in created]
    assert sorted(actual) == sorted(expected)
    for entry in created:
        assert (entry.user, entry.via, entry.address, entry.request_id) == ("root", "test", "10.1.2.3", "r-77")
        assert entry.kind == entry.action.partition(".")[0]
        assert entry.object_id
        verb = entry.action.partition(".")[2]
        assert (entry.before is None) == (verb == "create")
        assert (entry.after is None) == (verb == "delete")
        if entry.before is not None and entry.after is not None:
            assert entry.after["revision"] == entry.before["revision"] + 1
            assert entry.before["id"] == entry.after["id"] == entry.object_id


def test_audit_entry_has_the_state_before_and_after(world: World) -> None:
    world.add_compute_resource("big", description="old", resources={"cpu": 1})
    world.services.compute_resources.edit(CALLER, "big", {"description": "new"})
    entry = world.audit(name="big")[-1]
    assert entry.before is not None
    assert entry.after is not None
    changed = {name for name in entry.after if entry.after[name] != entry.before[name]}
    assert changed == {"description", "revision", "updated_at"}
    assert entry.after["requirements"] == {"resources": {"cpu": {"requests": "1"}}}
    assert "workloads" not in entry.after  # computed, not stored


@pytest.mark.parametrize("write", WRITES)
def test_rejected_write_is_not_audited(world: World, write: str) -> None:
    create_objects(world)
    before = world.audit()
    operation, _ = WRITES[write]
    for call in (call_as("nobody"), replace(call_as("nobody"), revision=99)):
        if write != "create a token":  # every user may create tokens for themselves
            with pytest.raises(FairleadError):
                operation(world, call)
    assert world.audit() == before


@pytest.mark.every_store
def test_change_that_fails_halfway_is_not_audited(world: World) -> None:
    world.add_compute_resource("big")
    world.add_template("t", scope=VISION, profile="big")
    before = world.audit()
    with pytest.raises(FairleadError):  # fails after the save, because the template could no longer use it
        world.services.compute_resources.edit(world.root, "big", {"scope": SPEECH})
    with pytest.raises(FairleadError):
        world.services.scopes.edit(world.root, FOREST, {"name": "meadow"})
    with pytest.raises(FairleadError):
        world.services.runs.submit(world.root, FOREST, make_request(profile="nothing"))
    assert world.audit() == before


def test_reads_are_not_audited(world: World) -> None:
    create_objects(world)
    before = world.audit()
    world.preview()
    world.services.policies.validate(world.root, VISION, Policy(scope=VISION))
    world.services.compute_resources.page(world.root, listing())
    world.services.config_files.export(world.root)
    assert world.audit() == before


@pytest.mark.every_store
def test_audit_can_be_filtered_by_every_column(world: World) -> None:
    create_objects(world)
    world.clock.pass_by(days=2)
    ada = world.grant("ada", "admin", VISION)
    run = world.services.runs.submit(replace(ada, address="10.9.9.9", request_id="r-5"), FOREST, make_request())
    page = world.services.audits.page
    for filters in (
        {"user": "ada"},
        {"address": "10.9.9.9"},
        {"request_id": "r-5"},
        {"object_id": run.id},
        {"kind": "run", "at": ">=2026-11-17"},
        {"action": "run.create", "user": "ada", "scope": FOREST},
        {"name": run.id},
        {"search": run.id},
    ):
        assert [entry.object_id for entry in page(world.root, listing(**filters)).items] == [run.id], filters
    newest = page(world.root, listing()).items
    assert [entry.at for entry in newest] == sorted((entry.at for entry in newest), reverse=True)


def test_administrators_read_only_the_audit_of_their_scopes(world: World) -> None:
    create_objects(world)
    ada = world.grant("ada", "admin", FOREST)
    scopes = {entry.scope for entry in world.services.audits.page(ada, listing(limit=500)).items}
    assert scopes == {FOREST}
    assert world.services.audits.page(ada, listing(scope="platform")).items == []
    for role in ("editor", "member", "viewer"):
        with pytest.raises(Forbidden, match="does not administer any scope"):
            world.services.audits.page(world.grant(role, role, "platform"), listing())


@pytest.mark.every_store
def test_audit_export_is_complete_and_oldest_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create_objects(world)
    monkeypatch.setattr("fairlead.services.access.grants.EXPORT_PAGE_SIZE", 3)
    exported = world.audit()
    assert [entry.at for entry in exported] == sorted(entry.at for entry in exported)
    assert len({entry.id for entry in exported}) == len(exported)
    newest = world.services.audits.page(world.root, listing(limit=500)).items
    assert exported == newest[::-1]
    assert {entry.kind for entry in world.audit(kind="run")} == {"run"}
