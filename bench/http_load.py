"""HTTP load over loopback: connections with one request in flight each, in one thread and without an HTTP library.

HTTP libraries take longer to send a request than the server takes to respond.
"""

import re
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 30
MAX_READ = 1 << 20
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)

MakeRequest = Callable[[], bytes]


@dataclass(frozen=True)
class Burst:
    """The result of a period of load."""

    wall_seconds: float
    latencies: list[float]  # seconds, sorted


@dataclass
class _Connection:
    peer: socket.socket
    sent: float = 0.0
    parts: list[bytes] = field(default_factory=list)
    missing: int | None = None  # remaining bytes of the response; None until its head has been read

    def send(self, request: bytes) -> None:
        self.parts, self.missing, self.sent = [], None, time.perf_counter()
        self.peer.sendall(request)

    def receive(self) -> bool:
        """Read available data; return whether the response is complete."""
        part = self.peer.recv(MAX_READ)
        if not part:
            raise ConnectionError("the server closed the connection")
        self.parts.append(part)
        if self.missing is not None:
            self.missing -= len(part)
        elif (end := (received := b"".join(self.parts)).find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(received, 0, end + 4)
            self.missing = end + 4 + (int(length[1]) if length else 0) - len(received)
        return self.missing is not None and self.missing <= 0


def write_request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n{kind}\r\n".encode() + body


def send_load(port: int, make_request: MakeRequest, *, connections: int, seconds: float) -> Burst:
    """Send requests over several connections for a given time. Raises AssertionError for an error status."""
    latencies: list[float] = []
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        started = time.perf_counter()
        for connection in [_connect(stack, port) for _ in range(connections)]:
            selector.register(connection.peer, selectors.EVENT_READ, connection)
            connection.send(make_request())
        while selector.get_map():
            ready = selector.select(TIMEOUT_SECONDS)
            if not ready:
                raise TimeoutError(f"no response within {TIMEOUT_SECONDS} s")
            for key, _ in ready:
                connection = key.data
                if not connection.receive():
                    continue
                now = time.perf_counter()
                _check(connection)
                latencies.append(now - connection.sent)
                if now - started < seconds:
                    connection.send(make_request())
                else:
                    selector.unregister(connection.peer)
        return Burst(time.perf_counter() - started, sorted(latencies))


def fetch(port: int, request: bytes) -> bytes:
    """Send a request and return the body of the response. Raises AssertionError for an error status."""
    with ExitStack() as stack:
        connection = _connect(stack, port)
        connection.send(request)
        while not connection.receive():
            pass
        _check(connection)
        return b"".join(connection.parts).partition(b"\r\n\r\n")[2]


def _connect(stack: ExitStack, port: int) -> _Connection:
    peer = stack.enter_context(socket.create_connection((HOST, port), timeout=TIMEOUT_SECONDS))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Connection(peer)


def _check(connection: _Connection) -> None:
    if not connection.parts[0].startswith(b"HTTP/1.1 2"):
        raise AssertionError(b"".join(connection.parts)[:2000].decode(errors="replace"))
