"""Limits of runs that the kernel enforces with real cgroups."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.allocation import find_runtime
from fairlead.adapters.local.cgroups import Cgroup, Hierarchies, create_cgroup
from fairlead.adapters.local.specs import STATE, Spec, UserMapping, read_json
from fairlead.model.runs import Observation, Phase
from tests.adapters.local.making import this_machine
from tests.contracts.executors import ENDED, WAITS, LocalBench, read_all
from tests.databases import wait_until

CGROUPS = this_machine().cgroups
MAX_PROCESSES = 60
MISSING = [name for name in ("memory", "cpu", "pids", "cpuset") if not CGROUPS.mechanism_of(name)]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"NOT TESTED: no cgroup for {MISSING}: {CGROUPS.error}")

MEMFD = """
import os, time
def main():
    with open(os.memfd_create("big"), "wb") as file:
        for _ in range(1024):
            file.write(bytes(2**20))
        time.sleep(3)
"""
SHARED_MEMORY = """
import os, time
def main():
    with open(f"/dev/shm/test-{os.getpid()}", "wb") as file:
        os.unlink(file.name)
        for _ in range(200):
            file.write(bytes(2**20))
        time.sleep(3)
"""
PIPES = """
import fcntl, os, time
def main():
    pipes = []
    for _ in range(60):
        pipes.append(os.pipe())
        fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 2**20)
        os.write(pipes[-1][1], bytes(2**20))
    time.sleep(3)
"""
TCP = """
import contextlib, socket, time
def main():
    pairs, held = [], 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(100):
            pairs.append((socket.create_connection(listener.getsockname()), listener.accept()[0]))
            pairs[-1][0].setblocking(False)
            for _ in range(20):
                with contextlib.suppress(BlockingIOError):
                    held += pairs[-1][0].send(bytes(2**20))
                time.sleep(0.001)
    return held // 2**20
"""
CHILD = """
import os
def main():
    if os.fork() == 0:
        bytearray(200 * 2**20)
        os._exit(0)
    os.wait()
"""
SHORT_PEAK = """
import time
def main():
    time.sleep(0.3)
    bytearray(150 * 2**20)
    time.sleep(0.3)
"""
FORKS = """
import os, time
def main():
    for count in range(1000):
        try:
            if os.fork() == 0:
                time.sleep(60)
        except BlockingIOError:
            return count
"""
AFFINITY = """
import os
def main():
    os.sched_setaffinity(0, range(os.cpu_count()))
    return len(os.sched_getaffinity(0))
"""
CPU_TIME = """
import os, time
def main():
    start = time.monotonic()
    children = [os.fork(), os.fork()]
    if 0 in children:
        while time.monotonic() < start + 2:
            pass
        os._exit(0)
    os.wait(), os.wait()
    used = os.times()
    return (used.children_user + used.children_system) / (time.monotonic() - start)
