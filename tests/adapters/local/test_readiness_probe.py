"""Readiness probe of served runs: only sockets and ports of the run itself count."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local import machines, supervisor
from fairlead.adapters.local.specs import SOCKET, Spec, UserMapping
from fairlead.errors import Unavailable
from tests.adapters.local.making import make_launch_spec

OTHER_UID = 54_321
HOSTS = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "[::1]", "::": "127.0.0.1"}
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")


def make_spec(home: Path, port: int | None = None, uid: int | None = None, **fields: Any) -> Spec:
    """The spec of a served run."""
    identity = UserMapping(1000, 1000, outer_uid=uid)
    return Spec("r1", "id-forest", "t-r1", "b1", [], {}, "/", str(home), identity, serves=True, port=port, **fields)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run's home folder. Its path is longer than a socket address may be."""
    folder = tmp_path / ("long" * 30) / "home"
    folder.mkdir(parents=True)
    return folder


@contextlib.contextmanager
def opened(folder: Path, *, listens: bool = True) -> Iterator[None]:
    """A socket in a folder."""
    folder_fd = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder_fd}/{SOCKET}")
        if listens:
            server.listen()
        yield
    os.close(folder_fd)


def find(home: Path, **fields: Any) -> str | None:
    return supervisor.find_address(make_spec(home, **fields), home.parent)


def test_listening_socket_is_moved_out_of_reach_of_the_run(home: Path) -> None:
    with opened(home):
        assert find(home) == SOCKET
        assert os.listdir(home) == []
        assert find(home) == SOCKET, "each probe finds it"
    assert find(home) is None, "its process has ended"


def test_socket_that_does_not_listen_yet_is_left_in_place(home: Path) -> None:
    """The socket's creator may still change the mode by path."""
    with opened(home, listens=False):
        assert find(home) is None
        assert os.listdir(home) == [SOCKET]


def test_socket_of_a_restarted_process_replaces_the_old_one(home: Path) -> None:
    with opened(home):
        assert find(home) == SOCKET
    with opened(home):
        assert find(home) == SOCKET
    supervisor.remove_socket(make_spec(home), home.parent)
    assert (os.listdir(home), os.listdir(home.parent)) == ([], ["home"])


def test_symlink_to_another_socket_is_not_followed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with opened(elsewhere):
        (home / SOCKET).symlink_to(elsewhere / SOCKET)
        assert find(home) is None
        (home.parent / SOCKET).symlink_to(elsewhere / SOCKET)
        assert find(home) is None


@needs_root
def test_socket_of_another_user_is_ignored(home: Path) -> None:
    with opened(home):
        assert find(home, uid=OTHER_UID) is None
        os.chown(home / SOCKET, OTHER_UID, OTHER_UID)
        assert find(home, uid=OTHER_UID) == SOCKET
        assert find(home) is None


@pytest.mark.parametrize("create", [Path.touch, Path.mkdir, os.mkfifo], ids=["file", "folder", "pipe"])
def test_file_that_is_not_a_socket_is_ignored(home: Path, create: Callable[[Path], None]) -> None:
    create(home / SOCKET)
    assert find(home) is None


@pytest.mark.parametrize("host", HOSTS)
def test_port_is_found_on_any_local_address(home: Path, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as server:
        port = server.getsockname()[1]
        assert find(home, port=port) == f"{HOSTS[host]}:{port}"
    assert find(home, port=port) is None


@needs_root
def test_port_of_another_user_is_ignored(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert find(home, port=server.getsockname()[1], uid=OTHER_UID) is None


# Ports, chosen by the server or requested


def test_run_without_a_port_gets_a_free_port(tmp_path: Path) -> None:
    first = machines.choose_port(make_launch_spec("r1"), None, [])
    assert machines.FIRST_PORT <= first < machines.FIRST_PORT + machines.PORTS
    taken = make_spec(tmp_path, port=first)
    second = machines.choose_port(make_launch_spec("r1"), None, [taken])
    assert second != first
    with socket.create_server(("127.0.0.1", second)):
        assert machines.choose_port(make_launch_spec("r1"), None, [taken]) not in (first, second)


def test_requested_port_is_assigned_or_reported_as_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(Unavailable, match=f"^port {port} on this machine is in use by another program$"):
            machines.choose_port(make_launch_spec("r2"), port, [])
    assert machines.choose_port(make_launch_spec("r2"), port, []) == port
    with pytest.raises(Unavailable, match=r"is in use by run r1$"):
        machines.choose_port(make_launch_spec("r2"), port, [make_spec(tmp_path, port=port)])
    with pytest.raises(Unavailable, match=r"is in use by another run$"):  # from another project
        machines.choose_port(make_launch_spec("r2", project="meadow"), port, [make_spec(tmp_path, port=port)])
