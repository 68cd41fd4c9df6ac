"""Every call of the seeds, on every kind of platform: the one that starts by itself, SQLite and PostgreSQL."""

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
from tests.processes.execution import kill_left, list_folders, until
from tests.processes.machines import Machine

SEEDS = ROOT / "examples" / "seeds.py"
CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=16,mem=64Gi,disk=100Gi,gpu=1"}
CALLS = SEEDS.read_text("utf-8").count("expect(") - 1
GOAL_SECONDS = 30.0


@pytest.fixture
def empty_machine(machine: Machine) -> Iterator[Machine]:
    """A machine on which no run and no server of its own is left behind."""
    yield machine
    machine.close()
    for server_file in machine.folder.glob("*/server.json"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(server_file.read_text("utf-8"))["pid"], signal.SIGKILL)
    for run_id in list_folders(machine.folder):
        kill_left(run_id)


def test_seeds_with_an_automatically_started_server(empty_machine: Machine) -> None:
    data = empty_machine.folder / "own"
    variables = {"FAIRLEAD_DATA": str(data), **CAPACITY}
    _run_seeds(empty_machine, variables)
    _run_seeds(empty_machine, variables)  # again, on what is there by now
    pid = json.loads((data / "server.json").read_text("utf-8"))["pid"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: not Path("/proc", str(pid)).exists() or _is_dead(pid))
    assert not (data / "server.json").exists()


@pytest.mark.smoke
def test_seeds_with_a_running_server(empty_machine: Machine, database: tuple[str, ...]) -> None:
    server = empty_machine.up(*database, variables=CAPACITY)
    _run_seeds(empty_machine, {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token})
    assert server.stop().code == 0


def _run_seeds(machine: Machine, variables: dict[str, str]) -> None:
    began = time.monotonic()
    ended = machine.start(sys.executable, str(SEEDS), variables=variables).wait(4 * GOAL_SECONDS)
    took = time.monotonic() - began
    assert (ended.code, ended.err) == (0, ""), ended
    assert ended.out.splitlines()[-1] == f"{CALLS} runs requested what the documentation shows, and got it"
    print(f"{CALLS} runs in {took:.1f} s; the goal is {GOAL_SECONDS:.0f} on a quiet machine")


def _is_dead(pid: int) -> bool:
    """Whether a process is a zombie."""
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
