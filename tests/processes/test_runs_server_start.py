"""Servers started by the SDK: one per user, shared by all processes, and stopped when idle."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from fairlead import hosting
from fairlead.sdk import starting
from tests.processes import execution
from tests.processes.execution import find_processes, until, wait_for_end, wait_for_state
from tests.processes.machines import CLIENT_OPTIONS, Machine, Process

SUBMIT = """
import fairlead
project = fairlead.project("x")
run = project.function("hello", command=["echo", "hello"]).run().wait(60, progress=False)
print(project.api.url, run.state, run.logs(), end="")
"""


# The client knows only the address of the server that it kills.
KILL = """
import json, os, signal, threading, time
import fairlead
from fairlead.sdk import starting
project = fairlead.project("x")
data = starting.find_data(os.environ)
run = project.function("long", command=["sleep", "300"]).run()
while run.refresh().state != "running":
    time.sleep(0.01)
waiting = threading.Thread(target=lambda: run.wait(60, progress=False))
waiting.start()
os.kill(json.loads((data / "server.json").read_text())["pid"], signal.SIGKILL)
while starting.find_running(data) is not None:
    time.sleep(0.001)
print(project.api.get("/me")["user"])
project.get_run(run.id).stop()
waiting.join()
print(run.state)
"""


@pytest.fixture
def home(machine: Machine) -> Iterator[Path]:
    """The data folder of a user without a server. Ends all processes that are started for it."""
    data = machine.folder / "mine"
    yield data
    if (data / "server.json").exists():
        os.kill(json.loads((data / "server.json").read_text())["pid"], signal.SIGTERM)
        until(lambda: not (data / "server.json").exists())
    for run_id in execution.list_run_ids(machine.folder):
        execution.kill_processes(run_id)


def start_program(machine: Machine, home: Path, text: str) -> Process:
    """Start a user's Python program."""
    return machine.start(sys.executable, "-c", text, variables={"FAIRLEAD_DATA": str(home)})


def test_concurrent_programs_share_one_server_and_one_project(machine: Machine, home: Path) -> None:
    programs = [start_program(machine, home, SUBMIT) for _ in range(3)]
    ended = [program.wait() for program in programs]
    assert [program.err for program in ended] == [""] * 3
    urls = {program.out.split()[0] for program in ended}
    assert urls == {json.loads((home / "server.json").read_text())["url"]}
    assert [program.out.split()[1:] for program in ended] == [["completed", "hello"]] * 3
    assert count_servers(home) == 1


def test_killed_server_is_restarted_by_the_next_client(machine: Machine, home: Path) -> None:
    assert start_program(machine, home, SUBMIT).wait().code == 0
    os.kill(json.loads((home / "server.json").read_text())["pid"], signal.SIGKILL)
    second = start_program(machine, home, SUBMIT).wait()
    assert (second.code, second.err) == (0, "")
    assert second.out.split()[1:] == ["completed", "hello"]


def test_address_of_a_killed_server_is_gone_once_the_next_one_starts(tmp_path: Path) -> None:
    # A process with the killed server's PID exists: a zombie, or another program. Here it is this one.
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": os.getpid()}))
    (tmp_path / "token").write_text("secret")
    with hosting.lock_data_folder(tmp_path):
        assert starting.find_running(tmp_path) is None


def test_clients_of_a_killed_server_start_one_at_the_same_address(machine: Machine, home: Path) -> None:
    ended = start_program(machine, home, KILL).wait()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.split() == ["root@localhost", "stopped"]
    assert count_servers(home) == 1


def test_open_command_starts_a_server_and_signs_in(machine: Machine, home: Path) -> None:
    ended = machine.fairlead("open", "--print", "/policies", variables={"FAIRLEAD_DATA": str(home)})
    assert (ended.code, ended.err) == (0, "")
    url = json.loads((home / "server.json").read_text())["url"]
    with httpx2.Client(base_url=url, **CLIENT_OPTIONS) as browser:
        followed = browser.get(ended.out.strip())
        assert (followed.status_code, followed.headers["location"]) == (303, "/policies")
        assert browser.get("/api/v1/me").json()["via"] == "session:browser"


def test_failed_server_start_is_reported_with_the_reason(machine: Machine, home: Path) -> None:
    home.mkdir()
    (home / "fairlead.db").write_text("not a database, but as long as one" * 100)
    ended = start_program(machine, home, SUBMIT).wait()
    assert ended.code == 1
    assert f"failed to start a server in {home}: " in ended.err


def test_second_server_on_the_same_data_folder_exits_with_a_reason(machine: Machine) -> None:
    arguments = [sys.executable, "-m", "fairlead.app", "up", "--port", "0", "--data", str(machine.folder / "data")]
    processes = [machine.start(*arguments) for _ in range(2)]
    (ended,) = until(lambda: [process for process in processes if process.poll() is not None])
    assert "another server is already using the data folder" in ended.output[1]
    (serving,) = (process for process in processes if process is not ended)
    until(lambda: "listening on" in serving.output[0])
    assert serving.poll() is None


def test_idle_server_shuts_down_only_without_active_runs(machine: Machine) -> None:
    with execution.open_platform(machine, "--idle-seconds", "2") as platform:
        run = platform.shell(f"until [ -e {platform.shared}/go ]; do sleep 0.05; done")
        wait_for_state(run, "running")
        check_during(3, lambda: platform.server.process.poll() is None)
        (platform.shared / "go").touch()
        assert until(lambda: platform.server.process.poll() is not None)
        assert platform.server.process.poll() == 0
        assert find_processes(run.id) == []
        restarted = machine.up("--port", platform.server.url.rpartition(":")[2])
        assert wait_for_end(run)["state"] == "completed"
        assert restarted.stop().code == 0


def check_during(seconds: float, condition: Callable[[], bool]) -> None:
    """Check that a condition stays true for some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition()
        time.sleep(0.05)


def count_servers(home: Path) -> int:
    """The number of server processes that use a data folder."""
    servers = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        servers += b"fairlead.app" in arguments and f"--data={home}".encode() in arguments
    return servers
