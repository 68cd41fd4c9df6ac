"""Schedules: runs at the scheduled times, the creator's permissions, and rejected runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.controllers.background import Scheduler
from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import FOREST, LAKE, NOW, World, call_as, listing, make_request, names

FIRST_TIME = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)  # the first scheduled time after NOW


def create_schedule(
    world: World, schedule: Any = "0 6 * * *", *, call: Call | None = None, **fields: Any
) -> ScheduleRecord:
    """Create a schedule for a container."""
    request = make_request(**{**fields, "schedule": schedule})
    return world.services.schedules.create(call or world.root, FOREST, request)


def submit_due(world: World, now: datetime) -> None:
    """Submit the runs that are due at a given time."""
    world.clock.now = now
    Scheduler(world.store, world.services.schedules.submit_due_runs, world.clock).submit_due()


def runs_of(world: World, name: str = "train") -> list[RunRecord]:
    """The runs that a schedule has submitted, oldest first."""
    with world.store.reading() as tx:
        return tx.find(RunRecord, Condition("schedule", "=", name))


def read(world: World, name: str = "train") -> ScheduleRecord:
    """The stored schedule."""
    return world.services.schedules.get(world.root, FOREST, name)


def test_schedule_is_created_listed_changed_and_deleted(world: World) -> None:
    schedules, root = world.services.schedules, world.root
    created = create_schedule(world)
    assert (created.name, created.cron, created.timezone, created.user, created.next_at) == (
        "train",
        "0 6 * * *",
        "UTC",
        "root",
        FIRST_TIME,
    )
    create_schedule(world, {"cron": "@daily", "timezone": "Europe/Rome", "name": "nightly"})
    assert names(schedules.page(root, listing(), FOREST).items) == ["nightly", "train"]
    assert names(schedules.page(root, listing()).items) == ["nightly", "train"]
    assert names(schedules.page(root, listing(), LAKE).items) == []
    changed = schedules.change(root, FOREST, "train", {"cron": "30 6 * * *", "timezone": "Europe/Rome"})
    assert changed.next_at == FIRST_TIME - timedelta(minutes=30)
    assert schedules.change(root, FOREST, "train", {"timezone": None}).timezone == "UTC"
    schedules.delete(root, FOREST, "train")
    with pytest.raises(NotFound, match="schedule 'train' does not exist in project/forest"):
        schedules.get(root, FOREST, "train")
    actions = [action for action, name in world.audit_actions() if name == "train" and action.startswith("schedule.")]
    assert actions == ["schedule.create", "schedule.edit", "schedule.edit", "schedule.delete"]


@pytest.mark.every_store
def test_duplicate_name_is_a_conflict(world: World) -> None:
    create_schedule(world)
    with pytest.raises(Conflict, match="schedule train already exists in project/forest"):
        create_schedule(world)


def test_schedule_that_would_be_rejected_now_is_not_stored(world: World) -> None:
    with pytest.raises(RequestRejected) as caught:
        create_schedule(world, {"cron": "never", "timezone": "Mars"}, profile="nothing")
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
    hint = "send the request to /projects/forest/schedules, or remove the schedule"
    assert (violation.path, violation.hint) == ("schedule", hint)


@pytest.mark.every_store
def test_run_is_submitted_at_each_scheduled_time_as_the_creator(world: World) -> None:
    create_schedule(world, call=world.grant("ada", "member", FOREST), envs={"EPOCHS": "3"})
    submit_due(world, FIRST_TIME - timedelta(seconds=1))
    assert runs_of(world) == []
    submit_due(world, FIRST_TIME + timedelta(seconds=1))
    submit_due(world, FIRST_TIME + timedelta(seconds=2))
    (run,) = runs_of(world)
    assert (run.created_by, run.scope, run.function, run.schedule) == ("ada", FOREST, "train", "train")
    schedule = read(world)
    assert (schedule.last_at, schedule.last_run_id, schedule.last_problem) == (FIRST_TIME, run.id, None)
    assert schedule.next_at == FIRST_TIME + timedelta(days=1)
    request = world.services.runs.plan(world.root, run.id).request
    assert request["envs"] == [{"name": "EPOCHS", "value": "3"}]
    assert "schedule" not in request
    submit_due(world, FIRST_TIME + timedelta(days=1, seconds=5))
    assert len(runs_of(world)) == 2


def test_each_run_is_planned_with_the_current_policies(world: World) -> None:
    create_schedule(world, resources={"gpu": 4})
    world.put_policy(rules={"resources.gpu": {"max": 2}})
    submit_due(world, FIRST_TIME + timedelta(seconds=1))
    schedule = read(world)
    assert runs_of(world) == []
    assert schedule.last_run_id is None
    assert "4 requested; the platform policy allows at most 2" in (schedule.last_problem or "")
    assert schedule.next_at == FIRST_TIME + timedelta(days=1)
    assert ("schedule.refuse", "train") in world.audit_actions()
    world.put_policy(rules={"resources.gpu": {"max": 8}})
    submit_due(world, FIRST_TIME + timedelta(days=1, seconds=1))
    assert len(runs_of(world)) == 1
    assert read(world).last_problem is None


def test_creator_without_permission_submits_nothing(world: World) -> None:
    ada = world.grant("ada", "member", FOREST)
    create_schedule(world, call=ada)
    (grant,) = (role for role in world.services.grants.page(world.root, listing()).items if role.subject == "user:ada")
    world.services.grants.delete(world.root, grant.id)
    submit_due(world, FIRST_TIME + timedelta(seconds=1))
    assert runs_of(world) == []
    assert read(world).last_problem


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 3)])
def test_missed_times_are_submitted_as_configured(world: World, missed: str, count: int) -> None:
    create_schedule(world, {"cron": "0 6 * * *", "missed": missed})
    submit_due(world, FIRST_TIME + timedelta(days=2, hours=1))
    assert len(runs_of(world)) == count
    assert read(world).next_at == FIRST_TIME + timedelta(days=3)


def test_overlap_skip_skips_a_time_while_the_previous_run_is_active(world: World) -> None:
    create_schedule(world, {"cron": "0 6 * * *", "overlap": "skip"})
    submit_due(world, FIRST_TIME + timedelta(seconds=1))
    submit_due(world, FIRST_TIME + timedelta(days=1, seconds=1))
    (run,) = runs_of(world)
    assert read(world).last_problem == f"skipped: run {run.id} is queued"
    world.services.runs.stop(world.root, run.id)
    submit_due(world, FIRST_TIME + timedelta(days=2, seconds=1))
    assert len(runs_of(world)) == 2


def test_paused_schedule_misses_nothing(world: World) -> None:
    schedules, root = world.services.schedules, world.root
    create_schedule(world, {"cron": "0 6 * * *", "missed": "all"})
    assert schedules.pause(root, FOREST, "train").next_at is None
    submit_due(world, FIRST_TIME + timedelta(days=3))
    resumed = schedules.resume(root, FOREST, "train")
    assert resumed.next_at == FIRST_TIME + timedelta(days=4)
    submit_due(world, FIRST_TIME + timedelta(days=3, hours=1))
    assert runs_of(world) == []
    assert schedules.resume(root, FOREST, "train") == resumed


def test_manual_run_does_not_change_the_scheduled_times(world: World) -> None:
    schedule = create_schedule(world)
    run = world.services.schedules.run(world.root, FOREST, "train")
    assert (run.schedule, run.created_by) == ("train", "root")
    assert read(world) == schedule


@pytest.mark.every_store
def test_two_servers_submit_each_time_once(world: World) -> None:
    schedule = create_schedule(world)
    world.clock.now = FIRST_TIME + timedelta(seconds=1)
    stale = world.services.schedules._load(schedule.id)
    world.services.schedules.submit_due_runs(schedule.id)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            world.services.schedules, "_load", lambda _id: stale
        )  # like a server that loaded the schedule earlier
        world.services.schedules.submit_due_runs(schedule.id)
    assert len(runs_of(world)) == 1


def test_only_members_manage_schedules_and_strangers_do_not_see_them(world: World) -> None:
    create_schedule(world)
    viewer, stranger = world.grant("vera", "viewer", FOREST), call_as("stranger")
    assert world.services.schedules.get(viewer, FOREST, "train").name == "train"
    for operation in (world.services.schedules.pause, world.services.schedules.run, world.services.schedules.delete):
        with pytest.raises(Forbidden):
            operation(viewer, FOREST, "train")
        with pytest.raises(NotFound):
            operation(stranger, FOREST, "train")
    with pytest.raises(Forbidden):
        create_schedule(world, {"cron": "@daily", "name": "hers"}, call=viewer)


def test_named_function_is_resolved_at_the_scheduled_time(world: World) -> None:
    world.submit(function={"name": "train", "kind": "container", "image": "registry.example/train:1"})
    create_schedule(world, function="train")
    world.submit(function={"name": "train", "kind": "container", "image": "registry.example/train:2"})
    submit_due(world, FIRST_TIME + timedelta(seconds=1))
    (run,) = runs_of(world)
    assert world.services.runs.plan(world.root, run.id).request["function"]["image"] == "registry.example/train:2"


def test_unreadable_schedule_does_not_block_others(world: World) -> None:
    unreadable = create_schedule(world, {"cron": "0 6 * * *", "name": "odd"})
    with world.store.recording() as tx:
        tx.save(replace(unreadable, timezone="Nowhere/Known", revision=unreadable.revision + 1))
    create_schedule(world)
    submit_due(world, FIRST_TIME)
    assert (len(runs_of(world)), runs_of(world, "odd")) == (1, [])


@pytest.mark.parametrize("change", [{}, {"cron": None}, {"cron": "often"}])
def test_empty_or_invalid_change_is_rejected(world: World, change: dict[str, Any]) -> None:
    before = create_schedule(world)
    with pytest.raises(RequestRejected):
        world.services.schedules.change(world.root, FOREST, "train", change)
    assert read(world) == before


def test_replacement_run_belongs_to_the_same_schedule(world: World) -> None:
    create_schedule(world)
    submit_due(world, FIRST_TIME)
    (run,) = runs_of(world)
    world.services.runs.change(world.root, run.id, {"priority": 3})
    assert [submitted.priority for submitted in runs_of(world)] == [0, 3]


def test_project_with_a_schedule_cannot_be_deleted(world: World) -> None:
    create_schedule(world)
    with pytest.raises(Conflict, match="schedule train"):
        world.services.scopes.delete(world.root, FOREST)
    assert NOW < FIRST_TIME
