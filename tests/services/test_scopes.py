"""Organization scopes: create, rename, move and delete; objects follow their scope."""

from typing import Any

import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import SecretRecord
from fairlead.model.scopes import Cluster, Department, Project
from fairlead.ports import Sealed
from tests.services.worlds import (
    FOREST,
    LAKE,
    MAIN,
    SPEECH,
    VISION,
    World,
    call_as,
    listing,
    make_request,
    names,
    rejection_rules,
    users_of,
)


def test_new_scope_has_its_parent_and_creator(world: World) -> None:
    department = world.services.scopes.create(call_as(), Department(name="sound", parent=MAIN))
    assert (department.scope, department.parent, department.kind) == ("department/sound", MAIN, "department")
    assert (department.created_by, department.revision, department.managed_by) == ("root", 1, None)
    assert world.services.scopes.get(world.root, "department/sound") == department


def test_cluster_stores_only_values_that_differ_from_the_defaults(world: World) -> None:
    assert world.services.scopes.get(world.root, MAIN).details == {"gpu_sharing": "kai"}
    edited = world.services.scopes.edit(world.root, MAIN, {"gpu_sharing": "none", "kai_queue": "fast"})
    assert edited.details == {"kai_queue": "fast"}


@pytest.mark.parametrize("kind", [Cluster, Department, Project])
def test_name_is_unique_per_kind(world: World, kind: Any) -> None:
    world.services.scopes.create(world.root, kind(name="twin"))
    with pytest.raises(Conflict, match=f"{kind.KIND} name twin is not available"):
        world.services.scopes.create(world.root, kind(name="twin"))


@pytest.mark.parametrize("parent", ["department/none", "cluster/none"])
def test_unknown_parent_is_a_violation(world: World, parent: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.services.scopes.create(world.root, Project(name="sea", parent=parent))
    assert rejection_rules(caught) == [("parent", "scope")]


@pytest.mark.parametrize(
    ("scope", "parent"),
    [(VISION, FOREST), (VISION, SPEECH), (VISION, VISION), (MAIN, VISION), (MAIN, MAIN), (FOREST, LAKE)],
)
def test_scope_cannot_move_below_itself_or_to_another_level(world: World, scope: str, parent: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.services.scopes.edit(world.root, scope, {"parent": parent})
    assert rejection_rules(caught) == [("parent", "scope")]
    assert "platform > cluster > department > project" in str(caught.value.violations[0].hint)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "a b"}, [("name", "name")]),
        ({"name": 7}, [("name", "text")]),
        ({"name": None}, [("name", "required")]),
        ({"kind": "cluster"}, [("kind", "unknown_field")]),
        ({"gpu_sharing": "kai"}, [("gpu_sharing", "unknown_field")]),
        ({"name": "", "parent": "moon", "x": 1}, [("name", "name"), ("parent", "scope"), ("x", "unknown_field")]),
    ],
)
def test_invalid_edit_is_rejected_with_all_violations(
    world: World, change: dict[str, Any], expected: list[Any]
) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.services.scopes.edit(world.root, FOREST, change)
    assert rejection_rules(caught) == expected


@pytest.mark.every_store
def test_all_objects_follow_a_renamed_project(world: World) -> None:
    services, root = world.services, world.root
    world.put_policy(FOREST, rules={"resources.gpu": {"max": 1}}, switches={"existing_volumes": "allow"})
    world.add_compute_resource("small", scope=FOREST)
    world.add_template("start", scope=FOREST, profile="small")
    services.secrets.put(root, FOREST, "TOKEN", "hunter2")
    services.volumes.create(root, FOREST, SharedVolume.model_validate({"name": "data", "size": "1Gi"}))
    member = world.grant("mia", "member", FOREST)
    run = world.submit(template="start", secrets=["TOKEN"])
    renamed = services.scopes.edit(root, FOREST, {"name": "wood"})
    assert (renamed.scope, renamed.parent, renamed.revision) == ("project/wood", VISION, 2)
    with pytest.raises(NotFound):
        services.scopes.get(root, FOREST)
    assert services.compute_resources.get(root, "small").scope == "project/wood"
    assert services.templates.get(root, "start").scope == "project/wood"
    assert names(services.secrets.page(root, "project/wood", listing()).items) == ["TOKEN"]
    assert names(services.volumes.page(root, "project/wood", listing()).items) == ["data"]
    assert services.runs.get(member, run.id).scope == "project/wood"
    assert not services.runs.preview(member, "project/wood", make_request(template="start", secrets=["TOKEN"]))[
        "violations"
    ]
    violations = services.runs.preview(member, "project/wood", make_request(resources={"gpu": 2}))["violations"]
    assert [item["source"]["scope"] for item in violations] == ["project/wood"]


