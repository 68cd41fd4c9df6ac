"""HTTP proxy: streams a request to a run and the response back to the client, concurrently."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
import h11
import structlog
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from fairlead.model.runs import Endpoint
from fairlead.server.http.problem_details import Problem
from fairlead.server.proxy.connections import ConnectionPool, RunConnection, UpstreamError
from fairlead.server.proxy.headers import (
    UNSENDABLE,
    Headers,
    PrefixRemover,
    Target,
    format_target,
    make_request_headers,
    make_response_headers,
)
from fairlead.server.proxy.sign_in import AccessRenewal

RENEWAL_INTERVAL_SECONDS = 60.0  # an active stream ends at most this long after access is revoked
RESPONSE_TIMEOUT_SECONDS = 60.0  # for a run that accepts no data or does not start responding
SHUTDOWN_CHECK_SECONDS = 1.0
REPEATABLE = ("GET", "HEAD", "OPTIONS")  # may be sent twice without side effects
NOT_PROXIED = ("CONNECT", "TRACE")  # CONNECT opens tunnels, and TRACE returns headers to scripts
FRAMING = {b"content-length", b"transfer-encoding"}  # present if a request has a body
MAX_STATUS = 599  # the limit in RFC 9110; h11 accepts up to 999
# Responses without a body. The ASGI server would expect as many bytes as Content-Length says.
BODILESS = (204, 304)
UNBUFFERED = (b"x-accel-buffering", b"no")  # keeps proxies from buffering server-sent events

log = structlog.get_logger()


@dataclass
class ProxyConfig:
    """Configuration and connection pool of the proxy."""

    connections: ConnectionPool = field(default_factory=ConnectionPool)
    is_shutting_down: Callable[[], bool] = lambda: False  # set by create_application
    response_timeout_seconds: float = RESPONSE_TIMEOUT_SECONDS
    renewal_interval_seconds: float = RENEWAL_INTERVAL_SECONDS


async def proxy_http(
    proxy_config: ProxyConfig,
    target: Target,
    endpoint: Endpoint,
    access: AccessRenewal,
    *,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Forward a request to a run and its response to the client.

    Raises `Problem` if the run does not respond. After the response has started, an error closes the connection.
    """
    request = make_request(scope, target, endpoint)
    is_repeatable = scope["method"] in REPEATABLE and not FRAMING & {name for name, _ in request.headers}
    for fresh in (False, True):
        async with proxy_config.connections.to(target.run_id, endpoint, fresh=fresh) as connection:
            try:
                await _HttpExchange(proxy_config, connection, access, receive, send).run(request, target, endpoint)
                return
            except UpstreamError as error:
                # The run may have closed an idle connection just as it was reused, so try once more with a new one.
                if fresh or not is_repeatable or connection.requests == 1:
                    raise upstream_failed(target.run_id, error) from error


def make_request(scope: Scope, target: Target, endpoint: Endpoint) -> h11.Request:
    """The head of the request to a run.

    Its framing headers are written from scratch, because conflicting ones would allow request smuggling.
    """
    if scope["method"] in NOT_PROXIED:
        raise Problem(405, "method", f"method {scope['method']} is not allowed here", "use another method")
    headers = make_request_headers(scope, target, endpoint)
    # Transfer-Encoding overrides Content-Length (RFC 9112, section 6.3).
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        headers.append((b"transfer-encoding", b"chunked"))
    else:
        # Two different lengths result in two headers, which h11 rejects.
        lengths = {value for name, value in scope["headers"] if name == b"content-length"}
        headers += [(b"content-length", length) for length in lengths]
    return write_request(scope["method"], headers, target, endpoint)


def write_request(method: str, headers: Headers, target: Target, endpoint: Endpoint) -> h11.Request:
    """The head of a request. Raises `Problem` if it would be invalid."""
    request_target = format_target(target, urlsplit(endpoint.url).path.rstrip("/"))
    try:
        return h11.Request(method=method, headers=headers, target=request_target)
    except h11.LocalProtocolError as error:
        raise Problem(400, "address", f"the request cannot be forwarded: {error}", "fix the request") from error


def upstream_failed(run_id: str, error: Exception) -> Problem:
    return Problem(502, "bad_gateway", f"no valid response from run {run_id}: {error}", "check the run's state and log")


def response_timed_out(run_id: str, seconds: float) -> Problem:
    """The error for a run that does not start responding in time."""
    message = f"run {run_id} did not start responding within {seconds:g} seconds"
    return Problem(504, "gateway_timeout", message, "check the run's log, or stream the response")


