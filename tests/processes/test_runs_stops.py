"""Stopping and deleting runs in every state, by one client or by many at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairlead.errors import Conflict, NotFound
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import (
    Platform,
    find_processes,
    until,
    wait_for_all,
    wait_for_end,
    wait_for_output,
    wait_for_state,
)
from tests.processes.machines import Machine, RunningServer


@pytest.fixture(scope="module")
def platform(shared_machine: Machine) -> Iterator[Platform]:
    """A server that executes at most four runs at once, shared by the tests in this module."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64,runs=4"}
    with execution.open_platform(shared_machine, variables=variables) as opened:
        yield opened


@pytest.fixture
def active_runs(platform: Platform) -> Iterator[list[Run]]:
    """Four runs that use the entire capacity."""
    runs = [platform.shell("sleep 60") for _ in range(4)]
    for run in runs:
        wait_for_state(run, "running")
    yield runs
    for run in runs:
        run.stop()
    wait_for_all(runs)


def test_queued_run_is_stopped_immediately_and_never_starts(platform: Platform, active_runs: list[Run]) -> None:
    waiting = platform.shell("true")
    until(lambda: waiting.reason == "Unschedulable")
    stopped = waiting.stop().data
    assert (stopped["state"], stopped["reason"]) == ("stopped", "Stopped")
    assert stopped["message"] == "stopped by root@localhost before it started"
    assert not platform.folder_of(waiting).exists()
    assert active_runs[0].stop().data["state"] == "stopping"
    assert wait_for_end(active_runs[0])["message"] == "stopped by root@localhost"


def test_run_that_handles_sigterm_is_stopped_and_its_last_output_is_stored(platform: Platform) -> None:
    text = "trap 'echo saved; echo state > $FAIRLEAD_OUTPUT/state; exit 0' TERM; echo up; sleep 60 & wait"
    run = platform.shell(text)
    wait_for_output(run, "up")
    assert run.stop().data["message"] == "being stopped by root@localhost"
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"], ended["message"]) == ("stopped", "Stopped", "stopped by root@localhost")
    assert (run.logs(), run.read("state")) == ("up\nsaved\n", b"state\n")


def test_stopping_an_ended_run_changes_nothing(platform: Platform) -> None:
    for text, state in (("true", "completed"), ("exit 3", "failed"), ("sleep 60", "stopped")):
        run = platform.shell(text)
        if state == "stopped":
            wait_for_state(run, "running")
            run.stop()
        before = wait_for_end(run)
        assert (before["state"], run.stop().data) == (state, before)


def test_concurrent_stops_during_start_and_end_succeed(platform: Platform) -> None:
    # The last run is long, so that at least one is stopped even if the requests are slow.
    runs = [platform.shell(f"sleep {seconds}") for seconds in (*(f"0.{index}" for index in range(7)), "60")]
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda run: stop(platform, run).data, [run for run in runs for _ in range(5)]))
    assert {response["state"] for response in responses} <= {"stopped", "stopping", "completed"}
    ended = wait_for_all(runs)
    assert {run["state"] for run in ended} <= {"stopped", "completed"}
    assert {run["stopped_by"] for run in ended if run["state"] == "stopped"} == {"root@localhost"}
    until(lambda: not any(find_processes(run.id) for run in runs), 5)


def test_only_ended_runs_can_be_deleted_with_their_folder(platform: Platform) -> None:
    run = platform.shell("echo hello > $FAIRLEAD_OUTPUT/file; sleep 60")
    wait_for_state(run, "running")
    with pytest.raises(Conflict, match=f"run {run.id} is running; only runs that have ended can be deleted"):
        run.delete()
    run.stop()
    wait_for_end(run)
    assert platform.folder_of(run).exists()
    run.delete()
    until(lambda: not platform.folder_of(run).exists(), 5)
    with pytest.raises(NotFound):
        run.logs()


def test_log_stream_of_a_deleted_run_is_not_found(platform: Platform) -> None:
    run = platform.shell("echo hello; sleep 0.5")
    for _ in run.read_logs(follow=True):
        pass
    wait_for_end(run).clear()
    run.delete()
    with platform.server.client() as client:
        assert client.get(f"/runs/{run.id}/logs", params={"follow": True}).status_code == 404


def test_child_processes_of_a_stopped_run_receive_sigterm(platform: Platform) -> None:
    signal_file = platform.file("signals")
    child = f'trap "echo child >> {signal_file}; exit" TERM; echo ready; while true; do sleep 0.05; done'
    run = platform.shell(f"bash -c '{child}' & trap 'wait; exit 0' TERM; wait")
    wait_for_output(run, "ready")
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert signal_file.read_text() == "child\n"


def stop(platform: Platform, run: Run) -> Run:
    """Stop a run from another client."""
    return Run(platform.project.api, run.data).stop()


def test_server_shutdown_leaves_runs_running(machine: Machine) -> None:
    with execution.open_platform(machine) as platform:
        run = platform.shell(f"until [ -e {platform.shared}/go ]; do sleep 0.05; done")
        wait_for_state(run, "running")
        assert platform.server.stop().code == 0
        assert find_processes(run.id)
        (platform.shared / "go").touch()
        restarted: RunningServer = machine.up("--port", platform.server.url.rpartition(":")[2])
        assert wait_for_end(run)["state"] == "completed"
        assert restarted.stop().code == 0
