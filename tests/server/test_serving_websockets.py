"""WebSockets to runs: messages in both directions, and how the connection ends."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from httpx2.websockets import WebSocketDisconnect, WebSocketUpgradeError
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Message, Ping, Pong, Request, TextMessage
from wsproto.utilities import LocalProtocolError

from fairlead.model.runs import Endpoint
from tests.server.conftest import Lines
from tests.server.stages import Stage
from tests.server.upstreams import MEBIBYTE, TIMEOUT_SECONDS, Program, hold_open, run_raw_server, wait_until


def close_of(caught: pytest.ExceptionInfo[WebSocketDisconnect]) -> tuple[int, str | None]:
    """The close code and reason of a WebSocket."""
    return caught.value.code, caught.value.reason


def test_messages_are_forwarded_in_both_directions(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    with stage.open_websocket(run_id, "/echo?a=b") as websocket:
        for text in ("hello", "", "ä€😀" * 1000):
            websocket.send_text(text)
            assert websocket.receive_text(TIMEOUT_SECONDS) == text
        for content in (b"\x00\xff", b"", b"x" * 30_000):
            websocket.send_bytes(content)
            assert websocket.receive_bytes(TIMEOUT_SECONDS) == content
    request = program.requests[0]
    headers = dict(request["headers"])
    assert (request["path"], request["query"], headers["x-forwarded-prefix"]) == ("/echo", "a=b", f"/served/{run_id}")
    assert "authorization" not in headers
    assert stage.run(run_id).last_used_at is not None


def test_large_message_is_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    content = bytes(range(256)) * 4096 * 20
    with stage.open_websocket(stage.serve(endpoint), "/echo", max_message_size_bytes=2 * len(content)) as websocket:
        websocket.send_bytes(content)
        assert websocket.receive_bytes(TIMEOUT_SECONDS) == content
    assert len(content) > 16 * MEBIBYTE


def test_run_selects_the_subprotocol(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    with stage.open_websocket(run_id, "/echo", subprotocols=["v1.kernel", "v2.kernel"]) as websocket:
        assert websocket.subprotocol == "v2.kernel"
        assert websocket.response.headers["x-of-the-run"] == "yes"


def test_close_code_and_reason_of_the_run_are_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    with stage.open_websocket(stage.serve(endpoint), "/echo") as websocket:
        websocket.send_text("end")
        with pytest.raises(WebSocketDisconnect) as caught:
            websocket.receive(TIMEOUT_SECONDS)
    assert close_of(caught) == (4001, "as you say")


def test_close_code_of_the_client_is_forwarded(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    with stage.open_websocket(stage.serve(endpoint), "/echo") as websocket:
        websocket.close(4002, "enough")
    assert program.disconnected.wait(TIMEOUT_SECONDS)
    assert program.requests[-1] == {"closed": 4002}
    wait_until(lambda: stage.site.app.state.metrics.in_flight == 0)


def test_lost_client_is_reported_to_the_run(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    with stage.open_websocket(stage.serve(endpoint), "/echo") as websocket:
        websocket.stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        assert program.disconnected.wait(TIMEOUT_SECONDS)


def request_upgrade(stage: Stage, run_id: str, path: str, token: str) -> tuple[int, bytes]:
    """Request a WebSocket, and return the rejection's status and body."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers = {**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    response = stage.request("GET", run_id, path, token=token, headers=headers)
    return response.status_code, response.content


def test_rejected_upgrade_is_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    assert request_upgrade(stage, stage.serve(endpoint), "/refuse", stage.site.token) == (418, b"a teapot")


@pytest.mark.parametrize(("token", "state", "status"), [
    ("fl_wrong", "running", 401),
    ("fl_run.x.y", "running", 401),
    (None, "starting", 503),
    (None, "stopped", 409),
])  # fmt: skip
def test_unauthorized_upgrade_gets_a_problem(
    stage: Stage, program: Program, endpoint: Endpoint, token: str | None, state: str, status: int
) -> None:
    run_id = stage.serve(endpoint, state=state, active=state != "stopped")
    actual_status, body = request_upgrade(stage, run_id, "/echo", stage.site.token if token is None else token)
    assert (actual_status, json.loads(body)["status"]) == (status, status)
    assert program.requests == []


def test_websocket_is_logged_without_its_query(stage: Stage, endpoint: Endpoint, log: Lines) -> None:
    run_id = stage.serve(endpoint)
    with stage.open_websocket(run_id, "/echo?token=hush"):
        assert stage.site.app.state.metrics.idle_seconds == 0.0
    wait_until(lambda: any(line.get("run") == run_id for line in log))
    line = next(line for line in log if line.get("run") == run_id)
    assert (line["method"], line["path"], line["status"]) == ("WEBSOCKET", f"/served/{run_id}/echo", 101)
    assert "hush" not in str(log)


