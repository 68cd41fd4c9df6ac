"""Served runs as real processes: reachable only by the server, and restarted when they exit."""

import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.allocation import find_runtime
from fairlead.adapters.local.executor import LocalExecutor
from fairlead.adapters.local.specs import SOCKET, STATE, Spec, read_json
from fairlead.errors import NotFound, Unavailable
from fairlead.model.runs import Endpoint, Observation, Phase
from fairlead.run_events import RunEvent, RunEvents
from tests.adapters.local.making import make_launch_spec, runtime, this_machine
from tests.contracts.executors import ENDED, SERVES, WAITS, LocalBench, read_all
from tests.databases import wait_until

TIMEOUT_SECONDS = 120.0
COMMAND = {"name": "web", "source": "train.py", "command": ["python3", "train.py"]}
WEB = """
import http.server, os
class Pages(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["PORT"].encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Pages).serve_forever()
"""
FAILS_AT_START = """
def init():
    raise RuntimeError("no weights")
def main():
    pass
"""
USES_MEMORY = """
import time
def main(size=0):
    data = bytearray(size * 2**20)
    time.sleep(5 if size else 0)
    return len(data)
"""
LINK = """
import os, time
os.symlink("{target}", os.environ["FAIRLEAD_SOCKET"])
print("linked", flush=True)
time.sleep(600)
def main():
    pass
"""
# Ends on SIGTERM, but leaves a child that holds its socket.
LEAVES = """
import os, time
def main():
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    os._exit(3)
"""


@pytest.fixture
def bench() -> Iterator[LocalBench]:
    """An executor in a folder whose path is longer than a socket address may be."""
    parent = Path(tempfile.mkdtemp(prefix="fairlead-test-"))
    parent.chmod(0o755)
    data = parent / ("long" * 25)
    created = LocalBench(data, this_machine())
    yield created
    created.close()
    shutil.rmtree(parent)


def send(executor: LocalExecutor, run_id: str, body: Any = None) -> Any:
    """Send a request to a run."""
    return call(executor.find_endpoint(run_id), body)


def call(endpoint: Endpoint, body: Any = None, path: str = "/") -> Any:
    """The response to a call, or to a readiness check if no call is given."""
    connection = HTTPConnection(endpoint.url.removeprefix("http://"), timeout=TIMEOUT_SECONDS)
    if endpoint.socket is not None:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(TIMEOUT_SECONDS)
        connection.sock.connect(endpoint.socket)
    try:
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def until(bench: LocalBench, run_id: str, *expected: str) -> Observation:
    """Wait until a run has a phase or reason, and return its observation."""
    last: list[Observation] = []

    def check() -> bool:
        observation = bench.executor.observe(run_id)
        last[:] = [observation] if observation is not None else []
        return observation is not None and bool(
            {str(observation.phase), observation.reason} & {*expected, *map(str, ENDED)}
        )

    wait_until(check, seconds=TIMEOUT_SECONDS)
    assert {str(last[0].phase), last[0].reason} & set(expected), last[0]
    return last[0]


def call_and_crash(bench: LocalBench, run_id: str, **inputs: Any) -> None:
    """Call a run that exits without a response."""
    with pytest.raises((HTTPException, OSError)):
        send(bench.executor, run_id, inputs)


def test_served_function_answers_on_a_socket_that_only_the_server_can_reach(bench: LocalBench) -> None:
    bench.start("r1", SERVES, action="serve")
    until(bench, "r1", "Ready")
    endpoint = bench.executor.find_endpoint("r1")
    assert (endpoint.url, dict(endpoint.headers), endpoint.prefix) == ("http://localhost", {}, "")
    assert endpoint.socket is not None
    assert len(endpoint.socket) < 108
    assert call(endpoint) == {"status": "ready"}
    assert isinstance(call(endpoint, {}), int)
    folder = bench.data / "runs" / "r1"
    assert stat.S_IMODE((folder / SOCKET).stat().st_mode) == 0o600
    assert not (folder / "home" / SOCKET).exists(), "the run cannot replace the socket"


