"""The run controller: runs are claimed once, started once and followed until they end despite faults."""

from typing import Any

import pytest

from fairlead.controllers import runs
from fairlead.errors import Unavailable
from fairlead.model.records import PlanRecord, RunRecord, ServerRecord
from fairlead.model.runs import Observation, Phase
from tests.contracts.executors import MemoryExecutor
from tests.services.executing import HOME, OTHER, SERVER, Platform


@pytest.mark.every_store
def test_run_passes_through_all_states(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    assert platform.state(run.id) == ("pending", "Claimed")
    assert platform.run(run.id).server_id == SERVER
    assert platform.executor.count("start", run.id) == 1
    controller.sync({run.id})
    assert platform.state(run.id) == ("starting", "Starting")
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    running = platform.run(run.id)
    assert (running.state, running.active, running.started_at is not None) == ("running", True, True)
    platform.executor.end(run.id, result={"kind": "json", "value": 7}, usage={"mem": 5})
    controller.sync({run.id})
    ended = platform.run(run.id)
    assert (ended.state, ended.active, ended.exit_code, ended.reason) == ("completed", False, 0, "Completed")
    assert ended.finished_at is not None
    outcome = platform.outcome(run.id)
    assert outcome is not None
    assert (outcome.result, outcome.error, outcome.usage) == ({"kind": "json", "value": 7}, None, {"mem": 5})
    states = ["queued", "pending", "starting", "running", "completed"]
    assert [state for state, _ in platform.events(run.id)] == states
    assert platform.executor.count("clean_up", run.id) == 1


def test_queued_local_run_is_loaded_only_once_before_it_starts(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, controller = platform.submit(), platform.control()
    loaded, load = list[str](), controller._load

    def count(run_id: str) -> Any:
        loaded.append(run_id)
        return load(run_id)

    monkeypatch.setattr(controller, "_load", count)
    controller.sync({run.id})
    assert loaded == [run.id]
    assert platform.executor.count("start", run.id) == 1


def test_changed_message_is_stored_without_an_event(platform: Platform) -> None:
    """A scheduler changes its message whenever a node is added or removed."""
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    for nodes in range(3):
        observation = Observation(Phase.PENDING, "Unschedulable", f"0/{nodes} nodes are available")
        platform.executor.runs[run.id].observation = observation
        controller.sync({run.id})
        assert platform.run(run.id).message == observation.message
    assert platform.events(run.id) == [("queued", "Queued"), ("pending", "Claimed"), ("pending", "Unschedulable")]


def test_failure_is_recorded(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    error = {"type": "ValueError", "message": "bad"}
    failure = {"reason": "ExitCode", "message": "ValueError: bad", "exit_code": 1, "error": error}
    platform.executor.end(run.id, Phase.FAILED, **failure)
    controller.sync({run.id})
    ended = platform.run(run.id)
    assert (ended.state, ended.reason, ended.message, ended.exit_code) == ("failed", "ExitCode", "ValueError: bad", 1)
    outcome = platform.outcome(run.id)
    assert outcome is not None
    assert outcome.error == error


@pytest.mark.every_store
def test_two_servers_claim_a_run_once(platform: Platform) -> None:
    other = MemoryExecutor()
    run = platform.submit()
    first, second = platform.control(), platform.control("s2", other)
    with platform.world.store.reading() as tx:
        stored = tx.get(RunRecord, id=run.id)
    assert stored is not None
    assert first.state_writer.claim(stored)
    assert not second.state_writer.claim(stored)
    for controller in (second, first, second):
        controller.sync({run.id})
    assert (platform.executor.list_runs(), other.list_runs()) == ([run.id], [])
    assert platform.run(run.id).server_id == SERVER
    assert platform.events(run.id).count(("pending", "Claimed")) == 1


def test_server_ignores_runs_of_other_servers(platform: Platform) -> None:
    run, other = platform.submit(), MemoryExecutor()
    platform.control("s2", other).sync(set())
    platform.control().sync({run.id})
    platform.stop(run.id)
    platform.control().sync({run.id})
    assert platform.executor.calls == []
    assert platform.state(run.id)[0] == "stopping"


def test_restarted_server_continues_after_each_step(platform: Platform) -> None:
    run = platform.submit()
    stored = platform.run(run.id)
    assert platform.control().state_writer.claim(stored)  # after this, the server was killed
    platform.control().sync(set())
    assert platform.executor.list_runs() == [run.id]
    platform.executor.set_running(run.id)
    platform.control().sync(set())
    assert platform.state(run.id) == ("running", "Running")
    platform.executor.end(run.id)
    platform.control().sync(set())
    assert platform.state(run.id) == ("completed", "Completed")
    for _ in range(3):
        platform.control().sync({run.id})
    assert platform.events(run.id) == [
        ("queued", "Queued"),
        ("pending", "Claimed"),
        ("running", "Running"),
        ("completed", "Completed"),
    ]


def test_run_that_ended_during_downtime_is_recorded(platform: Platform) -> None:
    run = platform.submit()
    platform.control().sync(set())
    platform.executor.end(run.id)
    platform.control().sync(set())
    assert platform.state(run.id)[0] == "completed"


def test_run_that_disappears_is_lost(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    platform.executor.drop_run(run.id)
    controller.sync({run.id})
    assert platform.state(run.id) == ("failed", "Lost")
    assert platform.executor.count("start", run.id) == 1


def test_run_that_changed_during_a_sync_is_synced_again(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.set_running(run.id)
    observe = platform.executor.observe

    def stop_first(run_id: str) -> Any:
        monkeypatch.setattr(platform.executor, "observe", observe)
        platform.stop(run_id)
        return observe(run_id)

    monkeypatch.setattr(platform.executor, "observe", stop_first)
    controller.reconcile(run.id)
    assert platform.state(run.id)[0] == "stopping"
    assert controller._changed == {run.id}
    controller.sync(controller._changed)
    controller.sync({run.id})
    assert platform.state(run.id)[0] == "stopped"


def test_run_stopped_during_its_claim_does_not_start(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    stored = platform.run(run.id)
    platform.stop(run.id)
    assert not controller.state_writer.claim(stored)
    controller.sync({run.id})
    assert platform.state(run.id) == ("stopped", "Stopped")
    assert platform.executor.count("start", run.id) == 0


@pytest.mark.parametrize("state", ["pending", "starting", "running"])
def test_run_can_be_stopped_in_every_state(platform: Platform, state: str) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    if state == "running":
        platform.executor.set_running(run.id)
    if state != "pending":
        controller.sync({run.id})
    assert platform.state(run.id)[0] == state
    platform.stop(run.id)
    controller.sync({run.id})
    controller.sync({run.id})
    ended = platform.run(run.id)
    assert (ended.state, ended.reason, ended.message) == ("stopped", "Stopped", "stopped by root")
    assert platform.executor.count("stop", run.id) == 1
    assert platform.events(run.id)[-2:] == [("stopping", "StopRequested"), ("stopped", "Stopped")]


def test_run_is_stopped_only_after_the_executor_confirmed_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    del platform.executor.runs[run.id]  # it cannot be observed, because it has not started

    def fail(_run_id: str) -> None:
        raise Unavailable("not now")

    platform.stop(run.id)
    with monkeypatch.context() as patched:
        patched.setattr(platform.executor, "stop", fail)
        controller.sync({run.id})
    assert platform.state(run.id) == ("stopping", "StopDelayed")
    controller.sync({run.id})
    assert platform.state(run.id) == ("stopped", "Stopped")


def test_failed_clean_up_is_repeated_in_a_later_pass(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    failures, clean_up = [Unavailable("not now")] * 2, platform.executor.clean_up

    def try_to_clean_up(run_id: str) -> None:
        if failures:
            raise failures.pop()
        clean_up(run_id)

    monkeypatch.setattr(platform.executor, "clean_up", try_to_clean_up)
    platform.executor.end(run.id)
    controller.sync({run.id})
    assert platform.state(run.id) == ("completed", "Completed")
    for _ in range(4):
        platform.world.clock.pass_by(seconds=runs.RESYNC_SECONDS + 1)
        controller.sync(set())
    assert (failures, platform.executor.count("clean_up", run.id)) == ([], 1)


def test_run_that_completed_before_the_stop_is_completed(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.end(run.id)
    platform.stop(run.id)
    controller.sync({run.id})
    ended = platform.run(run.id)
    assert ended.state == "completed"
    assert "ended before root stopped it" in ended.message


def test_unavailable_executor_changes_nothing_and_is_retried(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    before = platform.run(run.id)
    platform.executor.observe_errors[run.id] = Unavailable("no answer")
    with pytest.raises(Unavailable):
        controller.reconcile(run.id)
    controller.sync({run.id})
    assert platform.run(run.id) == before
    platform.executor.observe_errors.clear()
    platform.executor.set_running(run.id)
    platform.world.clock.pass_by(seconds=runs.RESYNC_SECONDS + 1)
    controller.sync(set())
    assert platform.state(run.id)[0] == "running"


@pytest.mark.parametrize("error", [Unavailable("no answer"), RuntimeError("a mistake"), KeyError("x")])
def test_failing_run_does_not_block_other_runs(platform: Platform, error: Exception) -> None:
    first, second = platform.submit(), platform.submit()
    controller = platform.control()
    controller.sync(set())
    third = platform.submit()
    platform.executor.observe_errors[first.id] = error
    platform.executor.set_running(second.id)
    controller.sync({first.id, second.id})
    assert platform.state(second.id)[0] == "running"
    assert platform.state(third.id)[0] == "pending"
    assert platform.state(first.id)[0] == "pending"


def test_run_without_a_plan_does_not_block_other_runs(platform: Platform) -> None:
    first, second = platform.submit(), platform.submit()
    with platform.world.store.changing("assets") as tx:
        plan = tx.get(PlanRecord, id=first.id)
        tx.remove(plan)
    platform.control().sync(set())
    assert platform.state(second.id)[0] == "pending"


def test_executor_data_of_a_deleted_run_is_removed(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.end(run.id)
    controller.sync({run.id})
    platform.world.services.runs.delete(platform.world.root, run.id)
    controller.sync({run.id})
    assert platform.executor.list_runs() == []


def test_subscribers_are_notified_of_changes_only(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    platform.notified.clear()
    controller.sync(set())
    assert platform.notified == [run.id]
    for _ in range(3):
        controller.sync({run.id})
    assert platform.notified == [run.id] * 2  # claimed, starting


def test_server_records_its_heartbeat(platform: Platform) -> None:
    controller = platform.control()
    for _ in range(2):
        controller.sync(set())
        platform.world.clock.pass_by(seconds=10)
    with platform.world.store.reading() as tx:
        (server_record,) = tx.find(ServerRecord)
    assert (server_record.id, server_record.name, server_record.url, server_record.revision) == (
        SERVER,
        f"host-{SERVER}",
        f"http://{SERVER}",
        2,
    )


@pytest.mark.every_store
@pytest.mark.parametrize("text", ["a\0b", "x" * 100_000, "日本 🦊"], ids=lambda text: ascii(text)[:12])
def test_any_result_or_error_can_be_stored(platform: Platform, text: str) -> None:
    """A run must end even if its message cannot be stored."""
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    outcome_fields = {"result": {"value": text, text: [text]}, "error": {"message": text}, "message": "as it is"}
    platform.executor.end(run.id, Phase.FAILED, reason="ExitCode", **outcome_fields)
    controller.sync({run.id})
    assert platform.state(run.id) == ("failed", "ExitCode")
    outcome = platform.outcome(run.id)
    assert outcome is not None
    assert (outcome.result, outcome.error) == (outcome_fields["result"], outcome_fields["error"])


def test_runs_of_several_projects_start_in_their_own_project(platform: Platform) -> None:
    first, second = platform.submit(HOME), platform.submit(OTHER)
    platform.control().sync(set())
    assert {platform.executor.runs[run.id].launch.project for run in (first, second)} == {"home", "other"}
