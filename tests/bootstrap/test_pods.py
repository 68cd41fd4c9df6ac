"""The two processes of a pod: one is the function and knows no token, the other fetches, waits, and ends as it did."""

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
from tests.bootstrap.pods import RUN, TOKEN, envs_of, limit, make_pod, message_of, serving, silent_url
from tests.bootstrap.test_bootstrap import PYTHONS

MAIN = "def main():\n    return 'ran'\n"
RAN = {"result": {"kind": "json", "value": "ran"}}
WAITING = "import os, signal, sys, time\nprint('begun')\n"


def make_fetching(folder: Path, files: dict[str, str], source: str = "a.py", **call: Any) -> tuple[Path, bytes]:
    """A pod whose code is on the server, and that code."""
    bootstrap = make_pod(folder, files, source, fetched=True, **{"handler": "main", **call})
    return bootstrap, (folder / "code.tar.gz").read_bytes()


def begin(folder: Path, bootstrap: Path, *words: str, **envs: str) -> subprocess.Popen[str]:
    """Start a pod, and wait until its function has said so."""
    process = start(folder, bootstrap, *words, **envs)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


# Code


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_code_that_did_not_come_along_is_fetched(tmp_path: Path, length: int) -> None:
    noise = os.urandom(length).hex()
    bootstrap, code = make_fetching(tmp_path, {"src/a.py": MAIN, "src/b.txt": noise}, "src", handler="a:main")
    with serving() as server:
        server.code = code
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert len(code) > length
    assert (server.asked, server.tokens) == ([("GET", "code")], {f"Bearer {TOKEN}"})
    assert message_of(tmp_path) == RAN


def test_code_that_came_along_is_not_fetched(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": MAIN}, "a.py", handler="main")
    with serving() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.asked == []


def test_code_is_asked_for_until_it_comes(tmp_path: Path) -> None:
    bootstrap, code = make_fetching(tmp_path, {"a.py": MAIN})
    with serving() as server:
        server.code, server.statuses = code, [500, 0, 429]
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.asked == [("GET", "code")] * 4
    assert message_of(tmp_path) == RAN


def test_fetched_code_that_is_not_what_was_submitted_does_not_run(tmp_path: Path) -> None:
    bootstrap, _ = make_fetching(tmp_path, {"a.py": "print('ran')"})
    with serving() as server:
        server.code = b"something else"
        code, out, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert (code, out) == (1, "")
    assert err.startswith("the code was changed: expected sha256:")
    assert message_of(tmp_path)["error"]["type"] == "CodeChanged"


def test_code_that_nobody_answers_for_names_the_address_and_the_error(tmp_path: Path) -> None:
    bootstrap, _ = make_fetching(tmp_path, {"a.py": MAIN})
    limit(bootstrap, GIVE_UP_SECONDS=1)
    url = silent_url()
    code, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, url))
    told = f"cannot download the code from {url}/api/v1/runs/{RUN}/code: no response from {url} for 1 seconds: "
    assert (code, err) == (1, f"{told}Connection refused\n")
    assert message_of(tmp_path)["error"] == {"type": "CodeUnavailable", "message": err.strip(), "traceback": ""}


def test_code_that_is_refused_is_asked_for_once(tmp_path: Path) -> None:
    bootstrap, _ = make_fetching(tmp_path, {"a.py": MAIN})
    with serving() as server:
        server.refused["code"] = {"status": 401, "detail": "run r1 is stopped"}
        _, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert err.endswith(f"{server.url} responded with 401: run r1 is stopped\n")
    assert len(server.asked) == 1


def test_code_that_cannot_be_fetched_is_said(tmp_path: Path) -> None:
    bootstrap, _ = make_fetching(tmp_path, {"a.py": MAIN})
    code, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path))
    assert (code, message_of(tmp_path)["error"]["type"]) == (1, "CodeUnavailable")
    assert err == "the code is too large for the pod's ConfigMap, and pods of this cluster cannot reach the server\n"


# The process of the function


def test_the_function_has_no_token(tmp_path: Path) -> None:
    show = f"import os\ndef main():\n    return [key for key in os.environ if {TOKEN!r} in os.environ[key]]\n"
    bootstrap = make_pod(tmp_path, {"a.py": show}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, silent_url())) == (0, "", "")
    assert message_of(tmp_path)["result"]["value"] == []


def test_a_command_is_the_function_too_and_its_files_get_back(tmp_path: Path) -> None:
    script = "import os, sys\nseen = os.environ.get('FAIRLEAD_RUN_TOKEN', '-')\n"
    script += "open(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write(seen)\nsys.exit(7)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py", command=[sys.executable, "a.py"])
    with serving() as server:
        assert execute(tmp_path, bootstrap, "--x", **envs_of(tmp_path, server)) == (7, "", "")
    assert server.kept == {"output/a": b"-"}
    assert message_of(tmp_path) is None


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
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
def test_however_the_function_ends_its_files_get_back_and_its_code(tmp_path: Path, end: str, code: int) -> None:
    script = f"import os, signal, sys\nopen(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write('A')\n{end}\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with serving() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server))[0] == code
    assert server.kept == {"output/a": b"A"}