def test_policy_source_follows_a_renamed_scope(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})
    world.services.scopes.edit(world.root, VISION, {"name": "sight"})
    effective = world.services.policies.effective(world.root, FOREST)
    assert effective.rules["resources.gpu.devices"]["max"][0].source.scope == "department/sight"
    exported = [item for item in world.services.config_files.export(world.root) if item["kind"] == "Policy"]
    assert [item["scope"] for item in exported] == ["department/sight"]


def test_secret_can_be_decrypted_after_its_project_was_renamed(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "TOKEN", "hunter2")
    world.services.scopes.edit(world.root, FOREST, {"name": "wood"})
    with world.store.reading() as tx:
        record = tx.get(SecretRecord, scope="project/wood", name="TOKEN")
    assert record is not None
    assert world.keyring.open(Sealed(record.sealed, record.key_id), record.id) == b"hunter2"


@pytest.mark.every_store
def test_scopes_below_follow_a_renamed_cluster(world: World) -> None:
    world.add_compute_resource("a", scope=FOREST)
    world.services.scopes.edit(world.root, MAIN, {"name": "prime"})
    assert world.services.scopes.get(world.root, VISION).parent == "cluster/prime"
    assert world.services.compute_resources.get(world.root, "a").cluster == "cluster/prime"
    assert world.preview()["violations"] == []


@pytest.mark.every_store
def test_existing_name_cannot_be_used_by_a_rename(world: World) -> None:
    with pytest.raises(Conflict, match="project name meadow is not available"):
        world.services.scopes.edit(world.root, FOREST, {"name": "meadow"})
    assert world.services.scopes.get(world.root, FOREST).revision == 1


@pytest.mark.every_store
@pytest.mark.parametrize("change", [{"parent": "cluster/local"}, {"parent": "cluster/local", "name": "sight"}])
def test_moved_scope_takes_its_assets_to_the_other_cluster(world: World, change: dict[str, str]) -> None:
    world.add_compute_resource("near", scope=VISION)
    world.add_compute_resource("far", scope=FOREST)
    world.add_template("t", scope=FOREST)
    world.add_compute_resource("elsewhere", scope=LAKE)
    world.services.scopes.edit(world.root, VISION, change)
    clusters = {item.name: item.cluster for item in world.services.compute_resources.page(world.root, listing()).items}
    assert clusters == {"near": "cluster/local", "far": "cluster/local", "elsewhere": MAIN}
    assert world.services.templates.get(world.root, "t").cluster == "cluster/local"


def test_moved_asset_has_complete_revisions(world: World) -> None:
    world.add_compute_resource("near", scope=VISION)
    world.services.scopes.edit(world.root, VISION, {"parent": "cluster/local"})
    record = world.services.compute_resources.get(world.root, "near")
    revisions = world.services.compute_resources.revisions(world.root, "near")
    assert [revision.number for revision in revisions] == list(range(record.revision, 0, -1))


def test_policies_of_the_new_parent_apply_after_a_move(world: World) -> None:
    world.put_policy(SPEECH, rules={"resources.gpu": {"max": 0}})
    assert world.preview(resources={"gpu": 1})["violations"] == []
    world.services.scopes.edit(world.root, FOREST, {"parent": SPEECH})
    assert [item["source"]["scope"] for item in world.preview(resources={"gpu": 1})["violations"]] == [SPEECH]


def test_move_that_hides_a_compute_resource_from_a_template_is_rejected(world: World) -> None:
    world.add_compute_resource("a", scope=VISION)
    world.add_template("t", scope=FOREST, profile="a")
    with pytest.raises(Conflict) as caught:
        world.services.scopes.edit(world.root, FOREST, {"parent": SPEECH})
    assert ("template", "t") in users_of(caught)