def test_websocket_is_closed_after_access_is_revoked(short_timeout_stage: Stage, endpoint: Endpoint) -> None:
    site, run_id = short_timeout_stage.site, short_timeout_stage.serve(endpoint, "workspace")
    role = site.post("/roles", {"subject": "user:bob", "role": "member", "scope": "project/alpha"})
    token = site.post("/tokens", {"name": "one", "user": "bob"})["token"]
    with short_timeout_stage.open_websocket(run_id, "/echo", headers={"Authorization": f"Bearer {token}"}) as websocket:
        websocket.send_text("before")
        assert websocket.receive_text(TIMEOUT_SECONDS) == "before"
        site.request("DELETE", f"/roles/{role['id']}")

        def exchange() -> None:
            while True:
                with suppress(LocalProtocolError):  # the close frame may have arrived; it is received below
                    websocket.send_text("after")
                websocket.receive(TIMEOUT_SECONDS)

        with pytest.raises(WebSocketDisconnect) as caught:
            exchange()
    assert close_of(caught) == (1008, "access was revoked")


# Runs that misbehave


@contextmanager
def run_script(*steps: str) -> Iterator[tuple[Endpoint, list[object]]]:
    """A run that accepts a WebSocket, follows a script, and records messages."""
    received: list[object] = []

    def handle(connection: socket.socket) -> None:
        frames = WSConnection(ConnectionType.SERVER)

        def receive() -> None:
            frames.receive_data(connection.recv(65536) or None)
            received.extend(frames.events())

        while not any(isinstance(event, Request) for event in received):
            receive()
        connection.sendall(frames.send(AcceptConnection()))
        for step in steps:
            if step == "fragments":
                for number in range(3):
                    connection.sendall(frames.send(TextMessage(data=f"{number}", message_finished=number == 2)))
            elif step == "ping":
                connection.sendall(frames.send(Ping(payload=b"there?")))
                while not any(isinstance(event, Pong) for event in received):
                    receive()
            elif step == "garbage":
                connection.sendall(b"\xff\xff\xff\xff")
                receive()
            elif step == "close without a code":
                connection.sendall(b"\x88\x00")
                receive()
            elif step == "wait":
                while not any(isinstance(event, Message | CloseConnection) for event in received):
                    receive()

    with run_raw_server(handle) as endpoint:
        yield endpoint, received


def test_fragmented_message_is_forwarded_as_one(stage: Stage) -> None:
    with (
        run_script("fragments", "wait") as (endpoint, _),
        stage.open_websocket(stage.serve(endpoint), "/") as websocket,
    ):
        assert websocket.receive_text(TIMEOUT_SECONDS) == "012"


def test_ping_of_the_run_is_answered(stage: Stage) -> None:
    with (
        run_script("ping", "fragments", "wait") as (endpoint, received),
        stage.open_websocket(stage.serve(endpoint), "/") as websocket,
    ):
        assert websocket.receive_text(TIMEOUT_SECONDS) == "012"
        assert [bytes(event.payload) for event in received if isinstance(event, Pong)] == [b"there?"]


@pytest.mark.parametrize(("step", "code"), [("nothing", 1011), ("garbage", 1002), ("close without a code", 1000)])
def test_connection_lost_by_the_run_closes_the_websocket(stage: Stage, step: str, code: int) -> None:
    with run_script(step) as (endpoint, _), stage.open_websocket(stage.serve(endpoint), "/") as websocket:
        with pytest.raises(WebSocketDisconnect) as caught:
            websocket.receive(TIMEOUT_SECONDS)
        assert close_of(caught)[0] == code


@pytest.mark.parametrize("raw_response", [
    b"",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
])  # fmt: skip
def test_invalid_upgrade_response_is_a_bad_gateway(stage: Stage, raw_response: bytes) -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(raw_response)

    with (
        run_raw_server(handle) as endpoint,
        pytest.raises(WebSocketUpgradeError) as caught,
        stage.open_websocket(stage.serve(endpoint), "/"),
    ):
        pass
    assert caught.value.response.status_code == 502


def test_upgrade_without_a_response_times_out(short_timeout_stage: Stage) -> None:
    done = threading.Event()
    with run_raw_server(hold_open(done)) as endpoint:
        with (
            pytest.raises(WebSocketUpgradeError) as caught,
            short_timeout_stage.open_websocket(short_timeout_stage.serve(endpoint), "/"),
        ):
            pass
        done.set()
    assert caught.value.response.status_code == 504
