"""Runs on servers without root permissions or namespaces: what works, and what is reported as missing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import httpx2
import pytest

from fairlead.errors import RequestRejected
from fairlead.model.nodes import PROTECTION_NAMES
from fairlead.sdk import server_identity
from fairlead.sdk.runs import Run
from tests.architecture.modules import ROOT
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_end, wait_for_output
from tests.processes.machines import CLIENT_OPTIONS, Launcher, Machine

USER_ID = 12_345  # an ordinary user: 65534 is the ID that the kernel shows for users without a mapping
PYTHON = "/usr/bin/python3"  # other users might not have access to the virtual environment
PACKAGES = f"PYTHONPATH={ROOT}/src:{next(path for path in sys.path if path.endswith('site-packages'))}"
BYTECODE = ROOT / ".pytest_cache" / "bytecode-of-a-user"
ENVIRONMENT = ("env", PACKAGES, f"PYTHONPYCACHEPREFIX={BYTECODE}")
AS_USER = ("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", *ENVIRONMENT, PYTHON)
PROGRAM = ("-m", "fairlead.app")
# The program on a simulated machine that forbids namespaces.
PROGRAM_WITHOUT_NAMESPACES = (
    "-c",
    "import sys, fairlead.adapters.local.machines as machines\n"
    "machines.find_isolation_error = lambda: 'unshare: operation not permitted'\n"
    "import fairlead.app\n"
    "sys.exit(fairlead.app.main())",
)


def open_platform_as(launcher: Launcher, program: Sequence[str], owner: int) -> Iterator[Platform]:
    """Start a server as another user, in that user's folder."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    if owner:
        BYTECODE.mkdir(parents=True, exist_ok=True)
        os.chown(BYTECODE, owner, owner)
        probe = "import sys, fairlead, pydantic; sys.exit(sys.version_info < (3, 11))"
        probe_result = subprocess.run([*program[:-2], "-c", probe], capture_output=True, text=True, check=False)
        if probe_result.returncode:
            pytest.skip(f"{PYTHON} cannot run the server as another user: {probe_result.stderr}")
    with execution.open_folder(0o755, owner) as folder:
        machine = Machine(folder, launcher)
        with execution.open_platform(machine, "--capacity", "cpu=64", program=program) as opened:
            yield opened


@pytest.fixture(scope="module")
def user(launcher: Launcher) -> Iterator[Platform]:
    """An unprivileged user's server."""
    yield from open_platform_as(launcher, (*AS_USER, *PROGRAM), USER_ID)


@pytest.fixture(scope="module")
def bare_user(launcher: Launcher) -> Iterator[Platform]:
    """An unprivileged user's server on a machine without namespaces."""
    yield from open_platform_as(launcher, (*AS_USER, *PROGRAM_WITHOUT_NAMESPACES), USER_ID)


@pytest.fixture(scope="module")
def bare_root(launcher: Launcher) -> Iterator[Platform]:
    """A root server on a machine without namespaces, with a Python that every user can execute."""
    yield from open_platform_as(
        launcher, ("env", f"FAIRLEAD_PYTHON={PYTHON}", sys.executable, *PROGRAM_WITHOUT_NAMESPACES), 0
    )


