"""Runs on a real node in real containers, for behavior that a fake kubelet cannot test."""

import contextlib
import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.model.runs import State
from fairlead.sdk.runs import Run
from tests.architecture.modules import ROOT
from tests.cluster import images, real_nodes
from tests.cluster.clients import until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.making import state_of
from tests.cluster.platforms import Platform
from tests.cluster.real_node import cgroups
from tests.cluster.real_node.packages import Missing
from tests.cluster.real_nodes import NOT_TESTED, RealNode
from tests.processes.machines import Machine

TIMEOUT = 120.0  # seconds
PORT = 8000
WAIT_FOR_CONNECTION = f"""
import socket

def main():
    with socket.create_server(("", {PORT})) as server:
        print("waiting", flush=True)
        server.accept()
    print("connected")
"""
ADDER = """
def init(step):
    global more
    more = step

def main(number):
    return number + more
"""
START_NODE = """
from tests.architecture.modules import ROOT
from tests.cluster import images, real_nodes
from tests.cluster.making import make_pod, wait_for_phase

with real_nodes.running() as (plane, node), plane.client() as admin:
    admin.create(make_pod("default", "sleeping", images.PYTHON, ["sleep", "600"]))
    wait_for_phase(admin, "default", "sleeping", "Running")
    print(node.network.link, plane.folder, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, RealNode]]:
    """A control plane with one real node; skips the tests if this machine does not support it."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(real_nodes.running())
        except Missing as missing:
            pytest.skip(f"{NOT_TESTED}: {missing}")
        yield cluster


@pytest.fixture(scope="module")
def real_platform(shared_machine: Machine, cluster: tuple[ControlPlane, RealNode]) -> Iterator[Platform]:
    """A server that pods can connect to, with the real node's cluster."""
    plane, node = cluster
    options = ("--host", node.network.host_address, "--auth", "tokens")
    with plane.client() as admin:
        yield Platform(shared_machine, plane, admin, None, *options, python_image=images.PYTHON)


def test_python_function_uploads_its_result_and_files(real_platform: Platform) -> None:
    run = real_platform.python(
        "import os, sys\n"
        "def main(size):\n"
        "    print(sys.executable, os.getuid(), os.getgid())\n"
        "    with open(os.environ['FAIRLEAD_OUTPUT'] + '/model.bin', 'wb') as file:\n"
        "        file.write(b'x' * size)\n"
        "    return {'text': 'y' * size}\n",
        inputs={"size": 20_000},
    )
    wait(run)
    assert (run.state, run.result) == (State.COMPLETED, {"text": "y" * 20_000})
    assert run.read("model.bin") == b"x" * 20_000
    assert str(run.logs()) == "/usr/bin/python3 1000 1000\n"


def test_volumes_are_writable_and_shared_volumes_persist(real_platform: Platform) -> None:
    real_platform.project.create_volume("shared", "1Gi")
    volumes = [
        {"volume_type": "shared_volume", "name": "shared", "mount_path": "/shared"},
        {"volume_type": "persistent_volume_claim", "name": "own", "mount_path": "/own", "spec": {"size": "1Gi"}},
        {"volume_type": "empty_dir", "name": "quick", "mount_path": "/quick", "spec": {"medium": "Memory"}},
    ]
    for expected in ([1, 1, 1], [2, 1, 1]):
        run = real_platform.python(
            "import os\n"
            "def main():\n"
            "    for folder in ('/shared', '/own', '/quick'):\n"
            "        open(f'{folder}/{os.environ[\"FAIRLEAD_RUN\"]}', 'w').close()\n"
            "    return [len(os.listdir(folder)) for folder in ('/shared', '/own', '/quick')]\n",
            volumes=volumes,
            run_as_user=2000,
            fs_group=3000,
        )
        wait(run)
        assert (run.state, run.result) == (State.COMPLETED, expected)


def test_secret_is_a_variable_and_a_file_and_is_masked_in_the_log(real_platform: Platform) -> None:
    real_platform.project.set_secret("API_KEY", "sesame-open")
    run = real_platform.python(
        "import os\n"
        "def main():\n"
        "    with open('/keys/API_KEY') as file:\n"
        "        print(os.environ['API_KEY'], file.read())\n"
        "    return os.environ['API_KEY'][::-1]\n",
        secrets=["API_KEY"],
        volumes=[{"volume_type": "secret", "name": "key", "mount_path": "/keys", "spec": {"name": "API_KEY"}}],
    )
    wait(run)
    assert (run.state, run.result) == (State.COMPLETED, "nepo-emases")
    assert str(run.logs()) == "*** ***\n"


