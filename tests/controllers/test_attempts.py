"""Retries of failed runs: the requested number, each attempt exactly once."""

from functools import partial
from typing import Any

import pytest

from fairlead.controllers import runs
from fairlead.controllers.runs import RunController
from fairlead.model.columns import Condition
from fairlead.model.nodes import Node
from fairlead.model.records import AttemptRecord
from fairlead.model.runs import Phase
from tests.contracts.executors import MemoryExecutor
from tests.controllers.test_retention import make_retention
from tests.making import PYTHON, make_request
from tests.scheduling.nodes import make_amounts
from tests.services.executing import HOME, SERVER, Platform

GI = 2**30
SYNC_SECONDS = runs.RESYNC_SECONDS + 1
GROWING: dict[str, Any] = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2, "max": "32Gi"}}


def fail_attempt(platform: Platform, execution: str, reason: str = "ExitCode", **more: Any) -> None:
    """End an attempt with a failure."""
    outcome = {"reason": reason, "message": f"it is {reason}", "exit_code": 1, **more}
    platform.executor.end(execution, Phase.FAILED, **outcome)


def start_run(platform: Platform, controller: RunController, **requested: Any) -> str:
    """Start a run until its first attempt is running, and return its ID."""
    run = platform.submit(**requested)
    controller.sync(set())
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    assert platform.state(run.id)[0] == "running"
    return run.id


def attempt_records(platform: Platform, run_id: str) -> list[AttemptRecord]:
    """The stored records of ended attempts."""
    with platform.world.store.reading() as tx:
        attempts = tx.find(AttemptRecord, Condition("run_id", "=", run_id))
    return sorted(attempts, key=lambda attempt: attempt.number)


def advance(platform: Platform, controller: RunController, seconds: float = SYNC_SECONDS) -> None:
    """Advance the clock, then sync."""
    platform.world.clock.pass_by(seconds=seconds)
    controller.sync(set())


def test_run_that_fails_twice_completes_at_its_third_attempt(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=2)
    error = {"type": "ValueError", "message": "bad"}
    fail_attempt(platform, run, error=error, usage={"mem": 7})
    controller.sync({run})
    waiting = platform.run(run)
    assert (waiting.state, waiting.reason, waiting.attempt, waiting.active) == ("queued", "Retrying", 2, True)
    assert (waiting.server_id, waiting.started_at, waiting.finished_at, waiting.exit_code) == (None, None, None, None)
    assert waiting.message == "attempt 1 failed (ExitCode): it is ExitCode; attempt 2 of 3 starts in 10 s"
    assert platform.executor.count("clean_up", run) == 1
    for number in (2, 3):
        advance(platform, controller, 400)
        platform.executor.set_running(f"{run}-{number}")
        controller.sync({run})
        retried = platform.run(run)
        assert (retried.state, retried.attempt, retried.server_id, retried.retry_at) == (
            "running",
            number,
            SERVER,
            None,
        )
        if number == 2:
            fail_attempt(platform, f"{run}-2", exit_code=3)
            controller.sync({run})
    platform.executor.end(f"{run}-3", result={"kind": "json", "value": 7})
    controller.sync({run})
    ended = platform.run(run)
    assert (ended.state, ended.reason, ended.attempt, ended.exit_code) == ("completed", "Completed", 3, 0)
    outcome = platform.outcome(run)
    assert outcome is not None
    assert outcome.result == {"kind": "json", "value": 7}
    first, second = attempt_records(platform, run)
    assert (first.id, first.number, first.state, first.reason, first.message) == (
        run,
        1,
        "failed",
        "ExitCode",
        "it is ExitCode",
    )
    assert (first.exit_code, first.error, first.usage, first.server_id) == (1, error, {"mem": 7}, SERVER)
    assert first.started_at is not None
    assert first.finished_at is not None
    assert (second.id, second.number, second.exit_code) == (f"{run}-2", 2, 3)
    attempt_states = ["pending", "running"]
    assert [state for state, _ in platform.events(run)] == [
        "queued",
        *attempt_states,
        "queued",
        *attempt_states,
        "queued",
        *attempt_states,
        "completed",
    ]
    started = [execution for call, execution in platform.executor.calls if call == "start"]
    assert started == [run, f"{run}-2", f"{run}-3"]


