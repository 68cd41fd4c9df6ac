"""A pod for tests: a container with a termination message and a reachable server."""

import contextlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fairlead.in_container.sidecar
from fairlead.source_code import pack_path
from tests.bootstrap.containers import mount
from tests.cli.terminal import write

SIDECAR = Path(fairlead.in_container.sidecar.__file__)
RUN, TOKEN = "r1", "fl_run.k.secret"


@dataclass
class Server:
    """A server for pods that records requests. A status of 0 closes the connection."""

    url: str = ""
    code: bytes = b""
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    uploads: dict[str, bytes] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)  # of the first responses; all others are 200
    problems: dict[str, dict[str, Any]] = field(default_factory=dict)  # responses with problem details, by path

    def respond(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The response to one request."""
        self.requests.append((method, path))
        status = self.statuses.pop(0) if self.statuses else 200
        if path in self.problems:
            problem = self.problems[path]
            return problem["status"], json.dumps(problem).encode()
        if status == 200 and method == "PUT":
            self.uploads[path] = body
        return status, self.code if method == "GET" else b"{}"


@contextlib.contextmanager
def run_server(prefix: str = "") -> Iterator[Server]:
    """A running server."""
    server = Server()

    class RequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            assert self.path.startswith(f"{prefix}/api/v1/runs/{RUN}/"), self.path
            server.tokens.add(self.headers["Authorization"])
            path = unquote(self.path.removeprefix(f"{prefix}/api/v1/runs/{RUN}/").removeprefix("uploads/"))
            status, body = server.respond(self.command, path, self.rfile.read(length))
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "https://elsewhere.test/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), RequestHandler)
    server.url = f"http://127.0.0.1:{http_server.server_address[1]}{prefix}"
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()


def closed_url() -> str:
    """The URL of a closed port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def make_pod(folder: Path, files: dict[str, str], source: str | None, *, fetched: bool = False, **call: Any) -> Path:
    """A container with the sidecar. With `fetched`, its code is not in the pod."""
    work = folder / "work"
    write(work, files)
    archive = pack_path(work / source, work).archive if source else b""
    bootstrap = mount(folder, archive, source=source, **call)
    shutil.copy(SIDECAR, bootstrap.parent / "sidecar.py")
    (folder / "message").touch()
    if fetched:
        (bootstrap.parent / "code.tar.gz").rename(folder / "code.tar.gz")
    return bootstrap


def limit(bootstrap: Path, **limits: int) -> None:
    """Lower the limits and timeouts of the sidecar."""
    file = bootstrap.parent / "sidecar.py"
    text = file.read_text("utf-8")
    for name, value in limits.items():
        assert f"\n{name} = " in text
        text = text.replace(f"\n{name} = ", f"\n{name} = {value}  # ")
    file.write_text(text, "utf-8")


def envs_of(folder: Path, server: Server | str | None = None) -> dict[str, str]:
    """A pod's environment variables, with the URL and token of a server if given."""
    url = server.url if isinstance(server, Server) else server
    server_envs = {} if url is None else {"FAIRLEAD_SERVER": url, "FAIRLEAD_RUN_TOKEN": TOKEN}
    return {"FAIRLEAD_RUN": RUN, "FAIRLEAD_TERMINATION": str(folder / "message"), **server_envs}


def message_of(folder: Path) -> Any:
    """The termination message, or None."""
    text = (folder / "message").read_bytes()
    assert len(text) <= 4096, "Kubernetes truncates longer messages"
    return json.loads(text) if text else None
