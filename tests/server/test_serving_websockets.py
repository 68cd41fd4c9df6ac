"""WebSockets to runs: messages both ways, and how they end."""

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

from fairlead.model.observations import Endpoint
from tests.server.conftest import Lines
from tests.server.stages import Stage
from tests.server.upstreams import MEBIBYTE, PATIENCE, Program, misbehaving, silent, wait_until


def closed(found: pytest.ExceptionInfo[WebSocketDisconnect]) -> tuple[int, str | None]:
    """How a WebSocket was ended."""
    return found.value.code, found.value.reason


def test_messages_are_forwarded_in_both_directions(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    with stage.converse(run_id, "/echo?a=b") as opened:
        for text in ("hello", "", "ä€😀" * 1000):
            opened.send_text(text)
            assert opened.receive_text(PATIENCE) == text
        for content in (b"\x00\xff", b"", b"x" * 30_000):
            opened.send_bytes(content)
            assert opened.receive_bytes(PATIENCE) == content
    asked = program.asked[0]
    headers = dict(asked["headers"])
    assert (asked["path"], asked["query"], headers["x-forwarded-prefix"]) == ("/echo", "a=b", f"/served/{run_id}")
    assert "authorization" not in headers
    assert stage.run(run_id).last_used_at is not None


def test_large_message_is_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    content = bytes(range(256)) * 4096 * 20
    with stage.converse(stage.serve(endpoint), "/echo", max_message_size_bytes=2 * len(content)) as opened:
        opened.send_bytes(content)
        assert opened.receive_bytes(PATIENCE) == content
    assert len(content) > 16 * MEBIBYTE


def test_run_selects_the_subprotocol(stage: Stage, endpoint: Endpoint) -> None:
    run_id = stage.serve(endpoint)
    with stage.converse(run_id, "/echo", subprotocols=["v1.kernel", "v2.kernel"]) as opened:
        assert opened.subprotocol == "v2.kernel"
        assert opened.response.headers["x-of-the-run"] == "yes"


def test_close_code_and_reason_of_the_run_are_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    with stage.converse(stage.serve(endpoint), "/echo") as opened:
        opened.send_text("end")
        with pytest.raises(WebSocketDisconnect) as found:
            opened.receive(PATIENCE)
    assert closed(found) == (4001, "as you say")


def test_close_code_of_the_client_is_forwarded(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    with stage.converse(stage.serve(endpoint), "/echo") as opened:
        opened.close(4002, "enough")
    assert program.left.wait(PATIENCE)
    assert program.asked[-1] == {"closed": 4002}
    wait_until(lambda: stage.site.app.state.metrics.in_flight == 0)


def test_lost_client_is_reported_to_the_run(stage: Stage, program: Program, endpoint: Endpoint) -> None:
    with stage.converse(stage.serve(endpoint), "/echo") as opened:
        opened.stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        assert program.left.wait(PATIENCE)


def ask_to_upgrade(stage: Stage, run_id: str, path: str, token: str) -> tuple[int, bytes]:
    """How the wish for a WebSocket is refused: status and body."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers = {**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    answer = stage.ask("GET", run_id, path, token=token, headers=headers)
    return answer.status_code, answer.content


def test_rejected_upgrade_is_forwarded(stage: Stage, endpoint: Endpoint) -> None:
    assert ask_to_upgrade(stage, stage.serve(endpoint), "/refuse", stage.site.token) == (418, b"a teapot")


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
    found, body = ask_to_upgrade(stage, run_id, "/echo", stage.site.token if token is None else token)
    assert (found, json.loads(body)["status"]) == (status, status)
    assert program.asked == []


def test_websocket_is_logged_without_its_query(stage: Stage, endpoint: Endpoint, log: Lines) -> None:
    run_id = stage.serve(endpoint)
    with stage.converse(run_id, "/echo?token=hush"):
        assert stage.site.app.state.metrics.idle_seconds == 0.0
    wait_until(lambda: any(line.get("run") == run_id for line in log))
    line = next(line for line in log if line.get("run") == run_id)
    assert (line["method"], line["path"], line["status"]) == ("WEBSOCKET", f"/served/{run_id}/echo", 101)
    assert "hush" not in str(log)


def test_websocket_is_closed_after_access_is_revoked(hasty_stage: Stage, endpoint: Endpoint) -> None:
    site, run_id = hasty_stage.site, hasty_stage.serve(endpoint, "workspace")
    role = site.make("/roles", {"subject": "user:bob", "role": "member", "scope": "project/alpha"})
    token = site.make("/tokens", {"name": "one", "user": "bob"})["token"]
    with hasty_stage.converse(run_id, "/echo", headers={"Authorization": f"Bearer {token}"}) as opened:
        opened.send_text("before")
        assert opened.receive_text(PATIENCE) == "before"
        site.ask("DELETE", f"/roles/{role['id']}")

        def go_on() -> None:
            while True:
                with suppress(LocalProtocolError):  # the end may have arrived, and is received below
                    opened.send_text("after")
                opened.receive(PATIENCE)

        with pytest.raises(WebSocketDisconnect) as found:
            go_on()
    assert closed(found) == (1008, "access was revoked")


# Runs that misbehave


@contextmanager
def speaking(*steps: str) -> Iterator[tuple[Endpoint, list[object]]]:
    """A run that accepts a WebSocket, follows a script, and records messages."""
    heard: list[object] = []

    def handle(connection: socket.socket) -> None:
        frames = WSConnection(ConnectionType.SERVER)

        def hear() -> None:
            frames.receive_data(connection.recv(65536) or None)
            heard.extend(frames.events())

        while not any(isinstance(event, Request) for event in heard):
            hear()
        connection.sendall(frames.send(AcceptConnection()))
        for step in steps:
            if step == "pieces":
                for number in range(3):
                    connection.sendall(frames.send(TextMessage(data=f"{number}", message_finished=number == 2)))
            elif step == "ping":
                connection.sendall(frames.send(Ping(payload=b"there?")))
                while not any(isinstance(event, Pong) for event in heard):
                    hear()
            elif step == "nonsense":
                connection.sendall(b"\xff\xff\xff\xff")
                hear()
            elif step == "close without a word":
                connection.sendall(b"\x88\x00")
                hear()
            elif step == "wait":
                while not any(isinstance(event, Message | CloseConnection) for event in heard):
                    hear()

    with misbehaving(handle) as endpoint:
        yield endpoint, heard


def test_fragmented_message_is_forwarded_as_one(stage: Stage) -> None:
    with speaking("pieces", "wait") as (endpoint, _), stage.converse(stage.serve(endpoint), "/") as opened:
        assert opened.receive_text(PATIENCE) == "012"


def test_ping_of_the_run_is_answered(stage: Stage) -> None:
    with speaking("ping", "pieces", "wait") as (endpoint, heard), stage.converse(stage.serve(endpoint), "/") as opened:
        assert opened.receive_text(PATIENCE) == "012"
        assert [bytes(event.payload) for event in heard if isinstance(event, Pong)] == [b"there?"]


@pytest.mark.parametrize(("step", "code"), [("nothing", 1011), ("nonsense", 1002), ("close without a word", 1000)])
def test_connection_lost_by_the_run_closes_the_websocket(stage: Stage, step: str, code: int) -> None:
    with speaking(step) as (endpoint, _), stage.converse(stage.serve(endpoint), "/") as opened:
        with pytest.raises(WebSocketDisconnect) as found:
            opened.receive(PATIENCE)
        assert closed(found)[0] == code


@pytest.mark.parametrize("said", [
    b"",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
])  # fmt: skip
def test_invalid_upgrade_response_is_a_bad_gateway(stage: Stage, said: bytes) -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(said)

    with (
        misbehaving(handle) as endpoint,
        pytest.raises(WebSocketUpgradeError) as found,
        stage.converse(stage.serve(endpoint), "/"),
    ):
        pass
    assert found.value.response.status_code == 502


def test_upgrade_without_a_response_times_out(hasty_stage: Stage) -> None:
    over = threading.Event()
    with misbehaving(silent(over)) as endpoint:
        with pytest.raises(WebSocketUpgradeError) as found, hasty_stage.converse(hasty_stage.serve(endpoint), "/"):
            pass
        over.set()
    assert found.value.response.status_code == 504
