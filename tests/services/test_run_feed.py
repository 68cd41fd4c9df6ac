"""The feed of changed runs."""

import pytest

from fairlead.services.runs import executions
from tests.services.worlds import FOREST, LAKE, World


@pytest.mark.every_store
def test_poll_returns_changed_and_deleted_runs(world: World) -> None:
    root, feed = world.root, world.services.run_feed
    old = world.submit()
    world.clock.pass_by(minutes=1)
    start = feed.begin(root)
    new = world.submit()
    assert [run.id for run in feed.poll(root, None, start.at).runs] == [new.id]
    world.services.runs.stop(root, old.id)
    changes = feed.poll(root, None, start.at)
    assert {run.id: run.state for run in changes.runs} == {old.id: "stopped", new.id: "queued"}
    world.services.runs.delete(root, old.id)
    changes = feed.poll(root, None, start.at)
    assert ([run.id for run in changes.runs], changes.deleted) == ([new.id], [old.id])
    world.clock.pass_by(seconds=10)
    later = feed.poll(root, None, world.clock())
    assert (later.runs, later.deleted) == ([], [])


def test_changes_are_returned_after_the_clock_was_set_back(world: World) -> None:
    start = world.services.run_feed.begin(world.root)
    world.clock.pass_by(hours=-3)
    new = world.submit()
    assert [run.id for run in world.services.run_feed.poll(world.root, None, start.at).runs] == [new.id]


def test_only_visible_runs_are_returned(world: World) -> None:
    viewer, start = world.grant("vera", "viewer", LAKE), world.services.run_feed.begin(world.root)
    hidden, visible = world.submit(FOREST), world.submit(LAKE)
    deleted = world.submit(FOREST)
    world.services.runs.stop(world.root, deleted.id)
    world.services.runs.delete(world.root, deleted.id)
    changes = world.services.run_feed.poll(viewer, None, start.at)
    assert ([run.id for run in changes.runs], changes.deleted) == ([visible.id], [])
    loaded = world.services.run_feed.load_runs(viewer, None, [hidden.id, visible.id])
    assert [run.id for run in loaded] == [visible.id]
    assert world.services.run_feed.load_runs(world.root, FOREST, [hidden.id, visible.id]) == [hidden]


def test_too_many_changes_are_reported_as_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start = world.services.run_feed.begin(world.root)
    monkeypatch.setattr(executions, "MAX_CHANGES", 1)
    world.submit()
    assert not world.services.run_feed.poll(world.root, None, start.at).reload
    world.submit()
    assert world.services.run_feed.poll(world.root, None, start.at).reload


def test_deleted_project_is_reported_as_many_changes(world: World) -> None:
    start = world.services.run_feed.begin(world.root)
    world.services.scopes.delete(world.root, LAKE)
    assert world.services.run_feed.poll(world.root, None, start.at).reload