def test_exited_process_is_restarted_and_the_cause_is_logged(bench: LocalBench) -> None:
    bench.start("r1", SERVES, action="serve")
    started_at = until(bench, "r1", "Ready").started_at
    call_and_crash(bench, "r1", code=3)
    observation = until(bench, "r1", "degraded")
    assert (observation.reason, observation.started_at) == ("CrashLoopBackOff", started_at)
    assert observation.message.startswith("exited with code 3; it has exited once and ")
    with pytest.raises(Unavailable):
        bench.executor.find_endpoint("r1")
    until(bench, "r1", "Ready")
    assert isinstance(send(bench.executor, "r1", {}), int)
    log = read_all(bench.executor, "r1")["platform"].decode().splitlines()
    assert log == [
        "started",
        "exited with code 3; it has exited once and will restart in 1 s",
        "restarted after exiting once",
    ]


def test_process_that_fails_at_start_is_degraded_and_restarted(bench: LocalBench) -> None:
    bench.start("r1", FAILS_AT_START, action="serve")
    wait_until(lambda: "exited twice" in (until(bench, "r1", "degraded").message), seconds=TIMEOUT_SECONDS)
    observation = until(bench, "r1", "CrashLoopBackOff")
    assert observation.message.startswith("RuntimeError: no weights; it has exited ")
    bench.executor.stop("r1")
    ended = until(bench, "r1", "failed")
    assert (ended.reason, ended.stopped) == ("Stopped", True)


def test_process_over_its_memory_limit_is_killed_and_restarted(bench: LocalBench) -> None:
    bench.start("r1", USES_MEMORY, action="serve", resources={"mem": {"requests": "16Mi", "limits": "150Mi"}})
    until(bench, "r1", "Ready")
    call_and_crash(bench, "r1", size=500)
    observation = until(bench, "r1", "degraded")
    assert observation.reason == "OOMKilled"
    assert "exceeded the limit of 150 MiB; it has exited once" in observation.message
    until(bench, "r1", "Ready")
    assert send(bench.executor, "r1", {"size": 1}) == 2**20
    assert len(bench.executor.read_usage("r1")) >= 2, "usage is sampled all the time"


def test_no_process_of_the_previous_start_is_left_after_a_restart(bench: LocalBench) -> None:
    bench.start("r1", LEAVES, action="serve")
    until(bench, "r1", "Ready")
    call_and_crash(bench, "r1")
    until(bench, "r1", "degraded")
    until(bench, "r1", "Ready")
    assert send(bench.executor, "r1") == {"status": "ready"}
    bench.executor.stop("r1")
    assert until(bench, "r1", "failed").stopped


def test_run_in_restart_backoff_can_be_stopped_immediately(bench: LocalBench) -> None:
    bench.start("r1", FAILS_AT_START, action="serve")
    wait_until(lambda: "in 4 s" in until(bench, "r1", "degraded", "starting").message, seconds=TIMEOUT_SECONDS)
    bench.executor.stop("r1")
    observation = until(bench, "r1", "failed")
    assert (observation.stopped, observation.exit_code) == (True, 1)
    with pytest.raises(NotFound):
        bench.executor.find_endpoint("r1")


def test_another_server_takes_over_a_served_run_and_its_notifications(bench: LocalBench) -> None:
    bench.start("r1", SERVES, action="serve")
    until(bench, "r1", "Ready")
    notified: list[str] = []
    bench.run_events = RunEvents()
    bench.run_events.subscribe(notified.append, RunEvent.OBSERVED)
    other = bench.another_executor()
    observation = other.observe("r1")
    assert observation is not None
    assert (observation.phase, observation.reason) == (Phase.RUNNING, "Ready")
    before = send(other, "r1", {})
    call_and_crash(bench, "r1", code=3)
    wait_until(lambda: len(notified) >= 3, seconds=TIMEOUT_SECONDS)  # it exited, was restarted, and is ready again
    until(bench, "r1", "Ready")
    assert send(other, "r1", {}) != before
    assert set(notified) == {"r1"}


def test_subscriber_is_notified_of_every_change(bench: LocalBench) -> None:
    notified: list[str] = []
    bench.run_events.subscribe(notified.append, RunEvent.OBSERVED)
    bench.start("r1", SERVES, action="serve")
    wait_until(
        lambda: (observation := bench.executor.observe("r1")) is not None and observation.reason == "Ready",
        seconds=TIMEOUT_SECONDS,
    )
    wait_until(lambda: "r1" in notified, seconds=TIMEOUT_SECONDS)
    notified.clear()
    call_and_crash(bench, "r1", code=3)
    wait_until(lambda: len(notified) >= 3, seconds=TIMEOUT_SECONDS)


