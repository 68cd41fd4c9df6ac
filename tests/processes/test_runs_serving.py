"""Runs that serve on real servers: they answer, are started again when they end, and go on without their server."""

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, end, find_processes, hear, reach, until
from tests.processes.machines import PLAIN, Machine

MODEL = """
import os, time

def init(scale):
    print("init", flush=True)
    global by
    by = scale

def predict(x=1, code=None):
    if code is not None:
        os._exit(code)
    return {"y": x * by, "pid": os.getpid()}
"""
WEB = (
    "import http.server, os, sys\n"
    "print('listens', flush=True)\n"
    "http.server.test(http.server.SimpleHTTPRequestHandler, port=int(os.environ['PORT']), bind='127.0.0.1')\n"
)


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server."""
    with execution.open_platform(machine, variables={"FAIRLEAD_CAPACITY": "cpu=64,mem=64Gi"}) as opened:
        yield opened


def serve(platform: Platform, **request: Any) -> Run:
    """A served function that answers."""
    run = platform.python(MODEL, "predict", action="serve", inputs={"scale": 10}, **request)
    await_ready(run)
    return run


def await_ready(run: Run) -> None:
    """Wait until a run answers."""
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    assert str(run.state) == "running"


def ask(platform: Platform, run: Run, **inputs: Any) -> tuple[int, Any]:
    """Send a request to a served run through the server."""
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    answer = httpx2.post(f"{platform.server.url}/served/{run.id}/", json=inputs, headers=headers, **PLAIN)
    return answer.status_code, answer.json()


def restart(platform: Platform, machine: Machine) -> Platform:
    """Kill the server and start it again on the same folder, at the same address."""
    port = platform.server.url.rpartition(":")[2]
    platform.server.stop(signal.SIGKILL)
    return replace(platform, server=machine.up("--port", port))


def test_served_function_answers_requests_through_the_server(platform: Platform) -> None:
    run = serve(platform)
    status, body = ask(platform, run, x=4)
    assert (status, body["y"]) == (200, 40)
    status, body = ask(platform, run, z=1)
    assert (status, "its signature is predict(x=1, code=None)" in body["error"]) == (400, True)
    assert run.logs().startswith("started\ninit\n")
    run.stop()
    assert end(run)["state"] == "stopped"
    assert find_processes(run.id) == []


def test_exited_served_function_is_degraded_until_it_restarts(platform: Platform) -> None:
    run = serve(platform)
    first = ask(platform, run)[1]["pid"]
    assert ask(platform, run, code=3)[0] == 502
    until(lambda: run.refresh().data["state"] == "degraded", 120)
    assert run.data["reason"] == "CrashLoopBackOff"
    assert run.data["message"].startswith("exited with code 3: init; it has exited once and ")
    await_ready(run)
    assert ask(platform, run)[1]["pid"] != first
    states = [(event["state"], event["reason"]) for event in run.events()]
    assert states[-1] == ("running", "Ready")
    assert ("degraded", "CrashLoopBackOff") in states
    assert "failed" not in {state for state, _ in states}
    assert "restarted after it exited once\n" in run.logs()
    run.stop()
    assert end(run)["state"] == "stopped"


def test_served_run_survives_without_a_server_and_is_still_restarted(platform: Platform, machine: Machine) -> None:
    run = serve(platform)
    before = ask(platform, run)[1]["pid"]
    platform = restart(platform, machine)
    assert ask(platform, run)[1]["pid"] == before
    (worker,) = [pid for pid in find_processes(run.id) if is_python(pid)]
    platform.server.stop(signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in find_processes(run.id))
    platform = restart(platform, machine)
    until(lambda: ask(platform, run)[0] == 200, 120)
    await_ready(run)
    assert "killed by SIGKILL (exit code 137): init; it has exited once" in run.logs()
    run.stop()
    assert end(run)["state"] == "stopped"
    until(lambda: not find_processes(run.id))


def is_python(pid: int) -> bool:
    """Whether a process executes a function: its supervisor has the folder of the run among its words."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"bootstrap.py" in file.read()


def test_workspace_with_a_command_is_reachable_on_its_port(platform: Platform) -> None:
    function = platform.project.function("web", command=["python3", "-c", WEB])
    run = function.run(action="workspace")
    await_ready(run)
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    answer = httpx2.get(f"{platform.server.url}/served/{run.id}/", headers=headers, **PLAIN)
    assert (answer.status_code, "Directory listing" in answer.text) == (200, True)
    run.stop()
    assert end(run)["state"] == "stopped"


def test_run_waits_for_a_port_in_use_with_a_reason(platform: Platform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    function = platform.project.function("web", command=["python3", "-c", WEB], port=port)
    first = function.run(action="serve")
    await_ready(first)
    second = function.run(action="serve")
    until(lambda: second.refresh().data["reason"] == "StartDelayed")
    assert second.data["message"].startswith(f"port {port} of this machine is in use by run {first.id}")
    first.stop()
    assert end(first)["state"] == "stopped"
    await_ready(second)
    second.stop()
    assert end(second)["state"] == "stopped"


def test_missing_jupyterlab_is_reported_before_the_run(platform: Platform) -> None:
    run = platform.python("x = 1\n", action="workspace")
    if reach(run, "failed", "running", seconds=120) == "running":
        pytest.skip("JupyterLab is installed for the Python of these tests")
    assert run.refresh().data["reason"] == "StartFailed"
    assert "pip install jupyterlab" in run.data["message"]


def test_served_run_can_be_stopped_before_it_is_ready(platform: Platform) -> None:
    slow = "import time\ndef init():\n    print('loads', flush=True)\n    time.sleep(300)\ndef f():\n    pass\n"
    run = platform.python(slow, "f", action="serve")
    hear(run, "loads")
    assert str(run.refresh().state) == "starting"
    assert ask(platform, run)[0] == 503
    run.stop()
    assert end(run)["state"] == "stopped"
    assert find_processes(run.id) == []