@pytest.mark.every_store
def test_scope_with_contents_cannot_be_deleted_and_its_contents_are_named(world: World) -> None:
    services, root = world.services, world.root
    world.put_policy(FOREST, rules={"resources.gpu": {"max": 1}}, switches={"existing_volumes": "allow"})
    world.add_compute_resource("small", scope=FOREST)
    world.add_template("start", scope=FOREST)
    services.secrets.put(root, FOREST, "TOKEN", "hunter2")
    services.volumes.create(root, FOREST, SharedVolume.model_validate({"name": "data", "size": "1Gi"}))
    world.grant("mia", "member", FOREST)
    run = world.submit()
    with pytest.raises(Conflict) as caught:
        services.scopes.delete(root, FOREST)
    assert sorted(users_of(caught)) == sorted(
        [
            ("compute resource", "small"),
            ("template", "start"),
            ("policy", FOREST),
            ("secret", "TOKEN"),
            ("volume", "data"),
            ("role", "user:mia"),
            ("run", run.id),
        ]
    )
    with pytest.raises(Conflict) as caught:
        services.scopes.delete(root, VISION)
    assert users_of(caught) == [("project", "forest"), ("project", "meadow")]


@pytest.mark.every_store
def test_finished_runs_are_deleted_with_their_project(world: World) -> None:
    run = world.submit()
    world.services.runs.stop(world.root, run.id)
    world.services.scopes.delete(world.root, FOREST)
    for get in (world.services.runs.get, world.services.runs.plan):
        with pytest.raises(NotFound):
            get(world.root, run.id)


def test_platform_cannot_be_changed_or_deleted(world: World) -> None:
    with pytest.raises(Conflict):
        world.services.scopes.edit(world.root, "platform", {"name": "x"})
    with pytest.raises(Conflict):
        world.services.scopes.delete(world.root, "platform")


def test_second_edit_of_the_same_revision_is_rejected(world: World) -> None:
    call = call_as(revision=1)
    world.services.scopes.edit(call, FOREST, {"name": "wood"})
    with pytest.raises(Changed, match="revision 2"):
        world.services.scopes.edit(call, "project/wood", {"name": "trees"})
    with pytest.raises(Changed):
        world.services.scopes.delete(call, "project/wood")


def test_edit_without_changes_creates_no_revision_and_no_audit_entry(world: World) -> None:
    before = world.audit_actions()
    assert world.services.scopes.edit(world.root, FOREST, {"name": "forest"}).revision == 1
    assert world.services.scopes.edit(world.root, FOREST, {}).revision == 1
    assert world.audit_actions() == before


@pytest.mark.every_store
def test_scopes_can_be_searched_sorted_and_filtered(world: World) -> None:
    page = world.services.scopes.page
    assert names(page(world.root, listing(), "project").items) == ["default", "forest", "lake", "meadow"]
    assert names(page(world.root, listing(sort="-name", parent=VISION), None).items) == ["meadow", "forest"]
    assert names(page(world.root, listing(search="OREST"), None).items) == ["forest"]
    assert names(page(world.root, listing(kind="cluster,department"), None).items) == [
        "local",
        "main",
        "speech",
        "vision",
    ]


def test_department_administrator_manages_only_scopes_below_it(world: World) -> None:
    ada = world.grant("ada", "admin", VISION)
    world.services.scopes.create(ada, Project(name="hill", parent=VISION))
    world.services.scopes.edit(ada, "project/hill", {"name": "hills"})
    world.services.scopes.delete(ada, "project/hills")
    for parent in (MAIN, "platform"):
        with pytest.raises(Forbidden):
            world.services.scopes.create(ada, Project(name="hill", parent=parent))
        with pytest.raises(Forbidden):
            world.services.scopes.edit(ada, FOREST, {"parent": parent})
    with pytest.raises(RequestRejected):  # ada cannot see the other department
        world.services.scopes.edit(ada, FOREST, {"parent": SPEECH})
    with pytest.raises(NotFound):
        world.services.scopes.delete(ada, LAKE)
