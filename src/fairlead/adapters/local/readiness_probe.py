"""Checks whether a served run accepts connections, and at which address. Standard library only.

Only the run itself counts: a socket in its home that its user owns and that is not a symbolic link, or a port on which
its user and no other user listens.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from fairlead.adapters.local.specs import SOCKET, Spec

CONNECT_SECONDS = 0.05  # a local listener accepts at once, or its backlog is full
PROC_SELF_FD = "/proc/self/fd"
STAGED_SOCKET = f".{SOCKET}"
OPEN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
TCP_LISTEN = "0A"
# The local addresses that accept a connection to each loopback address, in the format of /proc/net/tcp: 32-bit words,
# whose bytes are reversed on little-endian machines.
ANY, ANY_6, MAPPED = "0" * 8, "0" * 32, "0000000000000000FFFF00000100007F"
LOOPBACK = {
    "127.0.0.1": (socket.AF_INET, {"0100007F", MAPPED, ANY, ANY_6}),
    "::1": (socket.AF_INET6, {"00000000000000000000000001000000", ANY_6}),
}


def find_address(spec: Spec, folder: Path) -> str | None:
    """Return the address that accepts connections: the name of the socket, or host:port. None if there is none yet."""
    uid = os.getuid() if spec.identity.outer_uid is None else spec.identity.outer_uid
    if spec.port is not None:
        return _find_host(spec.port, uid)
    with contextlib.suppress(OSError), _open(folder, OPEN_FOLDER) as run_folder:
        with contextlib.suppress(OSError), _open(spec.home, OPEN_FOLDER) as home:
            if _is_own_socket(home, uid):
                # Move the socket to a folder that the run cannot write to, so that the run cannot replace it with a
                # symbolic link. It may already have done so, so check again before the socket gets its final name.
                os.rename(SOCKET, STAGED_SOCKET, src_dir_fd=home, dst_dir_fd=run_folder)
                if _is_own_socket(run_folder, uid, STAGED_SOCKET):
                    os.rename(STAGED_SOCKET, SOCKET, src_dir_fd=run_folder, dst_dir_fd=run_folder)
        if _is_own_socket(run_folder, uid):
            return SOCKET
    return None


def remove_socket(spec: Spec, folder: Path) -> None:
    """Remove the socket of a process that has ended."""
    for path in (folder, spec.home):
        with contextlib.suppress(OSError), _open(path, OPEN_FOLDER) as fd:
            os.unlink(SOCKET, dir_fd=fd)


def describe_address(spec: Spec) -> str:
    """Describe the address on which a run should listen."""
    return f"port {spec.port} ($PORT)" if spec.port is not None else "its socket"


def _is_own_socket(folder: int, uid: int, name: str = SOCKET) -> bool:
    """Whether a file is the user's socket and accepts connections. All checks use the same open file."""
    with contextlib.suppress(OSError), _open(name, os.O_PATH | os.O_NOFOLLOW, folder) as fd:
        status = os.fstat(fd)
        is_socket = stat.S_ISSOCK(status.st_mode) and status.st_uid == uid
        # Connect to the file that was checked, even if its name now belongs to a different file.
        return is_socket and _accepts_connections(socket.AF_UNIX, f"{PROC_SELF_FD}/{fd}")
    return False


def _find_host(port: int, uid: int) -> str | None:
    for host, (family, addresses) in LOOPBACK.items():
        if _accepts_connections(family, (host, port)):
            users = {user for address, user in _list_listeners(port) if address in addresses}
            if users <= {uid}:  # empty if /proc cannot be read
                return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


def _accepts_connections(family: int, address: str | tuple[str, int]) -> bool:
    try:
        with socket.socket(family) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(address)
    except OSError:
        return False
    return True


def _list_listeners(port: int) -> Iterator[tuple[str, int]]:
    """List the addresses of the listeners on a port, with their user IDs."""
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(file, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                if words[3] == TCP_LISTEN and words[1].endswith(f":{port:04X}"):
                    yield words[1].partition(":")[0], int(words[7])


@contextlib.contextmanager
def _open(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)
