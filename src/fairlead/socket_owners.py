"""Finds out which user and which process listen on a local TCP port. Used by the server and by its clients.

A client checks the owner before it sends a token, because any user of the machine can listen on a free port.
"""

import contextlib
import ipaddress
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LISTEN, SYN_RECV = "0A", "03"  # states in the kernel's tables
WORD = 8  # hexadecimal digits per 32-bit word of an address


class SocketOwner(NamedTuple):
    """The user and the inode of a listening socket."""

    uid: int
    inode: int


def find_owners(address: str, port: int) -> list[SocketOwner]:
    """The owners of the sockets that receive connections to a local address; empty if /proc/net lists none."""
    target = ipaddress.ip_address(address.partition("%")[0])
    sockets = list(_read_table("tcp", port))
    # An IPv6 socket also receives IPv4 connections, but only if no IPv4 socket listens on the port.
    if target.version == 6 or not any(_receives(bound, target) for bound, _ in sockets):
        sockets = list(_read_table("tcp6", port))
    exact = [owner for bound, owner in sockets if _unmap(bound) == _unmap(target)]
    return exact or [owner for bound, owner in sockets if bound.is_unspecified]


def name_user(uid: int) -> str:
    """A user's name and ID for messages."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name} (ID {uid})"
    except KeyError:
        return f"user ID {uid}"


def describe_owner(owner: SocketOwner) -> str:
    """The user, and the process if the current user may see it."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(entry.path) == f"socket:[{owner.inode}]" for entry in os.scandir(folder / "fd")):
                name = (folder / "comm").read_text("utf-8", "replace").strip()
                return f"process {folder.name} ({name}) of {name_user(owner.uid)}"
    return f"a process of {name_user(owner.uid)}"


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _receives(bound: Address, target: Address) -> bool:
    return bound.is_unspecified or bound == target


def _unmap(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _read_table(table: str, port: int) -> Iterator[tuple[Address, SocketOwner]]:
    """The sockets that listen on a port, from a kernel's table of sockets."""
    ending = f":{port:04X}"
    # Other systems have no such table. A network namespace without IPv6 has no tcp6.
    with contextlib.suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as lines:
        next(lines, "")  # sl local_address rem_address st tx:rx tr:when retransmits uid timeout inode
        for line in lines:
            fields = line.split(maxsplit=10)
            # Stop after the listening sockets, which come first: reading thousands of connections takes 10 ms.
            if fields[3] not in (LISTEN, SYN_RECV):
                return
            if fields[3] == LISTEN and fields[1].endswith(ending):
                yield _parse_address(fields[1].removesuffix(ending)), SocketOwner(int(fields[7]), int(fields[9]))


def _parse_address(digits: str) -> Address:
    # Each word is printed as a number in the machine's byte order.
    words = [int(digits[start : start + WORD], 16) for start in range(0, len(digits), WORD)]
    return ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
