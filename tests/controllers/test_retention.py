"""Retention: old data is deleted, and nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.retention import UNUSED_CODE, Retention
from fairlead.errors import Unavailable
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import BlobRecord, CodeRecord, EventRecord, OutcomeRecord, PlanRecord, RunRecord
from fairlead.run_files import list_files, save_file
from tests.making import PYTHON
from tests.services.executing import CODE, DIGEST, HOME, OTHER, Platform

DAYS = timedelta(days=1)


def make_retention(platform: Platform, *, runs: int = 30, logs: int = 7) -> Retention:
    """A retention controller with the given number of days."""
    retention_periods = {"keep_runs": runs * DAYS, "keep_logs": logs * DAYS}
    return Retention(
        platform.world.store,
        ExecutorRegistry({"local": platform.executor}),
        clock=platform.world.clock,
        **retention_periods,
    )


def finish(platform: Platform, **requested: Any) -> str:
    """Run a function to completion, and return the run ID."""
    run, controller = platform.submit(**requested), platform.control()
    controller.sync(set())
    platform.executor.write(run.id, b"hello\n")
    platform.executor.end(run.id)
    controller.sync({run.id})
    assert not platform.run(run.id).active
    return run.id


def count_records(platform: Platform, kind: type) -> int:
    """The number of records of a kind."""
    with platform.world.store.reading() as tx:
        return tx.count(kind)


@pytest.mark.every_store
def test_expired_run_is_deleted_with_all_its_records(platform: Platform) -> None:
    old = finish(platform)
    platform.world.clock.pass_by(days=31)
    new = finish(platform)
    make_retention(platform).sweep()
    with platform.world.store.reading() as tx:
        assert [run.id for run in tx.find(RunRecord)] == [new]
        assert [plan.id for plan in tx.find(PlanRecord)] == [new]
        assert [outcome.id for outcome in tx.find(OutcomeRecord)] == [new]
        assert {event.run_id for event in tx.find(EventRecord)} == {new}
    assert platform.executor.list_runs() == [new]
    assert old != new


def test_run_is_retained_until_its_retention_period_ends(platform: Platform) -> None:
    run = finish(platform)
    platform.world.clock.pass_by(days=30, seconds=-10)
    make_retention(platform).sweep()
    assert platform.run(run).state == "completed"


def test_logs_expire_before_runs(platform: Platform) -> None:
    old = finish(platform)
    platform.world.clock.pass_by(days=8)
    new = finish(platform)
    make_retention(platform).sweep()
    assert platform.executor.list_runs() == [new]
    assert platform.run(old).state == "completed"
    assert platform.outcome(old) is not None


def test_active_run_is_never_deleted(platform: Platform) -> None:
    running = platform.submit(resources={"cpu": 8})
    platform.control().sync(set())
    queued = platform.submit(resources={"cpu": 8})
    platform.executor.set_running(running.id)
    platform.world.clock.pass_by(days=1000)
    make_retention(platform, runs=0, logs=0).sweep()
    assert platform.run(running.id).active
    assert platform.run(queued.id).active
    assert platform.executor.list_runs() == [running.id]
    assert platform.executor.count("clean_up", running.id) == 0


def test_clean_up_is_repeated_after_a_crash(platform: Platform) -> None:
    run = finish(platform)
    platform.executor.calls.clear()  # the server was killed before it cleaned up
    make_retention(platform).sweep()
    assert platform.executor.calls == [("clean_up", run)]


def test_executor_data_of_deleted_runs_is_removed(platform: Platform) -> None:
    run = finish(platform)
    platform.world.services.runs.delete(platform.world.root, run)
    make_retention(platform).sweep()
    assert platform.executor.list_runs() == []


@pytest.mark.every_store
def test_unused_code_is_deleted_after_a_delay(platform: Platform) -> None:
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    make_retention(platform).sweep()
    assert (count_records(platform, CodeRecord), count_records(platform, BlobRecord)) == (1, 1)
    platform.world.clock.pass_by(days=UNUSED_CODE.days, seconds=1)
    make_retention(platform).sweep()
    assert (count_records(platform, CodeRecord), count_records(platform, BlobRecord)) == (0, 0)


@pytest.mark.every_store
def test_code_is_retained_as_long_as_a_run_or_function_uses_it(platform: Platform) -> None:
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    finish(platform, function={**PYTHON, "code": DIGEST})
    platform.world.clock.pass_by(days=29)
    make_retention(platform).sweep()
    assert (count_records(platform, CodeRecord), count_records(platform, BlobRecord)) == (1, 1)
    platform.world.clock.pass_by(days=2)
    make_retention(platform).sweep()
    assert (
        count_records(platform, RunRecord),
        count_records(platform, CodeRecord),
        count_records(platform, BlobRecord),
    ) == (0, 1, 1)
    platform.world.services.functions.delete(platform.world.root, HOME, PYTHON["name"])
    make_retention(platform).sweep()
    assert (count_records(platform, CodeRecord), count_records(platform, BlobRecord)) == (0, 0)


@pytest.mark.every_store
def test_code_of_another_project_is_retained(platform: Platform) -> None:
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    platform.world.clock.pass_by(days=UNUSED_CODE.days, seconds=1)
    platform.world.services.stored_code.put(platform.world.root, OTHER, DIGEST, CODE)
    make_retention(platform).sweep()
    assert (count_records(platform, CodeRecord), count_records(platform, BlobRecord)) == (1, 1)


def test_deleted_volumes_are_removed_and_unknown_volumes_are_retained(platform: Platform) -> None:
    services, root = platform.world.services, platform.world.root
    volume = services.volumes.create(root, HOME, SharedVolume(name="sets", size="1Gi"))
    platform.executor.volumes = {volume.id, "unknown"}
    make_retention(platform).sweep()
    assert platform.executor.list_volumes() == sorted([volume.id, "unknown"])
    services.volumes.delete(root, HOME, "sets")
    make_retention(platform).sweep()
    assert platform.executor.list_volumes() == ["unknown"]


def test_failed_sweep_is_retried(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finish(platform)
    platform.world.clock.pass_by(days=31)

    def fail() -> list[str]:
        raise Unavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(platform.executor, "list_runs", fail)
        assert not make_retention(platform).sweep()
    assert platform.executor.list_runs() == [run]
    assert make_retention(platform).sweep()
    assert platform.executor.list_runs() == []


def test_sweep_of_an_empty_platform_does_nothing(platform: Platform) -> None:
    make_retention(platform).sweep()
    assert platform.executor.calls == []


def test_stored_files_of_cluster_runs_expire(platform: Platform) -> None:
    run_id = platform.submit().id
    for path, age in (("log", 8 * DAYS), ("output/model.bin", 6 * DAYS)):
        with platform.world.store.recording() as tx:
            save_file(tx, run_id, path, b"kept", platform.world.clock() - age)
    make_retention(platform).sweep()
    with platform.world.store.reading() as tx:
        assert [file.path for file in list_files(tx, run_id)] == ["output/model.bin"]
