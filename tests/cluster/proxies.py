"""A proxy between a server and the API server that forwards everything except injected faults.

    with Proxy(plane) as proxy:
        Platform(machine, plane, admin, proxy.write_kubeconfig(folder / "proxy.kubeconfig"))
        with proxy.doing(Fault("POST", "/jobs$", answer(500), "after")):
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

from tests.cluster.clients import PATIENCE, make_context
from tests.cluster.control_planes import ControlPlane

CHUNK = 1 << 16
REASONS = {403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"} | {
    503: "ServiceUnavailable"
}
OF_ONE_CONNECTION = ("connection", "transfer-encoding", "host", "keep-alive")
ALWAYS = 1 << 30
SAID = "said by the proxy of the tests"


class Dropped(Exception):
    """The connection is closed without a word."""


Moment = Literal["before", "after", "during"]
Permission = Callable[["Proxied"], None]  # responds, raises `Dropped`, or does nothing to continue the request


@dataclass
class Fault:
    """A fault for requests with a method and path: for `times` requests after the first `after`."""

    method: str
    address: str  # an expression that is found in the path and the query
    permission: Permission
    moment: Moment = "before"
    skip: int = 0
    times: int = 1
    words: bytes = b""  # the text that triggers a fault during a response
    met: list[float] = field(default_factory=list)  # when requests came so far, those that were skipped, too

    @property
    def befell(self) -> int:
        """How many requests it befell."""
        return max(0, min(len(self.met) - self.skip, self.times))

    def befalls(self, method: str, address: str, moment: Moment, content: bytes) -> bool:
        """Whether the fault applies to this request."""
        if (method, moment) != (self.method, self.moment) or not re.search(self.address, address):
            return False
        if self.words not in content:
            return False
        self.met.append(time.monotonic())
        return self.skip < len(self.met) <= self.skip + self.times


def answer(status: int, message: str = SAID, *, retry_after: int | None = None) -> Permission:
    """Say that the API server has refused, and after how many seconds it is to be asked again."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return lambda handler: handler.say(status, json.dumps(_make_status(status, message)).encode(), headers)


def lose_thread(handler: "Proxied") -> None:
    """Answer a watch as an API server does that no longer knows what happened since: well, and then with an error."""
    handler.say(200, json.dumps({"type": "ERROR", "object": _make_status(410, SAID)}).encode() + b"\n")


def drop(_handler: "Proxied") -> None:
    """Close the connection."""
    raise Dropped


def send(pid: int, number: signal.Signals, ready: threading.Event) -> Permission:
    """Send a signal to the client when the test is ready. A killed client receives no response."""

    def permission(_handler: "Proxied") -> None:
        ready.wait(PATIENCE)
        os.kill(pid, number)
        if number == signal.SIGKILL:
            raise Dropped

    return permission


def hang(seconds: float) -> Permission:
    """Say nothing for a while, then close the connection."""

    def permission(handler: "Proxied") -> None:
        handler.proxy.closed.wait(seconds)
        raise Dropped

    return permission


def hold(released: threading.Event, *, dropping: bool = False) -> Permission:
    """Delay a request or a piece of an answer until the test sets the event; then go on, or close the connection."""

    def permission(_handler: "Proxied") -> None:
        released.wait(PATIENCE)
        if dropping:
            raise Dropped

    return permission


def break_after(seconds: float) -> Permission:
    """Let the answer begin, and break it off after a while."""

    def permission(handler: "Proxied") -> None:
        timer = threading.Timer(seconds, handler.hang_up)
        timer.daemon = True
        timer.start()

    return permission


