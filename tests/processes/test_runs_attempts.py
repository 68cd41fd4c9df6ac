"""Retries on a real server: the requested number, with more memory, and after a server crash."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fairlead.errors import NotFound
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_end, wait_for_state
from tests.processes.machines import Machine

SECONDS = 120.0  # seconds; retry delays are real: 10 s before the second attempt, 20 s before the third
CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=64,mem=4Gi"}
SUCCEEDS_AT_THIRD_ATTEMPT = """
echo "attempt $FAIRLEAD_ATTEMPT of $FAIRLEAD_RUN"
echo $FAIRLEAD_ATTEMPT > $FAIRLEAD_OUTPUT/number
[ $FAIRLEAD_ATTEMPT = 3 ] || { echo no luck >&2; exit 3; }
"""
ALLOCATE = "import time; data = bytearray(240 << 20); time.sleep(1); print('allocated')"
SUCCEEDS_AT_SECOND_ATTEMPT = "[ $FAIRLEAD_ATTEMPT = 2 ] || { echo up; sleep 300; }"


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server configured with 4 GiB of memory."""
    with execution.open_platform(machine, variables=CAPACITY) as opened:
        yield opened


def attempts_of(run: Run) -> list[tuple[int, str, str]]:
    """The number, state and reason of each of a run's attempts."""
    return [(attempt["number"], attempt["state"], attempt["reason"]) for attempt in run.attempts()]


def folder_suffixes(platform: Platform, run: Run) -> list[str]:
    """The suffixes of a run's data folders, one per attempt."""
    return sorted(folder.name.removeprefix(run.id) for folder in platform.server.data.glob(f"runs/{run.id}*"))


def test_run_that_fails_twice_completes_on_its_third_attempt(platform: Platform) -> None:
    run = platform.shell(SUCCEEDS_AT_THIRD_ATTEMPT, retries=2)
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(lambda: [line.text for line in run.read_logs(follow=True, cursor=0)])
        waiting = until(lambda: data if (data := run.refresh().data)["reason"] == "Retrying" else {}, SECONDS)
        assert waiting["message"].endswith("no luck; attempt 2 of 3 starts in 10 s")
        ended = wait_for_end(run, SECONDS)
        log_lines = followed.result(SECONDS)
    assert (ended["state"], ended["attempt"], ended["exit_code"]) == ("completed", 3, 0)
    assert attempts_of(run) == [(1, "failed", "ExitCode"), (2, "failed", "ExitCode"), (3, "completed", "Completed")]
    outputs = [f"attempt {number} of {run.id}\n" for number in (1, 2, 3)]
    retry_messages = [
        f"attempt {number} failed (ExitCode): exited with code 3: no luck; attempt {number + 1} follows\n"
        for number in (1, 2)
    ]
    assert [line for line in log_lines if line != "no luck\n"] == [
        outputs[0],
        retry_messages[0],
        outputs[1],
        retry_messages[1],
        outputs[2],
    ]
    assert run.logs() == outputs[2]
    for number in (1, 2, 3):
        assert run.logs(attempt=number).startswith(outputs[number - 1])
        assert run.read("number", attempt=number) == f"{number}\n".encode()
    with pytest.raises(NotFound, match=r"attempt 4 of run .* does not exist"):
        run.logs(attempt=4)
    states = [(event["state"], event["reason"]) for event in run.events()]
    assert states.count(("queued", "Retrying")) == 2
    assert folder_suffixes(platform, run) == ["", "-2", "-3"]
    until(lambda: not list(platform.server.data.glob(f"runs/{run.id}*/code")))  # every attempt is cleaned up
    run.delete()
    until(lambda: folder_suffixes(platform, run) == [])


def test_out_of_memory_run_is_retried_with_more_memory(platform: Platform) -> None:
    memory = {"requests": "64Mi", "limits": "96Mi"}
    run = platform.python(ALLOCATE, resources={"mem": memory}, on_oom={"grow": 2, "max": "1Gi"})
    ended = wait_for_end(run, SECONDS)
    assert (ended["state"], ended["attempt"], ended["mem_bytes"]) == ("completed", 3, 256 << 20)
    attempts = run.attempts()
    assert [attempt["reason"] for attempt in attempts] == ["OOMKilled", "OOMKilled", "Completed"]
    assert [attempt["mem_bytes"] >> 20 for attempt in attempts] == [64, 128, 256]
    assert run.usage(attempt=1)["peaks"]["mem"] < run.usage()["peaks"]["mem"]
    assert run.logs() == "allocated\n"


def test_run_fails_when_memory_growth_reaches_its_maximum(platform: Platform) -> None:
    run = platform.python(ALLOCATE, resources={"mem": {"limits": "96Mi"}}, on_oom={"grow": 1.5, "max": "128Mi"})
    ended = wait_for_end(run, SECONDS)
    assert (ended["state"], ended["reason"], ended["attempt"]) == ("failed", "OOMKilled", 2)
    assert ended["message"].endswith("its memory cannot grow beyond 128 MiB; that was attempt 2 of 2")


def test_run_with_a_killed_supervisor_is_retried_immediately(platform: Platform) -> None:
    run = platform.shell(SUCCEEDS_AT_SECOND_ATTEMPT, retries=1)
    wait_for_state(run, "running")
    before = find_processes(run.id)
    os.kill(platform.supervisor_of(run), signal.SIGKILL)
    ended = wait_for_end(run, SECONDS)
    assert (ended["state"], ended["attempt"]) == ("completed", 2)
    assert attempts_of(run) == [(1, "failed", "SupervisorLost"), (2, "completed", "Completed")]
    assert before
    until(lambda: find_processes(run.id) == [])


def test_server_killed_between_attempts_continues_with_the_next_one(platform: Platform, machine: Machine) -> None:
    executions = platform.file("executions")
    run = platform.shell(f"echo $FAIRLEAD_ATTEMPT >> {executions}; [ $FAIRLEAD_ATTEMPT = 2 ]", retries=2)
    stopped = platform.shell("exit 1", retries=2)
    for retried in (run, stopped):
        until(lambda retried=retried: retried.refresh().data["reason"] == "Retrying", SECONDS)  # type: ignore[misc]
    port = platform.server.url.rpartition(":")[2]
    platform.server.stop(signal.SIGKILL)
    after = replace(platform, server=machine.up("--port", port, variables=CAPACITY))
    assert stopped.stop().data["message"].endswith(" before attempt 2 started")
    ended = wait_for_end(run, SECONDS)
    assert (ended["state"], ended["attempt"]) == ("completed", 2)
    assert executions.read_text().split() == ["1", "2"]
    assert folder_suffixes(after, run) == ["", "-2"]
    assert (wait_for_end(stopped)["state"], folder_suffixes(after, stopped)) == ("stopped", [""])
