"""The limit on the waiting runs of a project: submissions, schedules, changes and concurrent requests."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.controllers.background import Scheduler
from fairlead.errors import QueueFull
from fairlead.model.records import RunRecord
from fairlead.model.scopes import Permission
from fairlead.services.runs.waiting_limits import is_limited
from tests.services.worlds import (
    FOREST,
    LAKE,
    MEADOW,
    NOW,
    VISION,
    World,
    call_as,
    error_text,
    initialize_world,
    make_request,
)

SECONDS = 20  # a timeout: a deadlock fails the test instead of hanging it
HINT = "stop waiting runs, or wait until some have started"


def limit(world: World, runs: int, scope: str = "platform") -> None:
    """Set the limit on waiting runs in a scope."""
    world.put_policy(scope, queue={"max_waiting_runs": runs})


def start(world: World, run: RunRecord) -> None:
    """Assign a run to a server."""
    with world.store.recording() as tx:
        tx.save(replace(run, server_id="s1", state="pending", revision=run.revision + 1))


@pytest.mark.every_store
def test_a_project_with_too_many_waiting_runs_is_refused_until_one_starts_or_stops(world: World) -> None:
    limit(world, 2)
    first, second = world.submit(), world.submit()
    for _ in range(2):
        with pytest.raises(QueueFull) as caught:
            world.submit()
    assert error_text(caught) == f"project/forest has 2 waiting runs; the platform policy allows 2 -> {HINT}"
    start(world, first)
    third = world.submit()
    with pytest.raises(QueueFull):
        world.submit()
    world.services.runs.stop(world.root, second.id)
    assert world.submit().active
    assert third.active


def test_the_message_has_readable_numbers_and_the_scope_that_sets_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(world, 5000)
    limit(world, 1000, VISION)
    limit(world, 2000, FOREST)
    with world.store.reading() as tx:
        monkeypatch.setattr(type(tx), "count", lambda *_: 1000)
    with pytest.raises(QueueFull, match="project/forest has 1,000 waiting runs; the department/vision policy allows 1"):
        world.submit()
    monkeypatch.undo()


def test_one_waiting_run_is_singular(world: World) -> None:
    limit(world, 1)
    world.submit()
    with pytest.raises(QueueFull, match="has 1 waiting run; the platform policy allows 1"):
        world.submit()


def test_a_lowered_limit_refuses_more_runs_but_stops_none(world: World) -> None:
    runs = [world.submit() for _ in range(3)]
    limit(world, 1)
    with pytest.raises(QueueFull, match="has 3 waiting runs; the platform policy allows 1"):
        world.submit()
    assert all(world.services.runs.get(world.root, run.id).active for run in runs)


def test_each_project_has_its_own_count(world: World) -> None:
    limit(world, 1, VISION)
    world.submit(FOREST)
    world.submit(MEADOW)
    for _ in range(2):  # outside the department
        world.submit(LAKE)
    for scope in (FOREST, MEADOW):
        with pytest.raises(QueueFull):
            world.submit(scope)


def test_previews_and_callers_without_permission_are_not_affected(world: World) -> None:
    limit(world, 1)
    world.submit()
    assert world.preview()["violations"] == []
    vic = world.grant("vic", "viewer", FOREST)
    with pytest.raises(Exception, match=f"vic may not {Permission.RUN}"):
        world.submit(call=vic)


@pytest.mark.every_store
def test_a_waiting_run_can_be_changed_while_the_queue_is_full(world: World) -> None:
    limit(world, 2)
    run, _ = world.submit(), world.submit()
    changed = world.services.runs.change(world.root, run.id, {"priority": 5})
    assert (changed.priority, world.services.runs.get(world.root, run.id).state) == (5, "stopped")


@pytest.mark.every_store
def test_a_run_cannot_move_to_a_project_with_a_full_queue(world: World) -> None:
    limit(world, 1)
    run, _ = world.submit(FOREST), world.submit(MEADOW)
    with pytest.raises(QueueFull, match="project/meadow has 1 waiting run"):
        world.services.runs.change(world.root, run.id, {}, project="meadow")
    assert world.services.runs.get(world.root, run.id).state == "queued"
    moved = world.services.runs.change(world.root, run.id, {}, project="lake")
    assert moved.scope == LAKE


@pytest.mark.every_store
def test_a_repeated_request_gets_its_run_although_the_queue_is_full(world: World) -> None:
    limit(world, 1)
    call = call_as(key="k", fingerprint="f")
    run = world.submit(call=call)
    assert world.submit(call=call).id == run.id
    with pytest.raises(QueueFull):
        world.submit(call=call_as(key="other", fingerprint="f"))


@pytest.mark.every_store
def test_a_schedule_records_that_the_queue_is_full_and_continues(world: World) -> None:
    limit(world, 1, FOREST)
    waiting = world.submit()
    schedules, root = world.services.schedules, world.root
    schedules.create(root, FOREST, make_request(schedule="0 6 * * *"))
    scheduler = Scheduler(world.store, schedules.submit_due_runs, world.clock)
    first_time = datetime(2026, 11, 16, 6, 0, 1, tzinfo=UTC)
    world.clock.now = first_time
    scheduler.submit_due()
    schedule = schedules.get(root, FOREST, "train")
    assert schedule.last_problem == "project/forest has 1 waiting run; the project/forest policy allows 1"
    assert schedule.last_run_id is None
    assert ("schedule.refuse", "train") in world.audit_actions()
    with pytest.raises(QueueFull):
        schedules.run(root, FOREST, "train")
    world.services.runs.stop(root, waiting.id)
    world.clock.now = first_time + timedelta(days=1)
    scheduler.submit_due()
    schedule = schedules.get(root, FOREST, "train")
    assert (schedule.last_problem, schedule.last_run_id is None) == (None, False)


def test_missed_times_that_exceed_the_limit_submit_nothing(world: World) -> None:
    limit(world, 2)
    schedules = world.services.schedules
    schedules.create(world.root, FOREST, make_request(schedule={"cron": "0 6 * * *", "missed": "all"}))
    world.clock.now = NOW + timedelta(days=3)
    Scheduler(world.store, schedules.submit_due_runs, world.clock).submit_due()
    schedule = schedules.get(world.root, FOREST, "train")
    assert schedule.last_problem == "project/forest has 2 waiting runs; the platform policy allows 2"
    assert world.submit().active


def test_transactions_are_exclusive_only_if_a_limit_applies(world: World) -> None:
    units = world.services.runs.units
    assert not is_limited(units, FOREST)
    limit(world, 5, VISION)
    world.preview()  # reads the organization again
    assert is_limited(units, FOREST)
    assert not is_limited(units, LAKE)
    units._organization = None  # as after the start of a server
    assert is_limited(units, LAKE)


@pytest.mark.every_store
def test_concurrent_submissions_never_exceed_the_limit(
    database_store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = initialize_world(database_store, monkeypatch)
    limit(world, 5)
    world.submit()
    barrier = threading.Barrier(8)

    def submit(_: int) -> bool:
        barrier.wait(SECONDS)
        try:
            return world.submit().active
        except QueueFull:
            return False

    with ThreadPoolExecutor(8) as pool:
        accepted = list(pool.map(submit, range(8), timeout=SECONDS))
    assert accepted.count(True) == 4
