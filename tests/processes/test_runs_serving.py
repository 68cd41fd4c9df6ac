"""Served runs on real servers: they respond, restart after they exit, and keep running without their server."""

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
from tests.processes.execution import Platform, find_processes, until, wait_for_end, wait_for_output, wait_for_state
from tests.processes.machines import CLIENT_OPTIONS, Machine

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
    "print('listening', flush=True)\n"
    "http.server.test(http.server.SimpleHTTPRequestHandler, port=int(os.environ['PORT']), bind='127.0.0.1')\n"
)


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server with capacity for many runs."""
    with execution.open_platform(machine, variables={"FAIRLEAD_CAPACITY": "cpu=64,mem=64Gi"}) as opened:
        yield opened


def serve(platform: Platform, **request: Any) -> Run:
    """Start a served function, and wait until it is ready."""
    run = platform.python(MODEL, "predict", action="serve", inputs={"scale": 10}, **request)
    wait_until_ready(run)
    return run


def wait_until_ready(run: Run) -> None:
    """Wait until a served run is ready."""
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    assert str(run.state) == "running"


def send_request(platform: Platform, run: Run, **inputs: Any) -> tuple[int, Any]:
    """Send a request to a served run through the server."""
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    response = httpx2.post(f"{platform.server.url}/served/{run.id}/", json=inputs, headers=headers, **CLIENT_OPTIONS)
    return response.status_code, response.json()


def restart(platform: Platform, machine: Machine) -> Platform:
    """Kill the server and start it again with the same data folder and port."""
    port = platform.server.url.rpartition(":")[2]
    platform.server.stop(signal.SIGKILL)
    return replace(platform, server=machine.up("--port", port))


def test_served_function_answers_requests_through_the_server(platform: Platform) -> None:
    run = serve(platform)
    status, body = send_request(platform, run, x=4)
    assert (status, body["y"]) == (200, 40)
    status, body = send_request(platform, run, z=1)
    assert (status, "its signature is predict(x=1, code=None)" in body["error"]) == (400, True)
    assert run.logs().startswith("started\ninit\n")
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []


def test_exited_served_function_is_degraded_until_it_restarts(platform: Platform) -> None:
    run = serve(platform)
    first = send_request(platform, run)[1]["pid"]
    assert send_request(platform, run, code=3)[0] == 502
    until(lambda: run.refresh().data["state"] == "degraded", 120)
    assert run.data["reason"] == "CrashLoopBackOff"
    assert run.data["message"].startswith("exited with code 3: init; it has exited once and ")
    wait_until_ready(run)
    assert send_request(platform, run)[1]["pid"] != first
    states = [(event["state"], event["reason"]) for event in run.events()]
    assert states[-1] == ("running", "Ready")
    assert ("degraded", "CrashLoopBackOff") in states
    assert "failed" not in {state for state, _ in states}
    assert "restarted after exiting once\n" in run.logs()
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"


def test_served_run_survives_without_a_server_and_is_still_restarted(platform: Platform, machine: Machine) -> None:
    run = serve(platform)
    before = send_request(platform, run)[1]["pid"]
    platform = restart(platform, machine)
    assert send_request(platform, run)[1]["pid"] == before
    (worker,) = [pid for pid in find_processes(run.id) if executes_function(pid)]
    platform.server.stop(signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in find_processes(run.id))
    platform = restart(platform, machine)
    until(lambda: send_request(platform, run)[0] == 200, 120)
    wait_until_ready(run)
    assert "killed by SIGKILL (exit code 137): init; it has exited once" in run.logs()
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    until(lambda: not find_processes(run.id))


def executes_function(pid: int) -> bool:
    """Whether a process executes a function. Other processes, such as the supervisor, do not run bootstrap.py."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"bootstrap.py" in file.read()


def test_workspace_with_a_command_is_reachable_on_its_port(platform: Platform) -> None:
    function = platform.project.function("web", command=["python3", "-c", WEB])
    run = function.run(action="workspace")
    wait_until_ready(run)
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    response = httpx2.get(f"{platform.server.url}/served/{run.id}/", headers=headers, **CLIENT_OPTIONS)
    assert (response.status_code, "Directory listing" in response.text) == (200, True)
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"


def test_run_waits_for_a_port_in_use_with_a_reason(platform: Platform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    function = platform.project.function("web", command=["python3", "-c", WEB], port=port)
    first = function.run(action="serve")
    wait_until_ready(first)
    second = function.run(action="serve")
    until(lambda: second.refresh().data["reason"] == "StartDelayed")
    assert second.data["message"].startswith(f"port {port} on this machine is in use by run {first.id}")
    first.stop()
    assert wait_for_end(first)["state"] == "stopped"
    wait_until_ready(second)
    second.stop()
    assert wait_for_end(second)["state"] == "stopped"


def test_missing_jupyterlab_is_reported_before_the_run(platform: Platform) -> None:
    run = platform.python("x = 1\n", action="workspace")
    if wait_for_state(run, "failed", "running", seconds=120) == "running":
        pytest.skip("JupyterLab is installed for the Python of these tests")
    assert run.refresh().data["reason"] == "StartFailed"
    assert "pip install jupyterlab" in run.data["message"]


def test_served_run_can_be_stopped_before_it_is_ready(platform: Platform) -> None:
    slow = "import time\ndef init():\n    print('loading', flush=True)\n    time.sleep(300)\ndef f():\n    pass\n"
    run = platform.python(slow, "f", action="serve")
    wait_for_output(run, "loading")
    assert str(run.refresh().state) == "starting"
    assert send_request(platform, run)[0] == 503
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []
