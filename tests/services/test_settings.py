"""Platform settings."""

import pytest

from fairlead.errors import Changed, Forbidden, RequestRejected, RevisionMissing
from fairlead.model.assets import Defaults
from tests.services.worlds import FOREST, VISION, World, call_as, rejection_rules, setting


def make(**fields: object) -> Defaults:
    """Platform defaults."""
    return Defaults.model_validate(fields)


def test_default_settings_apply_unless_a_policy_overrides_them(world: World) -> None:
    assert world.services.settings.get(world.root).revision == 0
    assert world.services.settings.put(world.root, make(resources={"cpu": 2})).revision == 1
    assert setting(world.preview(), "resources.cpu.requests") == "2"
    world.put_policy(VISION, defaults={"resources": {"cpu": 3}})
    assert setting(world.preview(), "resources.cpu.requests") == "3"
    assert setting(world.preview("project/lake"), "resources.cpu.requests") == "2"
    assert world.services.settings.get(world.root).defaults == {"resources": {"cpu": {"requests": "2"}}}


def test_replacing_the_settings_requires_their_revision(world: World) -> None:
    put = world.services.settings.put
    put(call_as(revision=0), make(fs_group=1))
    with pytest.raises(Changed):  # the settings were created in the meantime
        put(call_as(revision=0), make(fs_group=2))
    with pytest.raises(RevisionMissing):
        put(world.root, make(fs_group=2))
    assert put(call_as(revision=1), make(fs_group=2)).revision == 2
    assert put(call_as(any_revision=True), make()).defaults == {}


def test_default_profile_must_be_a_compute_resource_of_the_platform(world: World) -> None:
    world.add_compute_resource("narrow", scope=FOREST)
    for profile in ("narrow", "nothing"):
        with pytest.raises(RequestRejected) as caught:
            world.services.settings.put(world.root, make(profile=profile))
        assert rejection_rules(caught) == [("defaults.profile", "unknown_profile")]


def test_settings_are_readable_by_all_and_writable_by_platform_administrators(world: World) -> None:
    ada = world.grant("ada", "admin", VISION)
    eve = world.grant("eve", "editor", "platform")
    for user in (ada, eve):
        assert world.services.settings.get(user).revision == 0
        with pytest.raises(Forbidden):
            world.services.settings.put(user, make(fs_group=1))
