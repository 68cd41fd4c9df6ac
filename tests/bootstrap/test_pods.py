"""The two processes of a pod: the function without the token, and the sidecar that downloads, waits and uploads."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.containers import execute, start
from tests.bootstrap.pods import RUN, TOKEN, closed_url, envs_of, limit, make_pod, message_of, run_server
from tests.bootstrap.test_bootstrap import PYTHONS

MAIN = "def main():\n    return 'ran'\n"
EXPECTED_MESSAGE = {"result": {"kind": "json", "value": "ran"}}
WAITING = "import os, signal, sys, time\nprint('started')\n"


def make_downloading(folder: Path, files: dict[str, str], source: str = "a.py", **call: Any) -> tuple[Path, bytes]:
    """A pod whose code is on the server, and the code archive."""
    bootstrap = make_pod(folder, files, source, fetched=True, **{"handler": "main", **call})
    return bootstrap, (folder / "code.tar.gz").read_bytes()


def start_and_wait(folder: Path, bootstrap: Path, *args: str, **envs: str) -> subprocess.Popen[str]:
    """Start a pod, and wait until its function has started."""
    process = start(folder, bootstrap, *args, **envs)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


# Code


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_code_that_is_not_in_the_pod_is_downloaded(tmp_path: Path, length: int) -> None:
    noise = os.urandom(length).hex()
    bootstrap, code = make_downloading(tmp_path, {"src/a.py": MAIN, "src/b.txt": noise}, "src", handler="a:main")
    with run_server() as server:
        server.code = code
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert len(code) > length
    assert (server.requests, server.tokens) == ([("GET", "code")], {f"Bearer {TOKEN}"})
    assert message_of(tmp_path) == EXPECTED_MESSAGE


def test_code_in_the_pod_is_not_downloaded(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": MAIN}, "a.py", handler="main")
    with run_server() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.requests == []


def test_downloads_are_retried(tmp_path: Path) -> None:
    bootstrap, code = make_downloading(tmp_path, {"a.py": MAIN})
    with run_server() as server:
        server.code, server.statuses = code, [500, 0, 429]
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.requests == [("GET", "code")] * 4
    assert message_of(tmp_path) == EXPECTED_MESSAGE


def test_downloaded_code_with_a_wrong_digest_does_not_run(tmp_path: Path) -> None:
    bootstrap, _ = make_downloading(tmp_path, {"a.py": "print('ran')"})
    with run_server() as server:
        server.code = b"something else"
        code, out, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert (code, out) == (1, "")
    assert err.startswith("the code was changed: expected sha256:")
    assert message_of(tmp_path)["error"]["type"] == "CodeChanged"


def test_a_download_without_response_reports_url_and_error(tmp_path: Path) -> None:
    bootstrap, _ = make_downloading(tmp_path, {"a.py": MAIN})
    limit(bootstrap, GIVE_UP_SECONDS=1)
    url = closed_url()
    code, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, url))
    message = f"cannot download the code from {url}/api/v1/runs/{RUN}/code: no response from {url} for 1 seconds: "
    assert (code, err) == (1, f"{message}Connection refused\n")
    assert message_of(tmp_path)["error"] == {"type": "CodeUnavailable", "message": err.strip(), "traceback": ""}


def test_rejected_downloads_are_not_retried(tmp_path: Path) -> None:
    bootstrap, _ = make_downloading(tmp_path, {"a.py": MAIN})
    with run_server() as server:
        server.problems["code"] = {"status": 401, "detail": "run r1 is stopped"}
        _, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert err.endswith(f"{server.url} responded with 401: run r1 is stopped\n")
    assert len(server.requests) == 1


def test_large_code_without_a_server_is_reported(tmp_path: Path) -> None:
    bootstrap, _ = make_downloading(tmp_path, {"a.py": MAIN})
    code, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path))
    assert (code, message_of(tmp_path)["error"]["type"]) == (1, "CodeUnavailable")
    assert err == "the code is too large for the pod's ConfigMap, and pods in this cluster cannot reach the server\n"


# The function's process


def test_the_function_has_no_token(tmp_path: Path) -> None:
    show = f"import os\ndef main():\n    return [key for key in os.environ if {TOKEN!r} in os.environ[key]]\n"
    bootstrap = make_pod(tmp_path, {"a.py": show}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, closed_url())) == (0, "", "")
    assert message_of(tmp_path)["result"]["value"] == []


def test_a_command_has_no_token_and_its_files_are_uploaded(tmp_path: Path) -> None:
    script = "import os, sys\ntoken = os.environ.get('FAIRLEAD_RUN_TOKEN', '-')\n"
    script += "open(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write(token)\nsys.exit(7)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py", command=[sys.executable, "a.py"])
    with run_server() as server:
        assert execute(tmp_path, bootstrap, "--x", **envs_of(tmp_path, server)) == (7, "", "")
    assert server.uploads == {"output/a": b"-"}
    assert message_of(tmp_path) is None


def test_a_missing_command_is_reported(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": ""}, "a.py", command=["nowhere-to-be-found"])
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path))[0] == 1
    assert message_of(tmp_path)["error"]["type"] == "CommandMissing"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("os._exit(3)", 3),
        ("raise KeyboardInterrupt", 130),
        ("sys.exit(0)", 0),
        ("os.execvp('sh', ['sh', '-c', 'exit 9'])", 9),
    ],
)
def test_exit_code_and_files_are_preserved_for_every_kind_of_exit(tmp_path: Path, end: str, code: int) -> None:
    script = f"import os, signal, sys\nopen(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write('A')\n{end}\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with run_server() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server))[0] == code
    assert server.uploads == {"output/a": b"A"}


def test_files_written_at_exit_are_uploaded(tmp_path: Path) -> None:
    script = """
