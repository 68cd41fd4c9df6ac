"""A client sends no token to a listener on this machine that belongs to another user."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairlead.errors import FairleadError, Unavailable, Unreadable
from fairlead.sdk import server_identity
from fairlead.sdk.api_client import ApiClient
from fairlead.socket_owners import find_owners

PERSON, SERVICE = 1_234, 33
# Accepts one connection, prints the bytes that it receives, and closes it.
PROGRAM = """
import socket, sys
address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
listener = socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::")
print(listener.getsockname()[1], flush=True)
while True:
    with listener.accept()[0] as connection:
        print(connection.recv(9999), flush=True)
"""


class Impostor:
    """A program of another user that listens on a free port."""

    def __init__(self, uid: int, address: str) -> None:
        change_user = [] if uid == os.getuid() else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        program = [*change_user, "/usr/bin/env", "python3", "-c", PROGRAM, address]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd="/")
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.port = int(self.output.readline())

    def close(self) -> None:
        """Stop the program."""
        self.process.kill()
        self.process.wait()
        self.output.close()


@pytest.fixture
def service() -> Iterator[Impostor]:
    """A listener of a system account."""
    with start(SERVICE, "127.0.0.1") as listener:
        yield listener


@contextlib.contextmanager
def start(uid: int, address: str) -> Iterator[Impostor]:
    """Start a listener of another user."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can be another user")
    with contextlib.closing(Impostor(uid, address)) as impostor:
        yield impostor


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "[::1]"),
        ("::", "127.0.0.1"),  # an IPv6 socket that also receives IPv4 connections
        ("::", "[::1]"),
    ],
)
def test_no_token_is_sent_to_another_users_program(address: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(server_identity.SERVER_USER, raising=False)
    with start(PERSON, address) as person:
        with pytest.raises(FairleadError, match=rf"user ID {PERSON} listens on .*; no token was sent"):
            ApiClient(f"http://{host}:{person.port}", "secret").get("/me")
        assert person.output.readline() == "b''\n"


def test_user_of_the_server_can_be_configured(service: Impostor, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ApiClient(f"http://127.0.0.1:{service.port}", "secret")
    monkeypatch.setenv(server_identity.SERVER_USER, "root")
    with pytest.raises(FairleadError, match=r"FAIRLEAD_SERVER_USER is root; no token was sent"):
        client.get("/me")
    assert service.output.readline() == "b''\n"
    monkeypatch.setenv(server_identity.SERVER_USER, str(SERVICE))
    with pytest.raises(Unavailable, match="no response"):
        client.get("/me")
    assert "Bearer secret" in service.output.readline()


def test_system_accounts_are_accepted_for_configured_servers_only(service: Impostor, tmp_path: Path) -> None:
    server_identity.check_owner("127.0.0.1", service.port, None, {})
    with pytest.raises(FairleadError, match="no token was sent"):
        server_identity.check_owner("127.0.0.1", service.port, tmp_path, {})
    os.chown(tmp_path, SERVICE, SERVICE)
    server_identity.check_owner("127.0.0.1", service.port, tmp_path, {})


def test_unknown_user_is_reported(service: Impostor) -> None:
    with pytest.raises(Unreadable, match="FAIRLEAD_SERVER_USER is 'no-such-user', which is not a user"):
        server_identity.check_owner("127.0.0.1", service.port, None, {"FAIRLEAD_SERVER_USER": "no-such-user"})


def test_own_listeners_and_addresses_without_a_listener_are_accepted() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "0.0.0.0")):
        with socket.create_server((address, 0), family=family) as listener:
            port = listener.getsockname()[1]
            target = "127.0.0.1" if address == "0.0.0.0" else address
            assert [owner.uid for owner in find_owners(target, port)] == [os.getuid()]
            server_identity.check_owner(target, port, None, {})
        assert find_owners(target, port) == []
        server_identity.check_owner(target, port, None, {})


def test_only_new_connections_within_this_machine_are_checked(service: Impostor, tmp_path: Path) -> None:
    addresses = {"server_addr": ("127.0.0.1", service.port), "client_addr": ("127.0.0.1", 1)}
    stream = SimpleNamespace(get_extra_info=addresses.get, close=lambda: None)
    verifier = server_identity.Verifier(tmp_path, {})
    verifier("http11.send_request_headers.started", {})
    with pytest.raises(FairleadError):
        verifier("connection.connect_tcp.complete", {"return_value": stream})
    addresses |= {"server_addr": ("192.0.2.1", service.port), "client_addr": ("192.0.2.2", 1)}
    verifier("connection.connect_tcp.complete", {"return_value": stream})
    addresses["client_addr"] = ("192.0.2.1", 1)
    verifier("connection.connect_tcp.complete", {"return_value": stream})  # on this machine, but without a listener
