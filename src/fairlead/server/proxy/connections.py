"""Connections to runs: so many to each at most, kept for a moment in case they are needed again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h11

from fairlead.errors import Unavailable
from fairlead.model.observations import Endpoint
from fairlead.server.proxy import streams
from fairlead.server.proxy.streams import Stream

MOST = 128  # to one run at once, of requests and WebSockets together
WAIT_SECONDS = 10.0  # for one of those to be free
CONNECT_SECONDS = 10.0
# Servers close what nobody uses, few of them within two seconds: later, a request might meet a closed door.
IDLE_SECONDS = 1.0
LARGEST_HEAD = 128 * 1024


class UpstreamError(Exception):
    """A run ended a connection in the middle, or said something that is no HTTP."""


class RunConnection:
    """One connection to a run, in the words of HTTP/1.1."""

    def __init__(self, line: Stream) -> None:
        self.line = line
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self.uses = 0

    async def send(self, event: h11.Event) -> None:
        """Send part of a request, as soon as the run takes it. Raise OSError where it does not any more."""
        if data := self.http.send(event):
            await self.line.write(data)

    async def read(self) -> bytes:
        """Bytes that the run sent; none at the end."""
        try:
            return await self.line.read()
        except OSError as error:
            raise UpstreamError(str(error) or type(error).__name__) from error

    async def receive(self) -> h11.Event:
        """The next part of an answer."""
        while True:
            try:
                event = self.http.next_event()
                if event is h11.NEED_DATA:
                    data = await self.read()
                    if not data and self.http.their_state is h11.SEND_RESPONSE:
                        raise UpstreamError("it closed the connection without an answer")
                    self.http.receive_data(data)
                elif isinstance(event, h11.Event):
                    return event
                else:
                    raise UpstreamError("it speaks another protocol all of a sudden")
            except h11.RemoteProtocolError as error:
                raise UpstreamError(str(error)) from error

    async def receive_head(self) -> h11.Response | h11.InformationalResponse:
        """How an answer begins. What comes before it, such as early hints, is left out."""
        while True:
            event = await self.receive()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                return event

    def begin_anew(self) -> bool:
        """Whether it can take another request, which is then prepared for."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE or self.http.trailing_data[0]:
            return False
        self.http.start_next_cycle()
        return True


@dataclass
class _Pool:
    """The connections to one run."""

    free: asyncio.Semaphore
    users: int = 0
    idle: list[tuple[RunConnection, Endpoint, asyncio.TimerHandle]] = field(default_factory=list)


class ConnectionPool:
    """The connections to all runs, of one event loop."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._pools: dict[str, _Pool] = {}

    @contextlib.asynccontextmanager
    async def to(self, run_id: str, endpoint: Endpoint, *, fresh: bool = False) -> AsyncIterator[RunConnection]:
        """A connection to a run for one exchange: one that is there already, unless a fresh one is asked for.

        Raise `Unavailable` where the run does not take it, or has too many.
        """
        pool = self._pools.setdefault(run_id, _Pool(asyncio.Semaphore(self.most)))
        pool.users += 1
        try:
            async with self._place(pool, run_id):
                found = None if fresh else self._take(pool, endpoint)
                connection = found or await connect(run_id, endpoint)
                connection.uses += 1
                try:
                    yield connection
                finally:
                    self._leave(run_id, pool, connection, endpoint)
        finally:
            pool.users -= 1
            self._forget(run_id, pool)

    def close(self) -> None:
        """Close what is idle."""
        for pool in self._pools.values():
            for connection, _, timer in pool.idle:
                timer.cancel()
                connection.line.close()
            pool.idle.clear()

    @contextlib.asynccontextmanager
    async def _place(self, pool: _Pool, run_id: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await pool.free.acquire()
        except TimeoutError:
            message = f"run {run_id} has {self.most} requests underway, and ends none of them"
            raise Unavailable(message, "ask again later, or give it more replicas") from None
        try:
            yield
        finally:
            pool.free.release()

    def _take(self, pool: _Pool, endpoint: Endpoint) -> RunConnection | None:
        while pool.idle:
            connection, of, timer = pool.idle.pop()
            timer.cancel()
            if (of.url, of.socket) == (endpoint.url, endpoint.socket) and not connection.line.is_gone:
                return connection
            connection.line.close()
        return None

    def _leave(self, run_id: str, pool: _Pool, connection: RunConnection, endpoint: Endpoint) -> None:
        if not connection.begin_anew():
            connection.line.close()
            return

        def expire() -> None:
            pool.idle.remove(kept)
            connection.line.close()
            self._forget(run_id, pool)

        kept = (connection, endpoint, asyncio.get_running_loop().call_later(IDLE_SECONDS, expire))
        pool.idle.append(kept)

    def _forget(self, run_id: str, pool: _Pool) -> None:
        """Keep nothing of a run that nobody speaks to."""
        if not pool.users and not pool.idle and self._pools.get(run_id) is pool:
            del self._pools[run_id]


async def connect(run_id: str, endpoint: Endpoint) -> RunConnection:
    """A new connection to a run."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return RunConnection(await streams.connect(endpoint))
    except (OSError, TimeoutError) as error:  # a certificate that is not believed is an OSError, too
        why = str(error) or type(error).__name__
        raise Unavailable(f"run {run_id} takes no connection: {why}", "try again in a moment", 2) from error
