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

from fairlead.model.observations import Endpoint
from tests.cluster.certificates import write_certificates
from tests.server.conftest import Lines
from tests.server.sites import PROBLEM, problem_of
from tests.server.stages import Stage
from tests.server.upstreams import MEBIBYTE, PATIENCE, Program, misbehaving, read_head, serving, silent, wait_until

OK = b"HTTP/1.1 200 OK\r\n"


def read_problem(answer: Any, status: int) -> dict[str, Any]:
    """Check that a response is a server-side problem."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    said: dict[str, Any] = answer.json()
    assert (said["status"], said["request_id"]) == (status, answer.headers["x-request-id"])
    return said


@contextlib.contextmanager
def answering(*pieces: bytes) -> Iterator[Endpoint]:
    """A program that answers every request with the same bytes, and closes the connection."""

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        for piece in pieces:
            connection.sendall(piece)

    with misbehaving(handle) as endpoint:
        yield endpoint


# Not ready


@pytest.mark.parametrize("state", ["queued", "pending", "starting"])
def test_run_that_is_not_ready_returns_503_with_retry_after(stage: Stage, endpoint: Endpoint, state: str) -> None:
    run_id = stage.serve(endpoint, state=state, reason="Because", message="loads a model")
    answer = stage.ask("GET", run_id)
    said = read_problem(answer, 503)
    assert (said["code"], said["detail"]) == ("unavailable", f"run {run_id} is {state} (Because): loads a model")
    assert answer.headers["retry-after"] == "2"


def test_unreachable_run_reports_its_state(stage: Stage) -> None:
    run_id = stage.serve(None, state="degraded", reason="CrashLoopBackOff", message="ended with exit code 3")
    said = read_problem(stage.ask("GET", run_id), 503)
    assert "serves nothing; state degraded: ended with exit code 3" in said["detail"]


def test_run_without_a_listener_is_not_ready(stage: Stage, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = Endpoint(f"http://127.0.0.1:{free.getsockname()[1]}")
    for endpoint in (closed, Endpoint("http://run", socket=str(tmp_path / "none.sock"))):
        said = read_problem(stage.ask("GET", stage.serve(endpoint)), 503)
        assert "cannot connect to run" in said["detail"]


@pytest.mark.parametrize("state", ["stopping", "stopped", "failed", "completed"])
def test_ended_run_is_a_conflict(stage: Stage, endpoint: Endpoint, state: str) -> None:
    run_id = stage.serve(endpoint, state=state, message="is over", active=state == "stopping")
    assert problem_of(stage.ask("GET", run_id), 409)["detail"] == f"run {run_id} is {state}: is over"


# Broken off


@pytest.mark.parametrize("said", [
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
def test_connection_closed_before_the_response_is_a_bad_gateway(stage: Stage, said: bytes) -> None:
    with answering(said) as endpoint:
        run_id = stage.serve(endpoint)
        for method in ("GET", "POST"):
            problem = read_problem(stage.ask(method, run_id), 502)
            assert problem["code"] == "bad_gateway"
            assert problem["detail"].startswith(f"no valid response from run {run_id}: ")


@pytest.mark.parametrize("said", [
    OK + b"Content-Length: 100\r\n\r\nonly this",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\nno chunk",
])  # fmt: skip
def test_interrupted_response_is_not_completed(stage: Stage, said: bytes, log: Lines) -> None:
    with answering(said) as endpoint:
        run_id = stage.serve(endpoint)
        sent = f"GET /served/{run_id}/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.site.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", stage.port), timeout=PATIENCE) as connection:
            connection.sendall(sent.encode())
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"content-length: 100" in answer or not answer.endswith(b"0\r\n\r\n")
    assert [line["run"] for line in log if line["event"] == "response interrupted"] == [run_id]


def test_response_that_ends_with_its_connection_is_complete(stage: Stage) -> None:
    with answering(b"HTTP/1.0 200 OK\r\nX-Old: yes\r\n\r\n", b"all of ", b"it") as endpoint:
        answer = stage.ask("GET", stage.serve(endpoint))
    assert (answer.headers["x-old"], answer.text) == ("yes", "all of it")


def test_informational_responses_are_skipped(stage: Stage) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    with answering(hints, OK + b"Content-Length: 2\r\n\r\nok") as endpoint:
        assert stage.ask("GET", stage.serve(endpoint)).text == "ok"


def test_chunked_encoding_takes_precedence_over_content_length(stage: Stage) -> None:
    with answering(OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n") as endpoint:
        answer = stage.ask("GET", stage.serve(endpoint))
    assert (answer.text, "content-length" in answer.headers) == ("ok", False)


def test_response_before_the_end_of_the_request_is_forwarded(stage: Stage) -> None:
    with answering(b"HTTP/1.1 413 Too Much\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much") as endpoint:
        answer = stage.ask("POST", stage.serve(endpoint), content=(b"x" * MEBIBYTE for _ in range(20)))
    assert (answer.status_code, answer.text) == (413, "too much")


def test_idle_connection_closed_by_the_run_is_retried(stage: Stage) -> None:
    """The run responds once per connection, and closes it on the next request."""
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(read_head(connection))
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
        seen.append(read_head(connection))

    with misbehaving(handle) as endpoint:
        run_id = stage.serve(endpoint)
        assert [stage.ask("GET", run_id, f"/{number}").text for number in range(4)] == ["ok"] * 4
    paths = [head.split()[1].decode() for head in seen if head]
    assert set(paths) == {"/0", "/1", "/2", "/3"}


def test_post_is_not_repeated_after_a_closed_connection(stage: Stage) -> None:
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        while head := read_head(connection):
            seen.append(head.split()[0])
            if head.startswith(b"POST"):
                return
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")

    with misbehaving(handle) as endpoint:
        run_id = stage.serve(endpoint)
        assert stage.ask("GET", run_id).text == "ok"
        read_problem(stage.ask("POST", run_id), 502)
    assert seen == [b"GET", b"POST"]


# Silent


def test_run_that_never_responds_times_out(hasty_stage: Stage) -> None:
    closed = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        while connection.recv(65536):
            pass
        closed.set()

    with misbehaving(handle) as endpoint:
        run_id = hasty_stage.serve(endpoint)
        problem = read_problem(hasty_stage.ask("GET", run_id), 504)
        assert problem["code"] == "gateway_timeout"
        assert problem["detail"] == f"run {run_id} did not start to respond within 1 seconds"
        assert closed.wait(PATIENCE)


def test_run_that_closes_one_connection_and_is_silent_on_the_next_times_out(hasty_stage: Stage) -> None:
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(read_head(connection))
        if len(seen) == 1:
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
            seen.append(read_head(connection))
        else:
            while connection.recv(65536):
                pass

    with misbehaving(handle) as endpoint:
        run_id = hasty_stage.serve(endpoint)
        assert hasty_stage.ask("GET", run_id).text == "ok"
        read_problem(hasty_stage.ask("GET", run_id), 504)
    assert len(seen) == 3


def test_run_that_reads_nothing_times_out(hasty_stage: Stage) -> None:
    over = threading.Event()
    with misbehaving(silent(over)) as endpoint:
        pieces = (b"x" * MEBIBYTE for _ in range(100))
        answer = hasty_stage.ask("POST", hasty_stage.serve(endpoint), content=pieces)
        over.set()
    read_problem(answer, 504)


def test_stream_can_be_silent_longer_than_the_response_timeout(
    hasty_stage: Stage, program: Program, endpoint: Endpoint
) -> None:
    run_id = hasty_stage.serve(endpoint)
    headers = {"Authorization": f"Bearer {hasty_stage.site.token}"}
    with hasty_stage.client.stream("GET", f"/served/{run_id}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "data: 1"
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 2 * 1.0)  # twice the patience with an answer
        program.go_on.set()
        assert [next(lines), next(lines)] == ["", "data: 2"]


def test_slow_client_does_not_time_out(hasty_stage: Stage, endpoint: Endpoint) -> None:
    def trickle() -> Iterator[bytes]:
        for _ in range(3):
            yield b"x"
            time.sleep(0.4)  # less than the timeout of a second, and more in total

    assert hasty_stage.ask("POST", hasty_stage.serve(endpoint), "/count", content=trickle()).json()["size"] == 3


def test_slow_runs_do_not_block_other_requests(stage: Stage, endpoint: Endpoint) -> None:
    over = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        over.wait(PATIENCE)
        connection.sendall(OK + b"Content-Length: 4\r\n\r\nlate")

    with misbehaving(handle) as slow:
        slow_id, quick_id = stage.serve(slow), stage.serve(endpoint)
        answers: list[str] = []
        asking = [
            threading.Thread(target=lambda: answers.append(stage.ask("GET", slow_id).text), daemon=True)
            for _ in range(30)
        ]
        for thread in asking:
            thread.start()
        wait_until(lambda: stage.site.app.state.metrics.in_flight >= 30)
        assert stage.ask("GET", quick_id).status_code == 200
        assert stage.site.get("/me")["user"] == "ann"
        assert answers == []
        over.set()
        for thread in asking:
            thread.join(PATIENCE)
    assert answers == ["late"] * 30


def test_number_of_connections_per_run_is_limited(
    hasty_stage: Stage, program: Program, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.server.proxy.connections.WAIT_SECONDS", 0.2)
    run_id, headers = hasty_stage.serve(endpoint), {"Authorization": f"Bearer {hasty_stage.site.token}"}
    address = f"/served/{run_id}/events"
    with (
        hasty_stage.client.stream("GET", address, headers=headers) as first,
        hasty_stage.client.stream("GET", address, headers=headers) as second,
    ):
        assert (first.status_code, second.status_code) == (200, 200)
        said = read_problem(hasty_stage.ask("GET", run_id), 503)
        assert said["detail"] == f"run {run_id} already has 2 requests in progress"
        program.go_on.set()
    wait_until(lambda: hasty_stage.ask("GET", run_id).status_code == 200)


# No longer


@pytest.mark.parametrize("end", ["token", "role", "run"])
def test_stream_is_closed_after_access_is_revoked(hasty_stage: Stage, endpoint: Endpoint, end: str) -> None:
    site, run_id = hasty_stage.site, hasty_stage.serve(endpoint)
    role = site.make("/roles", {"subject": "user:bob", "role": "viewer", "scope": "project/alpha"})
    token = site.make("/tokens", {"name": "one", "user": "bob"})
    headers = {"Authorization": f"Bearer {token['token']}"}
    with hasty_stage.client.stream("GET", f"/served/{run_id}/ticks", headers=headers) as answer:
        ticks = answer.iter_raw()
        assert next(ticks).startswith(b".")
        if end == "run":
            site.make(f"/runs/{run_id}/stop", None)
        else:
            address = f"/tokens/{token['id']}" if end == "token" else f"/roles/{role['id']}"
            assert site.ask("DELETE", address).status_code == 204
        with pytest.raises(Exception, match=r"peer closed connection|incomplete"):
            for _ in ticks:
                pass


# Through others


def test_links_rewritten_by_the_api_server_proxy_are_restored(stage: Stage) -> None:
    prefix = "/api/v1/namespaces/alpha/services/http:model:8000/proxy"
    page = f'<a href="{prefix}/one">{prefix[:-3]}</a><img src="{prefix}/two">'.encode()
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(read_head(connection))
        head = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nLocation: {prefix}/three\r\n\r\n"
        connection.sendall(OK + head.encode())
        for letter in page:
            connection.sendall(bytes([letter]))

    with misbehaving(handle) as reached:
        own = {"Authorization": "Bearer of-the-cluster"}
        run_id = stage.serve(Endpoint(f"{reached.url}{prefix}", headers=own, prefix=prefix))
        answer = stage.ask("GET", run_id, "/page?x=1", headers={"Accept-Encoding": "gzip"})
    assert answer.text == f'<a href="/one">{prefix[:-3]}</a><img src="/two">'
    assert answer.headers["location"] == f"/served/{run_id}/three"
    asked = seen[0].decode().splitlines()
    assert asked[0] == f"GET {prefix}/page?x=1 HTTP/1.1"
    assert "authorization: Bearer of-the-cluster" in asked
    assert "accept-encoding: identity" in asked
    assert stage.site.token not in seen[0].decode()


def test_tls_connection_uses_the_configured_server_name(stage: Stage, program: Program, tmp_path: Path) -> None:
    write_certificates(tmp_path, "server")
    certificate: dict[str, Any] = {
        "ssl_keyfile": str(tmp_path / "server.key"),
        "ssl_certfile": str(tmp_path / "server.crt"),
    }
    with serving(program, **certificate) as reached:
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        endpoint = Endpoint(reached.url.replace("http:", "https:"), verify=trust, server_name="kubernetes.default")
        run_id = stage.serve(endpoint)
        assert dict(stage.ask("GET", run_id).json()["headers"])["host"] == endpoint.url.removeprefix("https://")
        assert stage.ask("POST", run_id, "/count", content=b"x" * MEBIBYTE).json()["size"] == MEBIBYTE
        with stage.converse(run_id, "/echo") as opened:
            opened.send_text("hello")
            assert opened.receive_text(PATIENCE) == "hello"
        other = stage.serve(replace(endpoint, server_name="elsewhere.example"))
        read_problem(stage.ask("GET", other), 503)


def test_untrusted_certificate_receives_no_request(stage: Stage) -> None:
    seen: list[bytes] = []
    with misbehaving(lambda connection: seen.append(connection.recv(65536))) as reached:
        endpoint = Endpoint(reached.url.replace("http:", "https:"), verify=ssl.create_default_context())
        said = read_problem(stage.ask("GET", stage.serve(endpoint)), 503)
    assert "cannot connect to run" in said["detail"]
    assert b"GET" not in b"".join(seen)
