"""Every project has a cluster: the default cluster, runs that wait for a cluster, and hints for members."""

from dataclasses import replace

import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.files.documents import read_library
from fairlead.model.assets import Defaults
from fairlead.model.columns import Condition
from fairlead.model.records import PlanRecord, RunRecord, ScopeRecord
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster, Department, Project
from fairlead.services.config_files import ApplyOptions
from tests.making import PYTHON
from tests.services.executing import HOME, OTHER, Platform
from tests.services.worlds import (
    FOREST,
    MAIN,
    VISION,
    World,
    call_as,
    error_text,
    finding_rules,
    make_request,
    rejection_rules,
)

LOCAL = "cluster/local"


def parent_of(world: World, scope: str) -> str | None:
    """The parent of a scope."""
    return world.services.scopes.get(world.root, scope).parent


def choose_default(world: World, cluster: str) -> None:
    """Choose the default cluster."""
    world.services.settings.put(call_as(any_revision=True), Defaults(), cluster)


def default_of(world: World) -> str | None:
    """The default cluster as the API shows it."""
    return world.services.settings.get(world.root).default_cluster


def apply(world: World, *documents: dict[str, str]) -> list[str]:
    """Apply documents, and return what happened to each object."""
    applied = world.services.config_files.apply(world.root, read_library(documents), ApplyOptions())
    return [change.action for change in applied.changes]


# The default cluster


@pytest.mark.every_store
def test_new_projects_are_created_in_the_oldest_cluster_unless_an_administrator_chooses_another(world: World) -> None:
    create = world.services.scopes.create
    assert create(world.root, Project(name="one")).parent == default_of(world) == LOCAL
    choose_default(world, MAIN)
    assert create(world.root, Project(name="two")).parent == default_of(world) == MAIN
    assert create(world.root, Department(name="three", parent="platform")).parent == MAIN
    assert create(world.root, Project(name="four", parent=LOCAL)).parent == LOCAL
    assert create(world.root, Cluster(name="five")).parent == "platform"
    assert parent_of(world, "project/one") == LOCAL
    assert [entry.after["default_cluster"] for entry in world.audit(kind="settings") if entry.after] == [MAIN]


@pytest.mark.every_store
def test_the_first_cluster_gets_the_projects_that_had_none(world: World) -> None:
    for scope in (FOREST, "project/meadow", "project/lake", VISION, "department/speech", MAIN):
        world.services.scopes.delete(world.root, scope)
    world.remove_cluster()
    assert default_of(world) is None
    world.services.scopes.create(world.root, Department(name="sound"))
    world.services.scopes.create(world.root, Project(name="sea", parent="department/sound"))
    resource = world.add_compute_resource("deep", scope="project/sea")
    assert (parent_of(world, "department/sound"), resource.cluster) == ("platform", None)
    for name in ("first", "second"):
        world.services.scopes.create(world.root, Cluster(name=name))
        assert parent_of(world, "department/sound") == default_of(world) == "cluster/first"
        assert world.services.compute_resources.get(world.root, "deep").cluster == "cluster/first"
    assert ("department.move", "sound") in world.audit_actions()


@pytest.mark.every_store
def test_projects_of_earlier_versions_move_into_the_default_cluster_at_the_next_start(world: World) -> None:
    world.services.scopes.create(world.root, Project(name="old"))
    with world.services.units.changing(world.root, "organization") as unit:
        record = unit.tx.get(ScopeRecord, scope="project/old")
        assert record is not None
        unit.tx.save(replace(record, parent="platform", revision=2))
    assert world.services.capacity.show(world.root, project="old")[0].cluster == "local"
    world.first_run.initialize([])
    assert parent_of(world, "project/old") == LOCAL
    before = world.audit_actions()
    world.first_run.initialize([])
    assert world.audit_actions() == before


@pytest.mark.every_store
def test_default_cluster_can_be_renamed_and_is_deleted_last(world: World) -> None:
    choose_default(world, MAIN)
    world.services.scopes.edit(world.root, MAIN, {"name": "primary"})
    assert default_of(world) == "cluster/primary"
    for scope in (FOREST, "project/meadow", "project/lake", VISION, "department/speech"):
        world.services.scopes.delete(world.root, scope)
    with pytest.raises(Conflict, match="is the default cluster") as caught:
        world.services.scopes.delete(world.root, "cluster/primary")
    assert "fairlead clusters default local" in error_text(caught)
    world.remove_cluster()
    world.services.scopes.delete(world.root, "cluster/primary")
    assert default_of(world) is None


def test_default_cluster_must_exist_and_is_hidden_from_callers_who_cannot_see_it(world: World) -> None:
    for scope in ("cluster/none", VISION):
        with pytest.raises(RequestRejected) as caught:
            choose_default(world, scope)
        assert rejection_rules(caught) == [("default_cluster", "scope")]
    vic = world.grant("vic", "viewer", FOREST)
    assert world.services.settings.get(vic).default_cluster is None
    choose_default(world, MAIN)
    assert world.services.settings.get(vic).default_cluster == MAIN
    assert world.services.settings.put(call_as(any_revision=True), Defaults(fs_group=7)).default_cluster == MAIN


