"""Limits on a real server: memory, time, disk and capacity."""

import itertools
from collections.abc import Iterator

import pytest

from fairlead.errors import RequestRejected
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_all, wait_for_end, wait_for_state
from tests.processes.machines import Machine

ALLOCATE = "import time; data = bytearray({mib} << 20); print('allocated', flush=True); time.sleep(60)"
GROW = """
import time
kept = []
while True:
    kept.append(bytearray(8 << 20))
    time.sleep(0.01)
"""
CHILD_PROCESSES = """
import subprocess, sys, time
part = "import time; kept = bytearray(60 << 20); time.sleep(60)"
children = [subprocess.Popen([sys.executable, "-c", part], start_new_session=True) for _ in range(4)]
time.sleep(60)
"""
SHARED_MEMORY = """
import mmap, os, time
kept = mmap.mmap(-1, 80 << 20)
kept.write(b"x" * (80 << 20))
for _ in range(4):
    if os.fork() == 0:
        kept.seek(0)
        sum(len(kept.read(1 << 20)) for _ in range(80))
        time.sleep(1)
        os._exit(0)
for _ in range(4):
    os.wait()
"""


@pytest.fixture(scope="module")
def platform(shared_machine: Machine) -> Iterator[Platform]:
    """A server configured with 4 GiB of memory."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64,mem=4Gi"}
    with execution.open_platform(shared_machine, variables=variables) as opened:
        yield opened


@pytest.mark.smoke
@pytest.mark.parametrize(
    "text", [ALLOCATE.format(mib=300), GROW, CHILD_PROCESSES], ids=["at-once", "growing", "together"]
)
def test_run_over_its_memory_limit_is_killed_and_the_server_keeps_working(platform: Platform, text: str) -> None:
    run = platform.python(text, resources={"mem": {"requests": "64Mi", "limits": "128Mi"}})
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "OOMKilled", 137)
    assert "exceeded the limit of " in ended["message"]  # the amount is in bytes if the usage is exactly at the limit
    assert find_processes(run.id) == []
    assert wait_for_end(platform.shell("true"))["state"] == "completed"


def test_shared_memory_is_counted_once(platform: Platform) -> None:
    assert wait_for_end(platform.python(SHARED_MEMORY, resources={"mem": {"limits": "192Mi"}}))["state"] == "completed"


def test_memory_volume_counts_towards_the_limit(platform: Platform) -> None:
    volume = {"volume_type": "empty_dir", "name": "cache", "mount_path": "/cache", "spec": {"medium": "Memory"}}
    fill = "head -c 400M /dev/zero > /cache/x; sleep 3"
    ended = wait_for_end(platform.shell(fill, volumes=[volume], resources={"mem": {"limits": "128Mi"}}))
    assert ended["reason"] == "OOMKilled"


def test_peak_usage_is_reported(platform: Platform) -> None:
    run = platform.python("kept = bytearray(100 << 20)\nsum(range(3_000_000))")
    wait_for_end(run)
    peaks = run.usage()["peaks"]
    assert 100 << 20 < peaks["mem"] < 200 << 20
    assert 0 < peaks["cpu_seconds"] < 10


def test_run_over_its_disk_limit_is_evicted(platform: Platform) -> None:
    ended = wait_for_end(
        platform.shell("head -c 50M /dev/zero > $FAIRLEAD_OUTPUT/big; sleep 60", resources={"disk": {"limits": "20Mi"}})
    )
    assert (ended["state"], ended["reason"]) == ("failed", "Evicted")
    assert "exceeded the limit of 20 MiB" in ended["message"]


def test_run_over_its_deadline_fails_with_the_reason(platform: Platform) -> None:
    run = platform.shell("sleep 61", deadline=1)
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"]) == ("failed", "DeadlineExceeded")
    assert ended["message"] == "exceeded its deadline of 1 s"
    assert find_processes(run.id) == []


def test_runs_that_need_half_the_memory_run_two_at_a_time_and_others_give_a_reason(
    platform: Platform,
) -> None:
    times, go = platform.file("times"), platform.shared / "go"
    body = f"until [ -e {go} ]; do sleep 0.05; done; sleep 0.3"
    text = f"echo $EPOCHREALTIME start >> {times}; {body}; echo $EPOCHREALTIME end >> {times}"
    runs = [platform.shell(text, resources={"mem": "2Gi"}) for _ in range(12)]
    # The first two wait for each other, because on a busy machine one could end before the next one starts.
    until(lambda: len(times.read_text().splitlines()) == 2)
    last = runs[-1]
    until(lambda: last.reason == "Unschedulable")
    assert last.message.startswith("waiting for 2 GiB memory")
    assert "needs 2 GiB memory; 0 of 4 GiB free on " in last.why()
    go.touch()
    assert [run["state"] for run in wait_for_all(runs, 60)] == ["completed"] * 12
    steps = sorted(line.split() for line in times.read_text().splitlines())
    concurrent_runs = list(itertools.accumulate(1 if event == "start" else -1 for _, event in steps))
    assert len(steps) == 24
    assert max(concurrent_runs) == 2


def test_run_that_can_never_fit_is_rejected_with_numbers(platform: Platform) -> None:
    with pytest.raises(RequestRejected, match=r"needs 5 GiB memory; .* has 4 GiB in total"):
        platform.shell("true", resources={"mem": "5Gi"})


def test_small_run_starts_while_a_large_run_waits(platform: Platform) -> None:
    large = [platform.shell("sleep 60", resources={"mem": "3Gi"}) for _ in range(2)]
    wait_for_state(large[0], "running")
    assert wait_for_end(platform.shell("true", resources={"mem": "64Mi"}))["state"] == "completed"
    assert str(large[1].state) == "queued"
    for run in reversed(large):
        run.stop()
    assert [run["state"] for run in wait_for_all(large)] == ["stopped", "stopped"]
