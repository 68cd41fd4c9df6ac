"""Limits for client connections, and the table of open connections that enforces the maximum number.

If the table is full, a new connection replaces the oldest one that has no complete request, so that slow or idle
clients cannot make the server unreachable.
"""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Protocol

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RESERVED_FILES = 128  # for the database, logs, listeners and local runs
MIN_CONNECTIONS, MAX_CONNECTIONS = 16, 8192
# A request whose body has not grown, or whose response the client has not read, for this long can make room.
STALLED_SECONDS = 5.0
SCANNED_CONNECTIONS = 16  # per stage; bounds the time that admitting a connection takes
SWEEP_SECONDS = 1.0
IPV6_CLIENT_PREFIX = 64  # a site usually has at least one such network, so its addresses count as one client


class Stage(Enum):
    """The part of a request or response that a connection waits for."""

    HEAD = "head"  # the rest of a request head, or the first byte of a new connection
    IDLE = "idle"  # another request on a kept-alive connection
    BODY = "body"  # the rest of a request body
    BLOCKED = "blocked"  # the client to read the response
    BUSY = "busy"  # the response, or WebSocket messages


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits for connections and requests. Sizes are in bytes."""

    total: int = MAX_CONNECTIONS
    head_size: int = 64 * 1024
    header_count: int = 100
    url_length: int = 16 * 1024
    pipelined: int = 16  # requests that wait for the response to an earlier one on the same connection
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    body_size: int = 1024  # the minimum size to receive in each period of `body_seconds`
    # How long a client may accept no data. The kernel enforces this, even for WebSockets and closing connections.
    write_seconds: float = 60.0
    linger_seconds: float = 1.0  # after a rejection, so that the client can read the response before a reset
    trusted_proxies: tuple[Network, ...] = ()

    @classmethod
    def for_files(cls, files: int, total: int | None, proxies: tuple[str, ...]) -> "ConnectionLimits":
        """The limits for a process that may open `files` files."""
        # A request to a served run needs a second connection.
        available = max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, (files - RESERVED_FILES) // 2))
        networks = tuple(ipaddress.ip_network(proxy) for proxy in proxies)
        return cls(total=min(total or available, available), trusted_proxies=networks)

    def limit_for(self, client: str) -> int:
        """The maximum number of connections for one client."""
        if client == "proxy":
            return self.total
        # All users of this machine share the loopback address, so it gets all but a reserve for other machines.
        return self.total * 3 // 4 if client == "loopback" else max(MIN_CONNECTIONS, self.total // 4)

    def client_of(self, address: str) -> str:
        """The client that an address counts as: an address, a network, "loopback" or "proxy"."""
        return _client_of(address, self.trusted_proxies)


@lru_cache(maxsize=4096)
def _client_of(address: str, proxies: tuple[Network, ...]) -> str:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # not TCP
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    if any(parsed in network for network in proxies):
        return "proxy"
    if parsed.is_loopback:
        return "loopback"
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, IPV6_CLIENT_PREFIX), strict=False))


class ClientConnection(Protocol):
    """An open connection."""

    def evict(self) -> None:
        """Close the connection to make room for another one."""

    def check_deadline(self, now: float) -> None:
        """Close the connection if the client is too slow."""

    def is_stalled(self, now: float) -> bool:
        """Whether the request body has not grown, or the client has not read the response, for a while."""


@dataclass
class _Connections:
    """Connections by stage. In each stage, the one that entered it first comes first."""

    # OrderedDict, because finding the first entry of a plain dictionary takes longer after deletions.
    stages: dict[Stage, OrderedDict[ClientConnection, None]] = field(
        default_factory=lambda: {stage: OrderedDict() for stage in Stage}
    )

    def __len__(self) -> int:
        return sum(map(len, self.stages.values()))

    def find_victim(self, now: float) -> ClientConnection | None:
        """The connection to close if there are too many, or None if all are in use."""
        for stage in (Stage.HEAD, Stage.IDLE):
            if self.stages[stage]:
                return next(iter(self.stages[stage]))
        for stage in (Stage.BODY, Stage.BLOCKED):
            for connection in islice(self.stages[stage], SCANNED_CONNECTIONS):
                if connection.is_stalled(now):
                    return connection
        return None


class ConnectionTable:
    """All open connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all = _Connections()
        self._clients: dict[str, _Connections] = {}
        self._entries: dict[ClientConnection, tuple[str, Stage]] = {}
        self._is_swept = False

    def __len__(self) -> int:
        return len(self._entries)

    def admit(self, connection: ClientConnection, address: str, now: float) -> bool:
        """Add a connection, if necessary in place of another one. Returns False if all others are in use."""
        client = self.limits.client_of(address)
        own = self._clients.get(client)
        if own is not None and len(own) >= self.limits.limit_for(client) and not self._make_room(own, now):
            return False
        if len(self._entries) >= self.limits.total and not self._make_room(self._all, now):
            return False
        self._entries[connection] = client, Stage.HEAD
        for group in self._groups(client):
            group.stages[Stage.HEAD][connection] = None
        return True

    def move(self, connection: ClientConnection, stage: Stage) -> None:
        """Record that a connection entered a stage, even if it was in the same stage before."""
        if connection not in self._entries:
            return
        client, before = self._entries[connection]
        self._entries[connection] = client, stage
        for group in self._groups(client):
            del group.stages[before][connection]
            group.stages[stage][connection] = None

    def remove(self, connection: ClientConnection) -> None:
        """Remove a closed connection."""
        client, stage = self._entries.pop(connection, ("", None))
        if stage is None:
            return
        for group in self._groups(client):
            del group.stages[stage][connection]
        if not len(self._clients[client]):
            del self._clients[client]

    def start_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check deadlines every second until the table is empty."""
        if not self._is_swept:
            self._is_swept = True
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_swept = False
        for stage in (Stage.HEAD, Stage.BODY):
            for connection in list(self._all.stages[stage]):
                connection.check_deadline(loop.time())
        if self._entries:
            self.start_sweep(loop)

    def _groups(self, client: str) -> Iterator[_Connections]:
        yield self._all
        yield self._clients.setdefault(client, _Connections())

    def _make_room(self, group: _Connections, now: float) -> bool:
        victim = group.find_victim(now)
        if victim is None:
            return False
        # Removed at once, because its connection_lost() is called later.
        self.remove(victim)
        victim.evict()
        return True
