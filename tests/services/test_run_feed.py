"""The feed of changed runs."""

import pytest

from fairlead.services import run_feed
from tests.services.worlds import FOREST, LAKE, World


@pytest.mark.every_store
def test_poll_returns_changed_and_deleted_runs(world: World) -> None:
    root, feed = world.root, world.services.run_feed
    old = world.submit()
    world.clock.pass_by(minutes=1)
    begun = feed.begin(root)
    new = world.submit()
    assert [run.id for run in feed.poll(root, None, begun.at).runs] == [new.id]
    world.services.runs.stop(root, old.id)
    seen = feed.poll(root, None, begun.at)
    assert {run.id: run.state for run in seen.runs} == {old.id: "stopped", new.id: "queued"}
    world.services.runs.delete(root, old.id)
    seen = feed.poll(root, None, begun.at)
    assert ([run.id for run in seen.runs], seen.deleted) == ([new.id], [old.id])
    world.clock.pass_by(seconds=10)
    later = feed.poll(root, None, world.clock())
    assert (later.runs, later.deleted) == ([], [])


def test_changes_are_returned_after_the_clock_was_set_back(world: World) -> None:
    begun = world.services.run_feed.begin(world.root)
    world.clock.pass_by(hours=-3)
    new = world.submit()
    assert [run.id for run in world.services.run_feed.poll(world.root, None, begun.at).runs] == [new.id]


def test_only_visible_runs_are_returned(world: World) -> None:
    viewer, begun = world.grant("vera", "viewer", LAKE), world.services.run_feed.begin(world.root)
    hidden, seen = world.submit(FOREST), world.submit(LAKE)
    gone = world.submit(FOREST)
    world.services.runs.stop(world.root, gone.id)
    world.services.runs.delete(world.root, gone.id)
    news = world.services.run_feed.poll(viewer, None, begun.at)
    assert ([run.id for run in news.runs], news.deleted) == ([seen.id], [])
    loaded = world.services.run_feed.load_runs(viewer, None, [hidden.id, seen.id])
    assert [run.id for run in loaded] == [seen.id]
    assert world.services.run_feed.load_runs(world.root, FOREST, [hidden.id, seen.id]) == [hidden]


def test_too_many_changes_are_reported_as_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = world.services.run_feed.begin(world.root)
    monkeypatch.setattr(run_feed, "MAX_CHANGES", 1)
    world.submit()
    assert not world.services.run_feed.poll(world.root, None, begun.at).reload
    world.submit()
    assert world.services.run_feed.poll(world.root, None, begun.at).reload


def test_deleted_project_is_reported_as_many_changes(world: World) -> None:
    begun = world.services.run_feed.begin(world.root)
    world.services.scopes.delete(world.root, LAKE)
    assert world.services.run_feed.poll(world.root, None, begun.at).reload