@pytest.fixture(autouse=True)
def accept_server_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client, which is root, send its token to the server of an ordinary user."""
    monkeypatch.setenv(server_identity.SERVER_USER, str(USER_ID))


@pytest.fixture(params=["user", "bare_user", "bare_root"])
def platform(request: pytest.FixtureRequest, launcher: Launcher) -> Platform:
    """Each of the three servers in turn."""
    opened: Platform = request.getfixturevalue(request.param)
    return opened


def test_function_returns_a_result_and_files(platform: Platform) -> None:
    text = (
        "import os\ndef f(n):\n    print('hello')\n"
        "    open(os.environ['FAIRLEAD_OUTPUT'] + '/file', 'w').write('x')\n    return n * 2"
    )
    run = platform.python(text, "f", inputs={"n": 21})
    assert wait_for_end(run)["state"] == "completed", wait_for_end(run)
    assert (run.result, run.logs(), run.read("file")) == (42, "hello\n", b"x")


def test_failures_are_reported(platform: Platform) -> None:
    ended = wait_for_end(platform.shell("echo no luck >&2; exit 3"))
    assert (ended["reason"], ended["message"]) == ("ExitCode", "exited with code 3: no luck")
    ended = wait_for_end(platform.python("def f(): raise ValueError('no luck')", "f"))
    assert ended["message"] == "ValueError: no luck"


def test_limits_are_enforced(platform: Platform) -> None:
    hungry = platform.python(
        "import time\ndata = bytearray(300 << 20)\ntime.sleep(60)", resources={"mem": {"limits": "128Mi"}}
    )
    slow = platform.shell("sleep 60", deadline=1)
    assert wait_for_end(hungry)["reason"] == "OOMKilled"
    assert wait_for_end(slow)["reason"] == "DeadlineExceeded"
    assert find_processes(hungry.id) == find_processes(slow.id) == []


def test_kernel_kills_runs_before_other_processes(platform: Platform) -> None:
    run = platform.shell("cat /proc/self/oom_score_adj")
    assert (wait_for_end(run)["state"], run.logs()) == ("completed", "500\n")


def test_served_function_is_restarted_when_it_exits(platform: Platform) -> None:
    text = "import os\ndef f(code=None):\n    return os.getpid() if code is None else os._exit(code)"
    run = platform.python(text, "f", action="serve")
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    assert send_request(platform, run, {})[0] == 200
    assert send_request(platform, run, {"code": 3})[0] == 502
    until(lambda: run.refresh().data["reason"] == "CrashLoopBackOff", 120)
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    assert send_request(platform, run, {})[0] == 200
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []


def test_served_command_is_killed_over_its_memory_limit(platform: Platform) -> None:
    text = (
        "import http.server, os\nclass Eats(http.server.SimpleHTTPRequestHandler):\n    def do_POST(self):\n"
        "        bytearray(300 << 20)[:] = os.urandom(300 << 20)\n"
        "http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Eats).serve_forever()\n"
    )
    function = platform.project.function("web", command=["python3", "-c", text])
    run = function.run(action="serve", resources={"mem": {"limits": "128Mi"}})
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    assert send_request(platform, run, {})[0] == 502
    until(lambda: run.refresh().data["reason"] == "OOMKilled", 120)
    assert run.data["state"] == "degraded"
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []


def send_request(platform: Platform, run: Run, inputs: dict[str, int]) -> tuple[int, str]:
    """Send a request to a served run through the server."""
    headers = {"Authorization": f"Bearer {platform.server.token}"}
    response = httpx2.post(f"{platform.server.url}/served/{run.id}/", json=inputs, headers=headers, **CLIENT_OPTIONS)
    return response.status_code, response.text


def test_stop_ends_all_processes_of_a_run(platform: Platform) -> None:
    run = platform.shell("setsid sleep 71 & setsid sh -c 'sleep 72 & sleep 73' & echo up; wait")
    wait_for_output(run, "up")
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []


def test_background_processes_end_with_their_run(platform: Platform) -> None:
    run = platform.shell("setsid sleep 71 & env -i setsid sleep 72.5 & echo up")
    assert wait_for_end(run)["state"] == "completed"
    assert find_processes(run.id) == []
    assert subprocess.run(["pgrep", "-f", "^sleep 72.5"], check=False, capture_output=True).stdout == b""


def test_killing_the_supervisor_ends_all_processes(platform: Platform) -> None:
    run = platform.shell("setsid sleep 81 & setsid sh -c 'sleep 82 & sleep 83' & echo up; wait")
    wait_for_output(run, "up")
    os.kill(platform.supervisor_of(run), signal.SIGKILL)
    assert wait_for_end(run)["reason"] == "SupervisorLost"
    until(lambda: not find_processes(run.id), 3)


def test_secret_reaches_the_run_and_is_masked_in_logs(platform: Platform) -> None:
    platform.project.set_secret("PASSWORD", "hush-hush")
    run = platform.shell("echo $PASSWORD; echo ${#PASSWORD}", secrets=["PASSWORD"])
    assert (wait_for_end(run)["state"], run.logs()) == ("completed", "***\n9\n")


def test_startup_message_describes_the_isolation_of_runs(
    user: Platform, bare_user: Platform, bare_root: Platform
) -> None:
    messages = [
        opened.server.process.output[0].split("runs ")[1].split("\n")[0].strip() for opened in (user, bare_user)
    ]
    assert messages[0] == "on this machine, as your user, which is also the server's"
    assert messages[1].startswith(f"{messages[0]}; volumes cannot be mounted (unshare: operation not permitted)")
    assert "each run as a separate user; volumes cannot be mounted" in bare_root.server.process.output[0]


def test_server_without_namespaces_rejects_what_it_cannot_do(bare_user: Platform, bare_root: Platform) -> None:
    volume = {"volume_type": "empty_dir", "name": "data", "mount_path": "/data", "spec": {}}
    for opened in (bare_user, bare_root):
        with pytest.raises(RequestRejected) as caught:
            opened.shell("true", volumes=[volume], run_as_user=1234, run_as_group=77)
        rules = [(violation.path, violation.rule) for violation in caught.value.violations]
        assert rules == [("run_as_group", "user_ids"), ("run_as_user", "user_ids"), ("volumes.data", "mounts")]


def test_nodes_list_the_protections_of_runs(user: Platform, bare_user: Platform) -> None:
    files = []
    for opened in (user, bare_user):
        (node,) = opened.project.api.get("/nodes")
        protections = {protection["name"]: protection for protection in node["protections"]}
        assert set(protections) == set(PROTECTION_NAMES)
        files.append(protections["files"]["mechanism"])
    assert files[0] == "namespaces"
    assert files[1] != "namespaces"


def test_unprivileged_server_hides_its_data_folder_and_supports_volumes(user: Platform) -> None:
    data = user.server.data
    volume = {"volume_type": "empty_dir", "name": "data", "mount_path": "/data", "spec": {}}
    run = user.shell(
        f"id -u; touch /data/x; cat {data}/token {data}/secret.key; ls {data}; umount {data};"
        f"cat /proc/1/root{data}/token; unshare -Urm sh -c 'umount -l {data}; cat {data}/token'; ls /data; true",
        volumes=[volume],
        run_as_user=1234,
    )
    assert wait_for_end(run)["state"] == "completed"
    assert "".join(line.text for line in run.read_logs() if line.stream == "stdout") == "1234\nx\n"


def test_root_inside_a_run_cannot_unmount_the_hidden_data_folder(user: Platform) -> None:
    user.allow(allow_root=True)
    data = user.server.data
    run = user.shell(f"id -u; umount -l {data}; umount {data}; cat {data}/token {data}/secret.key; true", run_as_user=0)
    assert wait_for_end(run)["state"] == "completed"
    assert "".join(line.text for line in run.read_logs() if line.stream == "stdout") == "0\n"


def test_runs_of_root_are_isolated_without_namespaces(
    bare_root: Platform,
) -> None:
    data = bare_root.server.data
    first = bare_root.shell("echo private > $FAIRLEAD_OUTPUT/mine; echo up; sleep 60", envs={"MINE": "private"})
    wait_for_output(first, "up")
    pids = " ".join(map(str, find_processes(first.id)))
    second = bare_root.shell(
        f"id -u; cat {data}/token {data}/secret.key {data}/fairlead.db {data}/runs/{first.id}/home/output/mine;"
        f"for pid in {pids}; do cat /proc/$pid/environ; kill -9 $pid; done; true"
    )
    assert wait_for_end(second)["state"] == "completed"
    (uid,) = "".join(line.text for line in second.read_logs() if line.stream == "stdout").split()
    assert int(uid) >= 700_000
    assert str(first.state) == "running"
    first.stop()
    assert wait_for_end(first)["state"] == "stopped"
    third = bare_root.shell(f"cat {data}/runs/{first.id}/home/output/mine; true")
    assert wait_for_end(third)["state"] == "completed"
    assert "private" not in third.logs()