def test_files_that_threads_write_at_the_end_get_back(tmp_path: Path) -> None:
    script = """
import atexit, os, threading, time
def leave(name, seconds):
    time.sleep(seconds)
    open(os.environ['FAIRLEAD_OUTPUT'] + '/' + name, 'w').write(name)
atexit.register(leave, 'atexit', 0)
threading.Thread(target=leave, args=('thread', 0.3)).start()
"""
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with serving() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert set(server.kept) == {"output/atexit", "output/thread"}


def test_modules_of_the_function_may_be_called_like_those_of_the_sidecar(tmp_path: Path) -> None:
    files = {f"{name}.py": f"value = '{name}'\n" for name in ("sidecar", "http", "email", "socket", "random")}
    code = f"import {', '.join(name[:-3] for name in files)}\ndef main():\n    return sidecar.value + http.value\n"
    bootstrap = make_pod(
        tmp_path, {f"src/{name}": text for name, text in {**files, "a.py": code}.items()}, "src", handler="a:main"
    )
    with serving() as server:
        assert execute(tmp_path, bootstrap, **envs_of(tmp_path, server)) == (0, "", "")
    assert message_of(tmp_path)["result"]["value"] == "sidecarhttp"


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_reaches_a_command_which_decides(tmp_path: Path, number: signal.Signals) -> None:
    script = f"{WAITING}signal.signal({number}, lambda *_: sys.exit(7))\nprint('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py", command=[sys.executable, "-u", "a.py"])
    process = begin(tmp_path, bootstrap, **envs_of(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == 7


def test_a_function_that_is_ended_by_a_signal_says_so_as_a_shell_does(tmp_path: Path) -> None:
    script = f"{WAITING}open(os.environ['FAIRLEAD_OUTPUT'] + '/a', 'w').write('A')\nprint('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    with serving() as server:
        process = begin(tmp_path, bootstrap, **envs_of(tmp_path, server))
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert server.kept == {"output/a": b"A"}


def test_a_signal_is_passed_on_also_where_nobody_listens_yet(tmp_path: Path) -> None:
    """The first process of a pod hears nothing unless it listens: the function would go on until it is killed."""
    script = f"{WAITING}print('ready')\ntime.sleep(30)\n"
    bootstrap = make_pod(tmp_path, {"a.py": script}, "a.py")
    file, listens = bootstrap.parent / "sidecar.py", "    code, started = 1, False\n"
    text = file.read_text("utf-8")
    assert listens in text
    slowly = f"{listens}    print('forked', flush=True)\n    import time\n    time.sleep(0.5)\n"
    file.write_text(text.replace(listens, slowly), "utf-8")
    process = start(tmp_path, bootstrap, **envs_of(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "forked\n"
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


def test_one_that_is_stopped_before_its_code_is_there_ends_at_once(tmp_path: Path) -> None:
    bootstrap, code = make_fetching(tmp_path, {"a.py": "print('ran')"})
    with serving() as server:
        server.code, server.statuses = code, [503] * 1000
        process = start(tmp_path, bootstrap, **envs_of(tmp_path, server))
        until = time.monotonic() + 10
        while len(server.asked) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        process.terminate()
        out, _ = process.communicate(timeout=5)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")


# Served functions


def test_a_served_function_fetches_its_code_and_is_one_process(tmp_path: Path) -> None:
    code = "import os\ndef init():\n    print('begun')\n    print(os.getpid(), 'FAIRLEAD_RUN_TOKEN' in os.environ)\n"
    code += "def predict():\n    pass\n"
    bootstrap, archive = make_fetching(tmp_path, {"a.py": code}, action="serve", handler="predict", port=0)
    with serving() as server:
        server.code = archive
        process = begin(tmp_path, bootstrap, **envs_of(tmp_path, server))
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} False\n"
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode in (0, -signal.SIGTERM)  # it served by then, or was about to
    assert message_of(tmp_path) is None


def test_a_served_function_that_fails_tells_how(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    bootstrap = make_pod(tmp_path, {"a.py": code}, "a.py", action="serve", handler="predict", port=1)
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, silent_url()))[0] == 1
    told = message_of(tmp_path)["error"]
    assert (told["type"], told["message"]) == ("RuntimeError", "no weights")


# Every Python


@pytest.mark.parametrize("python", sorted(set(PYTHONS)))
def test_pods_work_with_every_python_of_this_machine(tmp_path: Path, python: str) -> None:
    script = "import os\ndef main():\n    open(os.environ['FAIRLEAD_OUTPUT'] + '/é', 'w').write('A')\n"
    script += "    return 'x' * 5000\n"
    bootstrap, code = make_fetching(tmp_path, {"a.py": script})
    with serving() as server:
        server.code, server.statuses = code, [503]
        assert execute(tmp_path, bootstrap, python=python, **envs_of(tmp_path, server)) == (0, "", "")
    assert server.kept.keys() == {"output/é", "result.json"}
    assert json.loads(server.kept["result.json"])["value"] == "x" * 5000