def test_last_failure_ends_the_run(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    for execution in (run, f"{run}-2"):
        fail_attempt(platform, execution)
        controller.sync({run})
        advance(platform, controller, 20)
    ended = platform.run(run)
    assert (ended.state, ended.reason, ended.active, ended.attempt) == ("failed", "ExitCode", False, 2)
    assert ended.message == "it is ExitCode; that was attempt 2 of 2"
    assert [attempt.number for attempt in attempt_records(platform, run)] == [1]


@pytest.mark.every_store
def test_retry_waits_for_its_backoff(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run)
    controller.sync({run})
    other = platform.submit()
    advance(platform, controller, 9)
    controller.sync({run})
    assert platform.state(run) == ("queued", "Retrying")
    assert platform.state(other.id)[0] == "pending"  # runs behind it do not wait
    advance(platform, controller, 2)
    assert platform.executor.count("start", f"{run}-2") == 1


@pytest.mark.parametrize("reason", ["SupervisorLost", "NodeLost", "Evicted", "PodRemoved"])
def test_lost_run_is_retried_immediately(platform: Platform, reason: str) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run, reason)
    controller.sync({run})
    assert controller._changed == {run}
    controller.sync({run})
    assert platform.executor.count("start", f"{run}-2") == 1


def test_notification_about_an_earlier_attempt_changes_nothing(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run, "NodeLost")
    controller.sync({run})
    controller.sync({run})
    platform.executor.set_running(f"{run}-2")
    controller.sync({run})
    before = platform.run(run)
    for _ in range(3):
        controller.sync({run})
    assert platform.run(run) == before
    assert [attempt.number for attempt in attempt_records(platform, run)] == [1]


# Memory


def memory_of(platform: Platform, execution: str) -> str:
    """The memory request of an attempt's pod."""
    job = platform.executor.runs[execution].launch.manifests[0]
    memory: str = job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"]
    return memory


def test_memory_grows_after_oom_kills_up_to_the_maximum(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, **GROWING)
    memory_by_attempt = []
    for execution in (run, f"{run}-2", f"{run}-3"):
        memory_by_attempt.append((memory_of(platform, execution), platform.run(run).mem_bytes))
        fail_attempt(platform, execution, "OOMKilled")
        controller.sync({run})
        controller.sync({run})
    assert memory_by_attempt == [("8Gi", 8 * GI), ("16Gi", 16 * GI), ("32Gi", 32 * GI)]
    ended = platform.run(run)
    assert (ended.state, ended.reason, ended.attempt) == ("failed", "OOMKilled", 3)
    assert ended.message.endswith("its memory cannot grow beyond 32 GiB; that was attempt 3 of 3")
    assert [attempt.mem_bytes for attempt in attempt_records(platform, run)] == [8 * GI, 16 * GI]


def test_admission_uses_the_request_of_the_attempt(platform: Platform) -> None:
    controller = platform.control()
    large = start_run(platform, controller, resources={"mem": "20Gi"})
    run = start_run(platform, controller, **GROWING)
    fail_attempt(platform, run, "OOMKilled")
    controller.sync({run})
    controller.sync({run})
    assert platform.state(run) == ("queued", "Unschedulable")
    assert platform.run(run).message == "waiting for 16 GiB memory"
    why = platform.world.services.explanations.why(platform.world.root, run)
    assert "needs 16 GiB" in why.message
    platform.executor.end(large)
    controller.sync({large})
    assert platform.state(run)[0] == "pending"
    assert memory_of(platform, f"{run}-2") == "16Gi"


def test_running_time_does_not_count_as_waiting_time(platform: Platform) -> None:
    """Otherwise the run would block all runs that fit as soon as it is retried."""
    controller = platform.control()
    run = start_run(platform, controller, resources={"cpu": 5}, retries=1)
    start_run(platform, controller, resources={"cpu": 3})
    platform.world.clock.pass_by(seconds=2000)
    platform.executor.node = Node("box", make_amounts(cpu=7, mem="32Gi", disk="100Gi", gpu=2, pods=16))
    fail_attempt(platform, run, "NodeLost")
    for _ in range(2):
        controller.sync({run})
    assert platform.state(run) == ("queued", "Unschedulable")
    request = make_request(function=PYTHON, resources={"cpu": 1})
    preview = partial(platform.world.services.runs.preview, platform.world.root, HOME, request)
    assert preview()["fit"]["verdict"] == "now"
    small = platform.submit(resources={"cpu": 1})
    advance(platform, controller)
    assert platform.state(small.id)[0] == "pending"
    platform.world.clock.pass_by(seconds=400)
    advance(platform, controller)
    assert preview()["fit"]["verdict"] == "later"


def test_quotas_count_the_request_of_the_attempt(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"mem": "32Gi"})
    controller = platform.control()
    other = start_run(platform, controller, resources={"mem": "20Gi"})
    run = start_run(platform, controller, **GROWING)
    fail_attempt(platform, run, "OOMKilled")
    controller.sync({run})
    controller.sync({run})
    assert platform.state(run) == ("queued", "QuotaExceeded")
    assert platform.run(run).message.endswith("16 GiB of 32 GiB memory in the project/home quota")
    platform.executor.end(other)
    controller.sync({other})
    assert platform.state(run)[0] == "pending"


