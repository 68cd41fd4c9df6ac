"""Limits for request heads, deadlines and connections, with raw connections to a server in this process."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from httpx2 import Client

from fairlead.server.http.connection_limits import ConnectionLimits, ConnectionTable
from fairlead.server.http.http_protocol import LimitedHttpProtocol, LimitedWebSocketProtocol
from tests.server.upstreams import MEBIBYTE, TIMEOUT_SECONDS, Program, run_server

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /count HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
LIMITS = ConnectionLimits()
QUICK = replace(LIMITS, head_seconds=1.0, body_seconds=1.0, write_seconds=1.0)
FEW = replace(LIMITS, total=24)


class Server:
    """A server that responds to raw requests."""

    def __init__(self, port: int, table: ConnectionTable, program: Program) -> None:
        self.port, self.table, self.program = port, table, program

    def connect(self, data: bytes = b"") -> socket.socket:
        """Open a connection and send data."""
        connection = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS)
        connection.sendall(data)
        return connection

    def ask(self, data: bytes) -> tuple[int, Any]:
        """Send data and return the status and the body of the response, or 0 if there is none."""
        with self.connect(data) as connection:
            return read_response(connection)


@contextlib.contextmanager
def open_server(limits: ConnectionLimits = LIMITS) -> Iterator[Server]:
    """A server with limits."""
    table, program = ConnectionTable(limits), Program()
    options: dict[str, Any] = {"timeout_keep_alive": 1}
    options |= {"http": partial(LimitedHttpProtocol, table=table), "ws": LimitedWebSocketProtocol}
    with run_server(program, **options) as endpoint:
        yield Server(int(endpoint.url.rpartition(":")[2]), table, program)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the default limits."""
    with open_server() as opened:
        yield opened


