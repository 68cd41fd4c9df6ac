"""A served function: it answers requests, and outlives the bad ones."""

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.containers import execute, make_container, start

MODEL = """
loaded = []

def init(scale):
    loaded.append(scale)

def predict(x=1):
    if x == "odd":
        return {1, 2}
    return {"y": 10 / x * loaded[0], "inits": len(loaded)}
"""


@contextlib.contextmanager
def served(folder: Path, code: str = MODEL, **call: Any) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A served function on a free port of this machine, ended by its id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = {"action": "serve", "handler": "predict", "inputs": {"scale": 2}, "port": port} | call
    process = start(folder, make_container(folder, {"model.py": code}, "model.py", **whole))
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.terminate()
        process.communicate(timeout=10)


def wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"nothing listens: {process.stderr.read() if process.stderr else ''}")


def ask(url: str, body: bytes | None, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_served_function_answers_and_outlives_bad_requests(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        assert ask(url, None) == (200, {"status": "ready"})
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1})
        assert ask(url, b"") == (200, {"y": 20.0, "inits": 1})
        for body in (b"{", b"[1]", b"5", b"\xff", b'"x"'):
            status, said = ask(url, body)
            assert (status, list(said)) == (400, ["error"])
        assert ask(url, b'{"x": 0}') == (500, {"error": "ZeroDivisionError: division by zero"})
        status, said = ask(url, b'{"x": "odd"}')
        assert (status, list(said)) == (500, ["error"])
        status, said = ask(url, b'{"z": 1}')
        assert status == 500
        assert "unexpected keyword argument 'z'" in said["error"]
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1}), "init is called once"
        assert process.poll() is None


def test_a_served_result_that_is_no_json_is_a_failure_not_half_an_answer(tmp_path: Path) -> None:
    code = "def predict(x=1):\n    return float('nan')\n"
    with served(tmp_path, code, inputs={}) as (url, _):
        status, said = ask(url, b"{}")
    assert (status, list(said)) == (500, ["error"])


def test_an_exception_of_a_served_function_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        ask(url, b'{"x": 0}')
        process.terminate()
        assert process.stderr is not None
        log = process.stderr.read()
    assert "ZeroDivisionError" in log
    assert "model.py" in log, "the line that failed is what its author needs"


@pytest.mark.parametrize("length", ["-1", "x", ""])
def test_a_wrong_length_is_a_bad_request_and_blocks_nobody(tmp_path: Path, length: str) -> None:
    with served(tmp_path) as (url, _):
        port = int(url.split(":")[2].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
            answer = client.recv(100)
    assert answer.split()[1] in ((b"200",) if not length else (b"400",))


def test_a_served_function_without_init_is_served_too(tmp_path: Path) -> None:
    with served(tmp_path, "def predict(**inputs):\n    return inputs\n", inputs={}) as (url, _):
        assert ask(url, b'{"a": [1]}') == (200, {"a": [1]})


def test_a_served_function_may_be_asynchronous(tmp_path: Path) -> None:
    with served(tmp_path, "async def predict(n):\n    return n + 1\n", inputs={}) as (url, _):
        assert ask(url, b'{"n": 1}') == (200, 2)
        status, said = ask(url, b'{"m": 1}')
        assert (status, said["error"].startswith("InputsMismatch: ")) == (500, True)


def test_the_init_beside_an_imported_handler_is_the_one_that_is_called(tmp_path: Path) -> None:
    code = "from json import dumps as predict\ndef init(greeting):\n    print(greeting)\n    raise SystemExit(7)\n"
    call = {"action": "serve", "handler": "predict", "inputs": {"greeting": "hello"}, "port": 1}
    answer, out, _ = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert (answer, out) == (7, "hello\n")


def test_inputs_that_no_init_takes_are_said_not_dropped(tmp_path: Path) -> None:
    call = {"action": "serve", "handler": "predict", "inputs": {"a": 1}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": "def predict(): ...\n"}, "a.py", **call))
    assert (answer, err) == (1, "inputs are for init(), and there is no such function beside the handler\n")


def test_an_init_that_fails_ends_the_process_with_its_traceback(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    call = {"action": "serve", "handler": "predict", "inputs": {}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert answer == 1
    assert err.endswith("RuntimeError: no weights\n")