def test_run_that_waits_for_a_retry_uses_no_quota(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"runs": 1})
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    behind = platform.submit()
    controller.sync(set())
    assert platform.state(behind.id) == ("queued", "QuotaExceeded")
    fail_attempt(platform, run)
    controller.sync({run})
    assert platform.state(behind.id)[0] == "pending"
    advance(platform, controller, 20)
    assert platform.state(run) == ("queued", "QuotaExceeded")


def test_explanation_contains_the_start_of_the_retry(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run)
    controller.sync({run})
    why = platform.world.services.explanations.why(platform.world.root, run)
    assert (why.reason, why.message, why.position) == ("Retrying", platform.run(run).message, 0)
    advance(platform, platform.control("s2", MemoryExecutor()), 1)
    assert platform.world.services.explanations.why(platform.world.root, run).message.endswith("starts in 10 s")


# Stopping


def test_run_that_waits_for_a_retry_can_be_stopped(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run)
    controller.sync({run})
    stopped = platform.stop(run)
    assert (stopped.state, stopped.message) == ("stopped", "stopped by root before attempt 2 started")
    advance(platform, controller, 400)
    assert platform.state(run) == ("stopped", "Stopped")
    assert platform.executor.list_runs() == [run]


def test_stop_during_the_retry_decision_takes_precedence(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run)
    load = controller.state_writer.load_attempt_history

    def stop_first(record: Any) -> Any:
        monkeypatch.setattr(controller.state_writer, "load_attempt_history", load)
        platform.stop(run)
        return load(record)

    monkeypatch.setattr(controller.state_writer, "load_attempt_history", stop_first)
    controller.sync({run})
    controller.sync({run})
    ended = platform.run(run)
    assert (ended.state, ended.reason, ended.attempt) == ("failed", "ExitCode", 1)
    assert ended.message == "it is ExitCode; it ended before root stopped it"
    assert attempt_records(platform, run) == []


@pytest.mark.parametrize("attempt", [1, 2])
def test_stop_applies_to_the_current_attempt(platform: Platform, attempt: int) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    execution = run
    if attempt == 2:
        fail_attempt(platform, run, "NodeLost")
        controller.sync({run})
        controller.sync({run})
        execution = f"{run}-2"
        platform.executor.set_running(execution)
        controller.sync({run})
    platform.stop(run)
    controller.sync({run})
    controller.sync({run})
    assert platform.state(run) == ("stopped", "Stopped")
    assert [stopped for call, stopped in platform.executor.calls if call == "stop"] == [execution]


# Retention


def complete_second_attempt(platform: Platform) -> str:
    """Complete a run on its second attempt, and return its ID."""
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run, "NodeLost", finished_at=platform.world.clock())
    controller.sync({run})
    controller.sync({run})
    platform.executor.end(f"{run}-2")
    controller.sync({run})
    assert platform.state(run)[0] == "completed"
    return run


def test_attempts_are_deleted_with_their_run(platform: Platform) -> None:
    run, other = complete_second_attempt(platform), complete_second_attempt(platform)
    platform.world.services.runs.delete(platform.world.root, run)
    platform.control().sync({run})
    assert platform.executor.list_runs() == [other, f"{other}-2"]
    with platform.world.store.reading() as tx:
        assert {attempt.run_id for attempt in tx.find(AttemptRecord)} == {other}


def test_attempts_of_unknown_runs_are_removed(platform: Platform) -> None:
    run, retention = complete_second_attempt(platform), make_retention(platform)
    platform.world.services.runs.delete(platform.world.root, run)
    assert retention.sweep()
    assert platform.executor.list_runs() == []


def test_logs_of_earlier_attempts_expire_by_their_own_end_time(platform: Platform) -> None:
    run, retention = complete_second_attempt(platform), make_retention(platform, logs=7)
    platform.world.clock.pass_by(days=6)
    retention.sweep()
    assert platform.executor.list_runs() == [run, f"{run}-2"]
    platform.world.clock.pass_by(days=2)
    retention.sweep()
    assert platform.executor.list_runs() == []


def test_earlier_attempt_is_cleaned_up_while_the_run_continues(platform: Platform) -> None:
    controller, retention = platform.control(), make_retention(platform)
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run, "NodeLost", finished_at=platform.world.clock())
    controller.sync({run})
    controller.sync({run})
    platform.executor.set_running(f"{run}-2")
    controller.sync({run})
    platform.executor.calls.clear()
    assert retention.sweep()
    assert platform.executor.calls == [("clean_up", run)]
    platform.world.clock.pass_by(days=8)
    assert retention.sweep()
    assert platform.executor.list_runs() == [f"{run}-2"]