def test_symlink_to_another_socket_is_not_followed(bench: LocalBench) -> None:
    """The server can reach sockets that a run cannot."""
    bench.start("r1", SERVES, action="serve")
    until(bench, "r1", "Ready")
    bench.start("r2", LINK.format(target=bench.data / "runs" / "r1" / SOCKET), action="serve")
    wait_until(lambda: b"linked" in read_all(bench.executor, "r2")["stdout"], seconds=TIMEOUT_SECONDS)
    state = read_json(bench.data / "runs" / "r2" / STATE)
    assert (state["phase"], state["address"]) == ("starting", None)
    with pytest.raises(Unavailable):
        bench.executor.find_endpoint("r2")


@pytest.mark.parametrize("action", ["serve", "workspace"])
def test_command_gets_a_free_port_and_listens_there(bench: LocalBench, action: str) -> None:
    for run_id in ("r1", "r2"):
        bench.start(run_id, WEB, action=action, function=COMMAND)
    for run_id in ("r1", "r2"):
        until(bench, run_id, "Ready")
        endpoint = bench.executor.find_endpoint(run_id)
        assert (endpoint.url, endpoint.socket) == (f"http://127.0.0.1:{call(endpoint)}", None)
    assert bench.executor.find_endpoint("r1") != bench.executor.find_endpoint("r2")


def test_command_that_does_not_listen_on_its_port_stays_starting(bench: LocalBench) -> None:
    bench.start("r1", WAITS.replace("def main():", "if True:"), action="serve", function=COMMAND)
    wait_until(lambda: b"up" in read_all(bench.executor, "r1")["stdout"], seconds=TIMEOUT_SECONDS)
    observation = until(bench, "r1", "starting")
    port = Spec.load(bench.data / "runs" / "r1").port
    assert observation.message == f"starting: not accepting connections on port {port} ($PORT) yet"


def test_requested_port_is_waited_for_while_another_run_uses_it(bench: LocalBench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    function = {**COMMAND, "port": port}
    bench.start("r1", WEB, action="serve", function=function)
    until(bench, "r1", "Ready")
    assert bench.executor.find_endpoint("r1").url == f"http://127.0.0.1:{port}"
    with pytest.raises(Unavailable, match=f"port {port} on this machine is in use by run r1"):
        bench.start("r2", WEB, action="serve", function=function)
    assert bench.executor.observe("r2") is None
    bench.executor.stop("r1")
    until(bench, "r1", "failed")
    bench.start("r2", WEB, action="serve", function=function)
    until(bench, "r2", "Ready")


def test_runs_without_isolation_can_serve(bench: LocalBench) -> None:
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no Python is executable for all users")
    machine = replace(this_machine(), isolation_error="pretended")
    bench.executor = LocalExecutor(bench.data, machine, find_runtime(python, os.environ), bench.run_events)
    bench.opened.append(bench.executor)
    bench.start("r1", SERVES, action="serve")
    until(bench, "r1", "Ready")
    call_and_crash(bench, "r1", code=3)
    until(bench, "r1", "degraded")
    until(bench, "r1", "Ready")
    bench.executor.stop("r1")
    assert until(bench, "r1", "failed").stopped


def test_missing_jupyterlab_fails_the_run_with_a_hint(bench: LocalBench) -> None:
    bare = replace(runtime(), paths=())
    executor = LocalExecutor(bench.data / "bare", this_machine(), bare, RunEvents())
    executor.start(make_launch_spec("r1", action="workspace"))
    observation = executor.observe("r1")
    executor.close()
    assert observation is not None
    assert (observation.phase, observation.reason) == (Phase.FAILED, "StartFailed")
    hint = "install it with pip install jupyterlab, or set the function's command"
    assert observation.message == f"JupyterLab is not installed for {bare.python}: {hint}"


def test_notebook_answers_on_its_socket(bench: LocalBench) -> None:
    if not runtime().has("jupyterlab"):
        pytest.skip("JupyterLab is not installed for the Python of these tests: NOT TRIED")
    bench.start("r1", WAITS, action="workspace", function={"name": "lab", "source": "train.py"})
    until(bench, "r1", "Ready")
    endpoint = replace(
        bench.executor.find_endpoint("r1"), url="http://r1.localhost:8000"
    )  # a host name that Jupyter does not know
    assert "version" in call(endpoint, path="/api")
    entries = call(endpoint, path="/api/contents/fairlead/code")["content"]
    assert [file["name"] for file in entries] == ["train.py"]
