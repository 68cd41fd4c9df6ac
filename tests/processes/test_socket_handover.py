"""The protocol between servers and the socket holder: only processes that know the key receive the sockets."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead import socket_holder
from fairlead.socket_holder import HandoverError

KEY, OTHER_KEY = b"key" * 10, b"other" * 10


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """The socket that is held."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


@pytest.fixture
def holder(listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a holder that runs in a thread of this process, and believes that a server is connected."""
    (tmp_path / socket_holder.FOLDER).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket_holder, "ANSWER_SECONDS", 0.2)
    address = f"{socket_holder.FOLDER}/{socket_holder.SOCKET}"
    server, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unix_socket:
        unix_socket.bind(address)
        unix_socket.listen()
        thread = threading.Thread(target=socket_holder.hold, args=(unix_socket, other_end, [listener], KEY))
        thread.start()
        with server:
            yield address
        thread.join()  # ends because neither a server nor a run remains


@pytest.mark.parametrize("message", [b"", socket_holder.STOPPED])
def test_only_a_killed_servers_pending_connections_are_reset(
    holder: str, listener: socket.socket, message: bytes
) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.settimeout(0.3)
        with connect(holder) as server:
            socket_holder.close_all(socket_holder.receive_sockets(server, KEY))
            if message:
                server.send(message)
        with pytest.raises(TimeoutError if message else ConnectionResetError):
            client.recv(1)


@contextlib.contextmanager
def connect(address: str) -> Iterator[socket.socket]:
    """Connect to the holder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        connection.connect(address)
        yield connection


def test_server_with_the_key_receives_the_sockets(holder: str, listener: socket.socket) -> None:
    with connect(holder) as connection:
        (received,) = socket_holder.receive_sockets(connection, KEY)
        with received:
            assert received.getsockname() == listener.getsockname()
            assert not received.get_inheritable()


def test_process_without_the_key_receives_nothing(holder: str) -> None:
    with connect(holder) as connection, pytest.raises(HandoverError, match="does not know the key"):
        socket_holder.receive_sockets(connection, OTHER_KEY)
    with connect(holder) as connection:  # the holder's own proof is not accepted either
        connection.send(socket_holder.GREETING + bytes(socket_holder.NONCE_BYTES))
        nonce = connection.recv(socket_holder.MAX_BYTES).removeprefix(socket_holder.GREETING)
        connection.send(socket_holder._prove(KEY, b"holder", bytes(socket_holder.NONCE_BYTES), nonce))
        assert connection.recv(socket_holder.MAX_BYTES) == b""


@pytest.mark.parametrize("greeting", [b"", b"fairlead-sockets/0 " + bytes(32), b"x" * 2000])
def test_other_protocols_are_refused(holder: str, greeting: bytes) -> None:
    with connect(holder) as connection:
        connection.send(greeting)
        assert connection.recv(socket_holder.MAX_BYTES) == b""


def test_server_that_ends_during_the_handover_does_not_stop_the_holder(holder: str) -> None:
    for messages in range(2):
        with connect(holder) as connection:
            if messages:
                connection.send(socket_holder.GREETING + bytes(socket_holder.NONCE_BYTES))
    with connect(holder) as silent, connect(holder) as connection:  # the silent one delays others for a moment only
        socket_holder.close_all(socket_holder.receive_sockets(connection, KEY))
        assert silent.recv(1) == b""


def test_server_refuses_a_holder_without_the_key(listener: socket.socket) -> None:
    server, holder = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server, holder:

        def pretend() -> None:
            nonce = holder.recv(socket_holder.MAX_BYTES)
            holder.send(nonce)
            holder.recv(socket_holder.MAX_BYTES)
            socket.send_fds(holder, [bytes(32)], [listener.fileno()])

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(HandoverError, match="the holder does not know the key"):
            socket_holder.receive_sockets(server, KEY)
        thread.join()
