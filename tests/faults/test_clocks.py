"""Clock changes: reconciling, limits and retention use the time that has actually passed."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local import sampling
from fairlead.adapters.local.cgroups import Cgroup
from fairlead.adapters.local.processes import RunProcess
from fairlead.adapters.local.sampling import ProcessSampler
from fairlead.adapters.local.specs import Spec, UserMapping
from fairlead.controllers import runs
from fairlead.controllers.background import Scheduler, StableClock
from fairlead.controllers.retention import Retention
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord, ServerRecord
from fairlead.model.runs import Observation, Phase
from tests.controllers.test_idle_culling import NOTEBOOK
from tests.making import PYTHON
from tests.services.executing import HOME, Platform
from tests.services.worlds import make_request

HOURS, DAYS, YEAR = timedelta(hours=1), timedelta(days=1), timedelta(days=365)
SOON = timedelta(seconds=runs.RESYNC_SECONDS + 1)
every_jump = pytest.mark.parametrize("offset", [3 * HOURS, -3 * HOURS, 40 * DAYS, -40 * DAYS], ids=str)


def jump(platform: Platform, offset: timedelta) -> None:
    """Change the clock by an offset."""
    platform.world.clock.now += offset


def make_retention(platform: Platform, days: int = 30, **clock_options: Any) -> Retention:
    """The retention controller."""
    store, executors, retention_time = platform.world.store, platform.control().executors, days * DAYS
    clock = StableClock(platform.world.clock, **clock_options)
    return Retention(store, executors, clock=clock, keep_runs=retention_time, keep_logs=retention_time)


@every_jump
def test_server_keeps_reconciling_after_a_clock_change(platform: Platform, offset: timedelta) -> None:
    controller, run = platform.control(), platform.submit()
    controller.sync(set())
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    jump(platform, offset)
    waiting = platform.submit()
    platform.executor.end(run.id)  # without notifications
    jump(platform, SOON)
    controller.sync(set())
    assert platform.state(run.id) == ("completed", "Completed")
    assert platform.state(waiting.id) == ("pending", "Claimed")
    with platform.world.store.reading() as tx:
        (server,) = tx.find(ServerRecord)
    assert abs(platform.world.clock() - server.seen_at) < SOON


@every_jump
def test_end_time_is_never_before_the_start_time(platform: Platform, offset: timedelta) -> None:
    controller, run, clock = platform.control(), platform.submit(), platform.world.clock
    controller.sync(set())
    started_at = clock()
    platform.executor.runs[run.id].observation = Observation(Phase.RUNNING, started_at=started_at)
    controller.sync({run.id})
    jump(platform, offset)
    platform.executor.end(run.id, started_at=started_at, finished_at=clock())
    controller.sync({run.id})
    ended = platform.run(run.id)
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert ended.finished_at >= ended.started_at


@every_jump
def test_retry_delay_is_not_extended_by_a_clock_change(platform: Platform, offset: timedelta) -> None:
    controller, run = platform.control(), platform.submit(retries=1)
    controller.sync(set())
    platform.executor.end(run.id, Phase.FAILED, reason="ExitCode", exit_code=3)
    controller.sync({run.id})
    assert platform.state(run.id)[0] == "queued"
    jump(platform, offset)
    controller.sync(set())  # detects the clock change
    jump(platform, timedelta(minutes=10))  # longer than any retry delay
    controller.sync(set())
    assert (platform.state(run.id)[0] != "queued", platform.run(run.id).attempt) == (True, 2)


def test_short_jump_of_a_year_deletes_nothing(platform: Platform) -> None:
    retention, run = make_retention(platform), finish(platform)
    retention.sweep()
    jump(platform, YEAR)
    for _ in range(3):
        retention.sweep()
    jump(platform, -YEAR)
    retention.sweep()
    assert platform.run(run).state == "completed"
    assert platform.executor.list_runs() == [run]


def test_clock_that_stays_ahead_for_a_day_is_trusted(platform: Platform) -> None:
    counter = [0.0]
    retention, run = make_retention(platform, read_counter=lambda: counter[0]), finish(platform)
    retention.sweep()
    jump(platform, 40 * DAYS)
    for hours, exists in ((1, True), (23, True), (25, False)):
        counter[0] = hours * HOURS.total_seconds()
        retention.sweep()
        assert (platform.executor.list_runs() == [run]) is exists, hours


def test_expired_runs_are_deleted_after_a_long_suspend(platform: Platform) -> None:
    counter = [0.0]
    retention, run = make_retention(platform, read_counter=lambda: counter[0]), finish(platform)
    retention.sweep()
    jump(platform, 40 * DAYS)
    counter[0] += (40 * DAYS).total_seconds()
    retention.sweep()
    assert (platform.executor.list_runs(), run) == ([], run)


def test_clock_set_back_deletes_nothing(platform: Platform) -> None:
    retention, run = make_retention(platform, days=1), finish(platform)
    retention.sweep()
    jump(platform, -40 * DAYS)
    retention.sweep()
    assert platform.executor.list_runs() == [run]


def test_schedule_continues_after_a_short_jump_of_a_year(platform: Platform) -> None:
    services, clock = platform.world.services, platform.world.clock
    services.schedules.create(platform.world.root, HOME, make_request(function=PYTHON, schedule="0 6 * * *"))
    scheduler = Scheduler(platform.world.store, services.schedules.submit_due_runs, clock)
    jump(platform, YEAR)
    scheduler.submit_due()
    jump(platform, -YEAR)
    scheduler.submit_due()
    count = count_runs(platform)
    for _ in range(3):
        jump(platform, DAYS)
        scheduler.submit_due()
    assert count_runs(platform) == count + 3


def test_clock_set_ahead_does_not_stop_a_workspace(platform: Platform) -> None:
    counter = [0.0]
    controller = platform.control()
    platform.executor.cores = 0.0
    controller.idle_culler.clock = StableClock(platform.world.clock, lambda: counter[0])
    run = platform.submit(function=NOTEBOOK, action="workspace", idle_timeout="30m")
    controller.sync(set())
    platform.executor.runs[run.id].observation = Observation(Phase.RUNNING, started_at=platform.world.clock())
    controller.sync({run.id})
    jump(platform, 3 * HOURS)
    controller.sync(set())
    assert platform.state(run.id)[0] == "running"
    counter[0] += HOURS.total_seconds()
    jump(platform, HOURS)
    controller.sync(set())
    assert platform.state(run.id) == ("stopping", "Idle")


def test_usage_is_sampled_after_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(sampling, "DISK_SHARE", 0)
    (home := tmp_path / "home").mkdir()
    identity = UserMapping(os.getuid(), os.getgid(), [])
    spec = Spec(
        "r", "p", "train", "boot", ["true"], {}, "/", str(home), identity, disk=50_000, disk_folders=[str(home)]
    )
    sampler = ProcessSampler(tmp_path, spec, RunProcess(os.getpid(), {}, -1, isolated=False, cgroup=Cgroup({})))
    now = time.time()
    assert sampler.check() is None
    (home / "large").write_bytes(bytes(100_000))
    monkeypatch.setattr(time, "time", lambda: now - HOURS.total_seconds())
    exceeded = sampler.check()
    assert exceeded is not None
    assert exceeded[0] == "Evicted"


def finish(platform: Platform) -> str:
    """Complete a run, and return its ID."""
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.end(run.id)
    controller.sync({run.id})
    return run.id


def count_runs(platform: Platform) -> int:
    """The number of runs."""
    with platform.world.store.reading() as tx:
        return tx.count(RunRecord, Condition("active", "in", (True, False)))
