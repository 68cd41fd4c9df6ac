"""Lines to runs: plain sockets, and streams where TLS is spoken.

A stream that fails to write drops what has arrived. On a socket it is read all the same: a run that refuses a large
upload early and hangs up is heard.
"""

import asyncio
import contextlib
import socket
from typing import Protocol
from urllib.parse import urlsplit

from fairlead.model.observations import Endpoint

AT_ONCE = 64 * 1024


class Stream(Protocol):
    """A line to a run. Reading and writing raise OSError where it is cut."""

    async def read(self) -> bytes:
        """Bytes that have arrived; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, as fast as they are taken."""

    @property
    def is_gone(self) -> bool:
        """Whether the other side has hung up, or has said something that nobody asked for."""

    def close(self) -> None:
        """Hang up."""


class SocketStream:
    """A plain socket."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket, self._loop = opened, asyncio.get_running_loop()

    async def read(self) -> bytes:
        """Bytes that have arrived."""
        return await self._loop.sock_recv(self._socket, AT_ONCE)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self._loop.sock_sendall(self._socket, data)

    @property
    def is_gone(self) -> bool:
        """Whether there is something to read: nobody waits for anything on an idle line."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class TlsStream:
    """A stream, encrypted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """Bytes that have arrived."""
        return await self._reader.read(AT_ONCE)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    @property
    def is_gone(self) -> bool:
        """Whether the other side has hung up."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Hang up, and wait for nobody to take what is left to be sent."""
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()
        self._writer.close()


async def connect(endpoint: Endpoint) -> Stream:
    """A line to a run. Raise OSError where nobody takes the call."""
    parts = urlsplit(endpoint.url)
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    if parts.scheme == "https":
        opening = asyncio.open_connection(host, port, ssl=endpoint.verify or True, server_hostname=endpoint.server_name)
        return TlsStream(*await opening)
    if endpoint.socket is not None:
        return SocketStream(await _call(socket.AF_UNIX, endpoint.socket))
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in found[:-1]:
        with contextlib.suppress(OSError):
            return SocketStream(await _call(family, address))
    return SocketStream(await _call(found[-1][0], found[-1][4]))


async def _call(family: int, address: object) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        if family != socket.AF_UNIX:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A machine that is gone says nothing: without this, a silent stream to it would last for ever.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(opened, address)  # type: ignore[arg-type]
    except BaseException:
        opened.close()
        raise
    return opened
