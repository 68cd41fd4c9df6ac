"""The server's listening sockets stay open during restarts, and no other program can take their address."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead import socket_holder
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.runs import Run
from fairlead.socket_owners import find_owners
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_end, wait_for_output, wait_for_state
from tests.processes.machines import Machine, RunningServer

# Tries to listen on both loopback addresses all the time, and logs the requests that it receives.
HIJACKER = """
import errno, os, socket, sys
port, attempts, errors = int(sys.argv[1]), 0, set()
print("up", flush=True)
while not os.path.exists(sys.argv[2]):
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        attempts += 1
        try:
            listener.bind((address, port))
            listener.listen()
            print("caught", listener.accept()[0].recv(9999), flush=True)
        except OSError as error:
            errors.add(errno.errorcode[error.errno])
        listener.close()
print("attempts", attempts > 1000, *errors, flush=True)
"""
# Opens the sockets like systemd, and executes the rest of its arguments.
SYSTEMD = """
import os, socket, sys
for fd, address in enumerate(sys.argv[1].split(","), 3):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.create_server((address, 0), family=family)
    os.dup2(opened.detach(), fd + 10)
for fd in range(3, 3 + len(sys.argv[1].split(","))):
    os.dup2(fd + 10, fd)
    os.close(fd + 10)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sys.argv[1].split(","))))
os.execv(sys.executable, [sys.executable, "-m", "fairlead.app", *sys.argv[2:]])
"""
OTHER_VERSION = """
import socket, sys
from fairlead import socket_holder
socket_holder.GREETING = b"fairlead-sockets/0 "
opened = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
opened.bind(f"{sys.argv[1]}/holder.sock")
opened.listen()
print("up", flush=True)
while True:
    socket_holder._accept(opened, [], b"any")
"""


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server that tests may kill."""
    with execution.open_platform(machine) as opened:
        yield opened


def start_waiting(platform: Platform) -> Run:
    """Start a run that ends when the file `go` exists."""
    run = platform.shell(f"until [ -e {platform.shared}/go ]; do sleep 0.05; done")
    wait_for_state(run, "running")
    return run


def find_holders(data: Path) -> list[int]:
    """The process IDs of the holders of a data folder's sockets."""
    holders = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", name, "cmdline").read_bytes()
            folder = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        if b"fairlead.socket_holder" in arguments and folder.removesuffix(" (deleted)") == str(data):
            holders.append(int(name))
    return holders


def port_of(server: RunningServer) -> str:
    return server.url.rpartition(":")[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_run_cannot_take_the_address_during_a_restart(
    platform: Platform, machine: Machine, number: signal.Signals
) -> None:
    go, port = platform.shared / "go", port_of(platform.server)
    (platform.shared / "hijacker.py").write_text(HIJACKER)
    run = platform.shell(f"python3 {platform.shared}/hijacker.py {port} {go}")
    wait_for_output(run, "up")
    client = ApiClient(platform.server.url, platform.server.token)
    platform.server.stop(number)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(client.get, "/me")
        time.sleep(1)
        machine.up("--port", port)
        assert request.result()["user"] == "root@localhost"  # the request waited for the new server
    go.touch()
    assert wait_for_end(run)["state"] == "completed"
    assert run.logs() == "up\nattempts True EADDRINUSE\n"


@pytest.mark.smoke
def test_restarted_server_keeps_its_free_port_while_a_run_is_active(platform: Platform, machine: Machine) -> None:
    run = start_waiting(platform)
    platform.server.stop(signal.SIGKILL)
    time.sleep(2 * socket_holder.CHECK_SECONDS)
    restarted = machine.up()  # with --port 0
    assert restarted.url == platform.server.url
    (platform.shared / "go").touch()
    assert wait_for_end(run)["state"] == "completed"


def test_only_the_server_and_the_holder_have_the_sockets(platform: Platform) -> None:
    run = start_waiting(platform)
    (holder,) = find_holders(platform.server.data)
    port = int(port_of(platform.server))
    sockets = {f"socket:[{owner.inode}]" for host in ("127.0.0.1", "::1") for owner in find_owners(host, port)}
    assert len(sockets) == 2
    assert find_processes_with(sockets) == {platform.server.process.pid, holder}
    assert os.getsid(holder) == holder  # Ctrl+C in the server's terminal does not reach it
    (platform.shared / "go").touch()
    wait_for_end(run)


def find_processes_with(files: set[str]) -> set[int]:
    """The IDs of the processes that have opened one of the files."""
    owners = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) in files:
                owners.add(int(link.parts[2]))
    return owners


