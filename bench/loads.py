"""Load over loopback: connections that each keep one request under way, in one thread and without a library.

Libraries for HTTP take longer to ask than the server takes to answer.
"""

import re
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30
MOST_READ = 1 << 20
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)

Ask = Callable[[], bytes]


@dataclass(frozen=True)
class Burst:
    """What came of asking for a while."""

    wall_seconds: float
    latencies: list[float]  # seconds, sorted


@dataclass
class _Connection:
    peer: socket.socket
    sent: float = 0.0
    parts: list[bytes] = field(default_factory=list)
    missing: int | None = None  # bytes of an answer, where its head is read

    def send(self, request: bytes) -> None:
        self.parts, self.missing, self.sent = [], None, time.perf_counter()
        self.peer.sendall(request)

    def receive(self) -> bool:
        """Read what is there; whether the answer is whole."""
        part = self.peer.recv(MOST_READ)
        if not part:
            raise ConnectionError("the server hung up")
        self.parts.append(part)
        if self.missing is not None:
            self.missing -= len(part)
        elif (end := (whole := b"".join(self.parts)).find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(whole, 0, end + 4)
            self.missing = end + 4 + (int(length[1]) if length else 0) - len(whole)
        return self.missing is not None and self.missing <= 0


def write_request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """A request as it goes over the wire."""
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n{kind}\r\n".encode() + body


def press(port: int, ask: Ask, *, connections: int, seconds: float) -> Burst:
    """Ask again and again on some connections for some time. Raises where an answer is no success."""
    latencies: list[float] = []
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        started = time.perf_counter()
        for connection in [_connect(stack, port) for _ in range(connections)]:
            selector.register(connection.peer, selectors.EVENT_READ, connection)
            connection.send(ask())
        while selector.get_map():
            ready = selector.select(PATIENCE_SECONDS)
            if not ready:
                raise TimeoutError(f"no answer within {PATIENCE_SECONDS} s")
            for key, _ in ready:
                connection = key.data
                if not connection.receive():
                    continue
                now = time.perf_counter()
                _check(connection)
                latencies.append(now - connection.sent)
                if now - started < seconds:
                    connection.send(ask())
                else:
                    selector.unregister(connection.peer)
        return Burst(time.perf_counter() - started, sorted(latencies))


def fetch(port: int, request: bytes) -> bytes:
    """The body of one answer. Raises where it is no success."""
    with ExitStack() as stack:
        connection = _connect(stack, port)
        connection.send(request)
        while not connection.receive():
            pass
        _check(connection)
        return b"".join(connection.parts).partition(b"\r\n\r\n")[2]


def _connect(stack: ExitStack, port: int) -> _Connection:
    peer = stack.enter_context(socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Connection(peer)


def _check(connection: _Connection) -> None:
    if not connection.parts[0].startswith(b"HTTP/1.1 2"):
        raise AssertionError(b"".join(connection.parts)[:2000].decode(errors="replace"))