import atexit, os, threading, time
def leave(name, seconds):
    time.sleep(seconds)
    open(os.environ['FAIRLEAD_OUTPUT'] + '/' + name, 'w').write(name)
atexit.register(leave, 'atexit', 0)
threading.Thread(target=leave, args=('thread', 0.3)).start()
"""
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with run_server() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert set(server.uploads) == {"output/atexit", "output/thread"}


def test_modules_of_the_function_may_have_names_of_the_sidecar(tmp_path: Path) -> None:
    files = {f"{name}.py": f"value = '{name}'\n" for name in ("sidecar", "http", "email", "socket", "random")}
    code = f"import {', '.join(name[:-3] for name in files)}\ndef main():\n    return sidecar.value + http.value\n"
    bootstrap = make_pod(
        tmp_path, {f"src/{name}": text for name, text in {**files, "a.py": code}.items()}, "src", handler="a:main"
    )
    with run_server() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert message_of(tmp_path)["result"]["value"] == "sidecarhttp"


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_are_forwarded_to_a_command(tmp_path: Path, number: signal.Signals) -> None:
    script = f"{WAITING}signal.signal({number}, lambda *_: sys.exit(7))\nprint('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py", command=[sys.executable, "-u", "a.py"])
    process = start_and_wait(tmp_path, bootstrap, **envs_of(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == 7


def test_a_signal_gives_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    script = f"{WAITING}open(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write('A')\nprint('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with run_server() as server:
        process = start_and_wait(tmp_path, bootstrap, **envs_of(tmp_path, server))
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert server.uploads == {"output/a": b"A"}


def test_signals_before_the_handler_is_installed_are_forwarded(tmp_path: Path) -> None:
    """PID 1 ignores signals without a handler: the function would continue until it is killed."""
    script = f"{WAITING}print('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    file, line = bootstrap.parent / "sidecar.py", "    code, started = 1, False\n"
    text = file.read_text("utf-8")
    assert line in text
    slow_line = f"{line}    print('forked', flush=True)\n    import time\n    time.sleep(0.5)\n"
    file.write_text(text.replace(line, slow_line), "utf-8")
    process = start(tmp_path, bootstrap, **envs_of(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "forked\n"
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_pod_stopped_during_the_download_ends_immediately(tmp_path: Path) -> None:
    bootstrap, code = make_downloading(tmp_path, {"a.py": "print('ran')"})
    with run_server() as server:
        server.code, server.statuses = code, [503] * 1000
        process = start(tmp_path, bootstrap, **envs_of(tmp_path, server))
        deadline = time.monotonic() + 10
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.terminate()
        out, _ = process.communicate(timeout=5)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")


# Served functions


def test_a_served_function_downloads_its_code_and_is_one_process(tmp_path: Path) -> None:
    code = "import os\ndef init():\n    print('started')\n    print(os.getpid(), 'FAIRLEAD_RUN_TOKEN' in os.environ)\n"
    code += "def predict():\n    pass\n"
    bootstrap, archive = make_downloading(tmp_path, {"a.py": code}, action="serve", handler="predict", port=0)
    with run_server() as server:
        server.code = archive
        process = start_and_wait(tmp_path, bootstrap, **envs_of(tmp_path, server))
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} False\n"
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode in (0, -signal.SIGTERM)  # it was serving, or was about to
    assert message_of(tmp_path) is None


def test_a_failed_served_function_reports_its_error(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    bootstrap = make_pod(tmp_path, {"a.py": code}, "a.py", action="serve", handler="predict", port=1)
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, closed_url()))[0] == 1
    error = message_of(tmp_path)["error"]
    assert (error["type"], error["message"]) == ("RuntimeError", "no weights")


# Every Python version


@pytest.mark.parametrize("python", sorted(set(PYTHONS)))
def test_pods_work_with_every_installed_python(tmp_path: Path, python: str) -> None:
    script = "import os\ndef main():\n    open(os.environ['FAIRLEAD_OUTPUT'] + '/é', 'w').write('A')\n"
    script += "    return 'x' * 5000\n"
    bootstrap, code = make_downloading(tmp_path, {"a.py": script})
    with run_server() as server:
        server.code, server.statuses = code, [503]
        assert execute(tmp_path, bootstrap, python=python, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.uploads.keys() == {"output/é", "result.json"}
    assert json.loads(server.uploads["result.json"])["value"] == "x" * 5000
