"""The server's HTTP and WebSocket protocols: uvicorn's, with limits for requests and connections, and deadlines."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from fairlead.server.http.connection_limits import STALLED_SECONDS, ConnectionTable, Stage
from fairlead.server.http.middleware import add_headers
from fairlead.server.http.problem_details import Problem, render_known

PART_BYTES = 16 * 1024  # data is parsed in parts, so that a limit applies before the rest is parsed
DISCARDED_BYTES = 1024 * 1024  # how much of a rejected request is read before the connection is reset
# Bytes that chunked encoding may add per chunk, in addition to twice the size of its data, as in Go's net/http.
CHUNK_OVERHEAD = 16
RETRY_SECONDS = 5

log = structlog.get_logger()


class LimitedHttpProtocol(HttpToolsProtocol):
    """One HTTP connection. Rejects a request that exceeds a limit while it is being received."""

    def __init__(self, *args: Any, table: ConnectionTable, **options: Any) -> None:
        super().__init__(*args, **options)
        self._table, self._limits = table, table.limits
        self._stage, self._since = Stage.HEAD, 0.0
        self._in_head = self._in_message = False
        self._head_size = self._overhead = 0  # bytes of the current head; bytes since the last head or body
        self._body_received, self._received_at = 0, 0.0
        self._problem: Problem | None = None
        self._rejected, self._discarded = False, 0

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self._received_at = self.loop.time()
        self._set_write_timeout()
        self._table.start_sweep(self.loop)
        if not self._table.admit(self, self.client[0] if self.client else "", self._since):
            message = "the server has too many connections in use"
            self._reject(Problem(503, "unavailable", message, "close connections, or try again later"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._table.remove(self)

    def handle_websocket_upgrade(self) -> None:
        """Continue as a WebSocket, which keeps this connection's place in the table."""
        self._enter(Stage.BUSY)
        # A partial application of a class cannot have the type of a class.
        create: Any = self.ws_protocol_class
        self.ws_protocol_class = lambda **options: create(**options, on_lost=lambda: self._table.remove(self))  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def evict(self) -> None:
        """Close the connection to make room for another one."""
        self.transport.abort()

    def is_stalled(self, now: float) -> bool:
        """Whether the request body has not grown, or the client has not read the response, for a while."""
        since = self._since if self._stage is Stage.BLOCKED else self._received_at
        return now - since >= STALLED_SECONDS

    def pause_writing(self) -> None:
        """Called when the client reads more slowly than the server writes."""
        super().pause_writing()
        self._update_stage()

    def resume_writing(self) -> None:
        """Called when the client has read most of the data."""
        super().resume_writing()
        self._update_stage()

    def check_deadline(self, now: float) -> None:
        """Reject a request that is not received in time."""
        if self._rejected:
            return
        if self._stage is Stage.HEAD and now - self._since >= self._limits.head_seconds:
            if self._overhead == 0:
                self.transport.close()  # for example, a browser's spare connection
                return
            self._reject(_timed_out("the request head", self._limits.head_seconds))
        elif self._stage is Stage.BODY and now - self._since >= self._limits.body_seconds:
            # The client is not responsible for the delay if the server does not read.
            is_slow = self._body_received < self._limits.body_size
            if is_slow and not self.flow.read_paused and not self.cycle.waiting_for_100_continue:
                self._reject(_timed_out(f"{self._limits.body_size} more bytes of the body", self._limits.body_seconds))
                return
            self._since, self._body_received = now, 0

    # Parsing

    def data_received(self, data: bytes) -> None:
        """Parse received data."""
        if self._rejected:
            self._discarded += len(data)
            if self._discarded > DISCARDED_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._received_at = self.loop.time()
        self._body_received += len(data)
        parts = memoryview(data)
        for start in range(0, len(data), PART_BYTES):
            if not self._feed(parts[start : start + PART_BYTES]):
                return
        self._update_stage()

    def _feed(self, part: memoryview) -> bool:
        """Parse a part of the data. Returns False if the rest must not be parsed."""
        self._overhead += len(part)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._unsupported_upgrade_warning()
                self._update_stage()
            return False
        except httptools.HttpParserError:
            self._reject(self._problem or Problem(400, "http", "invalid HTTP request", "check the client and proxies"))
            return False
        if self._overhead > self._limits.head_size:
            self._reject(self._too_large())
            return False
        return not self._rejected and not self.transport.is_closing()

    # Callbacks of the parser. An exception makes feed_data() fail.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._in_message, self._head_size = True, True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head_size += len(url)
        if len(self.url) > self._limits.url_length:
            limit = self._limits.url_length
            self._fail(Problem(414, "url_too_long", f"the URL has more than {limit} characters", "shorten it"))

    def on_header(self, name: bytes, value: bytes) -> None:
        # Ignore trailers. uvicorn would add them to the headers of a request that is already being handled.
        if not self._in_head:
            return
        super().on_header(name, value)
        self._head_size += len(name) + len(value) + len(": \r\n")
        if self._head_size > self._limits.head_size or len(self.headers) > self._limits.header_count:
            self._fail(self._too_large())

    def on_headers_complete(self) -> None:
        self._check_head()
        self._in_head, self._overhead = False, 0
        super().on_headers_complete()
        self._since, self._body_received = self._received_at, 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._overhead = max(0, self._overhead - 3 * len(body) - CHUNK_OVERHEAD)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_message, self._overhead = False, 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._rejected:
            self._update_stage()

    def _check_head(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            self._fail(Problem(400, "host", f"found {len(hosts)} Host headers", "send exactly one Host header"))
        # If two servers disagree about the end of a body, clients can smuggle requests.
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            shown = b", ".join(codings)[:80].decode("latin-1")
            self._fail(
                Problem(400, "http", f"unsupported Transfer-Encoding: {shown}", "use chunked, or send Content-Length")
            )
        if len(self.pipeline) >= self._limits.pipelined:
            limit = self._limits.pipelined
            self._fail(Problem(400, "http", f"more than {limit} pipelined requests", "wait for responses"))

    def _fail(self, problem: Problem) -> None:
        self._problem = problem
        raise problem

    def _too_large(self) -> Problem:
        size, count = self._limits.head_size // 1024, self._limits.header_count
        message = f"the request head has more than {size} KiB or {count} headers"
        return Problem(431, "head_too_large", message, "send fewer or smaller headers, or delete this site's cookies")

    # State

    def _update_stage(self) -> None:
        if self.transport.is_closing():
            return
        is_in_body = self._in_message and not self._in_head
        cycle: Any = self.cycle  # None before the first request, unlike its annotation
        if cycle is not None and (self.pipeline or not cycle.response_complete):
            # Once the response has started, client and run may exchange data at any speed.
            busy = Stage.BLOCKED if self.flow.write_paused else Stage.BUSY
            stage = Stage.BODY if is_in_body and not cycle.response_started else busy
        elif is_in_body:
            stage = Stage.BODY
        else:
            stage = Stage.HEAD if self._in_head or self._overhead or cycle is None else Stage.IDLE
        if stage is not self._stage:
            self._enter(stage)

    def _enter(self, stage: Stage) -> None:
        self._stage, self._since = stage, self.loop.time()
        self._table.move(self, stage)

    def _reject(self, problem: Problem) -> None:
        """Respond with an error and close the connection."""
        self._rejected = True
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        is_pending = cycle is not None and not cycle.response_complete
        is_own = self._in_message and not self._in_head  # whether `cycle` is the rejected request
        if cycle is not None:
            cycle.disconnected = True  # the application must not respond any more
            cycle.message_event.set()
        # The client would mistake this response for the response to an earlier request.
        if (is_pending and (cycle.response_started or not is_own)) or self.pipeline:
            self.transport.abort()
            return
        request_id = uuid4().hex
        address = self.client[0] if self.client else ""
        log.info("request rejected", request_id=request_id, status=problem.status, address=address, reason=str(problem))
        response = render_known(problem, request_id)
        if problem.status == 503:
            response.headers["Retry-After"] = str(RETRY_SECONDS)
        response.headers["Connection"] = "close"
        headers = [*self.server_state.default_headers, *add_headers(response.raw_headers, request_id)]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + bytes(response.body))
        # Closing while the client sends would reset the connection, and the client would not see the response.
        self._enter(Stage.HEAD)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(self._limits.linger_seconds, self.transport.abort)

    def _set_write_timeout(self) -> None:
        connected = self.transport.get_extra_info("socket")
        # Only Linux has this option. It fails for sockets that are not TCP.
        if connected is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = int(self._limits.write_seconds * 1000)
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
                # Without keepalive, a connection to a machine that disappeared would stay open forever.
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class LimitedWebSocketProtocol(WSProtocol):
    """One WebSocket connection, which the HTTP protocol has already added to the table."""

    def __init__(self, *args: Any, on_lost: Callable[[], None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._on_lost = on_lost

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the table."""
        super().connection_lost(exc)
        self._on_lost()


def _timed_out(missing: str, seconds: float) -> Problem:
    message = f"the server did not receive {missing} within {seconds:g} seconds"
    return Problem(408, "timeout", message, "send the request again")
