"""Whether what a run serves takes connections, and where. Standard library only.

What listens is to be the run itself: a socket of its user at its home, and no link to another one; or a port that its
user listens on, and nobody else.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from fairlead.adapters.local.specs import SOCKET, Spec

CONNECT_SECONDS = 0.05  # what listens on this machine takes a connection at once, or has too many waiting
MINE = "/proc/self/fd"
ASIDE = f".{SOCKET}"
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
LISTENING = "0A"
# How /proc tells the addresses at which a connection to one of this machine's own may end.
ANY, ANY_6, MAPPED = "0" * 8, "0" * 32, "0000000000000000FFFF00000100007F"
HOSTS = {
    "127.0.0.1": (socket.AF_INET, {"0100007F", MAPPED, ANY, ANY_6}),
    "::1": (socket.AF_INET6, {"00000000000000000000000001000000", ANY_6}),
}


def find_address(spec: Spec, folder: Path) -> str | None:
    """Where a run takes connections: the name of its socket, or a host with a port; None where it does not."""
    uid = os.getuid() if spec.identity.outer_uid is None else spec.identity.outer_uid
    if spec.port is not None:
        return _find_host(spec.port, uid)
    with contextlib.suppress(OSError), _opened(folder, FOLDER) as here:
        with contextlib.suppress(OSError), _opened(spec.home, FOLDER) as home:
            if _is_good(home, uid):
                # Out of the run's reach, where it cannot become a link any more before somebody follows it. It may be
                # one by now: until it was looked at there, nobody finds it.
                os.rename(SOCKET, ASIDE, src_dir_fd=home, dst_dir_fd=here)
                if _is_good(here, uid, ASIDE):
                    os.rename(ASIDE, SOCKET, src_dir_fd=here, dst_dir_fd=here)
        if _is_good(here, uid):
            return SOCKET
    return None


def clear(spec: Spec, folder: Path) -> None:
    """Remove the socket of a process that ended."""
    for place in (folder, spec.home):
        with contextlib.suppress(OSError), _opened(place, FOLDER) as opened:
            os.unlink(SOCKET, dir_fd=opened)


def describe_address(spec: Spec) -> str:
    """Where a run is to listen, in words."""
    return f"port {spec.port} ($PORT)" if spec.port is not None else "its socket"


def _is_good(folder: int, uid: int, name: str = SOCKET) -> bool:
    """Whether the socket in a folder is one, of a user, that takes connections. What is looked at stays the same."""
    with contextlib.suppress(OSError), _opened(name, os.O_PATH | os.O_NOFOLLOW, folder) as found:
        seen = os.fstat(found)
        return stat.S_ISSOCK(seen.st_mode) and seen.st_uid == uid and _connects(socket.AF_UNIX, f"{MINE}/{found}")
    return False


def _find_host(port: int, uid: int) -> str | None:
    for host, (family, addresses) in HOSTS.items():
        if _connects(family, (host, port)):
            found = {user for address, user in _list_listeners(port) if address in addresses}
            if found <= {uid}:  # none where nothing can be told
                return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


def _connects(family: int, address: str | tuple[str, int]) -> bool:
    try:
        with socket.socket(family) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(address)
    except OSError:
        return False
    return True


def _list_listeners(port: int) -> Iterator[tuple[str, int]]:
    """The addresses at which somebody listens on a port, each with the user."""
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(file, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                if words[3] == LISTENING and words[1].endswith(f":{port:04X}"):
                    yield words[1].partition(":")[0], int(words[7])


@contextlib.contextmanager
def _opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    opened = os.open(path, flags, dir_fd=folder)
    try:
        yield opened
    finally:
        os.close(opened)
