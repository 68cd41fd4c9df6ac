"""Compute resources: create, edit, rename, copy, archive and delete; revisions and visibility."""

from typing import Any

import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.assets import Defaults, Difference
from tests.services.worlds import (
    FOREST,
    LAKE,
    MAIN,
    SPEECH,
    VISION,
    World,
    call_as,
    error_text,
    finding_rules,
    listing,
    names,
    rejection_rules,
    setting,
    users_of,
)


def test_compute_resource_has_all_columns_of_the_table(world: World) -> None:
    resources = {"gpu": 2, "cpu": {"requests": "500m"}, "mem": {"requests": "1Gi", "limits": "unlimited"}, "shm": True}
    world.add_compute_resource(
        "big", scope=VISION, description="two GPUs", resources=resources, workload_types=["training"]
    )
    stored = world.services.compute_resources.get(world.root, "big")
    assert (stored.name, stored.description, stored.scope, stored.cluster) == ("big", "two GPUs", VISION, MAIN)
    assert (stored.created_by, stored.updated_by, stored.revision) == ("root", "root", 1)
    assert stored.created_at == stored.updated_at
    assert (stored.workloads, stored.templates, stored.last_used_at) == (0, 0, None)
    assert stored.workload_types == ["training"]
    assert stored.requirements["resources"] == {
        "cpu": {"requests": "500m"},
        "mem": {"requests": "1Gi", "limits": "unlimited"},
        "gpu": {"devices": 2},
        "shm": True,
    }
    assert world.services.compute_resources.get(world.root, stored.id) == stored


@pytest.mark.every_store
def test_name_is_unique_on_the_platform(world: World) -> None:
    world.add_compute_resource("big", scope=FOREST)
    with pytest.raises(Conflict, match="compute resource name big is not available"):
        world.add_compute_resource("big", scope=LAKE)
    world.add_compute_resource("BIG", scope=LAKE)  # names are case-sensitive


@pytest.mark.every_store
def test_workloads_and_templates_are_counted(world: World) -> None:
    world.add_compute_resource("big")
    world.add_template("t", profile="big")
    first = world.submit(profile="big")
    world.submit(template="t")
    stored = world.services.compute_resources.get(world.root, "big")
    assert (stored.workloads, stored.templates) == (2, 1)
    assert stored.last_used_at is not None
    world.services.runs.stop(world.root, first.id)
    assert world.services.compute_resources.get(world.root, "big").workloads == 1
    assert [
        run.id for run in world.services.compute_resources.workloads(world.root, "big", listing(active="false")).items
    ] == [first.id]
    assert len(world.services.compute_resources.workloads(world.root, "big", listing()).items) == 1
    assert names(world.services.compute_resources.templates(world.root, "big")) == ["t"]


def test_edit_replaces_only_the_given_fields(world: World) -> None:
    world.add_compute_resource("big", description="old", resources={"gpu": 2}, workload_types=["training"])
    world.clock.pass_by(hours=1)
    edited = world.services.compute_resources.edit(call_as("root"), "big", {"requirements": {"resources": {"cpu": 1}}})
    assert edited.requirements == {"resources": {"cpu": {"requests": "1"}}}
    assert (edited.description, edited.workload_types, edited.revision) == ("old", ["training"], 2)
    assert edited.updated_at > edited.created_at
    cleared = world.services.compute_resources.edit(world.root, "big", {"workload_types": None, "description": None})
    assert (cleared.workload_types, cleared.description) == (None, "")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"workload_types": []}, [("workload_types", "required")]),
        ({"workload_types": ["mining"]}, [("workload_types.0", "options")]),
        ({"revision": 9}, [("revision", "read_only")]),
        ({"created_by": "me"}, [("created_by", "unknown_field")]),
        ({"requirements": {"profile": "other"}}, [("requirements.profile", "reference")]),
        ({"requirements": {"template": "other"}}, [("requirements.template", "reference")]),
        ({"requirements": {"cpu": 1}}, [("requirements.cpu", "unknown_field")]),
        ({"scope": "department/none"}, [("scope", "scope")]),
        ({"scope": "moon"}, [("scope", "scope")]),
        ({"name": "-"}, [("name", "name")]),
        ({"name": "x" * 64}, [("name", "too_long")]),
        ({"description": "x" * 1001}, [("description", "too_long")]),
        ({"description": 7, "scope": 7}, [("description", "text"), ("scope", "scope")]),
    ],
)
def test_invalid_edit_is_rejected_and_changes_nothing(world: World, change: dict[str, Any], expected: Any) -> None:
    world.add_compute_resource("big")
    with pytest.raises(RequestRejected) as caught:
        world.services.compute_resources.edit(world.root, "big", change)
    assert rejection_rules(caught) == expected
    assert world.services.compute_resources.get(world.root, "big").revision == 1