def test_killed_holder_is_replaced(platform: Platform, machine: Machine) -> None:
    run = start_waiting(platform)
    for _ in range(2):
        (holder,) = until(lambda: find_holders(platform.server.data))
        os.kill(holder, signal.SIGKILL)
        until(lambda: not Path("/proc", str(holder)).exists())  # noqa: B023 - called in this iteration only
    until(lambda: find_holders(platform.server.data))
    platform.server.stop(signal.SIGKILL)
    assert machine.up().url == platform.server.url
    (platform.shared / "go").touch()
    wait_for_end(run)
    assert "socket holder ended" in platform.server.process.output[1]


def test_holder_that_was_killed_without_a_server_is_replaced(platform: Platform, machine: Machine) -> None:
    run = start_waiting(platform)
    platform.server.stop(signal.SIGKILL)
    (holder,) = find_holders(platform.server.data)
    os.kill(holder, signal.SIGKILL)
    restarted = machine.up("--port", port_of(platform.server))
    assert len(until(lambda: find_holders(restarted.data))) == 1
    (platform.shared / "go").touch()
    wait_for_end(run)


def test_holder_exits_with_the_last_run(platform: Platform) -> None:
    run = start_waiting(platform)
    platform.server.stop()
    time.sleep(4 * socket_holder.CHECK_SECONDS)
    assert len(find_holders(platform.server.data)) == 1
    (platform.shared / "go").touch()
    until(lambda: not find_processes(run.id))
    until(lambda: not find_holders(platform.server.data), 5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_holder_exits_with_a_server_without_runs(machine: Machine, number: signal.Signals) -> None:
    server = machine.up()
    until(lambda: find_holders(server.data))
    server.stop(number)
    until(lambda: not find_holders(server.data), 5)


def test_holder_exits_if_the_data_folder_is_deleted(platform: Platform) -> None:
    run = start_waiting(platform)
    platform.server.stop(signal.SIGKILL)
    moved = platform.server.data.rename(platform.server.data.with_name("moved"))
    shutil.rmtree(moved / socket_holder.FOLDER)
    until(lambda: not find_holders(moved), 5)
    execution.kill_processes(run.id)


def test_different_port_is_used_instead_of_the_previous_one(platform: Platform, machine: Machine) -> None:
    run = start_waiting(platform)
    platform.server.stop()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    restarted = machine.up("--port", str(port))
    assert restarted.url == f"http://127.0.0.1:{port}"
    assert "listening address changed" in restarted.process.output[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port_of(platform.server))))
    (platform.shared / "go").touch()
    assert wait_for_end(Run(ApiClient(restarted.url, restarted.token), run.data))["state"] == "completed"


def test_holder_with_another_protocol_version_is_replaced(machine: Machine) -> None:
    folder = machine.folder / "data" / socket_holder.FOLDER
    folder.mkdir(parents=True, mode=0o700)
    other = machine.start(sys.executable, "-c", OTHER_VERSION, str(folder))
    until(lambda: "up" in other.output[0])
    server = machine.up()
    assert other.wait().code == -signal.SIGKILL
    assert "another version of the protocol" in server.process.output[1]


def test_data_folder_may_have_a_long_path(machine: Machine) -> None:
    data = machine.folder / ("long" * 30)
    server = machine.up(data=data.name)
    until(lambda: find_holders(data))
    server.stop()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_port_of_another_program_is_reported_with_its_owner(machine: Machine, address: str) -> None:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as taken:
        port = taken.getsockname()[1]
        ended = machine.app("up", "--port", str(port), "--data", "data")
    assert ended.code == 1
    assert f"cannot listen on {address}, port {port}: [Errno 98] Address already in use, by process" in ended.err
    assert f"process {os.getpid()} (" in ended.err
    assert "of user root (ID 0)" in ended.err


def start_with_systemd_sockets(machine: Machine, addresses: str, *options: str) -> RunningServer:
    """Start a server with sockets that another program opened."""
    return machine.up(*options, program=(sys.executable, "-c", SYSTEMD, addresses))


def test_sockets_from_systemd_are_used_without_a_holder(machine: Machine) -> None:
    server = start_with_systemd_sockets(machine, "127.0.0.1")
    with server.client() as client:
        assert client.get("/me").status_code == 200
    assert find_holders(server.data) == []
    assert "add ListenStream=[::1]:" in server.process.output[1]


def test_sockets_from_systemd_must_match_the_authentication(machine: Machine) -> None:
    options: list[Any] = [sys.executable, "-c", SYSTEMD, "0.0.0.0", "up", "--data", "data"]
    ended = machine.start(*options).wait()
    assert ended.code == 1
    assert "systemd passed a socket that other machines can reach, but auth is local" in ended.err