def test_moving_a_project_to_the_platform_moves_it_to_the_default_cluster(world: World) -> None:
    assert world.services.scopes.edit(world.root, FOREST, {"parent": "platform"}).parent == LOCAL
    assert world.services.scopes.edit(world.root, FOREST, {"name": "wood"}).parent == LOCAL


def test_documents_without_a_parent_create_in_the_default_cluster_and_move_nothing(world: World) -> None:
    sea = {"kind": "Project", "name": "sea"}
    assert apply(world, sea) == ["created"]
    choose_default(world, MAIN)
    assert apply(world, sea, {"kind": "Cluster", "name": "third"}) == ["created", "unchanged"]
    assert parent_of(world, "project/sea") == LOCAL
    assert apply(world, sea | {"parent": "platform"}) == ["changed"]
    assert parent_of(world, "project/sea") == MAIN


def test_registering_a_cluster_changes_nothing_for_existing_projects(platform: Platform) -> None:
    world = platform.world
    world.services.scopes.create(world.root, Project(name="mine"))
    before = platform.submit("project/mine")
    world.services.scopes.create(world.root, Cluster(name="second"))
    after = platform.submit("project/mine")
    platform.control().sync(set())
    assert [platform.state(run.id)[0] for run in (before, after)] == ["pending", "pending"]
    assert [platform.run(run.id).cluster for run in (before, after)] == [LOCAL, LOCAL]


# No cluster


def test_preview_submit_and_fit_report_a_missing_cluster(platform: Platform) -> None:
    world = platform.world
    for scope in ("project/home", "project/other", "project/far", "cluster/here", "cluster/far"):
        world.services.scopes.delete(world.root, scope)
    world.remove_cluster()
    world.services.scopes.create(world.root, Project(name="lost"))
    request = make_request(function=PYTHON)
    plan = world.services.runs.preview(world.root, "project/lost", request)
    assert ("project", "no_cluster") in finding_rules(plan["violations"])
    report = world.services.fit_checks.check(world.root, "lost", request)
    assert ("project", "no_cluster") in finding_rules(report.violations)
    assert (report.verdict, report.reasons) == ("unknown", [])
    with pytest.raises(RequestRejected, match="the platform has no clusters") as caught:
        platform.submit("project/lost")
    assert ("project", "no_cluster") in rejection_rules(caught)


# Runs that wait for a cluster


def submit_without_cluster(platform: Platform, scope: str) -> RunRecord:
    """Submit a run that has no cluster, as earlier versions stored them."""
    run = platform.submit(scope)
    with platform.world.store.changing("assets") as tx:
        waiting = replace(run, cluster=None, reason="NoExecutor", message="no cluster", revision=run.revision + 1)
        tx.save(waiting)
    return waiting


@pytest.mark.every_store
def test_run_without_a_cluster_starts_on_the_cluster_of_its_project(platform: Platform) -> None:
    run = submit_without_cluster(platform, HOME)
    platform.control().sync(set())
    assert platform.state(run.id) == ("queued", "NoExecutor")
    platform.world.services.cluster_changes.follow()
    moved = platform.run(run.id)
    assert (moved.cluster, moved.reason, moved.queue_key) == ("cluster/here", "Queued", run.queue_key)
    assert (moved.created_by, moved.created_at) == (run.created_by, run.created_at)
    assert run.id in platform.notified
    platform.control().sync(set())
    assert platform.state(run.id)[0] == "pending"


def test_run_that_waits_for_a_server_follows_its_project(platform: Platform) -> None:
    world = platform.world
    run = platform.submit("project/far", resources={"mem": "1Gi"})
    assert platform.state(run.id) == ("queued", "NoExecutor")
    world.services.cluster_changes.follow()
    assert platform.run(run.id).cluster == "cluster/far"
    world.services.scopes.edit(world.root, "project/far", {"parent": "cluster/here"})
    for _ in range(2):
        world.services.cluster_changes.follow()
    assert platform.run(run.id).cluster == "cluster/here"
    assert platform.events(run.id) == [("queued", "NoExecutor"), ("queued", "Queued")]
    with world.store.reading() as tx:
        plan = tx.get(PlanRecord, id=run.id)
    assert plan is not None
    # The image was a default of the other cluster.
    assert "function.image" not in {setting["path"] for setting in plan.plan["settings"]}
    platform.control().sync(set())
    assert platform.state(run.id)[0] == "pending"