def read_response(connection: socket.socket) -> tuple[int, Any]:
    """The status and the body of a response; 0 if the server closes the connection without one."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            received += data
            head, end, body = received.partition(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if end and lengths and len(body) >= int(lengths[0].partition(b":")[2]):
                break
    if not received:
        return 0, None
    head, _, body = received.partition(b"\r\n\r\n")
    is_json = body.startswith(b"{") and b"problem+json" in head
    return int(head.split()[1]), json.loads(body) if is_json else body


def wait_until_closed(connection: socket.socket) -> float:
    """The seconds until the server closes a connection."""
    started = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return time.monotonic() - started


# Request heads


@pytest.mark.parametrize(("request_bytes", "status", "code"), [
    (HEAD + b"\r\n", 200, None),
    (HEAD + b"X: " + b"a" * 60_000 + b"\r\n\r\n", 200, None),
    (HEAD + b"".join(b"X-%d: 1\r\n" % number for number in range(99)) + b"\r\n", 200, None),
    (b"GET / HTTP/1.0\r\n\r\n", 200, None),
    (HEAD + b"X: " + b"a" * 66_000 + b"\r\n\r\n", 431, "head_too_large"),
    (HEAD + b"X: " + b"a" * 200_000, 431, "head_too_large"),
    (HEAD + b"X" * 200_000, 431, "head_too_large"),
    (HEAD + b"X: 1\r\n" * 50_000, 431, "head_too_large"),
    (HEAD + b"".join(b"X-%d: 1\r\n" % number for number in range(100)) + b"\r\n", 431, "head_too_large"),
    (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "url_too_long"),
    (b"GET /" + b"a" * 200_000, 414, "url_too_long"),
    (b"G" * 200_000, 400, "http"),
    (HEAD + b"Host: b\r\n\r\n", 400, "host"),
    (HEAD + b"Host: a\r\n\r\n", 400, "host"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "host"),
    (HEAD + b"X: a\r\n b\r\n\r\n", 400, "http"),
    (POST + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 400, "http"),
    (CHUNKED + b"Content-Length: 1\r\n\r\n0\r\n\r\n", 400, "http"),
    (CHUNKED + b"\r\n1;" + b"e" * 200_000 + b"\r\nx\r\n0\r\n\r\n", 431, "head_too_large"),
    (CHUNKED + b"\r\n1\r\nx\r\n0\r\nX: " + b"t" * 200_000 + b"\r\n\r\n", 431, "head_too_large"),
    (HEAD + b"\r\n" + HEAD + b"X: " + b"a" * 200_000, 0, None),
    (b"\r\n" * 100_000, 431, "head_too_large"),
])  # fmt: skip
def test_request_head_is_limited(server: Server, request_bytes: bytes, status: int, code: str | None) -> None:
    answer, body = server.ask(request_bytes)
    assert answer == status
    assert code is None or body["code"] == code


def test_huge_header_is_rejected_after_a_fraction_of_it(server: Server) -> None:
    sent = 0
    with server.connect(HEAD + b"X: ") as connection, contextlib.suppress(ConnectionError):
        while sent < 400 * MEBIBYTE:
            connection.sendall(b"a" * 65536)
            sent += 65536
    assert sent < 40 * MEBIBYTE


def test_second_request_on_a_connection_has_its_own_limit(server: Server) -> None:
    large = HEAD + b"X: " + b"a" * 60_000 + b"\r\n\r\n"
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(large)
            assert read_response(connection)[0] == 200
        connection.sendall(HEAD + b"X: " + b"a" * 66_000 + b"\r\n\r\n")
        assert read_response(connection)[0] == 431


def test_body_with_small_chunks_is_accepted(server: Server) -> None:
    status, body = server.ask(CHUNKED + b"Connection: close\r\n\r\n" + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n")
    assert (status, b'"size": 100000' in body) == (200, True)


def test_trailers_are_not_added_to_the_headers(server: Server) -> None:
    seen = len(server.program.requests)
    trailer = b"\r\n1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    assert server.ask(CHUNKED + trailer)[0] == 200
    time.sleep(0.1)
    assert "authorization" not in dict(server.program.requests[seen]["headers"])


def test_pipelined_requests_are_limited(server: Server) -> None:
    few = (HEAD + b"\r\n") * 10 + HEAD + b"Connection: close\r\n\r\n"
    many = (HEAD + b"\r\n") * 1000
    for data, expected in ((few, 11), (many, 0)):
        with server.connect(data) as connection:
            received = b""
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(65536):
                    received += part
        assert received.count(b"HTTP/1.1 200") == expected


# Deadlines


def trickle(connection: socket.socket, part: bytes, seconds: float) -> None:
    """Send a part every tenth of a second in the background."""

    def send() -> None:
        with contextlib.suppress(OSError):
            for _ in range(int(seconds * 10)):
                connection.sendall(part)
                time.sleep(0.1)

    threading.Thread(target=send, daemon=True).start()


@pytest.mark.parametrize(("start", "part", "status"), [
    (b"", b"", 0),
    (HEAD, b"", 408),
    (HEAD + b"X: ", b"a", 408),
    (POST + b"Content-Length: 1000\r\n\r\n", b"", 408),
    (POST + b"Content-Length: 1000\r\n\r\n", b"a", 408),
    (CHUNKED + b"\r\n", b"1\r\na\r\n", 408),
    (HEAD + b"\r\n", b"", 200),
])  # fmt: skip
def test_slow_client_is_disconnected(start: bytes, part: bytes, status: int) -> None:
    with open_server(QUICK) as server, server.connect(start) as connection:
        if part:
            trickle(connection, part, 4)
        assert read_response(connection)[0] == status
        assert wait_until_closed(connection) < 10


def test_slow_upload_that_makes_progress_is_accepted() -> None:
    with open_server(QUICK) as server, server.connect(POST + b"Content-Length: 10000\r\n\r\n") as connection:
        trickle(connection, b"a" * 500, 4)
        status, body = read_response(connection)
    assert (status, b'"size": 10000' in body) == (200, True)


def test_stream_may_be_silent_for_longer_than_all_deadlines() -> None:
    with open_server(QUICK) as server, server.connect(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        time.sleep(2)
        server.program.proceed.set()
        received = b""
        while b"data: 2" not in received:
            received += connection.recv(65536)


def test_websocket_may_be_silent_for_longer_than_all_deadlines() -> None:
    with open_server(QUICK) as server:
        with Client(trust_env=False) as client, client.websocket(f"ws://127.0.0.1:{server.port}/echo") as websocket:
            assert len(server.table) == 1
            time.sleep(2)
            websocket.send_text("hello")
            assert websocket.receive_text(TIMEOUT_SECONDS) == "hello"
        wait_for(lambda: len(server.table) == 0)


def test_client_that_does_not_read_is_disconnected() -> None:
    with open_server(QUICK) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(b"GET /big?64 HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: len(server.table) == 1)
        wait_for(lambda: len(server.table) == 0)


# Number of connections


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("start", [b"", HEAD, HEAD + b"\r\n"])
def test_idle_connections_make_room_for_new_ones(start: bytes) -> None:
    with open_server(FEW) as server, contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(server.connect(start))
        assert server.ask(HEAD + b"\r\n")[0] == 200
        assert len(server.table) <= FEW.total


def test_requests_in_progress_are_not_closed_for_new_connections() -> None:
    with open_server(FEW) as server, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(server.connect(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")) for _ in range(18)]
        for stream in streams:
            assert b"200 OK" in stream.recv(65536)
        status, body = server.ask(HEAD + b"\r\n")
        assert (status, body["code"]) == (503, "unavailable")
        server.program.proceed.set()
        for stream in streams:
            assert b"data: 2" in stream.recv(65536)


def test_clients_that_do_not_read_make_room_for_new_connections() -> None:
    with open_server(FEW) as server, contextlib.ExitStack() as stack:
        for _ in range(18):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(b"GET /big?64 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert server.ask(HEAD + b"\r\n")[0] == 503
        wait_for(lambda: server.ask(HEAD + b"\r\n")[0] == 200)
        assert len(server.table) <= 18


@pytest.mark.parametrize(("address", "client", "limit"), [
    ("127.0.0.1", "loopback", 768),
    ("::1", "loopback", 768),
    ("::ffff:127.0.0.1", "loopback", 768),
    ("192.0.2.7", "192.0.2.7", 256),
    ("::ffff:192.0.2.7", "192.0.2.7", 256),
    ("2001:db8::1:2", "2001:db8::/64", 256),
    ("fe80::1%eth0", "fe80::/64", 256),
    ("10.0.0.9", "proxy", 1024),
    ("", "", 256),
])  # fmt: skip
def test_clients_are_limited_by_address(address: str, client: str, limit: int) -> None:
    limits = ConnectionLimits.for_files(65536, 1024, ("10.0.0.0/24",))
    assert limits.client_of(address) == client
    assert limits.limit_for(client) == limit


@pytest.mark.parametrize(("files", "setting", "total"), [
    (65536, None, 8192),
    (1024, None, 448),
    (256, None, 64),
    (256, 1000, 64),
    (64, None, 16),
    (65536, 100, 100),
])  # fmt: skip
def test_number_of_connections_follows_the_limit_for_open_files(files: int, setting: int | None, total: int) -> None:
    assert ConnectionLimits.for_files(files, setting, ()).total == total
