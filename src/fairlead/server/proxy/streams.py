"""Byte streams to runs: plain sockets, and asyncio streams for TLS.

An asyncio stream discards received data when a write fails. A plain socket does not: if a run rejects a large upload
early and closes the connection, its response can still be read.
"""

import asyncio
import contextlib
import socket
from typing import Protocol
from urllib.parse import urlsplit

from fairlead.model.runs import Endpoint

CHUNK_BYTES = 64 * 1024


class Stream(Protocol):
    """A connection to a run. Reading and writing raise OSError if it is lost."""

    async def read(self) -> bytes:
        """Return received bytes, or empty bytes at the end of the stream."""

    async def write(self, data: bytes) -> None:
        """Send bytes, with backpressure."""

    @property
    def is_gone(self) -> bool:
        """Whether the other side closed an idle connection or sent unexpected data on it."""

    def close(self) -> None:
        """Close the connection."""


class SocketStream(Stream):
    """A stream over a plain socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._loop = connected, asyncio.get_running_loop()

    async def read(self) -> bytes:
        return await self._loop.sock_recv(self._socket, CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    @property
    def is_gone(self) -> bool:
        """Whether there is data or an error: an idle connection has nothing to read."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self._socket.close()


class TlsStream(Stream):
    """A stream over TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    @property
    def is_gone(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        # Without the abort, close() would wait until the other side has received all buffered data.
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()
        self._writer.close()


async def connect(endpoint: Endpoint) -> Stream:
    """Connect to a run. Raises OSError if the connection fails."""
    parts = urlsplit(endpoint.url)
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    if parts.scheme == "https":
        connection = asyncio.open_connection(
            host, port, ssl=endpoint.verify or True, server_hostname=endpoint.server_name
        )
        return TlsStream(*await connection)
    if endpoint.socket is not None:
        return SocketStream(await _connect_socket(socket.AF_UNIX, endpoint.socket))
    # A name can have several addresses, for example for IPv6 and IPv4. If all fail, the last error is raised.
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return SocketStream(await _connect_socket(family, address))
    return SocketStream(await _connect_socket(addresses[-1][0], addresses[-1][4]))


async def _connect_socket(family: int, address: object) -> socket.socket:
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        if family != socket.AF_UNIX:
            # Without TCP_NODELAY, small WebSocket messages would wait until previous ones are acknowledged.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Without keepalive, an idle connection to a machine that disappeared would stay open forever.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(connected, address)  # type: ignore[arg-type]
    except BaseException:  # includes cancellation of the task
        connected.close()
        raise
    return connected
