"""A server's listening sockets: from systemd, from the holder that survived the previous server, or newly bound."""

import contextlib
import errno
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

import fairlead
from fairlead import hosting, socket_holder
from fairlead.backoff import Backoff
from fairlead.errors import FairleadError
from fairlead.model.names import is_loopback
from fairlead.socket_holder import HandoverError, close_all
from fairlead.socket_owners import describe_owner, find_owners

log = structlog.get_logger()

BACKLOG = 2048  # requests wait here until the server is ready
PORT_ATTEMPTS = 20  # a free port on 127.0.0.1 may be in use on ::1
FIRST_FD = 3  # the first file descriptor that systemd passes
RESTARTS = Backoff(0.1, 60)
STABLE_SECONDS = 60
PACKAGES = str(Path(fairlead.__file__).parent.parent)
LOOPBACK = ("127.0.0.1", "::1")


class Listeners(NamedTuple):
    """The listening sockets of a server, and the URL of the first one."""

    sockets: list[socket.socket]
    url: str


@contextlib.contextmanager
def open_listeners(data: Path, host: str, port: int, variables: MutableMapping[str, str]) -> Iterator[Listeners]:
    """Open the listening sockets. The caller must hold the lock on the data folder."""
    sockets = take_systemd_sockets(variables)
    with contextlib.closing(SocketHolder(data)) as holder:
        held = holder.connect()
        if sockets:
            close_all(held)
            holder.end()  # systemd keeps the sockets
            host = sockets[0].getsockname()[0]
        else:
            hosts = _resolve(host, port)
            sockets = held
            if _addresses(held) != {(address, _port(held, port)) for address in hosts}:
                if held:
                    log.warning("listening address changed", previous=sorted(map(_format, _addresses(held))))
                close_all(held)
                holder.end()
                sockets = _bind(hosts, port)
            holder.keep(sockets)
        try:
            yield Listeners(sockets, f"http://{_format((host, sockets[0].getsockname()[1]))}")
        finally:
            close_all(sockets)


class SocketHolder:
    """The connection to the process that keeps the sockets, which is started again if it is killed."""

    def __init__(self, data: Path) -> None:
        self._data, self._folder = data, data / socket_holder.FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._folder.chmod(0o700)
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: list[socket.socket] = []
        self._closed = False
        self._key = self._load_key()

    def connect(self) -> list[socket.socket]:
        """Receive the sockets from the holder of an earlier server. Empty if there is none."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(socket_holder.ANSWER_SECONDS)
        try:
            with self._short_path() as path:
                connection.connect(path)
        except OSError:  # no holder is running
            connection.close()
            return []
        self._connection = connection
        try:
            return socket_holder.receive_sockets(connection, self._key)
        # The holder has just exited, hangs or uses another protocol version, or the key was deleted. Start a new one.
        except (OSError, HandoverError) as error:
            log.warning("socket holder replaced", reason=str(error) or type(error).__name__)
            self.end()
            return []

    def keep(self, sockets: Sequence[socket.socket]) -> None:
        """Have the holder keep the sockets. Starts the holder if it is not running."""
        # Copies, because the HTTP server closes its sockets before the server has ended.
        self._sockets = [opened.dup() for opened in sockets]
        if self._connection is None:
            self._start()
        else:
            self._connection.settimeout(None)
        threading.Thread(target=self._watch, name="socket holder", daemon=True).start()

    def end(self) -> None:
        """End the connected holder, which releases its addresses."""
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        # The ID is 0 if the process is in a container that this one cannot see.
        with connection, contextlib.suppress(OSError):
            if pid > 0 and uid in (0, os.getuid()):
                os.kill(pid, signal.SIGKILL)
            while connection.recv(socket_holder.MAX_BYTES):  # wait until the holder has exited
                pass

    def close(self) -> None:
        """Disconnect, so that the holder exits unless a run is active."""
        self._closed = True
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(socket_holder.STOPPED)
                self._connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
            self._connection.close()
        if self._process is not None:
            self._process.returncode = 0  # it may outlive this process; prevents subprocess's ResourceWarning
        close_all(self._sockets)

    def _watch(self) -> None:
        """Start the holder again whenever it is killed."""
        failures, started = 0, time.monotonic()
        while True:
            with contextlib.suppress(OSError):
                if self._connection is not None:
                    self._connection.recv(1)
            if self._closed:
                return
            if self._process is not None:
                self._process.wait()
            failures = 0 if time.monotonic() > started + STABLE_SECONDS else failures + 1
            log.warning("socket holder ended", restarts=failures)
            time.sleep(RESTARTS.pause(failures) if failures > 1 else 0)
            started = time.monotonic()
            try:
                self._start()
            except (OSError, ValueError) as error:
                log.error("cannot start the socket holder", reason=str(error))

    def _start(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Bind it here, so that a new server finds the holder even if this server is killed while the holder starts.
        with other_end, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unix_socket:
            (self._folder / socket_holder.SOCKET).unlink(missing_ok=True)
            with self._short_path() as path:
                unix_socket.bind(path)
            unix_socket.listen()
            fds = [opened.fileno() for opened in (unix_socket, other_end, *self._sockets)]
            self._process = subprocess.Popen(
                # Skip site-packages, which the holder does not need.
                [sys.executable, "-S", "-s", "-P", "-m", socket_holder.__name__, *map(str, fds)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": PACKAGES},  # the server's variables may contain its secrets
                start_new_session=True,  # Ctrl+C in the server's terminal must not reach the holder
                cwd=self._data,
                pass_fds=fds,
            )

    @contextlib.contextmanager
    def _short_path(self) -> Iterator[str]:
        """A path to the Unix socket that is shorter than the limit of 107 bytes."""
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{socket_holder.SOCKET}"
        finally:
            os.close(folder)

    def _load_key(self) -> bytes:
        file = self._folder / socket_holder.KEY
        if not file.exists():
            hosting.write_private(file, secrets.token_hex())
        return file.read_bytes()


def _resolve(host: str, port: int) -> list[str]:
    """The addresses to listen on: both loopback addresses, or the address of another interface."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        address: str = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0]  # type: ignore[assignment]
    except OSError as error:
        raise _cannot_listen(host, port, error) from error
    # Browsers open <run>.localhost at ::1 first, so no other program may listen there.
    others = LOOPBACK if address in LOOPBACK else LOOPBACK[1:] if address == "0.0.0.0" else ()
    return [address, *(other for other in others if other != address and _exists(other))]