def test_edit_accepts_camel_case_fields(world: World) -> None:
    world.add_compute_resource("big")
    edited = world.services.compute_resources.edit(world.root, "big", {"workloadTypes": ["training"]})
    assert edited.workload_types == ["training"]


def test_revision_is_read_only(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.add_compute_resource("big", revision=7)
    assert rejection_rules(caught) == [("revision", "read_only")]


@pytest.mark.every_store
def test_second_edit_of_the_same_revision_is_rejected(world: World) -> None:
    world.add_compute_resource("big")
    call = call_as(revision=1)
    world.services.compute_resources.edit(call, "big", {"description": "first"})
    for use_case in ("edit", "archive", "restore", "delete"):
        args: tuple[Any, ...] = ({"description": "second"},) if use_case == "edit" else ()
        args = (None,) if use_case == "archive" else args
        with pytest.raises(Changed, match="revision 2"):
            getattr(world.services.compute_resources, use_case)(call, "big", *args)
    assert world.services.compute_resources.get(world.root, "big").description == "first"


@pytest.mark.every_store
def test_rename_preserves_identity_templates_policies_and_successors(world: World) -> None:
    services, root = world.services, world.root
    before = world.add_compute_resource("big", resources={"cpu": 3})
    world.add_compute_resource("old")
    world.add_template("t", scope=FOREST, profile="big")
    world.put_policy(VISION, defaults={"profile": "big"})
    services.compute_resources.archive(root, "old", "big")
    run = world.submit(profile="big")
    after = services.compute_resources.edit(root, "big", {"name": "large"})
    assert (after.id, after.name, after.revision, after.workloads) == (before.id, "large", 2, 1)
    assert services.templates.get(root, "t").compute_resource == "large"
    assert services.policies.get(root, VISION).content["defaults"] == {"profile": "large"}
    assert services.compute_resources.get(root, "old").successor == "large"
    plans = (world.preview(), world.preview(template="t"), world.preview(profile="old"), world.preview(profile="large"))
    for plan in plans:
        assert (plan["violations"], setting(plan, "profile")) == ([], "large")
    assert names(services.compute_resources.templates(root, "large")) == ["t"]
    assert [item.id for item in services.compute_resources.workloads(root, "large", listing()).items] == [run.id]
    with pytest.raises(NotFound) as caught:
        services.compute_resources.get(root, "big")
    assert error_text(caught) == "compute resource 'big' does not exist -> use its new name: large"


def test_objects_updated_by_a_rename_have_complete_revisions(world: World) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("big")
    world.add_compute_resource("old")
    world.add_template("t", profile="big")
    services.compute_resources.archive(root, "old", "big")
    services.compute_resources.edit(root, "big", {"name": "large"})
    changed = [Difference("requirements.profile", "big", "large")]
    assert services.templates.compare(root, "t", 1, 2) == changed
    assert services.compute_resources.compare(root, "old", 2, 3) == [Difference("successor", "big", "large")]


def test_rename_updates_policy_rules(world: World) -> None:
    world.add_compute_resource("big")
    world.put_policy(VISION, rules={"profile": {"options": ["big"]}})
    world.services.compute_resources.edit(world.root, "big", {"name": "large"})
    assert world.preview(profile="large")["violations"] == []


def test_rename_updates_the_settings(world: World) -> None:
    world.add_compute_resource("big")
    world.services.settings.put(world.root, Defaults.model_validate({"profile": "big"}))
    with pytest.raises(Conflict) as caught:
        world.services.compute_resources.delete(world.root, "big")
    assert [user["kind"] for user in caught.value.used_by] == ["settings"]
    world.services.compute_resources.edit(world.root, "big", {"name": "large"})
    assert world.services.settings.get(world.root).defaults == {"profile": "large"}
    assert setting(world.preview(), "profile") == "large"


@pytest.mark.every_store
def test_existing_name_cannot_be_used_by_a_rename_or_a_copy(world: World) -> None:
    world.add_compute_resource("big")
    world.add_compute_resource("small")
    with pytest.raises(Conflict, match="compute resource name small is not available"):
        world.services.compute_resources.edit(world.root, "big", {"name": "small"})
    with pytest.raises(Conflict, match="compute resource name small is not available"):
        world.services.compute_resources.copy(world.root, "big", {"name": "small"})


def test_copy_is_independent_and_can_differ(world: World) -> None:
    first = world.add_compute_resource("big", description="d", resources={"gpu": 1}, workload_types=["training"])
    copy = world.services.compute_resources.copy(world.root, "big", {"name": "mine", "scope": FOREST})
    assert (copy.description, copy.requirements, copy.workload_types) == ("d", first.requirements, ["training"])
    assert (copy.scope, copy.cluster, copy.revision, copy.managed_by) == (FOREST, MAIN, 1, None)
    assert copy.id != first.id
    with pytest.raises(RequestRejected) as caught:
        world.services.compute_resources.copy(world.root, "big", {"description": "x"})
    assert rejection_rules(caught) == [("name", "required")]


def test_archived_compute_resource_is_hidden_and_replaced_by_its_successor_with_a_warning(world: World) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("old", resources={"cpu": 1})
    world.add_compute_resource("new", resources={"cpu": 2})
    assert services.compute_resources.archive(root, "old", "new").archived
    assert names(services.compute_resources.page(root, listing()).items) == ["new"]
    assert names(services.compute_resources.page(root, listing(archived="true")).items) == ["old"]
    plan = world.preview(profile="old")
    assert finding_rules(plan["violations"]) == []
    assert ("profile", "archived") in finding_rules(plan["warnings"])
    assert "compute resource old is archived; its successor new is used" in [w["message"] for w in plan["warnings"]]
    assert setting(plan, "resources.cpu.requests") == "2"
    run = world.submit(profile="old")
    assert (run.compute_resource, run.compute_resource_revision) == ("new", 1)
    assert services.compute_resources.get(root, "new").workloads == 1


def test_chain_of_successors_is_followed(world: World) -> None:
    for name in ("a", "b", "c"):
        world.add_compute_resource(name)
    world.services.compute_resources.archive(world.root, "a", "b")
    world.services.compute_resources.archive(world.root, "b", "c")
    assert setting(world.preview(profile="a"), "profile") == "c"


def test_archived_compute_resource_without_a_successor_is_a_violation_with_alternatives(world: World) -> None:
    world.add_compute_resource("old")
    world.add_compute_resource("new")
    world.services.compute_resources.archive(world.root, "old", None)
    violations = world.preview(profile="old")["violations"]
    assert finding_rules(violations) == [("profile", "archived")]
    assert "new" in violations[0]["hint"]


def test_restored_compute_resource_can_be_selected_again(world: World) -> None:
    world.add_compute_resource("old")
    world.add_compute_resource("new")
    world.services.compute_resources.archive(world.root, "old", "new")
    restored = world.services.compute_resources.restore(world.root, "old")
    assert (restored.archived, restored.successor, restored.revision) == (False, None, 3)
    assert setting(world.preview(profile="old"), "profile") == "old"


@pytest.mark.parametrize(
    ("successor", "message"),
    [
        ("none", "compute resource 'none' does not exist"),
        ("old", "old cannot be its own successor"),
        ("gone", "gone is archived"),
        ("narrow", "narrow is in project/forest, so it is not available everywhere in platform"),
    ],
)
def test_unsuitable_successor_is_rejected(world: World, successor: str, message: str) -> None:
    for name in ("old", "gone"):
        world.add_compute_resource(name)
    world.add_compute_resource("narrow", scope=FOREST)
    world.services.compute_resources.archive(world.root, "gone", None)
    with pytest.raises(RequestRejected) as caught:
        world.services.compute_resources.archive(world.root, "old", successor)
    assert rejection_rules(caught) == [("successor", "successor")]
    assert caught.value.violations[0].message == message


@pytest.mark.every_store
def test_compute_resource_in_use_cannot_be_deleted_and_its_users_are_named(world: World) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("big")
    world.add_compute_resource("old")
    services.compute_resources.archive(root, "old", "big")
    world.add_template("t", scope=FOREST, profile="big")
    world.put_policy(VISION, defaults={"profile": "big"})
    run = world.submit(profile="big")
    with pytest.raises(Conflict) as caught:
        services.compute_resources.delete(root, "big")
    assert users_of(caught) == [
        ("run", run.id),
        ("template", "t"),
        ("policy", VISION),
        ("archived compute resource", "old"),
    ]
    services.runs.stop(root, run.id)
    services.templates.delete(root, "t")
    services.policies.delete(root, VISION)
    services.compute_resources.delete(root, "old")
    services.compute_resources.delete(root, "big")
    with pytest.raises(NotFound):
        services.compute_resources.get(root, "big")


def test_revisions_are_stored_and_compared(world: World) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("big", resources={"cpu": 1}, envs={"A": "1", "B": "2"})
    services.compute_resources.edit(
        root, "big", {"requirements": {"resources": {"cpu": 2}, "envs": {"A": "9"}}, "workload_types": ["training"]}
    )
    services.compute_resources.edit(root, "big", {"name": "large", "scope": VISION})
    assert [revision.number for revision in services.compute_resources.revisions(root, "large")] == [3, 2, 1]
    assert services.compute_resources.compare(root, "large", 1, 2) == [
        Difference("requirements.envs.A.value", "1", "9"),
        Difference("requirements.envs.B.value", "2", None),
        Difference("requirements.resources.cpu.requests", "1", "2"),
        Difference("workload_types", None, ["training"]),
    ]
    assert services.compute_resources.compare(root, "large", 2, 3) == [
        Difference("name", "big", "large"),
        Difference("scope", "platform", VISION),
    ]
    assert services.compute_resources.compare(root, "large", 3, 3) == []
    with pytest.raises(NotFound, match="revision 4 of compute resource large does not exist") as caught:
        services.compute_resources.compare(root, "large", 1, 4)
    assert caught.value.hint == "use a revision from 1 to 3"


def test_edit_never_changes_an_existing_run(world: World) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("big", resources={"cpu": 1})
    run = world.submit(profile="big")
    before = services.runs.plan(root, run.id)
    services.compute_resources.edit(root, "big", {"requirements": {"resources": {"cpu": 8}}, "name": "large"})
    assert services.runs.plan(root, run.id) == before
    stored = services.runs.get(root, run.id)
    assert (stored.compute_resource, stored.compute_resource_revision) == ("big", 1)
    assert setting(world.preview(profile="large"), "resources.cpu.requests") == "8"


def test_compute_resource_is_visible_within_its_scope(world: World) -> None:
    for name, scope in (("all", "platform"), ("dept", VISION), ("mine", FOREST), ("other", LAKE), ("far", SPEECH)):
        world.add_compute_resource(name, scope=scope)
    vic = world.grant("vic", "viewer", FOREST)
    assert names(world.services.compute_resources.page(vic, listing()).items) == ["all", "dept", "mine"]
    assert names(world.services.compute_resources.page(vic, listing(scope=LAKE)).items) == []
    for name in ("other", "far"):
        with pytest.raises(NotFound):
            world.services.compute_resources.get(vic, name)
        assert finding_rules(world.preview(profile=name)["violations"]) == [("profile", "unknown_profile")]
    for name in ("all", "dept", "mine"):
        assert world.preview(profile=name)["violations"] == []


def test_editor_creates_compute_resources_only_in_their_scope(world: World) -> None:
    eve = world.grant("eve", "editor", VISION)
    world.add_compute_resource("all")
    world.add_compute_resource("far", scope=SPEECH)
    assert world.add_compute_resource("dept", scope=VISION, call=eve).created_by == "eve"
    world.add_compute_resource("mine", scope=FOREST, call=eve)
    with pytest.raises(Forbidden):
        world.add_compute_resource("more", scope="platform", call=eve)
    with pytest.raises(RequestRejected) as caught:
        world.add_compute_resource("more", scope=SPEECH, call=eve)
    assert rejection_rules(caught) == [("scope", "scope")]
    for change in ({"description": "x"}, {"scope": VISION}):
        with pytest.raises(Forbidden):
            world.services.compute_resources.edit(eve, "all", change)
        with pytest.raises(NotFound):
            world.services.compute_resources.edit(eve, "far", change)
    with pytest.raises(Forbidden):
        world.services.compute_resources.edit(eve, "mine", {"scope": "platform"})


@pytest.mark.parametrize("user", ["template", "policy", "archived compute resource"])
def test_scope_change_that_hides_a_compute_resource_from_its_users_is_rejected(world: World, user: str) -> None:
    services, root = world.services, world.root
    world.add_compute_resource("big")
    name = {"template": "t", "policy": VISION, "archived compute resource": "old"}[user]
    if user == "template":
        world.add_template("t", scope=VISION, profile="big")
    elif user == "policy":
        world.put_policy(VISION, defaults={"profile": "big"})
    else:
        world.add_compute_resource("old", scope=VISION)
        services.compute_resources.archive(root, "old", "big")
    services.compute_resources.edit(root, "big", {"scope": MAIN})
    with pytest.raises(Conflict) as caught:
        services.compute_resources.edit(root, "big", {"scope": SPEECH})
    assert users_of(caught) == [(user, name)]
    assert services.compute_resources.get(root, "big").scope == MAIN