class _HttpExchange:
    """One request on one connection. The response may start before the request is complete."""

    def __init__(
        self, proxy_config: ProxyConfig, connection: RunConnection, access: AccessRenewal, receive: Receive, send: Send
    ) -> None:
        self.proxy_config, self.connection, self.access = proxy_config, connection, access
        self.receive, self.send = receive, send
        self.waiting = anyio.CancelScope()  # until the response starts
        self.has_response = False

    async def run(self, request: h11.Request, target: Target, endpoint: Endpoint) -> None:
        """Send the request and forward the response. Raises only before the response has started."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_request, request, tasks)
            try:
                await self._forward_response(target, endpoint, tasks)
            except (UpstreamError, Problem) as error:
                failure = error  # if raised inside the task group, it would become an exception group
            tasks.cancel_scope.cancel()
        failure = failure or self.access.error
        if failure is not None and not self.has_response:
            raise failure
        if failure is not None:  # the only way to signal the error now is to close the connection
            log.info("response interrupted", run=target.run_id, problem=str(failure))

    async def _send_request(self, request: h11.Request, tasks: TaskGroup) -> None:
        try:
            await self._send(request)
            more_body = bool(FRAMING & {name for name, _ in request.headers})
            while more_body:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    tasks.cancel_scope.cancel()
                    return
                more_body = message.get("more_body", False)
                if message.get("body"):
                    await self._send(h11.Data(data=message["body"]))
                    self.access.on_activity(tasks)
            await self._send(h11.EndOfMessage())
        except (OSError, h11.LocalProtocolError):
            pass  # the run stopped reading; its response says why
        self._set_timeout(self.proxy_config.response_timeout_seconds)
        await self._wait_for_disconnect(tasks)

    async def _send(self, event: h11.Event) -> None:
        self._set_timeout(self.proxy_config.response_timeout_seconds)
        await self.connection.send(event)
        self._set_timeout(math.inf)  # the client may take any amount of time to send the rest

    def _set_timeout(self, seconds: float) -> None:
        # This has no effect once the response has started, because a stream may be silent for any length of time.
        self.waiting.deadline = anyio.current_time() + seconds

    async def _wait_for_disconnect(self, tasks: TaskGroup) -> None:
        """Cancel when the client disconnects, or when the server shuts down during a response."""
        # A stream may never end, so a shutdown interrupts it; a request without a response may still finish.
        # The flag is polled, because receive() does not return on shutdown.
        while not (self.has_response and self.proxy_config.is_shutting_down()):
            with anyio.move_on_after(SHUTDOWN_CHECK_SECONDS):
                if (await self.receive())["type"] == "http.disconnect":
                    break
        tasks.cancel_scope.cancel()

    async def _forward_response(self, target: Target, endpoint: Endpoint, tasks: TaskGroup) -> None:
        head: h11.Response | h11.InformationalResponse | None = None
        with self.waiting:
            head = await self.connection.receive_head()
        if head is None:
            raise response_timed_out(target.run_id, self.proxy_config.response_timeout_seconds)
        if isinstance(head, h11.InformationalResponse):
            raise UpstreamError("unexpected switch to another protocol")
        headers = read_response_headers(head, target, endpoint)
        prefix_remover = find_prefix_remover(headers, endpoint)
        chunked = any(name == b"transfer-encoding" for name, _ in head.headers)  # overrides Content-Length
        # If prefixes are removed, the body is shorter than Content-Length says.
        if prefix_remover is not None or chunked or head.status_code in BODILESS:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        self.has_response = True
        await self.send({"type": "http.response.start", "status": head.status_code, "headers": headers})
        while isinstance(event := await self.connection.receive(), h11.Data):
            await self._send_body(
                bytes(event.data) if prefix_remover is None else prefix_remover.feed(bytes(event.data))
            )
            self.access.on_activity(tasks)
        await self._send_body(b"" if prefix_remover is None else prefix_remover.finish(), more_body=False)

    async def _send_body(self, body: bytes, *, more_body: bool = True) -> None:
        if body or not more_body:
            await self.send({"type": "http.response.body", "body": body, "more_body": more_body})


def read_response_headers(
    head: h11.Response | h11.InformationalResponse, target: Target, endpoint: Endpoint
) -> Headers:
    """Headers of the response to the client. Raises `UpstreamError` if the run sent invalid ones."""
    if head.status_code > MAX_STATUS:
        raise UpstreamError(f"invalid status {head.status_code}")
    headers = make_response_headers(head.headers, target, endpoint)
    for name, value in headers:
        if UNSENDABLE.search(value):
            raise UpstreamError(f"control characters in the header {name.decode('latin-1')}")
    if any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers):
        headers.append(UNBUFFERED)
    return headers


def find_prefix_remover(headers: Headers, endpoint: Endpoint) -> PrefixRemover | None:
    """Removes prefixes that a cluster's API server adds to links; None if it does not rewrite this response."""
    kinds = [value.lower() for name, value in headers if name == b"content-type"]
    is_page = any(kind.startswith(b"text/html") for kind in kinds)
    encoded = any(name == b"content-encoding" for name, _ in headers)
    return PrefixRemover(endpoint.prefix.encode()) if endpoint.prefix and is_page and not encoded else None
