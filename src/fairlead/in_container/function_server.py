"""Answers requests by calling a function: each POST of a JSON object is a call, and what it returns the answer.

Standard library only, for Python 3.8 and later. It lies beside the bootstrap, which loads it where a function is
served, before the function's own code: a file there may be called like a module that this one needs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READY = ("/", "/health")  # where it is asked whether it is ready
LARGEST_BODY = 256 * 1024 * 1024
LONGEST_LINE = 1 << 10  # of those that say how long a piece of a body is
WAITING = 128  # connections that wait for one of ours
IDLE_SECONDS = 120.0  # after which a connection without a request is closed
LOOK_SECONDS = 0.2  # how often it is looked whether this is to end


class Refused(Exception):
    """A request that is not what it should be; says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on a port of all addresses, or on a Unix socket; knows which requests are being answered."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = WAITING

    def __init__(self, respond: Callable[[dict[str, Any]], tuple[int, bytes]], port: int, path: str | None) -> None:
        self.respond = respond
        self.leaving = False
        self.busy, self.idle = 0, threading.Condition()
        if path is not None:
            self.address_family = socket.AF_UNIX
        super().__init__("" if path is not None else ("0.0.0.0", port), Requests, bind_and_activate=False)  # type: ignore[arg-type]
        if path is not None:
            bind_path(self.socket, path)
        else:
            self.server_bind()
        self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked is gone, or is no client of HTTP: nobody needs a traceback."""

    def leave(self, *_: Any) -> None:
        """Take no more requests, and end when those are answered that have come."""
        self.leaving = True
        threading.Thread(target=self.shutdown).start()  # it waits for a loop that this interrupts

    def finish(self) -> None:
        """Wait until everything that was asked is answered."""
        with self.idle:
            self.idle.wait_for(lambda: self.busy == 0)


class Requests(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1  # head and body in one piece: in two, TCP holds the second back for 40 ms
    began = 0.0
    command = path = ""  # of what is no request

    def handle_expect_100(self) -> bool:
        """Let whoever waits for that send the body."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def do_GET(self) -> None:
        """Whether it is ready: it listens once it is."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body that nobody reads would be taken for the next request
        if self.path.partition("?")[0] in READY:
            self.answer(200, b'{"status": "ready"}')
        else:
            self.refuse(404, "there is nothing here: POST a JSON object to /, or GET /health")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Call the function."""
        self.began = time.monotonic()
        with self.server.idle:
            self.server.busy += 1
        try:
            try:
                inputs = read_inputs(self.read_body())
            except Refused as refused:
                self.refuse(refused.status, str(refused))
            else:
                self.answer(*self.server.respond(inputs))
        finally:
            with self.server.idle:
                self.server.busy -= 1
                self.server.idle.notify()

    def refuse_method(self) -> None:
        """Say what can be asked."""
        self.close_connection = True  # there may be a body that nobody has read
        self.refuse(405, f"{self.command} means nothing here: POST a JSON object, or GET /health")

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse_method  # noqa: N815

    def read_body(self) -> bytes:
        """All that was sent, also where it came without its length."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self.read_chunks()
        said = (self.headers.get("Content-Length") or "0").strip()
        if not (said.isascii() and said.isdigit()):
            self.close_connection = True
            raise Refused(400, f"Content-Length is a number of bytes, found {said!r}")
        return self.read_piece(int(said), 0)

    def read_chunks(self) -> bytes:
        """A body that comes in pieces, each with its length before it."""
        pieces: list[bytes] = []
        total = 0
        while True:
            line = self.rfile.readline(LONGEST_LINE).partition(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                size = -1
            if size < 0:
                self.close_connection = True
                raise Refused(400, "a piece of the body does not say how long it is")
            if size == 0:
                while self.rfile.readline(LONGEST_LINE).strip():
                    pass
                return b"".join(pieces)
            pieces.append(self.read_piece(size, total))
            total += size
            self.rfile.readline(LONGEST_LINE)

    def read_piece(self, size: int, before: int) -> bytes:
        """So many bytes. Raise `Refused` where they are too many, or do not come."""
        if before + size > LARGEST_BODY:
            self.close_connection = True
            raise Refused(413, f"a request has at most {LARGEST_BODY} bytes: give a path or an address of larger data")
        data = self.rfile.read(size)
        if len(data) < size:
            self.close_connection = True
            raise Refused(400, f"the body ended after {before + len(data)} of {before + size} bytes")
        return data

    def refuse(self, status: int, message: str) -> None:
        """Answer that something is wrong with a request."""
        self.answer(status, json.dumps({"error": message}).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer what is no request of HTTP."""
        self.close_connection = True
        self.refuse(code, message or self.responses[code][0])

    def answer(self, status: int, body: bytes) -> None:
        """Answer with JSON."""
        self.close_connection = self.close_connection or self.server.leaving
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def version_string(self) -> str:
        """Nobody is told with what this was made."""
        return "fairlead"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:  # noqa: ARG002
        """Keep what was refused or failed. Not among the errors: there the last one says why a process ended."""
        if int(code) >= 400:
            took = f" in {time.monotonic() - self.began:.3f} s" if self.began else ""
            sys.stdout.write(f"{self.command} {self.path!a} {int(code)}{took}\n")
            sys.stdout.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Whatever else went wrong with a connection is no business of the function."""


def listen(respond: Callable[[dict[str, Any]], tuple[int, bytes]], port: int, path: str | None) -> None:
    """Answer until told to end; then answer what was asked, and return."""
    server = Server(respond, port, path)
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # else the function has its own
            signal.signal(number, server.leave)
    server.serve_forever(poll_interval=LOOK_SECONDS)
    server.server_close()
    server.finish()


def bind_path(listener: socket.socket, path: str) -> None:
    """Listen on a path, however long: through its folder, for an address of a socket has at most 107 bytes."""
    folder, name = os.path.split(path)
    if os.path.lexists(path):  # left by a process that ended
        os.remove(path)
    opened, mask = os.open(folder, os.O_RDONLY), os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.umask(mask)
        os.close(opened)


def read_inputs(body: bytes) -> dict[str, Any]:
    """The inputs of a call. Raise `Refused` where they are no JSON object."""
    try:
        inputs = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(inputs, dict):
        raise Refused(400, f"a JSON object is expected, with the inputs by name, found {type(inputs).__name__}")
    return inputs
