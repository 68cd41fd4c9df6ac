"""A served function: it answers requests, and outlives the bad ones."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.containers import execute, make_container, start
from tests.databases import wait_until

MODEL = """
loaded = []

def init(scale):
    loaded.append(scale)

def predict(x=1):
    if x == "odd":
        return {1, 2}
    if x == "exit":
        raise SystemExit(3)
    return {"y": 10 / x * loaded[0], "inits": len(loaded)}
"""
ECHO = "def predict(**inputs):\n    return inputs\n"
MEETS = """
import threading
both = threading.Barrier(2)
def predict():
    return both.wait(30)
"""
SLOW = """
import os, time
def predict():
    print("asked", flush=True)
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    return "done"
"""


@contextlib.contextmanager
def served(
    folder: Path, code: str | dict[str, str] = MODEL, envs: dict[str, str] | None = None, **call: Any
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A served function on a free port of this machine: of one file, or of several."""
    port = find_port()
    whole = {"action": "serve", "handler": "predict", "inputs": {"scale": 2}, "port": port} | call
    files, source = ({"model.py": code}, "model.py") if isinstance(code, str) else (code, ".")
    container = make_container(folder, files, source, **whole)
    with started(folder, container, **envs or {}) as process:
        wait_until(lambda: process.poll() is not None or connects(port), seconds=60)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        yield f"http://127.0.0.1:{port}/", process


@contextlib.contextmanager
def started(folder: Path, container: Path, **envs: str) -> Iterator["subprocess.Popen[str]"]:
    """A container that runs, ended by its id."""
    process = start(folder, container, **envs)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def find_port() -> int:
    """A free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def connects(port: int) -> bool:
    """Whether a port accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def call_socket(folder: Path, text: bytes) -> bytes:
    """The raw response to bytes on the socket of a folder; empty if it is closed."""
    opened = os.open(folder, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            if client.connect_ex(f"/proc/self/fd/{opened}/serve.sock") != 0:
                return b""
            client.sendall(text)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))
    finally:
        os.close(opened)


def ask(url: str, body: bytes | None, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def speak(url: str, text: bytes) -> bytes:
    """All that is answered to some bytes, until the server ends the connection."""
    port = int(url.split(":")[2].strip("/"))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def test_a_served_function_answers_and_outlives_bad_requests(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        assert ask(url, None) == (200, {"status": "ready"})
        assert ask(f"{url}health?full", None) == (200, {"status": "ready"})
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1})
        assert ask(url, b"") == (200, {"y": 20.0, "inits": 1})
        assert ask(url, b'{"x": 0}') == (500, {"error": "ZeroDivisionError: division by zero"})
        assert ask(url, b'{"x": "exit"}') == (500, {"error": "SystemExit: 3"})
        status, said = ask(url, b'{"x": "odd"}')
        assert (status, said["error"].startswith("ResultNotJSON: ")) == (500, True)
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1}), "init is called once"
        assert process.poll() is None


