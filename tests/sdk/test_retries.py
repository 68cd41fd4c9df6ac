"""Lost connections: which requests the SDK sends again."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairlead.errors import Unavailable
from fairlead.sdk import api_client
from fairlead.sdk.api_client import ApiClient

ATTEMPTS = 1 + len(api_client.RETRY_PAUSES)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset


class LosingServer(ThreadingHTTPServer):
    """A server that loses some connections before it responds, and records the methods of all requests."""

    resets = closes = 0
    methods: list[str]


class LosingHandler(BaseHTTPRequestHandler):
    """Lose the connection, or respond with JSON."""

    server: LosingServer

    def handle_one_request(self) -> None:
        """Read a request. The connection is lost or closed afterwards."""
        self.close_connection = True
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            return
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.methods.append(self.command)
        if self.server.resets:
            self.server.resets -= 1
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.connection.close()
        elif self.server.closes:
            self.server.closes -= 1
        else:
            content = json.dumps({"user": "ada"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def losing_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LosingServer]:
    """A server that loses connections. The SDK does not pause between attempts."""
    monkeypatch.setattr(api_client, "RETRY_PAUSES", (0,) * len(api_client.RETRY_PAUSES))
    with LosingServer(("127.0.0.1", 0), LosingHandler) as server:
        server.methods = []
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def connect(server: LosingServer) -> ApiClient:
    """A client for the server."""
    return ApiClient(f"http://127.0.0.1:{server.server_port}", "word")


@pytest.mark.parametrize("how", ["resets", "closes"])
def test_get_request_is_sent_again_if_the_connection_is_lost(losing_server: LosingServer, how: str) -> None:
    setattr(losing_server, how, ATTEMPTS - 1)
    assert connect(losing_server).get("/me") == {"user": "ada"}
    setattr(losing_server, how, ATTEMPTS - 1)
    with connect(losing_server).stream("/me") as answer:
        assert json.loads(answer.read()) == {"user": "ada"}
    assert losing_server.methods == ["GET"] * 2 * ATTEMPTS


def test_get_request_fails_after_the_last_attempt(losing_server: LosingServer) -> None:
    losing_server.resets = ATTEMPTS
    with pytest.raises(Unavailable, match="no response from http"):
        connect(losing_server).get("/me")
    assert losing_server.methods == ["GET"] * ATTEMPTS


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_request_that_changes_something_is_not_sent_again(losing_server: LosingServer, method: str) -> None:
    losing_server.resets = 1
    client = connect(losing_server)
    with pytest.raises(Unavailable, match="no response from http"):
        getattr(client, method.lower())("/runs", {})
    assert losing_server.methods == [method]
