"""Every call in examples/seeds.py with an automatically started server, on SQLite and on PostgreSQL."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.modules import ROOT
from tests.processes.execution import kill_processes, list_run_ids, until
from tests.processes.machines import Machine

SEEDS = ROOT / "examples" / "seeds.py"
CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=16,mem=64Gi,disk=100Gi,gpu=1"}
CALLS = SEEDS.read_text("utf-8").count("expect(") - 1
GOAL_SECONDS = 30.0


@pytest.fixture
def cleaned_machine(machine: Machine) -> Iterator[Machine]:
    """A machine on which all servers and runs are killed after the test."""
    yield machine
    machine.close()
    for server_file in machine.folder.glob("*/server.json"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(server_file.read_text("utf-8"))["pid"], signal.SIGKILL)
    for run_id in list_run_ids(machine.folder):
        kill_processes(run_id)


def test_seeds_with_an_automatically_started_server(cleaned_machine: Machine) -> None:
    data = cleaned_machine.folder / "own"
    variables = {"FAIRLEAD_DATA": str(data), **CAPACITY}
    _run_seeds(cleaned_machine, variables)
    _run_seeds(cleaned_machine, variables)  # again, with the existing data
    pid = json.loads((data / "server.json").read_text("utf-8"))["pid"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: not Path("/proc", str(pid)).exists() or _is_zombie(pid))
    assert not (data / "server.json").exists()


@pytest.mark.smoke
def test_seeds_with_a_running_server(cleaned_machine: Machine, database: tuple[str, ...]) -> None:
    server = cleaned_machine.up(*database, variables=CAPACITY)
    _run_seeds(cleaned_machine, {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token})
    assert server.stop().code == 0


def _run_seeds(machine: Machine, variables: dict[str, str]) -> None:
    started = time.monotonic()
    ended = machine.start(sys.executable, str(SEEDS), variables=variables).wait(4 * GOAL_SECONDS)
    elapsed = time.monotonic() - started
    assert (ended.code, ended.err) == (0, ""), ended
    assert ended.out.splitlines()[-1] == f"{CALLS} runs received what they requested"
    print(f"{CALLS} runs in {elapsed:.1f} s; the goal is {GOAL_SECONDS:.0f} on an idle machine")


def _is_zombie(pid: int) -> bool:
    """Whether a process is a zombie."""
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
