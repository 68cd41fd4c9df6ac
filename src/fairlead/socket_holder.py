"""The socket holder: a program that keeps a server's listening sockets open while the server restarts.

The server starts it as a child process with the sockets, and stays connected. A new server of the same data folder
connects to the holder's Unix socket, proves that it knows the folder's key, and receives the sockets. The holder exits
when neither a server nor a run of the data folder remains. It imports only the standard library, to save memory.
"""

import contextlib
import fcntl
import hmac
import os
import select
import socket
import sys
from collections.abc import Iterable, Sequence

GREETING = b"fairlead-sockets/1 "  # the number is the version of the protocol, because a server may be upgraded
FOLDER, KEY, SOCKET = "listener", "key", "holder.sock"  # in the data folder
NONCE_BYTES = 32
ANSWER_SECONDS = 5.0
# The pause between checks for active runs. Within the first pause, a new server receives the sockets in any case.
CHECK_SECONDS = 0.5
MAX_SOCKETS, MAX_BYTES = 16, 1024
STOPPED = b"stopped"  # from a server that was not killed


class HandoverError(Exception):
    """The other process does not know the key, or speaks another version of the protocol."""


def main() -> None:
    unix_socket, server, *listeners = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:])
    with open(f"{FOLDER}/{KEY}", "rb") as file:
        key = file.read()
    # Listen again, so that the credentials that a server reads from its connection are those of this process.
    unix_socket.listen()
    hold(unix_socket, server, listeners, key)
    # The addresses are released before the Unix socket: a server that finds no holder can use them at once.
    for listener in listeners:
        listener.close()


def hold(unix_socket: socket.socket, server: socket.socket | None, listeners: list[socket.socket], key: bytes) -> None:
    """Keep the sockets until neither a server nor a run remains, or the data folder is deleted."""
    identity = _identify_path()
    active_runs: list[str] | None = None  # None: not listed yet; only a server starts runs
    while True:
        readable, *_ = select.select(
            [unix_socket, *([server] if server else [])], [], [], None if server else CHECK_SECONDS
        )
        if server is not None and server in readable:  # the server has ended
            if server.recv(MAX_BYTES) != STOPPED:
                _reset_pending(listeners)
            server.close()
            server, active_runs = None, None
        if unix_socket in readable and (connection := _accept(unix_socket, listeners, key)) is not None:
            if server is not None:
                server.close()
            server = connection
        if not readable:
            if identity is None or _identify_path() != identity:
                return
            active_runs = [run for run in (_list_runs() if active_runs is None else active_runs) if _is_active(run)]
            if not active_runs:
                return


def send_sockets(connection: socket.socket, listeners: Iterable[socket.socket], key: bytes) -> None:
    """The holder's part of the protocol: send the sockets to a process that proves that it knows the key."""
    server_nonce = _read_greeting(connection.recv(MAX_BYTES))
    nonce = os.urandom(NONCE_BYTES)
    connection.send(GREETING + nonce)
    if not hmac.compare_digest(connection.recv(MAX_BYTES), _prove(key, b"server", server_nonce, nonce)):
        raise HandoverError("the server does not know the key")
    proof = _prove(key, b"holder", server_nonce, nonce)
    socket.send_fds(connection, [proof], [listener.fileno() for listener in listeners])


def receive_sockets(connection: socket.socket, key: bytes) -> list[socket.socket]:
    """The server's part of the protocol: prove knowledge of the key, then receive the sockets and a proof."""
    server_nonce = os.urandom(NONCE_BYTES)
    connection.send(GREETING + server_nonce)
    nonce = _read_greeting(connection.recv(MAX_BYTES))
    connection.send(_prove(key, b"server", server_nonce, nonce))
    proof, fds, *_ = socket.recv_fds(connection, MAX_BYTES, MAX_SOCKETS)
    sockets = [socket.socket(fileno=fd) for fd in fds]
    for received in sockets:
        received.set_inheritable(False)  # received descriptors are inheritable, unlike others in Python
    if not hmac.compare_digest(proof, _prove(key, b"holder", server_nonce, nonce)):
        close_all(sockets)
        raise HandoverError("the holder does not know the key")
    return sockets


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Close this process's copies of sockets."""
    for opened in sockets:
        opened.close()


def _accept(unix_socket: socket.socket, listeners: list[socket.socket], key: bytes) -> socket.socket | None:
    """Accept a connection, and return it if it is from a server of this data folder."""
    connection, _ = unix_socket.accept()
    connection.settimeout(ANSWER_SECONDS)
    try:
        send_sockets(connection, listeners, key)
    except (OSError, HandoverError):
        connection.close()
        return None
    connection.settimeout(None)
    return connection


def _reset_pending(listeners: Sequence[socket.socket]) -> None:
    """Reset the connections that a killed server had not accepted, so that their clients try again."""
    # The kernel has closed the accepted ones. The clients of the others believe that a server is running: they would
    # wait for a response, and possibly no other client would start a server.
    for listener in listeners:
        with contextlib.suppress(OSError):
            while select.select([listener], [], [], 0)[0]:
                listener.accept()[0].close()


def _read_greeting(message: bytes) -> bytes:
    if not message.startswith(GREETING) or len(message) != len(GREETING) + NONCE_BYTES:
        raise HandoverError("the other process speaks another version of the protocol")
    return message.removeprefix(GREETING)


def _prove(key: bytes, role: bytes, server_nonce: bytes, nonce: bytes) -> bytes:
    # The role prevents reflection: a proof that is sent back to the side that made it is not valid there.
    return hmac.digest(key, role + server_nonce + nonce, "sha256")


def _identify_path() -> tuple[int, int] | None:
    """Identify the file of the Unix socket. It changes if the data folder is deleted or another holder takes over."""
    with contextlib.suppress(OSError):
        status = os.stat(f"{FOLDER}/{SOCKET}")
        return status.st_dev, status.st_ino
    return None


def _list_runs() -> list[str]:
    try:
        return os.listdir("runs")
    except OSError:
        return []


def _is_active(run: str) -> bool:
    """Whether a supervisor holds the lock in a run's folder."""
    try:
        with open(f"runs/{run}/lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


if __name__ == "__main__":
    main()
