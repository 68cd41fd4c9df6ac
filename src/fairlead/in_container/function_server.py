"""An HTTP server for a function: each POST of a JSON object calls it, and its result is the response.

Standard library only, for Python 3.8 and later. It is next to the bootstrap, which loads it for served functions before
the function's own code, because that code may have files with the same names as modules that this one imports.
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

READINESS_PATHS = ("/", "/health")
# The whole body is held in memory, and the objects parsed from it need several times as much.
MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_CHUNK_LINE = 1 << 10  # maximum length of a line that contains a chunk size
# The number of connections that the server's proxy opens to one run. The default in socketserver is 5.
BACKLOG = 128
IDLE_SECONDS = 120.0  # idle connections are closed after this time
POLL_SECONDS = 0.2  # how often the shutdown flag is checked


class BadRequest(Exception):
    """An invalid request, with the status of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FunctionServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on a port on all addresses, or on a Unix socket, and counts requests in flight."""

    # Idle connections must not delay the exit. wait_until_idle() waits for threads that are handling a request.
    daemon_threads = True
    # After a restart, the previous process's connections may still be in TIME_WAIT.
    allow_reuse_address = True
    request_queue_size = BACKLOG

    def __init__(self, respond: Callable[[dict[str, Any]], tuple[int, bytes]], port: int, path: str | None) -> None:
        self.respond = respond
        self.shutting_down = False
        self.busy, self.idle = 0, threading.Condition()  # busy: the number of requests in flight
        if path is not None:
            self.address_family = socket.AF_UNIX
        # Bound below, because server_bind() would fail for a long path.
        super().__init__("" if path is not None else ("0.0.0.0", port), RequestHandler, bind_and_activate=False)  # type: ignore[arg-type]
        if path is not None:
            bind_path(self.socket, path)
        else:
            self.server_bind()
        self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connection errors: the client is gone or does not speak HTTP."""

    def begin_shutdown(self, *_: Any) -> None:
        """Stop accepting requests; finish the requests in flight."""
        self.shutting_down = True
        # Use a thread, because shutdown() waits for the loop that this signal handler interrupts.
        threading.Thread(target=self.shutdown).start()

    def wait_until_idle(self) -> None:
        """Wait until all requests have been answered."""
        with self.idle:
            self.idle.wait_for(lambda: self.busy == 0)


class RequestHandler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    server: FunctionServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1  # send the headers and the body together: if sent separately, TCP delays the body by 40 ms
    started = 0.0
    command = path = ""  # for requests that cannot be parsed

    def handle_expect_100(self) -> bool:
        """Send the 100 Continue response at once, although responses are buffered."""
        is_accepted = super().handle_expect_100()
        self.wfile.flush()
        return is_accepted

    def do_GET(self) -> None:
        """Readiness check. The server listens only after the function is ready."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the unread body would be parsed as the next request
        if self.path.partition("?")[0] in READINESS_PATHS:
            self.send_json(200, b'{"status": "ready"}')
        else:
            self.send_json_error(404, "not found: POST a JSON object to /, or GET /health")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Call the function."""
        self.started = time.monotonic()
        with self.server.idle:
            self.server.busy += 1
        try:
            try:
                inputs = read_inputs(self.read_body())
            except BadRequest as error:
                self.send_json_error(error.status, str(error))
            else:
                self.send_json(*self.server.respond(inputs))
        finally:
            with self.server.idle:
                self.server.busy -= 1
                self.server.idle.notify()

    def reject_method(self) -> None:
        """Reject other methods."""
        self.close_connection = True  # the body, if there is one, was not read
        self.send_json_error(405, f"method {self.command} is not supported: POST a JSON object, or GET /health")

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = reject_method  # noqa: N815

    def read_body(self) -> bytes:
        """Read the body, which has a Content-Length or is chunked."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self.read_chunks()
        length = (self.headers.get("Content-Length") or "0").strip()
        # isdigit() alone accepts characters such as ², which int() rejects.
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise BadRequest(400, f"invalid Content-Length {length!r}: send a number of bytes")
        return self.read_bytes(int(length), 0)

    def read_chunks(self) -> bytes:
        """Read a chunked body."""
        chunks: list[bytes] = []
        total = 0
        while True:
            line = self.rfile.readline(MAX_CHUNK_LINE).partition(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                size = -1
            if size < 0:
                self.close_connection = True
                raise BadRequest(400, "a chunk of the body has an invalid size")
            if size == 0:
                while self.rfile.readline(MAX_CHUNK_LINE).strip():  # ignore trailers
                    pass
                return b"".join(chunks)
            chunks.append(self.read_bytes(size, total))
            total += size
            self.rfile.readline(MAX_CHUNK_LINE)

    def read_bytes(self, size: int, before: int) -> bytes:
        """Read bytes from the body. Raises `BadRequest` if the body is too large or incomplete."""
        if before + size > MAX_BODY_BYTES:
            self.close_connection = True
            raise BadRequest(
                413, f"the body is larger than {MAX_BODY_BYTES} bytes: send the path or URL of the data instead"
            )
        data = self.rfile.read(size)
        if len(data) < size:
            self.close_connection = True
            raise BadRequest(400, f"the body ended after {before + len(data)} of {before + size} bytes")
        return data

    def send_json_error(self, status: int, message: str) -> None:
        self.send_json(status, json.dumps({"error": message}).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Respond to a request that is not valid HTTP."""
        self.close_connection = True
        # The base class would send HTML. After invalid HTTP, it is unclear where the next request starts.
        self.send_json_error(code, message or self.responses[code][0])

    def send_json(self, status: int, body: bytes) -> None:
        """Send a JSON response."""
        self.close_connection = self.close_connection or self.server.shutting_down
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
        """Do not reveal the Python version."""
        return "fairlead"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:  # noqa: ARG002
        """Log rejected and failed requests to stdout: the last line of stderr is shown as the reason for an exit."""
        if int(code) >= 400:
            duration = f" in {time.monotonic() - self.started:.3f} s" if self.started else ""
            sys.stdout.write(f"{self.command} {self.path!a} {int(code)}{duration}\n")
            sys.stdout.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log other connection errors: the function cannot act on them."""


def serve(respond: Callable[[dict[str, Any]], tuple[int, bytes]], port: int, path: str | None) -> None:
    """Serve requests until SIGTERM or SIGINT, then finish those in flight and return."""
    server = FunctionServer(respond, port, path)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The function may have set its own handler.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, server.begin_shutdown)
    server.serve_forever(poll_interval=POLL_SECONDS)
    # First refuse new connections, so that the requests in flight are the last ones.
    server.server_close()
    server.wait_until_idle()


def bind_path(listener: socket.socket, path: str) -> None:
    """Listen on a path of any length, through its open folder: a Unix socket path is limited to 107 bytes."""
    folder, name = os.path.split(path)
    if os.path.lexists(path):  # left over from a process that has ended
        os.remove(path)
    # With chmod() after bind(), other users could connect in between.
    fd, mask = os.open(folder, os.O_RDONLY), os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.umask(mask)
        os.close(fd)


def read_inputs(body: bytes) -> dict[str, Any]:
    """Parse a call's inputs. Raises `BadRequest` if they are not a JSON object."""
    try:
        inputs = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(inputs, dict):
        raise BadRequest(400, f"the body is a JSON {type(inputs).__name__}: send an object with one key per input")
    return inputs