def _exists(address: str) -> bool:
    """Whether this machine has an address. Containers often have no ::1."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _bind(hosts: Sequence[str], port: int) -> list[socket.socket]:
    for attempt in range(PORT_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            sockets: list[socket.socket] = []
            for host in hosts:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                # Otherwise a restarted server cannot use its port while old connections are in TIME_WAIT.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    listener.bind((host, _port(sockets, port)))
                    listener.listen(BACKLOG)
                except (OSError, OverflowError) as error:  # OverflowError: the port is too large
                    if port == 0 and getattr(error, "errno", 0) == errno.EADDRINUSE and attempt < PORT_ATTEMPTS - 1:
                        break
                    raise _cannot_listen(host, _port(sockets, port), error) from error
                sockets.append(listener)
            else:
                stack.pop_all()
                return sockets
    raise AssertionError("the last attempt returns or raises")


def _cannot_listen(host: str, port: int, error: Exception) -> FairleadError:
    message = f"cannot listen on {host}, port {port}: {error}"
    if getattr(error, "errno", 0) == errno.EADDRINUSE and (owners := find_owners(host, port)):
        message += f", by {describe_owner(owners[0])}"
    return FairleadError(message, "choose another port; fairlead up --port 0 uses any free port")


def take_systemd_sockets(variables: MutableMapping[str, str]) -> list[socket.socket]:
    """The sockets that systemd opened for this process (sd_listen_fds). Removes the variables for child processes."""
    pid, count, _ = (variables.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    sockets = [socket.socket(fileno=fd) for fd in range(FIRST_FD, FIRST_FD + int(count))]
    for opened in sockets:
        opened.set_inheritable(False)
        is_tcp = opened.family in (socket.AF_INET, socket.AF_INET6) and opened.type == socket.SOCK_STREAM
        if not is_tcp or not opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            message = f"systemd passed a socket that is not a listening TCP socket: {opened.getsockname()!r}"
            raise FairleadError(message, "use ListenStream= with an address and a port, such as 127.0.0.1:8470")
    addresses = _addresses(sockets)
    for host, port in addresses:
        if host == "127.0.0.1" and ("::1", port) not in addresses and _exists("::1"):
            # Browsers open <run>.localhost at ::1 first, so a run that listens there would receive their requests.
            log.warning("systemd passed no socket for ::1", hint=f"add ListenStream=[::1]:{port} to the socket unit")
    return sockets


def is_local_only(sockets: Sequence[socket.socket]) -> bool:
    """Whether only this machine can reach the sockets."""
    return all(is_loopback(address) for address, _ in _addresses(sockets))


def _addresses(sockets: Sequence[socket.socket]) -> set[tuple[str, int]]:
    return {opened.getsockname()[:2] for opened in sockets}


def _port(sockets: Sequence[socket.socket], port: int) -> int:
    """The requested port or, if it is 0, the port of the existing sockets, if any."""
    return port if port or not sockets else int(sockets[0].getsockname()[1])


def _format(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
