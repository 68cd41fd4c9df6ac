"""Redirects of served runs: which are followed, and which receive the token."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairlead.errors import FairleadError
from fairlead.sdk.api_client import ApiClient

RUN = "0198c0de" * 4


class Stand(BaseHTTPRequestHandler):
    """A server that redirects requests below /served/RUN/ to the requested path."""

    def do_POST(self) -> None:
        """Record the path and token, and redirect if requested."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        seen: list[tuple[str, bool]] = self.server.seen  # type: ignore[attr-defined]
        seen.append((self.path, "Authorization" in self.headers))
        to = "circle" if self.path.endswith("circle") else self.path.partition("?to=")[2]
        self.send_response(307 if to else 200)
        if to:
            self.send_header("Location", to.replace("PORT", str(self.server.server_port)))  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def stand() -> Iterator[ThreadingHTTPServer]:
    """Such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Stand) as server:
        server.seen = []  # type: ignore[attr-defined]
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def call(stand: ThreadingHTTPServer, to: str) -> list[tuple[str, bool]]:
    """The requested paths, and whether each had the token, after a redirect."""
    seen: list[tuple[str, bool]] = stand.seen  # type: ignore[attr-defined]
    seen.clear()
    ApiClient(f"http://127.0.0.1:{stand.server_port}", "word").call(RUN, f"?to={to}", "POST", json={})
    return seen[1:]


@pytest.mark.parametrize("to", ["deeper", f"/served/{RUN}/deeper", f"http://127.0.0.1:PORT/served/{RUN}/deeper"])
def test_what_is_below_its_address_is_followed(stand: ThreadingHTTPServer, to: str) -> None:
    assert call(stand, to) == [(f"/served/{RUN}/deeper", True)]


@pytest.mark.parametrize("to", [
    "/api/v1/runs/x/stop", "../../api/v1/runs/x/stop", f"/served/{RUN}/../../api/v1/runs/x/stop",
    f"http://u@127.0.0.1:PORT/api/v1/runs/x/stop?{RUN}", "/served/other/",
])  # fmt: skip
def test_what_is_beside_it_is_not(stand: ThreadingHTTPServer, to: str) -> None:
    with pytest.raises(FairleadError, match=f"run {RUN} redirects to .*, which is outside of the run"):
        call(stand, to)
    assert len(stand.seen) == 1  # type: ignore[attr-defined]


def test_another_host_is_not_shown_the_token(stand: ThreadingHTTPServer) -> None:
    assert call(stand, "http://localhost:PORT/elsewhere") == [("/elsewhere", False)]


def test_a_circle_ends(stand: ThreadingHTTPServer) -> None:
    with pytest.raises(FairleadError, match="answered 307"):
        call(stand, "circle")
