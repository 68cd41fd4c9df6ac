"""Volumes shared by a project's runs."""

import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import JSON
from tests.services.worlds import FOREST, LAKE, World, call_as, finding_rules, listing, names, users_of

SHARED: JSON = {"volume_type": "shared_volume", "name": "d", "mount_path": "/data", "spec": {"claim_name": "data"}}


def make(name: str = "data", size: str = "10Gi") -> SharedVolume:
    """A volume definition."""
    return SharedVolume.model_validate({"name": name, "size": size, "storage_class": "fast", "description": "d"})


@pytest.fixture
def sharing(world: World) -> World:
    """A platform that allows existing volumes, with a volume."""
    world.put_policy(switches={"existing_volumes": "allow"})
    world.services.volumes.create(world.root, FOREST, make())
    return world


@pytest.mark.every_store
def test_volume_is_created_listed_and_deleted(world: World) -> None:
    volumes, root = world.services.volumes, world.root
    created = volumes.create(root, FOREST, make(size="10240Mi"))
    assert (created.name, created.size, created.storage_class, created.scope, created.revision) == (
        "data",
        "10Gi",
        "fast",
        FOREST,
        1,
    )
    assert volumes.get(root, FOREST, "data") == created
    volumes.create(root, FOREST, make("more"))
    assert names(volumes.page(root, FOREST, listing(sort="-name")).items) == ["more", "data"]
    assert names(volumes.page(root, LAKE, listing()).items) == []
    with pytest.raises(Conflict, match="volume data already exists"):
        volumes.create(root, FOREST, make())
    volumes.create(root, LAKE, make())
    volumes.delete(root, FOREST, "data")
    with pytest.raises(NotFound, match="volume 'data' does not exist in project/forest"):
        volumes.get(root, FOREST, "data")
    assert volumes.get(root, LAKE, "data").scope == LAKE


def test_runs_can_share_a_volume_if_a_policy_allows_existing_volumes(world: World) -> None:
    world.services.volumes.create(world.root, FOREST, make())
    assert finding_rules(world.preview(volumes=[SHARED])["violations"]) == [
        ("volumes.d.volume_type", "existing_volumes")
    ]
    world.put_policy(switches={"existing_volumes": "allow"})
    assert world.preview(volumes=[SHARED])["violations"] == []
    world.put_policy("department/vision", switches={"existing_volumes": "block"})
    assert finding_rules(world.preview(volumes=[SHARED])["violations"]) == [
        ("volumes.d.volume_type", "existing_volumes")
    ]


def test_run_can_use_only_volumes_of_its_project(sharing: World) -> None:
    assert finding_rules(sharing.preview(LAKE, volumes=[SHARED])["violations"]) == [
        ("volumes.d.spec.claim_name", "unknown_volume")
    ]


@pytest.mark.every_store
def test_volume_of_an_active_run_cannot_be_deleted(sharing: World) -> None:
    run = sharing.submit(volumes=[SHARED])
    assert run.uses == ["volume/data"]
    with pytest.raises(Conflict) as caught:
        sharing.services.volumes.delete(sharing.root, FOREST, "data")
    assert users_of(caught) == [("run", run.id)]
    sharing.services.runs.stop(sharing.root, run.id)
    sharing.services.volumes.delete(sharing.root, FOREST, "data")
    assert finding_rules(sharing.preview(volumes=[SHARED])["violations"]) == [
        ("volumes.d.spec.claim_name", "unknown_volume")
    ]


def test_environment_variable_mounts_nothing(sharing: World) -> None:
    run = sharing.submit(envs={"x.spec.claim_name": "data", "volumes.d.spec.claim_name": "data"})
    assert run.uses == []
    sharing.services.volumes.delete(sharing.root, FOREST, "data")


def test_volumes_of_compute_resources_and_templates_count(sharing: World) -> None:
    sharing.add_compute_resource("with-data", scope=FOREST, volumes=[SHARED])
    sharing.add_template("t", scope=FOREST, volumes=[{**SHARED, "name": "e", "mount_path": "/e"}])
    assert sharing.submit(profile="with-data").uses == ["volume/data"]
    assert sharing.submit(template="t").uses == ["volume/data"]


def test_deletion_of_an_outdated_revision_is_rejected(sharing: World) -> None:
    with pytest.raises(Changed):
        sharing.services.volumes.delete(call_as(revision=7), FOREST, "data")
    assert sharing.services.volumes.get(sharing.root, FOREST, "data").revision == 1


def test_only_members_can_change_volumes(sharing: World) -> None:
    vic, mia = sharing.grant("vic", "viewer", FOREST), sharing.grant("mia", "member", FOREST)
    assert sharing.services.volumes.get(vic, FOREST, "data").name == "data"
    with pytest.raises(Forbidden):
        sharing.services.volumes.create(vic, FOREST, make("more"))
    with pytest.raises(Forbidden):
        sharing.services.volumes.delete(vic, FOREST, "data")
    with pytest.raises(NotFound):
        sharing.services.volumes.create(mia, LAKE, make("more"))
    sharing.services.volumes.create(mia, FOREST, make("more"))
    sharing.services.volumes.delete(mia, FOREST, "data")
