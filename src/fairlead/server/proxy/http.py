"""A request to a run and its answer, streamed both ways at once, for as long as both sides want."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
import h11
import structlog
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from fairlead.model.observations import Endpoint
from fairlead.server.problem_details import Problem
from fairlead.server.proxy.access_renewal import AccessRenewal
from fairlead.server.proxy.connections import ConnectionPool, RunConnection, UpstreamError
from fairlead.server.proxy.headers import UNSENDABLE, Headers, make_answer_headers, make_request_headers
from fairlead.server.proxy.link_rewriting import PrefixRemover
from fairlead.server.proxy.targets import Target, write_target

RENEWED_EVERY_SECONDS = 60.0
PATIENCE_SECONDS = 60.0  # with a run that takes nothing, or does not begin to answer
LOOK_SECONDS = 1.0
REPEATABLE = ("GET", "HEAD", "OPTIONS")
REFUSED = ("CONNECT", "TRACE")
FRAMING = {b"content-length", b"transfer-encoding"}  # with which a request says that it has a body
LARGEST_STATUS = 599
BODILESS = (204, 304)
UNBUFFERED = (b"x-accel-buffering", b"no")  # or whoever stands between would hold events back until there are more

log = structlog.get_logger()


@dataclass
class ProxyConfig:
    """What every exchange with a run uses. `is_ending`: whether the server is about to."""

    connections: ConnectionPool = field(default_factory=ConnectionPool)
    is_shutting_down: Callable[[], bool] = lambda: False
    response_timeout_seconds: float = PATIENCE_SECONDS
    renewal_interval_seconds: float = RENEWED_EVERY_SECONDS


async def exchange(
    proxy_config: ProxyConfig, target: Target, endpoint: Endpoint, use: AccessRenewal, *, scope: Scope, receive: Receive, send: Send
) -> None:
    """Ask a run, and pass on what it answers. Raise `Problem` where it does not; once it has begun, break off."""
    request = make_request(scope, target, endpoint)
    repeatable = scope["method"] in REPEATABLE and not FRAMING & {name for name, _ in request.headers}
    for fresh in (False, True):
        async with proxy_config.connections.to(target.run_id, endpoint, fresh=fresh) as connection:
            try:
                await _Exchange(proxy_config, connection, use, receive, send).run(request, target, endpoint)
                return
            except UpstreamError as error:
                # What lay idle may have been closed at the very moment at which it was used.
                if fresh or not repeatable or connection.uses == 1:
                    raise broke_off(target.run_id, error) from error


def make_request(scope: Scope, target: Target, endpoint: Endpoint) -> h11.Request:
    """The head of a request as a run is sent it. How long its body is, is said anew: two words for it are one trick."""
    if scope["method"] in REFUSED:
        raise Problem(405, "method", f"{scope['method']} is not done here", "use another method")
    headers = make_request_headers(scope, target, endpoint)
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        headers.append((b"transfer-encoding", b"chunked"))
    else:
        lengths = {value for name, value in scope["headers"] if name == b"content-length"}
        headers += [(b"content-length", length) for length in lengths]
    return write_request(scope["method"], headers, target, endpoint)


def write_request(method: str, headers: Headers, target: Target, endpoint: Endpoint) -> h11.Request:
    """The head of a request. Raise `Problem` where it is none."""
    asked = write_target(target, urlsplit(endpoint.url).path.rstrip("/"))
    try:
        return h11.Request(method=method, headers=headers, target=asked)
    except h11.LocalProtocolError as error:
        raise Problem(400, "address", f"the request cannot be passed on: {error}", "mend it") from error


def broke_off(run_id: str, error: Exception) -> Problem:
    """That a run ended an exchange before it had answered."""
    return Problem(502, "bad_gateway", f"run {run_id} broke off: {error}", "see its log, and whether it still runs")


def not_answered(run_id: str, seconds: float) -> Problem:
    """That a run is silent."""
    message = f"run {run_id} did not begin to answer within {seconds:g} seconds"
    return Problem(504, "gateway_timeout", message, "see its log, or let it answer piece by piece")


class _Exchange:
    """One exchange on one connection: the request goes there while the answer comes back."""

    def __init__(
        self, proxy_config: ProxyConfig, connection: RunConnection, use: AccessRenewal, receive: Receive, send: Send
    ) -> None:
        self.proxy_config, self.connection, self.use, self.receive, self.send = proxy_config, connection, use, receive, send
        self.waiting = anyio.CancelScope()  # until the answer begins
        self.is_answering = False

    async def run(self, request: h11.Request, target: Target, endpoint: Endpoint) -> None:
        """Ask and answer. Raise as long as nothing was answered; a caller who goes away ends it."""
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ask, request, tasks)
            try:
                await self._answer(target, endpoint, tasks)
            except (UpstreamError, Problem) as error:  # from within the group it would come as one of several
                failed = error
            tasks.cancel_scope.cancel()
        failed = failed or self.use.refused
        if failed is not None and not self.is_answering:
            raise failed
        if failed is not None:  # all that can be done is to end the caller's connection
            log.info("an answer was broken off", run=target.run_id, problem=str(failed))

    async def _ask(self, request: h11.Request, tasks: TaskGroup) -> None:
        try:
            await self._send(request)
            goes_on = bool(FRAMING & {name for name, _ in request.headers})
            while goes_on:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    tasks.cancel_scope.cancel()
                    return
                goes_on = message.get("more_body", False)
                if message.get("body"):
                    await self._send(h11.Data(data=message["body"]))
                    self.use.go_on(tasks)
            await self._send(h11.EndOfMessage())
        except (OSError, h11.LocalProtocolError):
            pass  # it takes no more: what it answers says why, or that there is no answer
        self._wait_no_longer_than(self.proxy_config.response_timeout_seconds)
        await self._watch(tasks)

    async def _send(self, event: h11.Event) -> None:
        self._wait_no_longer_than(self.proxy_config.response_timeout_seconds)
        await self.connection.send(event)
        self._wait_no_longer_than(math.inf)  # now it is the caller who has something to send

    def _wait_no_longer_than(self, seconds: float) -> None:
        self.waiting.deadline = anyio.current_time() + seconds

    async def _watch(self, tasks: TaskGroup) -> None:
        """End it all when the caller goes away, or the server does while something streams."""
        while not (self.is_answering and self.proxy_config.is_shutting_down()):
            with anyio.move_on_after(LOOK_SECONDS):
                if (await self.receive())["type"] == "http.disconnect":
                    break
        tasks.cancel_scope.cancel()

    async def _answer(self, target: Target, endpoint: Endpoint, tasks: TaskGroup) -> None:
        head: h11.Response | h11.InformationalResponse | None = None
        with self.waiting:
            head = await self.connection.receive_head()
        if head is None:
            raise not_answered(target.run_id, self.proxy_config.response_timeout_seconds)
        if isinstance(head, h11.InformationalResponse):
            raise UpstreamError("it changes to another protocol, which nobody asked for")
        headers = read_answer_headers(head, target, endpoint)
        undo = find_undo(headers, endpoint)
        chunked = any(name == b"transfer-encoding" for name, _ in head.headers)  # which has the last word
        if undo is not None or chunked or head.status_code in BODILESS:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        self.is_answering = True
        await self.send({"type": "http.response.start", "status": head.status_code, "headers": headers})
        while isinstance(event := await self.connection.receive(), h11.Data):
            await self._pass_on(bytes(event.data) if undo is None else undo.feed(bytes(event.data)))
            self.use.go_on(tasks)
        await self._pass_on(b"" if undo is None else undo.finish(), more_body=False)

    async def _pass_on(self, body: bytes, *, more_body: bool = True) -> None:
        if body or not more_body:
            await self.send({"type": "http.response.body", "body": body, "more_body": more_body})


def read_answer_headers(head: h11.Response | h11.InformationalResponse, target: Target, endpoint: Endpoint) -> Headers:
    """The headers of an answer, as they are sent on. Raise `BrokenOff` where they cannot be."""
    if head.status_code > LARGEST_STATUS:
        raise UpstreamError(f"it answers with the status {head.status_code}, which means nothing")
    headers = make_answer_headers(head.headers, target, endpoint)
    for name, value in headers:
        if UNSENDABLE.search(value):
            raise UpstreamError(f"its header {name.decode('latin-1')} has control characters")
    if any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers):
        headers.append(UNBUFFERED)
    return headers


def find_undo(headers: Headers, endpoint: Endpoint) -> PrefixRemover | None:
    """What mends the links of an answer that somebody on the way has changed; None where nobody has."""
    kinds = [value.lower() for name, value in headers if name == b"content-type"]
    is_page = any(kind.startswith(b"text/html") for kind in kinds)
    encoded = any(name == b"content-encoding" for name, _ in headers)
    return PrefixRemover(endpoint.prefix.encode()) if endpoint.prefix and is_page and not encoded else None