def test_function_over_its_memory_limit_is_killed(real_platform: Platform) -> None:
    run = real_platform.python("def main():\n    return len(b'x' * 2**30)\n", resources={"mem": {"limits": "96Mi"}})
    ended = real_platform.until(run, "completed", "failed", seconds=TIMEOUT)
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "OOMKilled", 137)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("sys.exit(7)", 7, id="exit"),
        pytest.param("os._exit(3)", 3, id="immediate exit"),
        pytest.param("os.kill(os.getpid(), 9)", 137, id="signal"),
        pytest.param("os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5, id="exec"),
    ],
)
def test_exit_code_of_a_function_is_reported(real_platform: Platform, statement: str, code: int) -> None:
    run = real_platform.python(f"import os, sys\ndef main():\n    {statement}\n")
    ended = real_platform.until(run, "completed", "failed", seconds=TIMEOUT)
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "ExitCode", code)


def test_log_lines_arrive_while_a_function_runs(real_platform: Platform) -> None:
    run = real_platform.python(WAIT_FOR_CONNECTION)
    lines = run.read_logs(follow=True)
    assert next(lines).text == "waiting\n"
    real_platform.until(run, "running", seconds=TIMEOUT)
    (pod,) = real_platform.pods_of(run)
    with socket.create_connection((pod["status"]["podIP"], PORT), TIMEOUT):
        assert [line.text for line in lines] == ["connected\n"]
    assert wait(run).state is State.COMPLETED


def test_stopped_function_receives_sigterm_and_is_not_killed(real_platform: Platform) -> None:
    run = real_platform.python(WAIT_FOR_CONNECTION)
    assert next(run.read_logs(follow=True)).text == "waiting\n"
    (pod,) = real_platform.pods_of(run)
    changes = real_platform.admin.lines(
        f"/api/v1/namespaces/{real_platform.namespace}/pods",
        watch="true",
        labelSelector=f"fairlead.dev/run={run.id}",
        resourceVersion=pod["metadata"]["resourceVersion"],
    )
    run.stop()
    events = list(itertools.takewhile(lambda event: event["type"] != "DELETED", map(json.loads, changes)))
    assert state_of(events[-1]["object"])["terminated"]["exitCode"] == 143  # 137 if the signal was ignored
    real_platform.until(run, "stopped", seconds=TIMEOUT)


def test_served_function_answers_at_its_url(real_platform: Platform) -> None:
    run = real_platform.python(ADDER, "adder", action="serve", inputs={"step": 2})
    ready = real_platform.until(run, "Ready", seconds=TIMEOUT)
    url = real_platform.api("GET", f"/runs/{run.id}/url")
    assert (ready["state"], url["ready"]) == ("running", True)
    with real_platform.server.client() as client:
        assert client.get(url["url"]).json() == {"status": "ready"}
        assert client.post(url["url"], json={"number": 40}).json() == 42
        failed = client.post(url["url"], json={"number": "forty"})
    assert (failed.status_code, failed.json()["error"].partition(":")[0]) == (500, "TypeError")


def test_missing_image_is_named(real_platform: Platform) -> None:
    function = {"name": "missing", "kind": "container", "image": "fairlead.test/nowhere:1"}
    waiting = real_platform.until(real_platform.run(function=function), "ImagePullBackOff", seconds=TIMEOUT)
    assert waiting["state"] == "starting"
    assert "fairlead.test/nowhere:1" in waiting["message"]


def test_node_of_a_killed_process_is_cleaned_up(cluster: tuple[ControlPlane, RealNode]) -> None:
    command = [sys.executable, "-c", START_NODE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as creator:
        assert creator.stdout is not None
        link, folder = creator.stdout.readline().split()
        assert Path("/sys/class/net", link).exists()
        creator.kill()
    real_nodes.remove_leftovers()  # fails if one of the node's processes is still running
    until(lambda: not Path("/sys/class/net", link).exists())
    assert not Path(folder).exists()
    assert not any(hierarchy.path.joinpath(f"{cgroups.PREFIX}{creator.pid}").exists() for hierarchy in cgroups.find())


def wait(run: Run) -> Run:
    """Wait until a run has ended, and return it."""
    return run.wait(timeout=TIMEOUT, progress=False)
