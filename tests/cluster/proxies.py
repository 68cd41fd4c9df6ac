"""A proxy between a server and the API server that forwards everything except injected faults.

    with Proxy(plane) as proxy:
        Platform(machine, plane, admin, proxy.write_kubeconfig(folder / "proxy.kubeconfig"))
        with proxy.injecting(Fault("POST", "/jobs$", respond_with(500), "after")):
            ...

A fault happens before a request is forwarded, after the API server has responded but before the response is forwarded,
or during a response that contains certain text. Watches are streamed.
"""

import contextlib
import functools
import http.client
import http.server
import json
import os
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.cluster.clients import TIMEOUT, make_context
from tests.cluster.control_planes import ControlPlane

CHUNK = 1 << 16
REASONS = {403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"} | {
    503: "ServiceUnavailable"
}
HOP_BY_HOP_HEADERS = ("connection", "transfer-encoding", "host", "keep-alive")
ALWAYS = 1 << 30
MESSAGE = "injected by the test proxy"


class Dropped(Exception):
    """The connection is closed without a response."""


Moment = Literal["before", "after", "during"]
Action = Callable[["ProxyHandler"], None]  # responds, raises `Dropped`, or does nothing to continue the request


@dataclass
class Fault:
    """A fault for requests with a method and path. Applies to `times` requests after skipping the first `skip`."""

    method: str
    pattern: str  # a regular expression to search for in the path and query
    action: Action
    moment: Moment = "before"
    skip: int = 0
    times: int = 1
    text: bytes = b""  # the text that triggers a fault during a response
    request_times: list[float] = field(default_factory=list)  # times of all matching requests, including skipped ones

    @property
    def hits(self) -> int:
        """The number of requests to which the fault was applied."""
        return max(0, min(len(self.request_times) - self.skip, self.times))

    def applies_to(self, method: str, path: str, moment: Moment, content: bytes) -> bool:
        """Whether the fault applies to this request."""
        if (method, moment) != (self.method, self.moment) or not re.search(self.pattern, path):
            return False
        if self.text not in content:
            return False
        self.request_times.append(time.monotonic())
        return self.skip < len(self.request_times) <= self.skip + self.times


