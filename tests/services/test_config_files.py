"""Config files: applied atomically and idempotently, pruned, and exported."""

from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.files.documents import load_library, read_library
from fairlead.services.config_files import ApplyOptions, ApplyResult
from tests.contracts.memory import MemoryStore
from tests.services.worlds import (
    FOREST,
    LAKE,
    VISION,
    World,
    check_texts,
    initialize_world,
    listing,
    make_world,
    names,
    rejection_rules,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "platform"
Documents = list[dict[str, Any]]
DOCUMENTS: Documents = [
    {"kind": "Template", "name": "tune", "scope": "project/sea", "requirements": {"profile": "big"}},
    {"kind": "ComputeResource", "name": "big", "scope": "department/sound", "requirements": {"resources": {"gpu": 2}}},
    {
        "kind": "Policy",
        "scope": "department/sound",
        "defaults": {"profile": "big"},
        "rules": {"resources.gpu": {"max": 2}},
    },
    {"kind": "Project", "name": "sea", "parent": "department/sound"},
    {"kind": "Department", "name": "sound", "parent": "cluster/other"},
    {"kind": "Cluster", "name": "other", "gpu_sharing": "kai"},
]


def apply(world: World, documents: Documents, **options: Any) -> ApplyResult:
    """Apply documents as an administrator."""
    return world.services.config_files.apply(world.root, read_library(documents), ApplyOptions(**options))


def actions(applied: ApplyResult) -> dict[str, str]:
    """The change to each object."""
    return {f"{change.kind} {change.name}": change.action for change in applied.changes}


def rejections(world: World, documents: Documents, **options: Any) -> list[tuple[str, str, str]]:
    """The location, path and rule of each violation in rejected documents."""
    with pytest.raises(RequestRejected) as caught:
        apply(world, documents, **options)
    check_texts(caught.value.violations)
    return [(item.location or "", item.path, item.rule) for item in caught.value.violations]


def changed(documents: Documents, name: str, **fields: Any) -> Documents:
    """The documents, with some fields of the named document replaced."""
    return [{**item, **fields} if item.get("name") == name else item for item in documents]


def test_second_apply_changes_nothing(world: World) -> None:
    first = apply(world, DOCUMENTS)
    assert set(actions(first).values()) == {"created"}
    assert len(first.changes) == 6
    before = world.audit_actions()
    assert set(actions(apply(world, DOCUMENTS)).values()) == {"unchanged"}
    assert world.audit_actions() == before
    assert world.services.compute_resources.get(world.root, "big").managed_by == "files"
    assert world.services.compute_resources.get(world.root, "big").cluster == "cluster/other"
    assert world.preview("project/sea", template="tune")["violations"] == []


def test_order_of_documents_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = []
    for order in list(permutations(DOCUMENTS))[::97]:
        world = initialize_world(MemoryStore(), monkeypatch)
        apply(world, list(order))
        exported.append(world.services.config_files.export(world.root))
    assert len(exported) > 5
    assert all(documents == exported[0] for documents in exported)


def test_changed_document_changes_only_its_object(world: World) -> None:
    apply(world, DOCUMENTS)
    changes = actions(apply(world, changed(DOCUMENTS, "big", description="new")))
    assert Counter(changes.values()) == {"unchanged": 5, "changed": 1}
    assert changes["ComputeResource big"] == "changed"
    assert world.services.compute_resources.get(world.root, "big").revision == 2


@pytest.mark.every_store
def test_prune_removes_objects_that_are_gone_from_the_files(world: World) -> None:
    apply(world, DOCUMENTS)
    world.add_compute_resource("by-hand", scope="department/sound")
    result = apply(world, DOCUMENTS[3:])
    assert "removed" not in actions(result).values()
    with pytest.raises(Conflict, match="by-hand"):
        apply(world, [], prune=True)
    assert world.services.templates.get(world.root, "tune").name == "tune"
    world.services.compute_resources.delete(world.root, "by-hand")
    assert set(actions(apply(world, [], prune=True)).values()) == {"removed"}
    assert names(world.services.scopes.page(world.root, listing(search="sound")).items) == []
    assert names(world.services.scopes.page(world.root, listing(), "project").items) == [
        "default",
        "forest",
        "lake",
        "meadow",
    ]


def test_prune_removes_only_objects_of_its_manager(world: World) -> None:
    apply(world, [{"kind": "ComputeResource", "name": "theirs"}], manager="others")
    apply(world, [{"kind": "ComputeResource", "name": "mine"}])
    world.add_compute_resource("by-hand")
    assert actions(apply(world, [], prune=True)) == {"ComputeResource mine": "removed"}
    assert names(world.services.compute_resources.page(world.root, listing()).items) == ["by-hand", "theirs"]


def test_prune_does_not_remove_objects_that_runs_use(world: World) -> None:
    apply(world, [{"kind": "ComputeResource", "name": "mine"}])
    run = world.submit(profile="mine")
    with pytest.raises(Conflict) as caught:
        apply(world, [], prune=True)
    assert [user["name"] for user in caught.value.used_by] == [run.id]


@pytest.mark.every_store
def test_dry_run_reports_the_same_changes_and_stores_nothing(world: World) -> None:
    before, exported = world.audit_actions(), world.services.config_files.export(world.root)
    dry = apply(world, DOCUMENTS, dry_run=True, prune=True)
    assert dry.dry_run
    assert world.audit_actions() == before
    assert world.services.config_files.export(world.root) == exported
    assert dry.changes == apply(world, DOCUMENTS, prune=True).changes
    assert set(actions(apply(world, [], prune=True, dry_run=True)).values()) == {"removed"}
    assert world.services.compute_resources.get(world.root, "big").name == "big"


@pytest.mark.every_store
def test_dry_run_does_not_affect_previews(world: World) -> None:
    strict: Documents = [{"kind": "Policy", "scope": "platform", "rules": {"resources.gpu": {"max": 0}}}]
    apply(world, strict, dry_run=True)
    assert world.preview(resources={"gpu": 1})["violations"] == []


def test_managed_objects_reject_edits_unless_forced(world: World) -> None:
    services, root = world.services, world.root
    apply(world, DOCUMENTS)
    for use_case in (
        lambda **options: services.compute_resources.edit(root, "big", {"description": "x"}, **options),
        lambda **options: services.compute_resources.archive(root, "big", None, **options),
        lambda **options: services.compute_resources.restore(root, "big", **options),
        lambda **options: services.templates.edit(root, "tune", {"description": "x"}, **options),
        lambda **options: services.scopes.edit(root, "project/sea", {"name": "ocean"}, **options),
        lambda **options: services.policies.delete(root, "department/sound", **options),
        lambda **options: services.templates.delete(root, "tune", **options),
    ):
        with pytest.raises(Conflict, match="managed by files") as caught:
            use_case()
        assert "force=true" in str(caught.value.hint)
        use_case(force=True)
    changes = actions(apply(world, DOCUMENTS))
    assert changes["Project sea"] == "created"


def test_copy_of_a_managed_object_is_unmanaged(world: World) -> None:
    apply(world, DOCUMENTS)
    copy = world.services.compute_resources.copy(world.root, "big", {"name": "mine"})
    assert copy.managed_by is None


def test_manager_does_not_overwrite_another_manager_unless_forced(world: World) -> None:
    mine: Documents = [{"kind": "ComputeResource", "name": "big", "description": "mine"}]
    apply(world, mine, manager="one")
    assert [(path, rule) for _, path, rule in rejections(world, mine, manager="two")] == [("", "conflict")]
    assert actions(apply(world, mine, manager="two", force=True)) == {"ComputeResource big": "changed"}
    assert world.services.compute_resources.get(world.root, "big").managed_by == "two"


def test_unmanaged_object_is_taken_over(world: World) -> None:
    world.add_compute_resource("big", description="d")
    result = apply(world, [{"kind": "ComputeResource", "name": "big", "description": "d"}])
    assert actions(result) == {"ComputeResource big": "changed"}
    assert world.services.compute_resources.get(world.root, "big").managed_by == "files"


@pytest.mark.every_store
def test_all_errors_are_reported_together_and_nothing_is_stored(world: World) -> None:
    before = world.audit_actions()
    invalid: Documents = [
        {"kind": "Policy", "scope": "platform", "rules": {"resources.gpu": {"max": 1}}},
        {"kind": "ComputeResource", "name": "big", "requirements": {"resources": {"gpu": 4}}},
        {"kind": "ComputeResource", "name": "lost", "scope": "project/none"},
        {"kind": "Template", "name": "tune", "requirements": {"profile": "nothing"}},
        {"kind": "Project", "name": "sea", "parent": "department/none"},
        {"kind": "Policy", "scope": "department/none"},
        {"kind": "Policy", "scope": VISION, "defaults": {"profile": "nothing"}},
        {"kind": "ComputeResource", "name": "fine"},
    ]
    violations = rejections(world, invalid)
    assert {(location.partition(":")[0].partition(",")[0], path) for location, path, _ in violations} == {
        ("document 2", "requirements.resources.gpu.devices"),
        ("document 3", "scope"),
        ("document 4", "requirements.profile"),
        ("document 5", "parent"),
        ("document 6", ""),
        ("document 7", "defaults.profile"),
    }
    assert all(rule for _, _, rule in violations)
    assert world.audit_actions() == before
    with pytest.raises(NotFound):
        world.services.compute_resources.get(world.root, "fine")


def test_unreadable_documents_are_rejected_before_any_change(world: World) -> None:
    violations = rejections(
        world,
        [
            {"kind": "Planet", "name": "x"},
            {"name": "x"},
            {"kind": "Project", "name": "a b"},
            {"kind": "ComputeResource", "name": "twice"},
            {"kind": "ComputeResource", "name": "twice"},
            {"kind": "ComputeResource", "name": "r", "revision": "many"},
        ],
    )
    assert [rule for _, _, rule in violations] == ["unknown_kind", "required", "name", "duplicate", "whole_number"]
    assert all(location.startswith("document ") for location, _, _ in violations)


def test_revision_in_a_document_is_rejected(world: World) -> None:
    apply(world, [{"kind": "ComputeResource", "name": "r"}])
    for name in ("r", "s"):
        violations = rejections(world, [{"kind": "ComputeResource", "name": name, "revision": 3}])
        assert [(path, rule) for _, path, rule in violations] == [("revision", "read_only")]


def test_export_applied_to_the_same_platform_changes_only_the_manager(world: World) -> None:
    apply(world, DOCUMENTS)
    exported = world.services.config_files.export(world.root)
    changes = actions(apply(world, exported))
    assert {changes[f"{item['kind']} {item.get('name', item.get('scope'))}"] for item in DOCUMENTS} == {"unchanged"}
    assert set(actions(apply(world, exported)).values()) == {"unchanged"}
    assert world.services.config_files.export(world.root) == exported


def test_export_recreates_the_same_platform_elsewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(world, DOCUMENTS)
    world.add_compute_resource("free", description="0", resources={"gpu": 0}, workload_types=["training"])
    world.put_policy(VISION, rules={"resources.gpu": {"max": 0}}, switches={"allow_root": False}, quota={"gpu": 0})
    world.services.scopes.edit(world.root, FOREST, {"name": "wood"})
    exported = world.services.config_files.export(world.root)
    other = make_world(MemoryStore(), monkeypatch)
    other.first_run.initialize(["user:root"])
    apply(other, exported)
    assert other.services.config_files.export(other.root) == exported


def test_export_contains_only_visible_objects(world: World) -> None:
    world.add_compute_resource("all")
    world.add_compute_resource("far", scope=LAKE)
    vic = world.grant("vic", "viewer", FOREST)
    exported = world.services.config_files.export(vic)
    assert [item.get("name") for item in exported] == ["main", "vision", "forest", "all"]


def test_example_documents_can_be_applied(world: World) -> None:
    library = load_library([(EXAMPLES, "")])
    first = world.services.config_files.apply(world.root, library, ApplyOptions())
    assert {change.kind for change in first.changes} == {
        "Cluster",
        "Department",
        "Project",
        "Policy",
        "ComputeResource",
        "Template",
    }
    second = world.services.config_files.apply(world.root, library, ApplyOptions())
    assert {change.action for change in second.changes} == {"unchanged"}
    assert world.preview(template="finetune")["violations"] == []


def test_editor_applies_permitted_documents_and_others_are_rejected(world: World) -> None:
    eve = world.grant("eve", "editor", VISION)
    own: Documents = [{"kind": "ComputeResource", "name": "mine", "scope": FOREST}]
    applied = world.services.config_files.apply(eve, read_library(own), ApplyOptions(prune=True))
    assert actions(applied) == {"ComputeResource mine": "created"}
    documents: Documents = [
        *own,
        {"kind": "ComputeResource", "name": "all"},
        {"kind": "ComputeResource", "name": "far", "scope": LAKE},
        {"kind": "Project", "name": "new", "parent": VISION},
    ]
    with pytest.raises(RequestRejected) as caught:
        world.services.config_files.apply(eve, read_library(documents), ApplyOptions())
    check_texts(caught.value.violations)
    assert [item.rule for item in caught.value.violations] == ["forbidden", "forbidden", "scope"]


def test_documents_cannot_change_weights_without_a_role_on_the_platform(world: World) -> None:
    ada = world.grant("ada", "admin", VISION)

    def apply_as_ada(documents: Documents, **options: Any) -> ApplyResult:
        return world.services.config_files.apply(ada, read_library(documents), ApplyOptions(**options))

    policy = {"kind": "Policy", "scope": FOREST, "queue": {"weight": 0.5}}
    apply(world, [policy])
    for queue in ({"weight": 1000}, {"max_waiting_runs": 5}):
        with pytest.raises(RequestRejected) as caught:
            apply_as_ada([{**policy, "queue": queue}])
        assert rejection_rules(caught) == [("queue.weight", "weight")]
    with pytest.raises(RequestRejected, match=r"is not set instead of 0\.5"):
        apply_as_ada([], prune=True)
    assert actions(apply_as_ada([{**policy, "quota": {"gpu": 1}}])) == {f"Policy {FOREST}": "changed"}


@pytest.mark.every_store
def test_moved_department_takes_its_assets_along(world: World) -> None:
    apply(world, DOCUMENTS)
    moved = changed(DOCUMENTS, "sound", parent="cluster/main")
    changes = actions(apply(world, moved))
    assert changes["Department sound"] == "changed"
    assert world.services.compute_resources.get(world.root, "big").cluster == "cluster/main"
    assert set(actions(apply(world, moved)).values()) == {"unchanged"}