@pytest.mark.parametrize("body", [b"{", b"[1]", b"5", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_json_object_is_a_bad_request(tmp_path: Path, body: bytes) -> None:
    with served(tmp_path) as (url, _):
        status, said = ask(url, body)
        assert (status, list(said)) == (400, ["error"])
        assert "JSON" in said["error"]


@pytest.mark.parametrize("code", [MODEL, "async def predict(x=1):\n    return x\n"], ids=["plain", "async"])
def test_inputs_that_the_function_does_not_take_are_a_bad_request_that_says_what_it_takes(
    tmp_path: Path, code: str
) -> None:
    with served(tmp_path, code, inputs={"scale": 2} if code == MODEL else {}) as (url, _):
        status, said = ask(url, b'{"z": 1}')
    assert status == 400
    assert "unexpected keyword argument 'z'" in said["error"]
    assert said["error"].endswith("its signature is predict(x=1)")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/other", 404), ("PUT", "/", 405), ("DELETE", "/x", 405), ("BREW", "/", 501)]
)
def test_what_means_nothing_here_is_said_in_json(tmp_path: Path, method: str, path: str, status: int) -> None:
    with served(tmp_path) as (url, _):
        head, _, body = speak(url, f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    assert list(json.loads(body)) == ["error"]


def test_a_served_result_that_is_no_json_is_a_failure_not_half_an_answer(tmp_path: Path) -> None:
    code = "def predict(x=1):\n    return float('nan')\n"
    with served(tmp_path, code, inputs={}) as (url, _):
        status, said = ask(url, b"{}")
    assert (status, list(said)) == (500, ["error"])


def test_an_exception_of_a_served_function_leaves_its_traceback_in_the_log_alone(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        _, said = ask(url, b'{"x": 0}')
        process.terminate()
        assert process.stderr is not None
        assert process.stdout is not None
        log, told = process.stderr.read(), process.stdout.read()
    assert "Traceback" not in said["error"]
    assert "ZeroDivisionError" in log
    assert "model.py" in log, "the line that failed is what its author needs"
    assert "bootstrap.py" not in log
    assert told.startswith("POST '/' 500 in ")


def test_what_was_answered_well_leaves_nothing_in_the_log(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        ask(url, None)
        ask(url, b"{}")
        process.terminate()
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


@pytest.mark.parametrize("length", ["-1", "x", "1.5", "²", ""])
def test_a_wrong_length_is_a_bad_request_and_blocks_nobody(tmp_path: Path, length: str) -> None:
    with served(tmp_path) as (url, _):
        told = speak(url, f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
    assert told.split()[1] == (b"400" if length else b"200")


def test_what_is_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        told = speak(url, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n")
        assert told.split()[1] == b"413"
        assert b"is larger than" in told
        chunk = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n"
        assert speak(url, chunk).split()[1] == b"413"


def test_a_body_that_ends_too_soon_is_a_bad_request(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        told = speak(url, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{}")
    assert told.split()[1] == b"400"
    assert b"2 of 50 bytes" in told


def test_a_body_may_come_in_pieces_without_its_length(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, inputs={}) as (url, _):
        connection = HTTPConnection(url.removeprefix("http://").strip("/"), timeout=60)
        for _ in range(2):  # on one connection: the first body was read to its end
            connection.request("POST", "/", iter([b'{"a": ', b"[1, ", b"2]}"]), encode_chunked=True)
            answer = connection.getresponse()
            assert (answer.status, json.load(answer)) == (200, {"a": [1, 2]})
        connection.close()
        bad = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nlong\r\n"
        assert speak(url, bad).split()[1] == b"400"


def test_whoever_waits_to_be_told_to_send_the_body_is_told(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, inputs={}) as (url, _):
        port = int(url.split(":")[2].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"{}")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_served_function_answers_several_at_once(tmp_path: Path) -> None:
    with served(tmp_path, MEETS, inputs={}) as (url, _), ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda _: ask(url, b"{}"), range(2))) == [(200, 0), (200, 1)]


def test_a_served_function_that_is_told_to_end_answers_first_what_it_was_asked(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, SLOW, {"GO": str(go)}, inputs={}) as (url, process), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, url, b"{}")
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        port = int(url.split(":")[2].strip("/"))
        wait_until(lambda: not connects(port), seconds=60)
        assert process.poll() is None
        go.touch()
        assert answer.result(60) == (200, "done")
        assert process.wait(60) == 0


def test_calls_that_come_at_once_find_the_code_as_any_other(tmp_path: Path) -> None:
    files = {"model.py": "async def predict(x):\n    import beside\n    return beside.LINES[x]\n"}
    files["beside.py"] = "LINES = {'0': 0}\n"
    with served(tmp_path, files, handler="model:predict", inputs={}) as (url, _):
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(ask, url, json.dumps({"x": str(number % 2)}).encode()) for number in range(40)]
        answers = [each.result() for each in asked]
    assert {status for status, _ in answers[::2]} == {200}, answers
    assert {told["error"] for _, told in answers[1::2]} == {"KeyError: '1'"}


def test_a_body_that_nobody_reads_is_not_taken_for_the_next_request(tmp_path: Path) -> None:
    hidden = b'POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n{"x":1}'
    with served(tmp_path) as (url, _):
        for framing in (f"Content-Length: {len(hidden)}\r\n\r\n".encode(), b"Transfer-Encoding: chunked\r\n\r\n"):
            told = speak(url, b"GET /health HTTP/1.1\r\nHost: x\r\n" + framing + hidden)
            assert (told.count(b"HTTP/1.1"), told.count(b"ready")) == (1, 1), told


def test_what_is_no_http_is_answered_as_well(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        assert speak(url, b"GET " + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 414 ")
        assert speak(url, b"what?\r\n\r\n").startswith(b'{"error": ')


def test_a_served_function_without_init_is_served_too(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, inputs={}) as (url, _):
        assert ask(url, b'{"a": [1]}') == (200, {"a": [1]})


def test_a_served_function_may_be_asynchronous(tmp_path: Path) -> None:
    with served(tmp_path, "async def predict(n):\n    return n + 1\n", inputs={}) as (url, _):
        assert ask(url, b'{"n": 1}') == (200, 2)


def test_on_a_machine_that_others_share_it_listens_on_a_socket_that_is_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)  # longer than the address of a socket can be
    home = folder / "home"
    home.mkdir(parents=True)
    (home / "serve.sock").touch()  # as one that ended may leave it
    port = find_port()
    call = {"action": "serve", "handler": "predict", "port": port}
    asked = b'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"a": 1}'
    container = make_container(folder, {"a.py": ECHO}, "a.py", **call)
    with started(folder, container, FAIRLEAD_SOCKET=str(home / "serve.sock")):
        wait_until(lambda: call_socket(home, asked).endswith(b'{"a": 1}'), seconds=60)
        assert stat.S_IMODE((home / "serve.sock").stat().st_mode) == 0o600
        assert not connects(port)


def test_a_module_of_a_served_function_may_be_called_like_the_one_that_answers(tmp_path: Path) -> None:
    files = {"function_server.py": "value = 'mine'\n"}
    files["model.py"] = "import function_server\ndef predict():\n    return function_server.value\n"
    with served(tmp_path, files, handler="model:predict", inputs={}) as (url, _):
        assert ask(url, b"{}") == (200, "mine")


def test_the_init_beside_an_imported_handler_is_the_one_that_is_called(tmp_path: Path) -> None:
    code = "from json import dumps as predict\ndef init(greeting):\n    print(greeting)\n    raise SystemExit(7)\n"
    call = {"action": "serve", "handler": "predict", "inputs": {"greeting": "hello"}, "port": 1}
    answer, out, _ = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert (answer, out) == (7, "hello\n")


def test_inputs_that_no_init_takes_are_said_not_dropped(tmp_path: Path) -> None:
    call = {"action": "serve", "handler": "predict", "inputs": {"a": 1}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": "def predict(): ...\n"}, "a.py", **call))
    assert (answer, err) == (1, "inputs are passed to init(), but the module of the handler has no such function\n")


def test_an_init_that_fails_ends_the_process_with_its_traceback(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    call = {"action": "serve", "handler": "predict", "inputs": {}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert answer == 1
    assert err.endswith("RuntimeError: no weights\n")
