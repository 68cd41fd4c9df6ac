"""Byte streams and a connection pool for runs: a limited number of HTTP/1.1 connections per run, reused while idle."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import h11

from fairlead.errors import Unavailable
from fairlead.model.runs import Endpoint

CHUNK_BYTES = 64 * 1024

# Limits the file descriptors that a slow run can occupy.
MAX_PER_RUN = 128  # requests and WebSockets together
WAIT_SECONDS = 10.0  # for a free connection
CONNECT_SECONDS = 10.0
# Most servers close idle connections after two seconds or more. A longer time here would risk sending requests on
# connections that are just being closed.
IDLE_SECONDS = 1.0
MAX_INFORMATIONAL = 100  # responses before the final one
MAX_HEAD_BYTES = 128 * 1024  # of a response, because h11 buffers an incomplete head in memory


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


async def open_stream(endpoint: Endpoint) -> Stream:
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


class UpstreamError(Exception):
    """A run closed a connection early or sent invalid HTTP."""


class RunConnection:
    """An HTTP/1.1 connection to a run."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.requests = 0  # the first is never retried, because the run cannot have closed a new connection as idle

    async def send(self, event: h11.Event) -> None:
        """Send part of a request, with backpressure. Raises OSError if the connection is lost."""
        if data := self.http.send(event):
            await self.stream.write(data)

    async def read(self) -> bytes:
        """Return received bytes, or empty bytes at the end of the stream."""
        try:
            return await self.stream.read()
        except OSError as error:
            raise UpstreamError(str(error) or type(error).__name__) from error

    async def receive(self) -> h11.Event:
        """The next event of a response."""
        while True:
            try:
                event = self.http.next_event()
                if event is h11.NEED_DATA:
                    data = await self.read()
                    # h11 would report its internal states instead of the cause.
                    if not data and self.http.their_state is h11.SEND_RESPONSE:
                        raise UpstreamError("the run closed the connection without a response")
                    self.http.receive_data(data)
                elif isinstance(event, h11.Event):
                    return event
                else:
                    raise UpstreamError("the run switched to another protocol")
            except h11.RemoteProtocolError as error:
                raise UpstreamError(str(error)) from error

    async def receive_head(self) -> h11.Response | h11.InformationalResponse:
        """The head of a response. Informational responses other than 101, such as early hints, are skipped."""
        for _ in range(MAX_INFORMATIONAL):
            event = await self.receive()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                return event
        raise UpstreamError(f"more than {MAX_INFORMATIONAL} informational responses")

    def reset(self) -> bool:
        """Prepare the connection for another request. Returns False if it cannot be reused."""
        # Trailing data would become the start of the next response, which may be for another user.
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE or self.http.trailing_data[0]:
            return False
        self.http.start_next_cycle()
        return True


@dataclass
class _RunPool:
    """The connections to one run."""

    slots: asyncio.Semaphore
    users: int = 0  # requests that have a connection or are waiting for one
    idle: list[tuple[RunConnection, Endpoint, asyncio.TimerHandle]] = field(default_factory=list)


class ConnectionPool:
    """The connections to all runs. Belongs to one event loop."""

    def __init__(self, max_per_run: int = MAX_PER_RUN) -> None:
        self.max_per_run = max_per_run
        self._pools: dict[str, _RunPool] = {}

    @contextlib.asynccontextmanager
    async def to(self, run_id: str, endpoint: Endpoint, *, fresh: bool = False) -> AsyncIterator[RunConnection]:
        """A connection to a run for one request: an idle one, or a new one if `fresh`.

        Raises `Unavailable` if the run does not accept the connection or has too many.
        """
        pool = self._pools.setdefault(run_id, _RunPool(asyncio.Semaphore(self.max_per_run)))
        pool.users += 1
        try:
            async with self._slot(pool, run_id):
                idle = None if fresh else self._take(pool, endpoint)
                connection = idle or await connect_to_run(run_id, endpoint)
                connection.requests += 1
                try:
                    yield connection
                finally:
                    self._release(run_id, pool, connection, endpoint)
        finally:
            pool.users -= 1
            self._drop_if_unused(run_id, pool)

    def close(self) -> None:
        """Close idle connections."""
        for pool in self._pools.values():
            for connection, _, timer in pool.idle:
                timer.cancel()
                connection.stream.close()
            pool.idle.clear()

    @contextlib.asynccontextmanager
    async def _slot(self, pool: _RunPool, run_id: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await pool.slots.acquire()
        except TimeoutError:
            message = f"run {run_id} already has {self.max_per_run} requests in progress"
            raise Unavailable(message, "try again later, or increase its replicas") from None
        try:
            yield
        finally:
            pool.slots.release()

    def _take(self, pool: _RunPool, endpoint: Endpoint) -> RunConnection | None:
        while pool.idle:
            # The last one has been idle for the shortest time, so the run is least likely to have closed it.
            connection, idle_endpoint, timer = pool.idle.pop()
            timer.cancel()
            # A new attempt has a different endpoint.
            is_same = (idle_endpoint.url, idle_endpoint.socket) == (endpoint.url, endpoint.socket)
            if is_same and not connection.stream.is_gone:
                return connection
            connection.stream.close()
        return None

    def _release(self, run_id: str, pool: _RunPool, connection: RunConnection, endpoint: Endpoint) -> None:
        if not connection.reset():
            connection.stream.close()
            return

        def expire() -> None:
            pool.idle.remove(entry)
            connection.stream.close()
            self._drop_if_unused(run_id, pool)

        entry = (connection, endpoint, asyncio.get_running_loop().call_later(IDLE_SECONDS, expire))
        pool.idle.append(entry)

    def _drop_if_unused(self, run_id: str, pool: _RunPool) -> None:
        if not pool.users and not pool.idle and self._pools.get(run_id) is pool:
            del self._pools[run_id]


async def connect_to_run(run_id: str, endpoint: Endpoint) -> RunConnection:
    """Open a new connection to a run. Raises `Unavailable` if that fails."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return RunConnection(await open_stream(endpoint))
    except (OSError, TimeoutError) as error:  # including an untrusted certificate
        reason = str(error) or type(error).__name__
        raise Unavailable(f"cannot connect to run {run_id}: {reason}", "try again in a moment", 2) from error
