"""Redirects by served runs: which are followed, and which receive the token."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairlead.errors import FairleadError
from fairlead.sdk.api_client import ApiClient

RUN = "0198c0de" * 4


class RedirectingHandler(BaseHTTPRequestHandler):
    """A server that redirects requests under /served/RUN/ to the requested path."""

    def do_POST(self) -> None:
        """Record the path and token, and redirect if requested."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        requests: list[tuple[str, bool]] = self.server.requests  # type: ignore[attr-defined]
        requests.append((self.path, "Authorization" in self.headers))
        target = "circle" if self.path.endswith("circle") else self.path.partition("?to=")[2]
        self.send_response(307 if target else 200)
        if target:
            self.send_header("Location", target.replace("PORT", str(self.server.server_port)))  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def redirecting_server() -> Iterator[ThreadingHTTPServer]:
    """A server with the redirecting handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), RedirectingHandler) as server:
        server.requests = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def call(redirecting_server: ThreadingHTTPServer, target: str) -> list[tuple[str, bool]]:
    """The requested paths, and whether each had the token, after a redirect."""
    requests: list[tuple[str, bool]] = redirecting_server.requests  # type: ignore[attr-defined]
    requests.clear()
    ApiClient(f"http://127.0.0.1:{redirecting_server.server_port}", "word").call(RUN, f"?to={target}", "POST", json={})
    return requests[1:]


@pytest.mark.parametrize("target", ["deeper", f"/served/{RUN}/deeper", f"http://127.0.0.1:PORT/served/{RUN}/deeper"])
def test_redirects_within_the_run_are_followed(redirecting_server: ThreadingHTTPServer, target: str) -> None:
    assert call(redirecting_server, target) == [(f"/served/{RUN}/deeper", True)]


@pytest.mark.parametrize("target", [
    "/api/v1/runs/x/stop", "../../api/v1/runs/x/stop", f"/served/{RUN}/../../api/v1/runs/x/stop",
    f"http://u@127.0.0.1:PORT/api/v1/runs/x/stop?{RUN}", "/served/other/",
])  # fmt: skip
def test_redirects_to_other_paths_are_rejected(redirecting_server: ThreadingHTTPServer, target: str) -> None:
    with pytest.raises(FairleadError, match=f"run {RUN} redirects to .*, which is outside the run"):
        call(redirecting_server, target)
    assert len(redirecting_server.requests) == 1  # type: ignore[attr-defined]


def test_other_hosts_do_not_receive_the_token(redirecting_server: ThreadingHTTPServer) -> None:
    assert call(redirecting_server, "http://localhost:PORT/elsewhere") == [("/elsewhere", False)]


def test_redirect_loops_end(redirecting_server: ThreadingHTTPServer) -> None:
    with pytest.raises(FairleadError, match="responded with 307"):
        call(redirecting_server, "circle")
