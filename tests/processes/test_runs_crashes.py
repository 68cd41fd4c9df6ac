"""Killed servers and supervisors: no run is lost, and no run executes twice."""

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_end, wait_for_output, wait_for_state
from tests.processes.machines import Machine

CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=1000,mem=1000Gi,runs=12"}
LONG_SCRIPT = "trap 'exit 0' TERM; echo $FAIRLEAD_RUN >> {executions}; sleep 300 & wait"
SHORT_SCRIPT = "echo $FAIRLEAD_RUN >> {executions}; sleep 0.{tenths}"
FAILING_SCRIPT = "echo $FAIRLEAD_RUN >> {executions}; echo no luck >&2; exit 3"


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server that executes up to twelve runs at once."""
    with execution.open_platform(machine, variables=CAPACITY) as opened:
        yield opened


def restart(platform: Platform, machine: Machine) -> Platform:
    """Kill the server and start it again with the same data folder and port."""
    port = platform.server.url.rpartition(":")[2]
    platform.server.stop(signal.SIGKILL)
    return replace(platform, server=machine.up("--port", port, variables=CAPACITY))


def test_runs_end_correctly_and_run_once_when_the_server_is_killed(platform: Platform, machine: Machine) -> None:
    executions, never = platform.file("executions"), platform.file("never")
    stopped = [platform.shell(LONG_SCRIPT.format(executions=executions)) for _ in range(8)]
    for run in stopped:
        wait_for_state(run, "running")
    successful = [platform.shell(SHORT_SCRIPT.format(executions=executions, tenths=index % 10)) for index in range(30)]
    failing = [platform.shell(FAILING_SCRIPT.format(executions=executions)) for _ in range(8)]
    waiting = [platform.shell(f"echo $FAIRLEAD_RUN >> {never}") for _ in range(4)]
    for run in waiting:
        assert run.stop().data["state"] == "stopped"
    for run in stopped[:4]:
        assert run.stop().data["state"] == "stopping"
    for _ in range(3):
        until(lambda: any(str(run.state) in ("pending", "starting", "running") for run in [*successful, *failing]))
        platform = restart(platform, machine)
    for run in stopped[4:]:
        run.stop()
    ended = {run.id: wait_for_end(run, 60) for run in [*stopped, *successful, *failing, *waiting]}
    assert [ended[run.id]["state"] for run in stopped] == ["stopped"] * 8
    assert [(ended[run.id]["state"], ended[run.id]["reason"]) for run in successful] == [
        ("completed", "Completed")
    ] * 30
    assert [(ended[run.id]["reason"], ended[run.id]["exit_code"]) for run in failing] == [("ExitCode", 3)] * 8
    assert [ended[run.id]["state"] for run in waiting] == ["stopped"] * 4
    assert Counter(executions.read_text().split()) == Counter(run.id for run in [*stopped, *successful, *failing])
    assert never.read_text() == ""
    assert {run_id: left for run_id in ended if (left := find_processes(run_id))} == {}


@pytest.mark.smoke
def test_run_continues_without_a_server_and_its_outcome_is_recorded_later(platform: Platform, machine: Machine) -> None:
    run = platform.shell(f"until [ -e {platform.shared}/go ]; do sleep 0.05; done; echo went")
    wait_for_state(run, "running")
    platform.server.stop(signal.SIGKILL)
    (platform.shared / "go").touch()
    until(lambda: not find_processes(run.id))
    restart(platform, machine)
    assert wait_for_end(run)["state"] == "completed"
    assert run.logs() == "went\n"


def test_run_that_ignores_sigterm_is_killed_even_after_a_server_restart(platform: Platform, machine: Machine) -> None:
    signal_file = platform.file("signals")
    run = platform.shell(f"trap 'echo no >> {signal_file}' TERM; echo ready; while true; do sleep 0.1; done")
    wait_for_output(run, "ready")
    others = [Run(platform.project.api, run.data) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert {other.data["state"] for other in pool.map(Run.stop, others)} == {"stopping"}
    until(signal_file.read_text)
    restart(platform, machine)
    ended = wait_for_end(run)
    assert (ended["state"], ended["message"], ended["exit_code"]) == ("stopped", "stopped by root@localhost", 137)
    assert signal_file.read_text() == "no\n"
    assert find_processes(run.id) == []
    assert [event["state"] for event in run.events()].count("stopping") == 1


def test_killing_the_supervisor_fails_the_run_and_ends_all_processes(
    platform: Platform,
) -> None:
    detached = "setsid sh -c 'setsid sleep 301 & sleep 302' & env -i setsid sleep 303.25 & sleep 304"
    run = platform.shell(f"({detached}) & echo up; wait; sleep 300")
    wait_for_output(run, "up")
    until(lambda: len(find_processes(run.id)) > 5)
    os.kill(platform.supervisor_of(run), signal.SIGKILL)
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "SupervisorLost", None)
    assert ended["message"] == "the run's supervisor was killed, and the run was killed with it"
    until(lambda: not find_processes(run.id), 2)
    assert not find_sleepers("303.25")


def test_killing_the_init_process_fails_the_run_with_a_reason(platform: Platform) -> None:
    run = platform.shell("setsid sleep 301 & echo up; wait")
    wait_for_output(run, "up")
    supervisor = platform.supervisor_of(run)
    (init_pid,) = Path("/proc", str(supervisor), "task", str(supervisor), "children").read_text().split()
    os.kill(int(init_pid), signal.SIGKILL)
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"]) == ("failed", "Lost")
    assert "was killed" in ended["message"]
    assert find_processes(run.id) == []


def test_supervisor_death_without_a_server_is_reported_after_restart(platform: Platform, machine: Machine) -> None:
    run = platform.shell("sleep 300")
    wait_for_state(run, "running")
    supervisor = platform.supervisor_of(run)
    platform.server.stop(signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    restart(platform, machine)
    assert wait_for_end(run)["reason"] == "SupervisorLost"
    assert find_processes(run.id) == []


def test_run_stopped_at_any_moment_of_its_start_is_stopped(platform: Platform) -> None:
    runs = [stop_after(platform.shell("sleep 60"), index * 0.008) for index in range(25)]
    ended = [wait_for_end(run) for run in runs]
    assert {run["state"] for run in ended} == {"stopped"}
    # 137 would mean that the run received no SIGTERM and was killed after the grace period.
    assert {run["exit_code"] for run in ended} <= {None, 143}
    until(lambda: not any(find_processes(run.id) for run in runs), 5)


def test_stopped_runs_stay_stopped_after_the_server_is_killed(platform: Platform, machine: Machine) -> None:
    runs = [platform.shell("sleep 60") for _ in range(10)]
    until(lambda: any(str(run.state) != "queued" for run in runs))
    for run in runs:
        run.stop()
    platform = restart(platform, machine)
    ended = [wait_for_end(run) for run in runs]
    assert [(run["state"], run["message"]) for run in ended if run["state"] != "stopped"] == []
    until(lambda: not any(find_processes(run.id) for run in runs), 5)


def test_run_starts_once_if_the_server_is_killed_just_after_the_supervisor_starts(
    platform: Platform, machine: Machine
) -> None:
    executions = platform.file("executions")
    run, supervisor = suspend_supervisor(platform, f"echo $FAIRLEAD_RUN >> {executions}")
    restart(platform, machine)
    assert Path("/proc", str(supervisor)).exists()
    # The suspended supervisor does not hold the run's lock yet, or holds it already. In the first case, the new server
    # starts another one, which may complete the run at once.
    wait_for_state(run, "pending", "starting", "running", "completed")
    os.kill(supervisor, signal.SIGCONT)
    assert wait_for_end(run)["state"] == "completed"
    until(lambda: not find_processes(run.id), 5)
    assert executions.read_text().split().count(run.id) == 1


def test_run_can_be_stopped_if_the_server_is_killed_just_after_the_supervisor_starts(
    platform: Platform, machine: Machine
) -> None:
    run, supervisor = suspend_supervisor(platform, "sleep 60")
    run.stop()
    restart(platform, machine)
    with contextlib.suppress(ProcessLookupError):  # the new server may already have killed it
        os.kill(supervisor, signal.SIGCONT)
    assert wait_for_end(run)["state"] == "stopped"
    until(lambda: not find_processes(run.id), 5)


def suspend_supervisor(platform: Platform, script: str) -> tuple[Run, int]:
    """Submit a run and suspend its supervisor before it writes its state. Tries several times."""
    for _ in range(10):
        run = platform.shell(script)
        supervisor = until(lambda run=run: find_processes(run.id))[0]  # type: ignore[misc]
        os.kill(supervisor, signal.SIGSTOP)
        if not (platform.folder_of(run) / "state.json").exists():
            return run, supervisor
        os.kill(supervisor, signal.SIGCONT)
        run.stop()
    raise AssertionError("this machine was too slow for this test")


def stop_after(run: Run, seconds: float) -> Run:
    """Stop a run a moment after submitting it."""
    signal.sigtimedwait([], seconds)
    return run.stop()


def find_sleepers(seconds: str) -> list[str]:
    """The PIDs of `sleep` processes with a given duration."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if file.read() == f"sleep\0{seconds}\0".encode():
                    pids.append(name)
        except OSError:
            continue
    return pids