def respond_with(status: int, message: str = MESSAGE, *, retry_after: int | None = None) -> Action:
    """Respond with an error status, and optionally with Retry-After in seconds."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return lambda handler: handler.respond(status, json.dumps(_make_status(status, message)).encode(), headers)


def expire_watch(handler: "ProxyHandler") -> None:
    """Respond to a watch with an expired resource version: status 200, and then a 410 error event."""
    handler.respond(200, json.dumps({"type": "ERROR", "object": _make_status(410, MESSAGE)}).encode() + b"\n")


def drop(_handler: "ProxyHandler") -> None:
    """Close the connection without a response."""
    raise Dropped


def send_signal(pid: int, number: signal.Signals, ready: threading.Event) -> Action:
    """Send a signal to the client when the test is ready. A killed client receives no response."""

    def action(_handler: "ProxyHandler") -> None:
        ready.wait(TIMEOUT)
        os.kill(pid, number)
        if number == signal.SIGKILL:
            raise Dropped

    return action


def hang(seconds: float) -> Action:
    """Do not respond for some seconds, then close the connection."""

    def action(handler: "ProxyHandler") -> None:
        handler.proxy.closed.wait(seconds)
        raise Dropped

    return action


def hold(released: threading.Event, *, drop_after: bool = False) -> Action:
    """Delay a request or response chunk until the test sets the event. Then continue, or close the connection."""

    def action(_handler: "ProxyHandler") -> None:
        released.wait(TIMEOUT)
        if drop_after:
            raise Dropped

    return action


def interrupt_after(seconds: float) -> Action:
    """Forward the response, and close the connection after some seconds."""

    def action(handler: "ProxyHandler") -> None:
        timer = threading.Timer(seconds, handler.disconnect)
        timer.daemon = True
        timer.start()

    return action


class Proxy:
    """Accepts plain HTTP on the loopback address, and uses TLS to the API server. Forwards tokens."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.closed = threading.Event()
        self.requests: list[str] = []  # each as METHOD path?query
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._handlers: set[ProxyHandler] = set()
        self._server = _Server(("127.0.0.1", 0), functools.partial(ProxyHandler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="proxy", daemon=True)
        self.context: ssl.SSLContext = make_context(plane.authority)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed.set()
        self._server.shutdown()
        while self._handlers:
            self.disconnect()
            time.sleep(0.01)
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(self, file: Path) -> Path:
        """Write an administrator's kubeconfig with this proxy's URL."""
        config = json.loads(self.plane.kubeconfig.read_text("utf-8"))
        config["clusters"][0]["cluster"] = {"server": self.url}
        file.touch(0o600)
        file.write_text(json.dumps(config), "utf-8")
        return file

    @contextlib.contextmanager
    def injecting(self, *faults: Fault) -> Iterator[None]:
        """Inject faults during the block."""
        with self._lock:
            self._faults += faults
        try:
            yield
        finally:
            with self._lock:
                self._faults = [fault for fault in self._faults if all(fault is not injected for injected in faults)]

    def disconnect(self) -> None:
        """Close all open connections."""
        with self._lock:
            handlers = list(self._handlers)
        for handler in handlers:
            handler.disconnect()

    def count(self, method: str, pattern: str) -> int:
        """The number of requests with a method and a path that contains a pattern."""
        with self._lock:
            return sum(bool(re.match(f"{method} .*{pattern}", request)) for request in self.requests)

    def find(self, method: str, path: str, moment: Moment, content: bytes = b"") -> list[Fault]:
        """The faults that apply to a request at a given moment. Records the request."""
        with self._lock:
            if moment == "before":
                self.requests.append(f"{method} {path}")
            return [fault for fault in self._faults if fault.applies_to(method, path, moment, content)]

    def add_handler(self, handler: "ProxyHandler") -> None:
        """Register an open connection."""
        with self._lock:
            self._handlers.add(handler)

    def remove_handler(self, handler: "ProxyHandler") -> None:
        """Unregister a closed connection."""
        with self._lock:
            self._handlers.discard(handler)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # close() waits for them
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client closed its connection."""


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    """One client connection with its own connection to the API server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, proxy: Proxy, *args: Any) -> None:
        self.proxy = proxy
        url = urlsplit(proxy.plane.url)
        assert url.hostname is not None
        self._upstream = http.client.HTTPSConnection(url.hostname, url.port, context=proxy.context)
        self._has_responded = False
        super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self.proxy.add_handler(self)

    def finish(self) -> None:
        self.proxy.remove_handler(self)
        self._upstream.close()
        super().finish()

    def disconnect(self) -> None:
        """Close both connections, which wakes up blocked readers."""
        for connection in (self.connection, self._upstream.sock):
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def respond(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Respond in place of the API server."""
        self._has_responded = True
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Disable the request log."""

    def _handle(self) -> None:
        self._has_responded = False
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if not self._apply_faults("before"):
                self._forward(content)
        except (Dropped, OSError, http.client.HTTPException):  # either end may close at any time
            self.close_connection = True
            self.disconnect()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle  # noqa: N815

    def _apply_faults(self, moment: Moment, content: bytes = b"") -> bool:
        """Apply the faults for a given moment. Return whether one of them has responded."""
        for fault in self.proxy.find(self.command, self.path, moment, content):
            if not self._has_responded:
                fault.action(self)
        return self._has_responded

    def _forward(self, content: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP_HEADERS}
        self._upstream.request(self.command, self.path, content or None, headers)
        response = self._upstream.getresponse()
        with response:
            if self._apply_faults("after"):
                response.read()
                return
            self.send_response_only(response.status)
            for name, value in response.getheaders():
                if name.lower() not in HOP_BY_HOP_HEADERS:
                    self.send_header(name, value)
            has_length = response.getheader("Content-Length") is not None
            if not has_length:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._forward_body(response, has_length=has_length)

    def _forward_body(self, response: http.client.HTTPResponse, *, has_length: bool) -> None:
        while chunk := response.read1(CHUNK):
            self._apply_faults("during", chunk)
            self.wfile.write(chunk if has_length else b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if not has_length:
            self.wfile.write(b"0\r\n\r\n")


def _make_status(code: int, message: str) -> dict[str, Any]:
    """The Status object for an error response."""
    reason = REASONS.get(code, "Unknown")
    status = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return {"apiVersion": "v1", "kind": "Status", **status}
