"""Served runs that are not ready, disconnect or hang, and callers that lose access: other callers are unaffected."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.runs import Endpoint
from tests.cluster.certificates import write_certificates
from tests.server.conftest import Lines
from tests.server.sites import PROBLEM, problem_of
from tests.server.stages import Stage
from tests.server.upstreams import (
    MEBIBYTE,
    TIMEOUT_SECONDS,
    Program,
    hold_open,
    read_head,
    run_raw_server,
    run_server,
    wait_until,
)

OK = b"HTTP/1.1 200 OK\r\n"


def read_problem(response: Any, status: int) -> dict[str, Any]:
    """Check that a response is a server-side problem."""
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM), response.text
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["request_id"]) == (status, response.headers["x-request-id"])
    return problem


@contextlib.contextmanager
def respond_with(*chunks: bytes) -> Iterator[Endpoint]:
    """A program that sends the same bytes for every request, and closes the connection."""

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        for chunk in chunks:
            connection.sendall(chunk)

    with run_raw_server(handle) as endpoint:
        yield endpoint


# Not ready


@pytest.mark.parametrize("state", ["queued", "pending", "starting"])
def test_run_that_is_not_ready_returns_503_with_retry_after(stage: Stage, endpoint: Endpoint, state: str) -> None:
    run_id = stage.serve(endpoint, state=state, reason="Because", message="loads a model")
    response = stage.request("GET", run_id)
    problem = read_problem(response, 503)
    assert (problem["code"], problem["detail"]) == ("unavailable", f"run {run_id} is {state} (Because): loads a model")
    assert response.headers["retry-after"] == "2"


def test_unreachable_run_reports_its_state(stage: Stage) -> None:
    run_id = stage.serve(None, state="degraded", reason="CrashLoopBackOff", message="ended with exit code 3")
    problem = read_problem(stage.request("GET", run_id), 503)
    assert "serves nothing; state degraded: ended with exit code 3" in problem["detail"]


def test_run_without_a_listener_is_not_ready(stage: Stage, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = Endpoint(f"http://127.0.0.1:{free.getsockname()[1]}")
    for endpoint in (closed, Endpoint("http://run", socket=str(tmp_path / "none.sock"))):
        problem = read_problem(stage.request("GET", stage.serve(endpoint)), 503)
        assert "cannot connect to run" in problem["detail"]


@pytest.mark.parametrize("state", ["stopping", "stopped", "failed", "completed"])
def test_ended_run_is_a_conflict(stage: Stage, endpoint: Endpoint, state: str) -> None:
    run_id = stage.serve(endpoint, state=state, message="is over", active=state == "stopping")
    assert problem_of(stage.request("GET", run_id), 409)["detail"] == f"run {run_id} is {state}: is over"


# Interrupted responses


@pytest.mark.parametrize("raw_response", [
    b"",
    b"HTTP/1.1 200 OK\r\nX-Half: ",
    b"SSH-2.0-OpenSSH_9.9\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    OK + b"X-Odd: a\x01b\r\nContent-Length: 0\r\n\r\n",
    OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    OK + b"X-Long: " + b"x" * MEBIBYTE,
    b"HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://h%6Fst/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://[/\r\nContent-Length: 0\r\n\r\n",
], ids=[
    *("nothing", "half a head", "no http", "other protocol", "odd header", "two lengths", "endless", "odd status"),
    *("odd host", "no address"),
])  # fmt: skip
def test_connection_closed_before_the_response_is_a_bad_gateway(stage: Stage, raw_response: bytes) -> None:
    with respond_with(raw_response) as endpoint:
        run_id = stage.serve(endpoint)
        for method in ("GET", "POST"):
            problem = read_problem(stage.request(method, run_id), 502)
            assert problem["code"] == "bad_gateway"
            assert problem["detail"].startswith(f"no valid response from run {run_id}: ")


@pytest.mark.parametrize("raw_response", [
    OK + b"Content-Length: 100\r\n\r\nonly this",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\nno chunk",
])  # fmt: skip
def test_interrupted_response_is_not_completed(stage: Stage, raw_response: bytes, log: Lines) -> None:
    with respond_with(raw_response) as endpoint:
        run_id = stage.serve(endpoint)
        request = f"GET /served/{run_id}/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", stage.port), timeout=TIMEOUT_SECONDS) as connection:
            connection.sendall(request.encode())
            response = b""
            while chunk := connection.recv(65536):
                response += chunk
    assert response.startswith(b"HTTP/1.1 200")
    assert b"content-length: 100" in response or not response.endswith(b"0\r\n\r\n")
    assert [line["run"] for line in log if line["event"] == "response interrupted"] == [run_id]


def test_response_that_ends_with_its_connection_is_complete(stage: Stage) -> None:
    with respond_with(b"HTTP/1.0 200 OK\r\nX-Old: yes\r\n\r\n", b"all of ", b"it") as endpoint:
        response = stage.request("GET", stage.serve(endpoint))
    assert (response.headers["x-old"], response.text) == ("yes", "all of it")


def test_endless_early_hints_are_rejected(stage: Stage) -> None:
    with respond_with(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000) as endpoint:
        response = stage.request("GET", stage.serve(endpoint))
    assert (response.status_code, response.json()["code"]) == (502, "bad_gateway")
    assert "informational responses" in response.json()["detail"]


def test_informational_responses_are_skipped(stage: Stage) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    with respond_with(hints, OK + b"Content-Length: 2\r\n\r\nok") as endpoint:
        assert stage.request("GET", stage.serve(endpoint)).text == "ok"


def test_chunked_encoding_takes_precedence_over_content_length(stage: Stage) -> None:
    with respond_with(OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n") as endpoint:
        response = stage.request("GET", stage.serve(endpoint))
    assert (response.text, "content-length" in response.headers) == ("ok", False)


def test_response_before_the_end_of_the_request_is_forwarded(stage: Stage) -> None:
    with respond_with(b"HTTP/1.1 413 Too Much\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much") as endpoint:
        response = stage.request("POST", stage.serve(endpoint), content=(b"x" * MEBIBYTE for _ in range(20)))
    assert (response.status_code, response.text) == (413, "too much")


def test_idle_connection_closed_by_the_run_is_retried(stage: Stage) -> None:
    """The run responds once per connection, and closes the connection on the next request."""
    heads: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
        heads.append(read_head(connection))

    with run_raw_server(handle) as endpoint:
        run_id = stage.serve(endpoint)
        assert [stage.request("GET", run_id, f"/{number}").text for number in range(4)] == ["ok"] * 4
    paths = [head.split()[1].decode() for head in heads if head]
    assert set(paths) == {"/0", "/1", "/2", "/3"}


def test_post_is_not_repeated_after_a_closed_connection(stage: Stage) -> None:
    methods: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        while head := read_head(connection):
            methods.append(head.split()[0])
            if head.startswith(b"POST"):
                return
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")

    with run_raw_server(handle) as endpoint:
        run_id = stage.serve(endpoint)
        assert stage.request("GET", run_id).text == "ok"
        read_problem(stage.request("POST", run_id), 502)
    assert methods == [b"GET", b"POST"]


# Timeouts


def test_run_that_never_responds_times_out(short_timeout_stage: Stage) -> None:
    closed = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        while connection.recv(65536):
            pass
        closed.set()

    with run_raw_server(handle) as endpoint:
        run_id = short_timeout_stage.serve(endpoint)
        problem = read_problem(short_timeout_stage.request("GET", run_id), 504)
        assert problem["code"] == "gateway_timeout"
        assert problem["detail"] == f"run {run_id} did not start responding within 1 seconds"
        assert closed.wait(TIMEOUT_SECONDS)


def test_run_that_closes_one_connection_and_is_silent_on_the_next_times_out(short_timeout_stage: Stage) -> None:
    heads: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        if len(heads) == 1:
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
            heads.append(read_head(connection))
        else:
            while connection.recv(65536):
                pass

    with run_raw_server(handle) as endpoint:
        run_id = short_timeout_stage.serve(endpoint)
        assert short_timeout_stage.request("GET", run_id).text == "ok"
        read_problem(short_timeout_stage.request("GET", run_id), 504)
    assert len(heads) == 3


def test_run_that_reads_nothing_times_out(short_timeout_stage: Stage) -> None:
    done = threading.Event()
    with run_raw_server(hold_open(done)) as endpoint:
        chunks = (b"x" * MEBIBYTE for _ in range(100))
        response = short_timeout_stage.request("POST", short_timeout_stage.serve(endpoint), content=chunks)
        done.set()
    read_problem(response, 504)


def test_stream_can_be_silent_longer_than_the_response_timeout(
    short_timeout_stage: Stage, program: Program, endpoint: Endpoint
) -> None:
    run_id = short_timeout_stage.serve(endpoint)
    headers = {"Authorization": f"Bearer {short_timeout_stage.site.token}"}
    with short_timeout_stage.client.stream("GET", f"/served/{run_id}/events", headers=headers) as response:
        lines = response.iter_lines()
        assert next(lines) == "data: 1"
        started = time.monotonic()
        wait_until(lambda: time.monotonic() - started > 2 * 1.0)  # twice the response timeout
        program.proceed.set()
        assert [next(lines), next(lines)] == ["", "data: 2"]


def test_slow_client_does_not_time_out(short_timeout_stage: Stage, endpoint: Endpoint) -> None:
    def send_slowly() -> Iterator[bytes]:
        for _ in range(3):
            yield b"x"
            time.sleep(0.4)  # each pause is shorter than the one-second timeout, but the total is longer

    assert (
        short_timeout_stage.request(
            "POST", short_timeout_stage.serve(endpoint), "/count", content=send_slowly()
        ).json()["size"]
        == 3
    )


def test_slow_runs_do_not_block_other_requests(stage: Stage, endpoint: Endpoint) -> None:
    done = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        done.wait(TIMEOUT_SECONDS)
        connection.sendall(OK + b"Content-Length: 4\r\n\r\nlate")

    with run_raw_server(handle) as slow:
        slow_id, quick_id = stage.serve(slow), stage.serve(endpoint)
        responses: list[str] = []
        threads = [
            threading.Thread(target=lambda: responses.append(stage.request("GET", slow_id).text), daemon=True)
            for _ in range(30)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: stage.site.app.state.metrics.in_flight >= 30)
        assert stage.request("GET", quick_id).status_code == 200
        assert stage.site.get("/me")["user"] == "ann"
        assert responses == []
        done.set()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
    assert responses == ["late"] * 30


def test_number_of_connections_per_run_is_limited(
    short_timeout_stage: Stage, program: Program, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.server.proxy.connections.WAIT_SECONDS", 0.2)
    run_id, headers = short_timeout_stage.serve(endpoint), {"Authorization": f"Bearer {short_timeout_stage.site.token}"}
    address = f"/served/{run_id}/events"
    with (
        short_timeout_stage.client.stream("GET", address, headers=headers) as first,
        short_timeout_stage.client.stream("GET", address, headers=headers) as second,
    ):
        assert (first.status_code, second.status_code) == (200, 200)
        problem = read_problem(short_timeout_stage.request("GET", run_id), 503)
        assert problem["detail"] == f"run {run_id} already has 2 requests in progress"
        program.proceed.set()
    wait_until(lambda: short_timeout_stage.request("GET", run_id).status_code == 200)


# Revoked access


@pytest.mark.parametrize("end", ["token", "role", "run"])
def test_stream_is_closed_after_access_is_revoked(short_timeout_stage: Stage, endpoint: Endpoint, end: str) -> None:
    site, run_id = short_timeout_stage.site, short_timeout_stage.serve(endpoint)
    role = site.post("/roles", {"subject": "user:bob", "role": "viewer", "scope": "project/alpha"})
    token = site.post("/tokens", {"name": "one", "user": "bob"})
    headers = {"Authorization": f"Bearer {token['token']}"}
    with short_timeout_stage.client.stream("GET", f"/served/{run_id}/ticks", headers=headers) as response:
        ticks = response.iter_raw()
        assert next(ticks).startswith(b".")
        if end == "run":
            site.post(f"/runs/{run_id}/stop", None)
        else:
            address = f"/tokens/{token['id']}" if end == "token" else f"/roles/{role['id']}"
            assert site.request("DELETE", address).status_code == 204
        with pytest.raises(Exception, match=r"peer closed connection|incomplete"):
            for _ in ticks:
                pass


# Proxies and TLS


def test_links_rewritten_by_the_api_server_proxy_are_restored(stage: Stage) -> None:
    prefix = "/api/v1/namespaces/alpha/services/http:model:8000/proxy"
    page = f'<a href="{prefix}/one">{prefix[:-3]}</a><img src="{prefix}/two">'.encode()
    heads: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        head = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nLocation: {prefix}/three\r\n\r\n"
        connection.sendall(OK + head.encode())
        for byte in page:
            connection.sendall(bytes([byte]))

    with run_raw_server(handle) as upstream:
        upstream_headers = {"Authorization": "Bearer of-the-cluster"}
        run_id = stage.serve(Endpoint(f"{upstream.url}{prefix}", headers=upstream_headers, prefix=prefix))
        response = stage.request("GET", run_id, "/page?x=1", headers={"Accept-Encoding": "gzip"})
    assert response.text == f'<a href="/one">{prefix[:-3]}</a><img src="/two">'
    assert response.headers["location"] == f"/served/{run_id}/three"
    request_lines = heads[0].decode().splitlines()
    assert request_lines[0] == f"GET {prefix}/page?x=1 HTTP/1.1"
    assert "authorization: Bearer of-the-cluster" in request_lines
    assert "accept-encoding: identity" in request_lines
    assert stage.site.token not in heads[0].decode()


def test_tls_connection_uses_the_configured_server_name(stage: Stage, program: Program, tmp_path: Path) -> None:
    write_certificates(tmp_path, "server")
    certificate: dict[str, Any] = {
        "ssl_keyfile": str(tmp_path / "server.key"),
        "ssl_certfile": str(tmp_path / "server.crt"),
    }
    with run_server(program, **certificate) as upstream:
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        endpoint = Endpoint(upstream.url.replace("http:", "https:"), verify=trust, server_name="kubernetes.default")
        run_id = stage.serve(endpoint)
        assert dict(stage.request("GET", run_id).json()["headers"])["host"] == endpoint.url.removeprefix("https://")
        assert stage.request("POST", run_id, "/count", content=b"x" * MEBIBYTE).json()["size"] == MEBIBYTE
        with stage.open_websocket(run_id, "/echo") as websocket:
            websocket.send_text("hello")
            assert websocket.receive_text(TIMEOUT_SECONDS) == "hello"
        other = stage.serve(replace(endpoint, server_name="elsewhere.example"))
        read_problem(stage.request("GET", other), 503)


def test_untrusted_certificate_receives_no_request(stage: Stage) -> None:
    received: list[bytes] = []
    with run_raw_server(lambda connection: received.append(connection.recv(65536))) as upstream:
        endpoint = Endpoint(upstream.url.replace("http:", "https:"), verify=ssl.create_default_context())
        problem = read_problem(stage.request("GET", stage.serve(endpoint)), 503)
    assert "cannot connect to run" in problem["detail"]
    assert b"GET" not in b"".join(received)
