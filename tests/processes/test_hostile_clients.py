"""Clients that misuse connections do not make the server unavailable for others."""

import contextlib
import resource
import socket
import sys
import time
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.processes.machines import CLIENT_OPTIONS, Machine, RunningServer

pytestmark = pytest.mark.slow

HEAD = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
FEW_FILES = ("bash", "-c", 'ulimit -n 256 && exec "$0" "$@"', sys.executable, "-m", "fairlead.app")


@pytest.mark.parametrize(
    "start", [b"", HEAD, b"POST /api/v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"]
)
def test_more_idle_connections_than_open_files_do_not_block_the_server(machine: Machine, start: bytes) -> None:
    server = machine.up(program=FEW_FILES)
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            # The server may reset connections while they are being opened.
            with contextlib.suppress(ConnectionError):
                stack.enter_context(connect(server)).sendall(start)
        if b"Content-Length" in start:
            time.sleep(6)  # until the server considers the bodies stalled
        for _ in range(10):
            assert get(server) < 5


def test_four_hundred_mebibyte_header_does_not_delay_other_requests(server: RunningServer) -> None:
    with connect(server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(HEAD + b"X: ")
        started = time.monotonic()
        for _ in range(400 * 16):
            connection.sendall(b"a" * 65536)
    assert time.monotonic() - started < 5
    assert get(server) < 5


def test_server_raises_its_limit_for_open_files(machine: Machine) -> None:
    server = machine.up(program=("bash", "-c", 'ulimit -S -n 64 && exec "$0" "$@"', *FEW_FILES[3:]))
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 65_536)


def test_forwarded_addresses_are_trusted_only_from_configured_proxies(machine: Machine) -> None:
    for proxies, expected in ({}, "127.0.0.1"), ({"FAIRLEAD_TRUSTED_PROXIES": "127.0.0.0/8"}, "203.0.113.9"):
        server = machine.up(data=f"data-{expected}", variables=proxies)
        with server.client(**{"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}) as client:
            client.post("/tokens", json={"name": "forwarded"}).raise_for_status()
            entry = client.get("/audit?limit=1").raise_for_status().json()["items"][0]
        assert entry["address"] == expected


def connect(server: RunningServer) -> socket.socket:
    """Open a connection to a server."""
    url = urlsplit(server.url)
    return socket.create_connection((url.hostname, url.port), 10)


def get(server: RunningServer) -> float:
    """Send a request on a new connection, and return its duration."""
    started = time.monotonic()
    with httpx2.Client(**CLIENT_OPTIONS) as client:
        client.get(f"{server.url}/healthz").raise_for_status()
    return time.monotonic() - started