def test_project_with_runs_that_wait_for_a_server_can_be_moved_to_another_cluster_only(platform: Platform) -> None:
    edit, root = platform.world.services.scopes.edit, platform.world.root
    edit(root, "cluster/far", {"connection": "in_cluster"})  # the server is not a pod in this cluster
    run = platform.submit("project/far")
    with pytest.raises(Conflict, match=f"run {run.id} is in namespace far of its cluster"):
        edit(root, "project/far", {"name": "away"})
    edit(root, "project/far", {"parent": "cluster/here", "name": "away"})
    platform.world.services.cluster_changes.follow()
    assert (platform.run(run.id).cluster, platform.run(run.id).scope) == ("cluster/here", "project/away")


def test_run_that_its_new_cluster_cannot_execute_waits_with_the_reason(platform: Platform) -> None:
    world = platform.world
    run = world.submit("project/far")  # a container, which the machine cannot run
    world.services.scopes.edit(world.root, "project/far", {"parent": "cluster/here"})
    for _ in range(2):
        world.services.cluster_changes.follow()
    waiting = platform.run(run.id)
    assert (waiting.state, waiting.reason, waiting.cluster) == ("queued", "NoExecutor", "cluster/far")
    assert "cannot run on cluster/here, the cluster of its project: function.kind" in waiting.message
    assert platform.events(run.id) == [("queued", "NoExecutor")] * 2
    world.services.scopes.edit(world.root, "project/far", {"parent": "cluster/far"})
    world.services.cluster_changes.follow()
    changed = world.services.runs.change(world.root, run.id, {"priority": 1})
    assert "fairlead clusters connect far" in changed.message


def test_runs_that_wait_for_capacity_keep_their_cluster(platform: Platform) -> None:
    world = platform.world
    run = platform.submit(HOME, resources={"cpu": 8})
    world.services.scopes.edit(world.root, HOME, {"parent": "cluster/far"})
    world.services.cluster_changes.follow()
    assert platform.run(run.id).cluster == "cluster/here"


def test_runs_are_checked_only_after_the_configuration_has_changed(platform: Platform) -> None:
    follow = platform.world.services.cluster_changes.follow
    follow()
    run = platform.submit(HOME)
    with platform.world.store.recording() as tx:
        tx.save(replace(run, cluster=None, reason="NoExecutor", revision=run.revision + 1))
    follow()
    assert platform.run(run.id).cluster is None
    platform.world.add_compute_resource("any")
    follow()
    assert platform.run(run.id).cluster == "cluster/here"


def test_unreadable_request_does_not_keep_other_runs_waiting(platform: Platform) -> None:
    broken, other = submit_without_cluster(platform, HOME), submit_without_cluster(platform, OTHER)
    with platform.world.store.changing("assets") as tx:
        (plan,) = tx.find(PlanRecord, Condition("id", "=", broken.id))
        tx.remove(plan)
        tx.add(replace(plan, request={"function": 7}))
    platform.world.services.cluster_changes.follow()
    assert [platform.run(run.id).cluster for run in (broken, other)] == [None, "cluster/here"]


# Members


def test_member_who_may_not_create_projects_is_told_which_ones_they_can_use(world: World) -> None:
    bob = world.grant("bob", "member", FOREST)
    world.grant("bob", "viewer", "project/lake")
    for name in ("default", "sun"):
        with pytest.raises(Forbidden) as caught:
            world.services.scopes.create(bob, Project(name=name))
        assert error_text(caught) == "bob may not add a project to platform -> use one of your projects: forest"
        with pytest.raises(NotFound) as missing:
            world.services.runs.preview(bob, f"project/{name}", RunRequest.model_validate({"function": "f"}))
        assert error_text(missing) == f"project/{name} does not exist -> use one of your projects: forest"
    choose_default(world, MAIN)
    with pytest.raises(Forbidden, match="bob may not add a project to cluster/main"):
        world.services.scopes.create(bob, Project(name="sun"))
    with pytest.raises(NotFound) as missing:
        world.services.scopes.get(bob, "project/forrest")
    assert missing.value.hint == "did you mean forest?"


def test_callers_without_a_project_are_told_to_ask_for_a_role(world: World) -> None:
    vic = world.grant("vic", "viewer", FOREST)
    with pytest.raises(Forbidden) as caught:
        world.services.scopes.create(vic, Project(name="sun"))
    assert caught.value.hint == "ask an administrator of a project for the member role"


def test_administrators_are_not_told_to_use_other_projects(world: World) -> None:
    ada = world.grant("ada", "admin", LOCAL)
    for caller in (world.root, ada):
        with pytest.raises(NotFound) as missing:
            world.services.scopes.get(caller, "project/sun")
        assert missing.value.hint is None
    assert world.services.scopes.create(ada, Project(name="sun")).parent == LOCAL
    with pytest.raises(RequestRejected, match="cluster/main does not exist"):
        world.services.scopes.create(ada, Project(name="moon", parent=MAIN))
    world.grant("ada", "viewer", MAIN)
    with pytest.raises(Forbidden) as caught:
        world.services.scopes.create(ada, Project(name="moon", parent=MAIN))
    expected = "ada may not add a project to cluster/main -> ask an administrator of cluster/main for the admin role"
    assert error_text(caught) == expected
