"""A served function handles requests, and survives invalid ones."""

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
BARRIER = """
import threading
both = threading.Barrier(2)
def predict():
    return both.wait(30)
"""
SLOW = """
import os, time
def predict():
    print("received", flush=True)
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    return "done"
"""


@contextlib.contextmanager
def serve_function(
    folder: Path, code: str | dict[str, str] = MODEL, envs: dict[str, str] | None = None, **call: Any
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A served function on a free port, from one file or several."""
    port = find_port()
    complete_call = {"action": "serve", "handler": "predict", "inputs": {"scale": 2}, "port": port} | call
    files, source = ({"model.py": code}, "model.py") if isinstance(code, str) else (code, ".")
    container = make_container(folder, files, source, **complete_call)
    with run_container(folder, container, **envs or {}) as process:
        wait_until(lambda: process.poll() is not None or connects(port), seconds=60)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        yield f"http://127.0.0.1:{port}/", process


@contextlib.contextmanager
def run_container(folder: Path, container: Path, **envs: str) -> Iterator["subprocess.Popen[str]"]:
    """A running container, terminated at the end."""
    process = start(folder, container, **envs)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def find_port() -> int:
    """A free port on this machine."""
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
    """The raw response to bytes sent to the socket in a folder; empty if the connection is closed."""
    folder_fd = os.open(folder, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            if client.connect_ex(f"/proc/self/fd/{folder_fd}/serve.sock") != 0:
                return b""
            client.sendall(text)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))
    finally:
        os.close(folder_fd)


def send(url: str, body: bytes | None, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def send_raw(url: str, text: bytes) -> bytes:
    """The response to raw bytes, until the server closes the connection."""
    port = int(url.split(":")[2].strip("/"))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def test_a_served_function_answers_and_outlives_bad_requests(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, process):
        assert send(url, None) == (200, {"status": "ready"})
        assert send(f"{url}health?full", None) == (200, {"status": "ready"})
        assert send(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1})
        assert send(url, b"") == (200, {"y": 20.0, "inits": 1})
        assert send(url, b'{"x": 0}') == (500, {"error": "ZeroDivisionError: division by zero"})
        assert send(url, b'{"x": "exit"}') == (500, {"error": "SystemExit: 3"})
        status, data = send(url, b'{"x": "odd"}')
        assert (status, data["error"].startswith("ResultNotJSON: ")) == (500, True)
        assert send(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1}), "init is called once"
        assert process.poll() is None


@pytest.mark.parametrize("body", [b"{", b"[1]", b"5", b"\xff", b'"x"', b"[" * 100_000])
def test_bodies_that_are_not_json_objects_are_bad_requests(tmp_path: Path, body: bytes) -> None:
    with serve_function(tmp_path) as (url, _):
        status, data = send(url, body)
        assert (status, list(data)) == (400, ["error"])
        assert "JSON" in data["error"]


@pytest.mark.parametrize("code", [MODEL, "async def predict(x=1):\n    return x\n"], ids=["plain", "async"])
def test_mismatched_inputs_are_a_bad_request_with_the_signature(tmp_path: Path, code: str) -> None:
    with serve_function(tmp_path, code, inputs={"scale": 2} if code == MODEL else {}) as (url, _):
        status, data = send(url, b'{"z": 1}')
    assert status == 400
    assert "unexpected keyword argument 'z'" in data["error"]
    assert data["error"].endswith("its signature is predict(x=1)")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/other", 404), ("PUT", "/", 405), ("DELETE", "/x", 405), ("BREW", "/", 501)]
)
def test_unknown_paths_and_methods_get_json_errors(tmp_path: Path, method: str, path: str, status: int) -> None:
    with serve_function(tmp_path) as (url, _):
        head, _, body = send_raw(url, f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    assert list(json.loads(body)) == ["error"]


def test_a_result_that_is_not_json_is_a_complete_error_response(tmp_path: Path) -> None:
    code = "def predict(x=1):\n    return float('nan')\n"
    with serve_function(tmp_path, code, inputs={}) as (url, _):
        status, data = send(url, b"{}")
    assert (status, list(data)) == (500, ["error"])


def test_tracebacks_are_in_the_log_only(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, process):
        _, data = send(url, b'{"x": 0}')
        process.terminate()
        assert process.stderr is not None
        assert process.stdout is not None
        log, output = process.stderr.read(), process.stdout.read()
    assert "Traceback" not in data["error"]
    assert "ZeroDivisionError" in log
    assert "model.py" in log, "the author needs the line that failed"
    assert "bootstrap.py" not in log
    assert output.startswith("POST '/' 500 in ")


def test_successful_requests_are_not_logged(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, process):
        send(url, None)
        send(url, b"{}")
        process.terminate()
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


@pytest.mark.parametrize("length", ["-1", "x", "1.5", "²", ""])
def test_an_invalid_content_length_is_a_bad_request(tmp_path: Path, length: str) -> None:
    with serve_function(tmp_path) as (url, _):
        response = send_raw(url, f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
    assert response.split()[1] == (b"400" if length else b"200")


def test_too_large_bodies_are_rejected_before_they_are_sent(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, _):
        response = send_raw(url, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n")
        assert response.split()[1] == b"413"
        assert b"is larger than" in response
        chunk = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n"
        assert send_raw(url, chunk).split()[1] == b"413"


def test_an_incomplete_body_is_a_bad_request(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, _):
        response = send_raw(url, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{}")
    assert response.split()[1] == b"400"
    assert b"2 of 50 bytes" in response


def test_chunked_bodies_are_accepted(tmp_path: Path) -> None:
    with serve_function(tmp_path, ECHO, inputs={}) as (url, _):
        connection = HTTPConnection(url.removeprefix("http://").strip("/"), timeout=60)
        for _ in range(2):  # on one connection: the first body was read completely
            connection.request("POST", "/", iter([b'{"a": ', b"[1, ", b"2]}"]), encode_chunked=True)
            response = connection.getresponse()
            assert (response.status, json.load(response)) == (200, {"a": [1, 2]})
        connection.close()
        invalid = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nlong\r\n"
        assert send_raw(url, invalid).split()[1] == b"400"


def test_expect_100_continue_is_answered(tmp_path: Path) -> None:
    with serve_function(tmp_path, ECHO, inputs={}) as (url, _):
        port = int(url.split(":")[2].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"{}")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_requests_are_handled_concurrently(tmp_path: Path) -> None:
    with serve_function(tmp_path, BARRIER, inputs={}) as (url, _), ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda _: send(url, b"{}"), range(2))) == [(200, 0), (200, 1)]


def test_requests_in_flight_are_finished_on_shutdown(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with serve_function(tmp_path, SLOW, {"GO": str(go)}, inputs={}) as (url, process), ThreadPoolExecutor(1) as pool:
        response = pool.submit(send, url, b"{}")
        assert process.stdout is not None
        assert process.stdout.readline() == "received\n"
        process.send_signal(signal.SIGTERM)
        port = int(url.split(":")[2].strip("/"))
        wait_until(lambda: not connects(port), seconds=60)
        assert process.poll() is None
        go.touch()
        assert response.result(60) == (200, "done")
        assert process.wait(60) == 0


def test_concurrent_first_calls_can_import_modules(tmp_path: Path) -> None:
    files = {"model.py": "async def predict(x):\n    import helper\n    return helper.LINES[x]\n"}
    files["helper.py"] = "LINES = {'0': 0}\n"
    with serve_function(tmp_path, files, handler="model:predict", inputs={}) as (url, _):
        with ThreadPoolExecutor(8) as threads:
            futures = [threads.submit(send, url, json.dumps({"x": str(number % 2)}).encode()) for number in range(40)]
        responses = [future.result() for future in futures]
    assert {status for status, _ in responses[::2]} == {200}, responses
    assert {data["error"] for _, data in responses[1::2]} == {"KeyError: '1'"}


def test_an_unread_body_is_not_parsed_as_the_next_request(tmp_path: Path) -> None:
    hidden = b'POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n{"x":1}'
    with serve_function(tmp_path) as (url, _):
        for framing in (f"Content-Length: {len(hidden)}\r\n\r\n".encode(), b"Transfer-Encoding: chunked\r\n\r\n"):
            response = send_raw(url, b"GET /health HTTP/1.1\r\nHost: x\r\n" + framing + hidden)
            assert (response.count(b"HTTP/1.1"), response.count(b"ready")) == (1, 1), response


def test_invalid_http_gets_an_error_response(tmp_path: Path) -> None:
    with serve_function(tmp_path) as (url, _):
        assert send_raw(url, b"GET " + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 414 ")
        assert send_raw(url, b"what?\r\n\r\n").startswith(b'{"error": ')


def test_init_is_optional(tmp_path: Path) -> None:
    with serve_function(tmp_path, ECHO, inputs={}) as (url, _):
        assert send(url, b'{"a": [1]}') == (200, {"a": [1]})


def test_a_served_function_may_be_asynchronous(tmp_path: Path) -> None:
    with serve_function(tmp_path, "async def predict(n):\n    return n + 1\n", inputs={}) as (url, _):
        assert send(url, b'{"n": 1}') == (200, 2)


def test_the_unix_socket_is_private_to_its_user(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)  # longer than a socket path may be
    home = folder / "home"
    home.mkdir(parents=True)
    (home / "serve.sock").touch()  # as left behind by an earlier process
    port = find_port()
    call = {"action": "serve", "handler": "predict", "port": port}
    request = b'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"a": 1}'
    container = make_container(folder, {"a.py": ECHO}, "a.py", **call)
    with run_container(folder, container, FAIRLEAD_SOCKET=str(home / "serve.sock")):
        wait_until(lambda: call_socket(home, request).endswith(b'{"a": 1}'), seconds=60)
        assert stat.S_IMODE((home / "serve.sock").stat().st_mode) == 0o600
        assert not connects(port)


def test_a_module_may_be_named_function_server(tmp_path: Path) -> None:
    files = {"function_server.py": "value = 'mine'\n"}
    files["model.py"] = "import function_server\ndef predict():\n    return function_server.value\n"
    with serve_function(tmp_path, files, handler="model:predict", inputs={}) as (url, _):
        assert send(url, b"{}") == (200, "mine")


def test_init_of_the_source_module_is_called_for_an_imported_handler(tmp_path: Path) -> None:
    code = "from json import dumps as predict\ndef init(greeting):\n    print(greeting)\n    raise SystemExit(7)\n"
    call = {"action": "serve", "handler": "predict", "inputs": {"greeting": "hello"}, "port": 1}
    exit_code, out, _ = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert (exit_code, out) == (7, "hello\n")


def test_inputs_without_an_init_function_are_an_error(tmp_path: Path) -> None:
    call = {"action": "serve", "handler": "predict", "inputs": {"a": 1}, "port": 1}
    exit_code, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": "def predict(): ...\n"}, "a.py", **call))
    assert (exit_code, err) == (1, "inputs are passed to init(), but the handler's module has no such function\n")


def test_a_failing_init_ends_the_process_with_its_traceback(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    call = {"action": "serve", "handler": "predict", "inputs": {}, "port": 1}
    exit_code, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert exit_code == 1
    assert err.endswith("RuntimeError: no weights\n")
