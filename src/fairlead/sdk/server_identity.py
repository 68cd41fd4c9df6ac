"""Checks which user owns a server on this machine, before a token is sent to it.

While a server is stopped, any program of another user can listen on its port. Runs have user IDs of their own if the
server is started as root, so this also finds a run that poses as the server.
"""

import ipaddress
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.errors import FairleadError, Unreadable
from fairlead.socket_owners import find_owners, name_user

SERVER_USER = "FAIRLEAD_SERVER_USER"
ROOT = 0
MAX_SYSTEM_UID = 999  # accounts of services have lower IDs than those of people and runs (SYS_UID_MAX)


class Verifier:
    """A trace callback for the HTTP library that checks new connections before the request is sent."""

    def __init__(self, data: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._data, self._environment = data, environment

    def __call__(self, event: str, details: Mapping[str, Any]) -> None:
        """Check a connection as soon as it exists."""
        if event != "connection.connect_tcp.complete":
            return
        stream = details["return_value"]
        host, port, *_ = stream.get_extra_info("server_addr")
        own_host, *_ = stream.get_extra_info("client_addr")
        # Both ends of a connection within this machine have the same address, even if it is not a loopback address.
        if own_host != host and not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            return
        try:
            check_owner(host, port, self._data, self._environment)
        except FairleadError:
            stream.close()
            raise


def check_owner(host: str, port: int, data: Path | None, environment: Mapping[str, str]) -> None:
    """Refuse a local address whose listener belongs to another user. `data` is the folder of the local server."""
    # Without an entry, the listener is in another network namespace: only an administrator can redirect the address.
    for owner in find_owners(host, port):
        if not _is_accepted(owner.uid, data, environment):
            expected = environment.get(SERVER_USER)
            wanted = f"{SERVER_USER} is {expected}" if expected else "your server does not run as that user"
            raise FairleadError(
                f"a program of {name_user(owner.uid)} listens on {host}, port {port}, but {wanted}; no token was sent",
                f"start your server again, or set {SERVER_USER} to the user that your server runs as",
            )


def _is_accepted(uid: int, data: Path | None, environment: Mapping[str, str]) -> bool:
    if expected := environment.get(SERVER_USER):
        return uid in (ROOT, _find_uid(expected))  # root can take over the address of any user
    if uid in (ROOT, os.getuid()):
        return True
    # The user who owns the data folder started the local server. Other servers are often started by system accounts.
    return uid <= MAX_SYSTEM_UID if data is None else uid == data.stat().st_uid


def _find_uid(user: str) -> int:
    try:
        return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise Unreadable(
            f"{SERVER_USER} is {user!r}, which is not a user of this machine", "correct the name"
        ) from None
