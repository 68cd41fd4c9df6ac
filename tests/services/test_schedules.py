"""Schedules: what is submitted at their times, as whom, and what becomes of what is refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.controllers.schedules import Scheduler
from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.services.calls import Call
from tests.services.worlds import FOREST, LAKE, NOW, World, call_as, listing, make_request, names

SIX = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)  # the first time after the beginning of the world


def keep(world: World, schedule: Any = "0 6 * * *", *, call: Call | None = None, **asked: Any) -> ScheduleRecord:
    """A schedule of a container."""
    request = make_request(**{**asked, "schedule": schedule})
    return world.services.schedules.create(call or world.root, FOREST, request)


def look_at(world: World, moment: datetime) -> None:
    """Submit due schedules at a given time."""
    world.clock.now = moment
    Scheduler(world.store, world.services.schedules.submit_due_runs, world.clock).submit_due()


def runs_of(world: World, name: str = "train") -> list[RunRecord]:
    """The runs that a schedule has submitted, the oldest first."""
    with world.store.reading() as tx:
        return tx.find(RunRecord, Condition("schedule", "=", name))


def read(world: World, name: str = "train") -> ScheduleRecord:
    """The stored schedule."""
    return world.services.schedules.get(world.root, FOREST, name)


def test_schedule_is_created_listed_changed_and_deleted(world: World) -> None:
    schedules, root = world.services.schedules, world.root
    made = keep(world)
    assert (made.name, made.cron, made.timezone, made.user, made.next_at) == ("train", "0 6 * * *", "UTC", "root", SIX)
    keep(world, {"cron": "@daily", "timezone": "Europe/Rome", "name": "nightly"})
    assert names(schedules.page(root, listing(), FOREST).items) == ["nightly", "train"]
    assert names(schedules.page(root, listing()).items) == ["nightly", "train"]
    assert names(schedules.page(root, listing(), LAKE).items) == []
    changed = schedules.change(root, FOREST, "train", {"cron": "30 6 * * *", "timezone": "Europe/Rome"})
    assert changed.next_at == SIX - timedelta(minutes=30)
    assert schedules.change(root, FOREST, "train", {"timezone": None}).timezone == "UTC"
    schedules.delete(root, FOREST, "train")
    with pytest.raises(NotFound, match="schedule 'train' does not exist in project/forest"):
        schedules.get(root, FOREST, "train")
    actions = [action for action, name in world.told() if name == "train" and action.startswith("schedule.")]
    assert actions == ["schedule.create", "schedule.edit", "schedule.edit", "schedule.delete"]


@pytest.mark.every_store
def test_duplicate_name_is_a_conflict(world: World) -> None:
    keep(world)
    with pytest.raises(Conflict, match="schedule train already exists in project/forest"):
        keep(world)


def test_schedule_that_would_be_rejected_now_is_not_stored(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        keep(world, {"cron": "never", "timezone": "Mars"}, profile="nothing")
    assert {violation.path for violation in caught.value.violations} == {
        "profile",
        "schedule.cron",
        "schedule.timezone",
    }
    with pytest.raises(RequestRejected) as caught:
        world.services.schedules.create(world.root, FOREST, make_request())
    assert [violation.path for violation in caught.value.violations] == ["schedule"]


def test_run_with_a_schedule_is_rejected_with_a_hint(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        world.submit(schedule="0 6 * * *")
    (violation,) = caught.value.violations
    assert (violation.path, violation.hint) == ("schedule", "send it to /projects/forest/schedules, or remove it")


@pytest.mark.every_store
def test_run_is_submitted_at_each_scheduled_time_as_the_creator(world: World) -> None:
    keep(world, call=world.grant("ada", "member", FOREST), envs={"EPOCHS": "3"})
    look_at(world, SIX - timedelta(seconds=1))
    assert runs_of(world) == []
    look_at(world, SIX + timedelta(seconds=1))
    look_at(world, SIX + timedelta(seconds=2))
    (run,) = runs_of(world)
    assert (run.created_by, run.scope, run.function, run.schedule) == ("ada", FOREST, "train", "train")
    schedule = read(world)
    assert (schedule.last_at, schedule.last_run_id, schedule.last_problem) == (SIX, run.id, None)
    assert schedule.next_at == SIX + timedelta(days=1)
    asked = world.services.runs.plan(world.root, run.id).request
    assert asked["envs"] == [{"name": "EPOCHS", "value": "3"}]
    assert "schedule" not in asked
    look_at(world, SIX + timedelta(days=1, seconds=5))
    assert len(runs_of(world)) == 2


def test_each_run_is_planned_with_the_current_policies(world: World) -> None:
    keep(world, resources={"gpu": 4})
    world.put_policy(rules={"resources.gpu": {"max": 2}})
    look_at(world, SIX + timedelta(seconds=1))
    schedule = read(world)
    assert runs_of(world) == []
    assert schedule.last_run_id is None
    assert "4 requested; the platform policy allows at most 2" in (schedule.last_problem or "")
    assert schedule.next_at == SIX + timedelta(days=1)
    assert ("schedule.refuse", "train") in world.told()
    world.put_policy(rules={"resources.gpu": {"max": 8}})
    look_at(world, SIX + timedelta(days=1, seconds=1))
    assert len(runs_of(world)) == 1
    assert read(world).last_problem is None


def test_creator_without_permission_submits_nothing(world: World) -> None:
    ada = world.grant("ada", "member", FOREST)
    keep(world, call=ada)
    (grant,) = (role for role in world.services.grants.page(world.root, listing()).items if role.subject == "user:ada")
    world.services.grants.delete(world.root, grant.id)
    look_at(world, SIX + timedelta(seconds=1))
    assert runs_of(world) == []
    assert read(world).last_problem


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 3)])
def test_missed_times_are_submitted_as_configured(world: World, missed: str, count: int) -> None:
    keep(world, {"cron": "0 6 * * *", "missed": missed})
    look_at(world, SIX + timedelta(days=2, hours=1))
    assert len(runs_of(world)) == count
    assert read(world).next_at == SIX + timedelta(days=3)


def test_overlap_skip_skips_a_time_while_the_previous_run_is_active(world: World) -> None:
    keep(world, {"cron": "0 6 * * *", "overlap": "skip"})
    look_at(world, SIX + timedelta(seconds=1))
    look_at(world, SIX + timedelta(days=1, seconds=1))
    (run,) = runs_of(world)
    assert read(world).last_problem == f"skipped: run {run.id} is queued"
    world.services.runs.stop(world.root, run.id)
    look_at(world, SIX + timedelta(days=2, seconds=1))
    assert len(runs_of(world)) == 2


def test_paused_schedule_misses_nothing(world: World) -> None:
    schedules, root = world.services.schedules, world.root
    keep(world, {"cron": "0 6 * * *", "missed": "all"})
    assert schedules.pause(root, FOREST, "train").next_at is None
    look_at(world, SIX + timedelta(days=3))
    resumed = schedules.resume(root, FOREST, "train")
    assert resumed.next_at == SIX + timedelta(days=4)
    look_at(world, SIX + timedelta(days=3, hours=1))
    assert runs_of(world) == []
    assert schedules.resume(root, FOREST, "train") == resumed


def test_manual_run_does_not_change_the_scheduled_times(world: World) -> None:
    schedule = keep(world)
    run = world.services.schedules.run(world.root, FOREST, "train")
    assert (run.schedule, run.created_by) == ("train", "root")
    assert read(world) == schedule


@pytest.mark.every_store
def test_two_servers_submit_each_time_once(world: World) -> None:
    schedule = keep(world)
    world.clock.now = SIX + timedelta(seconds=1)
    stale = world.services.schedules._load(schedule.id)
    world.services.schedules.submit_due_runs(schedule.id)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.services.schedules, "_load", lambda _id: stale)  # as a server that read it before
        world.services.schedules.submit_due_runs(schedule.id)
    assert len(runs_of(world)) == 1


def test_only_members_manage_schedules_and_strangers_do_not_see_them(world: World) -> None:
    keep(world)
    viewer, stranger = world.grant("vera", "viewer", FOREST), call_as("stranger")
    assert world.services.schedules.get(viewer, FOREST, "train").name == "train"
    for act in (world.services.schedules.pause, world.services.schedules.run, world.services.schedules.delete):
        with pytest.raises(Forbidden):
            act(viewer, FOREST, "train")
        with pytest.raises(NotFound):
            act(stranger, FOREST, "train")
    with pytest.raises(Forbidden):
        keep(world, {"cron": "@daily", "name": "hers"}, call=viewer)


def test_named_function_is_resolved_at_the_scheduled_time(world: World) -> None:
    world.submit(function={"name": "train", "kind": "container", "image": "registry.example/train:1"})
    keep(world, function="train")
    world.submit(function={"name": "train", "kind": "container", "image": "registry.example/train:2"})
    look_at(world, SIX + timedelta(seconds=1))
    (run,) = runs_of(world)
    assert world.services.runs.plan(world.root, run.id).request["function"]["image"] == "registry.example/train:2"


def test_unreadable_schedule_does_not_block_others(world: World) -> None:
    odd = keep(world, {"cron": "0 6 * * *", "name": "odd"})
    with world.store.recording() as tx:
        tx.save(replace(odd, timezone="Nowhere/Known", revision=odd.revision + 1))
    keep(world)
    look_at(world, SIX)
    assert (len(runs_of(world)), runs_of(world, "odd")) == (1, [])


@pytest.mark.parametrize("change", [{}, {"cron": None}, {"cron": "often"}])
def test_empty_or_invalid_change_is_rejected(world: World, change: dict[str, Any]) -> None:
    before = keep(world)
    with pytest.raises(RequestRejected):
        world.services.schedules.change(world.root, FOREST, "train", change)
    assert read(world) == before


def test_replacement_run_belongs_to_the_same_schedule(world: World) -> None:
    keep(world)
    look_at(world, SIX)
    (run,) = runs_of(world)
    world.services.runs.change(world.root, run.id, {"priority": 3})
    assert [schedule.priority for schedule in runs_of(world)] == [0, 3]


def test_project_with_a_schedule_cannot_be_deleted(world: World) -> None:
    keep(world)
    with pytest.raises(Conflict, match="schedule train"):
        world.services.scopes.delete(world.root, FOREST)
    assert NOW < SIX
