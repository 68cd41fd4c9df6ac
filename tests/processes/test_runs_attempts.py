"""Runs that fail are tried again on a real server: as often as asked for, with more memory, and also after a crash."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fairlead.errors import NotFound
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, end, find_processes, reach, until
from tests.processes.machines import Machine

LONG = 120.0  # pauses are real: 10 s before the second try, 20 s before the third
CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=64,mem=4Gi"}
THIRD = """
echo "try $FAIRLEAD_ATTEMPT of $FAIRLEAD_RUN"
echo $FAIRLEAD_ATTEMPT > $FAIRLEAD_OUTPUT/number
[ $FAIRLEAD_ATTEMPT = 3 ] || { echo no luck >&2; exit 3; }
"""
ALLOCATE = "import time; kept = bytearray(240 << 20); time.sleep(1); print('has it')"
SECOND = "[ $FAIRLEAD_ATTEMPT = 2 ] || { echo up; sleep 300; }"


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server that thinks its machine has four gigabytes of memory."""
    with execution.open_platform(machine, variables=CAPACITY) as opened:
        yield opened


def tries_of(run: Run) -> list[tuple[int, str, str]]:
    """The tries of a run: numbers, states and reasons."""
    return [(attempt["number"], attempt["state"], attempt["reason"]) for attempt in run.attempts()]


def folders_of(platform: Platform, run: Run) -> list[str]:
    """The stored data of a run's attempts by number."""
    return sorted(folder.name.removeprefix(run.id) for folder in platform.server.data.glob(f"runs/{run.id}*"))


def test_run_that_fails_twice_completes_on_its_third_attempt(platform: Platform) -> None:
    run = platform.shell(THIRD, retries=2)
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(lambda: [line.text for line in run.read_logs(follow=True, cursor=0)])
        waiting = until(lambda: data if (data := run.refresh().data)["reason"] == "Retrying" else {}, LONG)
        assert waiting["message"].endswith("no luck; attempt 2 of 3 starts in 10 s")
        ended = end(run, LONG)
        story = followed.result(LONG)
    assert (ended["state"], ended["attempt"], ended["exit_code"]) == ("completed", 3, 0)
    assert tries_of(run) == [(1, "failed", "ExitCode"), (2, "failed", "ExitCode"), (3, "completed", "Completed")]
    outputs = [f"try {number} of {run.id}\n" for number in (1, 2, 3)]
    between = [
        f"attempt {number} failed (ExitCode): exited with code 3: no luck; attempt {number + 1} follows\n"
        for number in (1, 2)
    ]
    assert [line for line in story if line != "no luck\n"] == [
        outputs[0],
        between[0],
        outputs[1],
        between[1],
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
    assert folders_of(platform, run) == ["", "-2", "-3"]
    until(lambda: not list(platform.server.data.glob(f"runs/{run.id}*/code")))  # each was tidied
    run.delete()
    until(lambda: folders_of(platform, run) == [])


def test_out_of_memory_run_is_retried_with_more_memory(platform: Platform) -> None:
    memory = {"requests": "64Mi", "limits": "96Mi"}
    run = platform.python(ALLOCATE, resources={"mem": memory}, on_oom={"grow": 2, "max": "1Gi"})
    ended = end(run, LONG)
    assert (ended["state"], ended["attempt"], ended["mem_bytes"]) == ("completed", 3, 256 << 20)
    tries = run.attempts()
    assert [attempt["reason"] for attempt in tries] == ["OOMKilled", "OOMKilled", "Completed"]
    assert [attempt["mem_bytes"] >> 20 for attempt in tries] == [64, 128, 256]
    assert run.usage(attempt=1)["peaks"]["mem"] < run.usage()["peaks"]["mem"]
    assert run.logs() == "has it\n"


def test_run_fails_when_memory_growth_reaches_its_maximum(platform: Platform) -> None:
    run = platform.python(ALLOCATE, resources={"mem": {"limits": "96Mi"}}, on_oom={"grow": 1.5, "max": "128Mi"})
    ended = end(run, LONG)
    assert (ended["state"], ended["reason"], ended["attempt"]) == ("failed", "OOMKilled", 2)
    assert ended["message"].endswith("its memory cannot grow beyond 128 MiB; that was attempt 2 of 2")


def test_run_with_a_killed_supervisor_is_retried_immediately(platform: Platform) -> None:
    run = platform.shell(SECOND, retries=1)
    reach(run, "running")
    before = find_processes(run.id)
    os.kill(platform.supervisor_of(run), signal.SIGKILL)
    ended = end(run, LONG)
    assert (ended["state"], ended["attempt"]) == ("completed", 2)
    assert tries_of(run) == [(1, "failed", "SupervisorLost"), (2, "completed", "Completed")]
    assert before
    until(lambda: find_processes(run.id) == [])


def test_server_killed_between_attempts_continues_with_the_next_one(platform: Platform, machine: Machine) -> None:
    ran = platform.file("ran")
    run = platform.shell(f"echo $FAIRLEAD_ATTEMPT >> {ran}; [ $FAIRLEAD_ATTEMPT = 2 ]", retries=2)
    stopped = platform.shell("exit 1", retries=2)
    for each in (run, stopped):
        until(lambda each=each: each.refresh().data["reason"] == "Retrying", LONG)  # type: ignore[misc]
    port = platform.server.url.rpartition(":")[2]
    platform.server.stop(signal.SIGKILL)
    after = replace(platform, server=machine.up("--port", port, variables=CAPACITY))
    assert stopped.stop().data["message"].endswith(" before attempt 2 started")
    ended = end(run, LONG)
    assert (ended["state"], ended["attempt"]) == ("completed", 2)
    assert ran.read_text().split() == ["1", "2"]
    assert folders_of(after, run) == ["", "-2"]
    assert (end(stopped)["state"], folders_of(after, stopped)) == ("stopped", [""])