"""
# A process that has left the process tree of the run, and its environment.
ESCAPE = "env -i setsid bash -c 'sleep 600.25 & exec sleep 600.25' & echo up; exec sleep 600.25"


@pytest.fixture
def bench() -> Iterator[LocalBench]:
    """An executor whose runs may have a few processes."""
    parent = Path(tempfile.mkdtemp(prefix="fairlead-test-"))
    parent.chmod(0o755)
    created = LocalBench(parent / "data", replace(this_machine(), max_processes=MAX_PROCESSES))
    yield created
    created.close()
    assert list_groups(created) == []
    shutil.rmtree(parent)


def list_groups(bench: LocalBench) -> list[Path]:
    """The runs that have a group, after the supervisors had time to remove theirs."""
    return CGROUPS.list_runs(bench.executor.runs)


def run_until_end(bench: LocalBench, program: str, **limits: str) -> Observation:
    """Execute a program with limits."""
    bench.start("r1", program, resources={name: {"limits": amount} for name, amount in limits.items()})
    observation = bench.until("r1", *ENDED)
    wait_until(lambda: list_groups(bench) == [], seconds=10)
    return observation


def read_value(observation: Observation) -> Any:
    """The value that a run returned."""
    assert observation.result is not None, observation.message
    return observation.result["value"]


@pytest.mark.parametrize("program", [MEMFD, SHARED_MEMORY, PIPES, CHILD], ids=["memfd", "shm", "pipes", "child"])
def test_all_kinds_of_memory_count(bench: LocalBench, program: str) -> None:
    observation = run_until_end(bench, program, mem="48Mi")
    assert (observation.reason, observation.message) == ("OOMKilled", "memory usage exceeded the limit of 48 MiB")


def test_buffers_of_tcp_sockets_are_limited(bench: LocalBench) -> None:
    observation = run_until_end(bench, TCP, mem="48Mi")
    assert observation.reason == "OOMKilled" or read_value(observation) < 100  # v1 only stops the run from sending


def test_peak_between_two_samples_is_recorded(bench: LocalBench) -> None:
    observation = run_until_end(bench, SHORT_PEAK)
    assert observation.phase is Phase.SUCCEEDED
    assert 150 << 20 <= observation.usage["mem"] < 200 << 20
    assert 0 < observation.usage["cpu_seconds"] < 5


def test_number_of_processes_is_limited(bench: LocalBench) -> None:
    assert MAX_PROCESSES - 10 < read_value(run_until_end(bench, FORKS)) < MAX_PROCESSES


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root gives each run its own user")
def test_number_of_processes_is_limited_without_cgroups(bench: LocalBench) -> None:
    bench.executor.machine = replace(bench.machine, cgroups=Hierarchies())
    assert MAX_PROCESSES - 10 < read_value(run_until_end(bench, FORKS)) <= MAX_PROCESSES


@pytest.mark.skipif(len(this_machine().cpus) < 2, reason="NOT TESTED: this machine has a single core")
def test_run_cannot_use_other_cores(bench: LocalBench) -> None:
    assert read_value(run_until_end(bench, AFFINITY, cpu="1")) == 1


def test_half_a_core_is_half_a_core(bench: LocalBench) -> None:
    assert read_value(run_until_end(bench, CPU_TIME, cpu="500m")) < 0.65  # nearly 1 without the limit


def test_run_keeps_its_group_when_another_server_adopts_it(bench: LocalBench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    executor = bench.another_executor()
    assert list_groups(bench) == [executor.runs / "r1"]
    assert executor.observe("r1").phase is Phase.RUNNING  # type: ignore[union-attr]


def test_all_processes_are_killed_with_the_supervisor(bench: LocalBench) -> None:
    bench = LocalBench(bench.data.with_name("without"), replace(bench.machine, isolation_error="no namespaces"))
    bench.executor.runtime = find_runtime(Path("/usr/bin/python3"), os.environ)  # accessible for other users
    bench.start("r1", "", function={"name": "escape", "source": "train.py", "command": ["bash", "-c", ESCAPE]})
    wait_until(lambda: b"up" in read_all(bench.executor, "r1")["stdout"], seconds=30)
    group = Cgroup(Spec.load(bench.executor.runs / "r1").cgroup)
    wait_until(lambda: len(group.list_processes()) == 4, seconds=10)  # init, and three processes that sleep
    pids = group.list_processes()
    os.kill(read_json(bench.executor.runs / "r1" / STATE)["pid"], signal.SIGKILL)
    assert bench.until("r1", *ENDED).reason == "SupervisorLost"
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}/exe")] == []
    assert list_groups(bench) == []
    bench.close()


def test_groups_of_ended_runs_are_removed_at_start(bench: LocalBench) -> None:
    cgroup = CGROUPS.folders_of(bench.executor.runs / "r2")
    create_cgroup(Spec("r2", "p", "train", "b", ["x"], {}, "/", "/", UserMapping(0, 0), cgroup=cgroup))
    with subprocess.Popen(["sleep", "600"]) as process:
        for folder in Cgroup(cgroup).unique:
            Path(folder, "cgroup.procs").write_text(str(process.pid))
        assert list_groups(bench) == [bench.executor.runs / "r2"]
        bench.another_executor()
        assert process.wait(10) == -signal.SIGKILL
    assert list_groups(bench) == []
