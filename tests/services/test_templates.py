"""Templates: starting points for runs, managed like compute resources."""

import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.assets import Difference
from tests.services.worlds import (
    FOREST,
    LAKE,
    VISION,
    World,
    error_text,
    finding_rules,
    listing,
    names,
    rejection_rules,
    setting,
    users_of,
)


@pytest.mark.every_store
def test_template_records_its_compute_resource(world: World) -> None:
    world.add_compute_resource("big", resources={"cpu": 4})
    created = world.add_template("tune", scope=VISION, profile="big", resources={"disk": "1Gi"}, description="to tune")
    assert (created.compute_resource, created.scope, created.cluster) == ("big", VISION, "cluster/main")
    plan = world.preview(template="tune")
    assert (setting(plan, "resources.cpu.requests"), setting(plan, "resources.disk.requests")) == ("4", "1Gi")
    page = world.services.templates.page
    assert names(page(world.root, listing(compute_resource="big")).items) == ["tune"]
    assert names(page(world.root, listing(compute_resource="none")).items) == []
    assert names(page(world.root, listing(search="BIG")).items) == ["tune"]


def test_overridden_template_values_give_a_warning(world: World) -> None:
    world.add_template("tune", resources={"cpu": 4})
    plan = world.preview(template="tune", resources={"cpu": 1})
    assert setting(plan, "resources.cpu.requests") == "1"
    assert ("resources.cpu.requests", "overridden") in finding_rules(plan["warnings"])
    assert finding_rules(world.preview(template="tune", resources={"cpu": 1}, strict=True)["violations"]) == []


@pytest.mark.parametrize("scope", ["platform", VISION, FOREST])
def test_template_can_use_only_reachable_compute_resources(world: World, scope: str) -> None:
    world.add_compute_resource("low", scope=LAKE)
    for profile in ("low", "nothing"):
        with pytest.raises(RequestRejected) as caught:
            world.add_template("tune", scope=scope, profile=profile)
        assert rejection_rules(caught) == [("requirements.profile", "unknown_profile")]


@pytest.mark.parametrize("scope", ["platform", "cluster/main", VISION])
def test_template_above_projects_can_name_secrets_and_volumes_that_do_not_exist_yet(world: World, scope: str) -> None:
    world.put_policy(switches={"existing_volumes": "allow"})
    volume = {"volume_type": "shared_volume", "name": "d", "mount_path": "/d", "spec": {"claim_name": "data"}}
    world.add_template("tune", scope=scope, secrets=["HF_TOKEN"], volumes=[volume])
    assert finding_rules(world.preview(template="tune")["violations"]) == [
        ("secrets.HF_TOKEN", "unknown_secret"),
        ("volumes.d.spec.claim_name", "unknown_volume"),
    ]


def test_template_of_a_project_can_name_only_existing_secrets(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.add_template("tune", scope=FOREST, secrets=["HF_TOKEN"])
    assert rejection_rules(caught) == [("requirements.secrets.HF_TOKEN", "unknown_secret")]
    world.services.secrets.put(world.root, FOREST, "HF_TOKEN", "x")
    assert world.add_template("tune", scope=FOREST, secrets=["HF_TOKEN"]).revision == 1


def test_template_must_comply_with_the_policies_of_its_scope(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}, "priority_class": {"options": ["low"]}})
    with pytest.raises(RequestRejected) as caught:
        world.add_template("tune", scope=FOREST, resources={"gpu": 2}, priority_class="high")
    assert sorted(rejection_rules(caught)) == [
        ("requirements.priority_class", "options"),
        ("requirements.resources.gpu.devices", "max"),
    ]
    world.add_template("tune", scope=LAKE, resources={"gpu": 2}, priority_class="high")


@pytest.mark.every_store
def test_renamed_template_retains_its_runs_and_successors(world: World) -> None:
    services, root = world.services, world.root
    before = world.add_template("tune")
    world.add_template("old")
    services.templates.archive(root, "old", "tune")
    run = world.submit(template="tune")
    after = services.templates.edit(root, "tune", {"name": "finetune"})
    assert (after.id, after.workloads) == (before.id, 1)
    assert services.templates.get(root, "old").successor == "finetune"
    assert setting(world.preview(template="old"), "template") == "finetune"
    assert [item.id for item in services.templates.workloads(root, "finetune", listing()).items] == [run.id]
    with pytest.raises(NotFound) as caught:
        services.templates.get(root, "tune")
    assert error_text(caught).endswith("use its new name: finetune")