class Proxy:
    """Accepts plain HTTP on the loopback address, and uses TLS to the API server. Forwards tokens."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.closed = threading.Event()
        self.requests: list[str] = []  # each as METHOD path?query
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._handlers: set[Proxied] = set()
        self._server = _Server(("127.0.0.1", 0), functools.partial(Proxied, self))
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
            self.hang_up()
            time.sleep(0.01)
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(self, file: Path) -> Path:
        """A kubeconfig for an administrator that leads here."""
        config = json.loads(self.plane.kubeconfig.read_text("utf-8"))
        config["clusters"][0]["cluster"] = {"server": self.url}
        file.touch(0o600)
        file.write_text(json.dumps(config), "utf-8")
        return file

    @contextlib.contextmanager
    def doing(self, *faults: Fault) -> Iterator[None]:
        """Do this to requests, until the end of the block."""
        with self._lock:
            self._faults += faults
        try:
            yield
        finally:
            with self._lock:
                self._faults = [fault for fault in self._faults if all(fault is not each for each in faults)]

    def hang_up(self) -> None:
        """Close every connection that is open."""
        with self._lock:
            handlers = list(self._handlers)
        for handler in handlers:
            handler.hang_up()

    def count(self, method: str, address: str) -> int:
        """How many requests there were of a method to an address."""
        with self._lock:
            return sum(bool(re.match(f"{method} .*{address}", request)) for request in self.requests)

    def find(self, method: str, address: str, moment: Moment, content: bytes = b"") -> list[Fault]:
        """The fault for a request at one point, or None."""
        with self._lock:
            if moment == "before":
                self.requests.append(f"{method} {address}")
            return [fault for fault in self._faults if fault.befalls(method, address, moment, content)]

    def enter(self, handler: "Proxied") -> None:
        """Know a connection."""
        with self._lock:
            self._handlers.add(handler)

    def leave(self, handler: "Proxied") -> None:
        """Know it no more."""
        with self._lock:
            self._handlers.discard(handler)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # close() waits for them
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client closed its connection."""


class Proxied(http.server.BaseHTTPRequestHandler):
    """One connection, and one to the API server for it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, proxy: Proxy, *args: Any) -> None:
        self.proxy = proxy
        where = urlsplit(proxy.plane.url)
        assert where.hostname is not None
        self._upstream = http.client.HTTPSConnection(where.hostname, where.port, context=proxy.context)
        self._answered = False
        super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self.proxy.enter(self)

    def finish(self) -> None:
        self.proxy.leave(self)
        self._upstream.close()
        super().finish()

    def hang_up(self) -> None:
        """Close both connections, which wakes up blocked readers."""
        for end in (self.connection, self._upstream.sock):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def say(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Answer with this, in the place of the API server."""
        self._answered = True
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        """Say nothing of each request."""

    def _handle(self) -> None:
        self._answered = False
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if not self._befall("before"):
                self._forward(content)
        except (Dropped, OSError, http.client.HTTPException):  # either end may close at any time
            self.close_connection = True
            self.hang_up()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle  # noqa: N815

    def _befall(self, moment: Moment, content: bytes = b"") -> bool:
        """Do what is due now; whether the request is answered by that."""
        for fault in self.proxy.find(self.command, self.path, moment, content):
            if not self._answered:
                fault.permission(self)
        return self._answered

    def _forward(self, content: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_CONNECTION}
        self._upstream.request(self.command, self.path, content or None, headers)
        response = self._upstream.getresponse()
        with response:
            if self._befall("after"):
                response.read()
                return
            self.send_response_only(response.status)
            for name, value in response.getheaders():
                if name.lower() not in OF_ONE_CONNECTION:
                    self.send_header(name, value)
            whole = response.getheader("Content-Length") is not None
            if not whole:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._pass_on(response, whole=whole)

    def _pass_on(self, response: http.client.HTTPResponse, *, whole: bool) -> None:
        while piece := response.read1(CHUNK):
            self._befall("during", piece)
            self.wfile.write(piece if whole else b"%x\r\n%b\r\n" % (len(piece), piece))
        if not whole:
            self.wfile.write(b"0\r\n\r\n")


def _make_status(code: int, message: str) -> dict[str, Any]:
    """The Status object of an error response."""
    reason = REASONS.get(code, "Unknown")
    status = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return {"apiVersion": "v1", "kind": "Status", **status}