def test_template_with_active_runs_cannot_be_deleted(world: World) -> None:
    world.add_template("tune")
    world.add_template("old")
    world.services.templates.archive(world.root, "old", "tune")
    run = world.submit(template="tune")
    with pytest.raises(Conflict) as caught:
        world.services.templates.delete(world.root, "tune")
    assert users_of(caught) == [("run", run.id), ("archived template", "old")]
    world.services.runs.stop(world.root, run.id)
    world.services.templates.delete(world.root, "old")
    world.services.templates.delete(world.root, "tune")


def test_templates_are_copied_archived_and_compared_like_compute_resources(world: World) -> None:
    services, root = world.services, world.root
    world.add_template("tune", resources={"cpu": 1})
    copy = services.templates.copy(root, "tune", {"name": "mine", "scope": FOREST})
    assert (copy.requirements, copy.scope, copy.revision) == ({"resources": {"cpu": {"requests": "1"}}}, FOREST, 1)
    services.templates.edit(root, "tune", {"requirements": {"resources": {"cpu": 2}}})
    changed = [Difference("requirements.resources.cpu.requests", "1", "2")]
    assert services.templates.compare(root, "tune", 1, 2) == changed
    services.templates.archive(root, "tune", None)
    assert finding_rules(world.preview(template="tune")["violations"]) == [("template", "archived")]
    assert names(services.templates.page(root, listing()).items) == ["mine"]
    services.templates.restore(root, "tune")
    assert world.preview(template="tune")["violations"] == []


def test_archived_template_is_replaced_by_its_successor_and_its_compute_resource(world: World) -> None:
    world.add_compute_resource("big", resources={"cpu": 4})
    world.add_template("old", resources={"cpu": 1})
    world.add_template("new", profile="big")
    world.services.templates.archive(world.root, "old", "new")
    plan = world.preview(template="old")
    assert (plan["violations"], setting(plan, "template"), setting(plan, "profile")) == ([], "new", "big")
    assert ("template", "archived") in finding_rules(plan["warnings"])
    run = world.submit(template="old")
    assert (run.template, run.compute_resource) == ("new", "big")


def test_edit_of_a_template_never_changes_an_existing_run(world: World) -> None:
    world.add_template("tune", resources={"cpu": 1})
    run = world.submit(template="tune")
    before = world.services.runs.plan(world.root, run.id)
    world.services.templates.edit(world.root, "tune", {"requirements": {"resources": {"cpu": 8}}})
    assert world.services.runs.plan(world.root, run.id) == before


def test_templates_are_visible_and_editable_according_to_roles(world: World) -> None:
    eve = world.grant("eve", "editor", FOREST)
    world.add_template("all")
    world.add_template("other", scope=LAKE)
    world.add_template("mine", scope=FOREST, call=eve)
    assert names(world.services.templates.page(eve, listing()).items) == ["all", "mine"]
    with pytest.raises(Forbidden):
        world.services.templates.edit(eve, "all", {"description": "x"})
    with pytest.raises(NotFound):
        world.services.templates.edit(eve, "other", {"description": "x"})
    with pytest.raises(NotFound):
        world.services.templates.revisions(eve, "other")


def test_renamed_template_is_updated_in_policy_rules(world: World) -> None:
    world.add_template("tune")
    world.put_policy(VISION, rules={"template": {"options": ["tune"]}})
    world.services.templates.edit(world.root, "tune", {"name": "finetune"})
    assert world.preview(template="finetune")["violations"] == []


def test_successor_of_a_template_must_stay_reachable(world: World) -> None:
    world.add_template("old", scope=VISION)
    world.add_template("new")
    world.services.templates.archive(world.root, "old", "new")
    with pytest.raises(Conflict) as caught:
        world.services.templates.edit(world.root, "new", {"scope": LAKE})
    assert users_of(caught) == [("archived template", "old")]
