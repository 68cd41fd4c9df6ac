"""ASGI middleware: request IDs, size limits, security headers, access log and metrics."""

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.ports import MakeId
from fairlead.server.http.problem_details import render, render_unknown
from fairlead.server.http.routing import API
from fairlead.services.runs.executions import MAX_FILE_BYTES, USE_VOLUME_HINT

# Most bodies are read into memory, so only routes that need a larger limit have one.
MAX_BODY_BYTES = 1024 * 1024
MAX_DOCUMENTS_BYTES = 8 * 1024 * 1024
MAX_CODE_BYTES = 16 * 1024 * 1024
MAX_URL_LENGTH = 16 * 1024
CODE = re.compile(rf"{API}/projects/[^/]+/code/[^/]+")
UPLOADS = re.compile(rf"{API}/runs/[^/]+/uploads/.+", re.DOTALL)  # file names may contain line breaks
# Other methods share one label. Otherwise, clients could create any number of time series.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET")
CLIENT_CLOSED = 499  # logged if the client disconnected before the response
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Added to every response that does not set them itself.
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; frame-ancestors 'none'; form-action 'self'"),
]

log = structlog.get_logger()


@dataclass
class AccessLog:
    """An access log entry."""

    request_id: str
    method: str
    path: str
    address: str
    route: str = "none"
    status: int = 500  # if no response was sent
    run_id: str | None = None  # if the request was proxied to a run


class Metrics:
    """Request metrics for Prometheus. Labels are routes, never names chosen by users."""

    def __init__(self) -> None:
        # The global registry would reject a second application in the same process, which tests create.
        self.registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Counter("fairlead_requests", "Completed requests", labels, registry=self.registry)
        self.seconds = Histogram(
            "fairlead_request_seconds", "Duration of requests", ["method", "route"], registry=self.registry
        )
        self.in_flight_gauge = Gauge("fairlead_requests_in_progress", "Requests in flight", registry=self.registry)
        # Also counted here, because the gauge has no public method to read its value.
        self.in_flight = 0
        self.last_at = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request; 0 while one is in flight."""
        return 0.0 if self.in_flight else time.monotonic() - self.last_at

    @contextlib.contextmanager
    def record(self, entry: AccessLog) -> Iterator[AccessLog]:
        """Count a request while it is in flight, then write its entry to the access log."""
        started = time.perf_counter()
        self.in_flight_gauge.inc()
        self.in_flight += 1
        try:
            yield entry
        finally:
            self.in_flight_gauge.dec()
            self.in_flight -= 1
            self.last_at = time.monotonic()
            self._log(entry, time.perf_counter() - started)

    def _log(self, entry: AccessLog, seconds: float) -> None:
        method = entry.method if entry.method in METHODS else "other"
        self.requests.labels(method, entry.route, entry.status).inc()
        self.seconds.labels(method, entry.route).observe(seconds)
        # The query is not logged, because it may contain the one-time code of a sign-in link.
        log.info(
            "request",
            request_id=entry.request_id,
            method=method,
            path=entry.path[:500],
            status=entry.status,
            milliseconds=round(seconds * 1000, 1),
            address=entry.address,
            **({} if entry.run_id is None else {"run": entry.run_id}),
        )


class BodyTooLarge(Exception):
    """Raised inside the application to stop reading a body; the middleware turns it into a 413 response."""


class Middleware:
    """Wraps the application: limits, request IDs, security headers, access log, and responses to unexpected errors."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, make_id: MakeId) -> None:
        self.app, self.metrics, self.make_id = app, metrics, make_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # handled as GET, and the body is dropped below
            scope = {**scope, "method": "GET", "original_method": "HEAD"}
        scope["request_id"] = read_request_id(scope) or self.make_id()
        entry = AccessLog(scope["request_id"], method, scope["path"], client_address(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.status = message["status"]
                message["headers"] = add_headers(message["headers"], scope["request_id"])
            if method == "HEAD" and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        with self.metrics.record(entry):
            try:
                rejection = _reject_early(scope)
                if rejection is not None:
                    await rejection(scope, receive, send_with_headers)
                    return
                await self._forward(scope, receive, send_with_headers)
            except ClientDisconnect:
                entry.status = CLIENT_CLOSED
            finally:
                # The router adds the matching route to the scope, even if the handler fails.
                entry.route = getattr(scope.get("route"), "path", "none")

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit, received, responded = _body_limit(scope), 0, False

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            # Content-Length has already been checked, but a chunked body has none.
            if received > limit:
                raise BodyTooLarge
            return message

        async def send_tracked(message: Message) -> None:
            nonlocal responded
            responded = True
            await send(message)

        try:
            await self.app(scope, receive_limited, send_tracked)
        except ClientDisconnect:
            raise
        except BodyTooLarge:
            if not responded:
                await _too_large(scope, limit)(scope, receive, send)
        except Exception as error:
            response = render_unknown(scope["request_id"], scope["path"], error)
            if not responded:
                await response(scope, receive, send)


def add_headers(headers: Any, request_id: str) -> list[tuple[bytes, bytes]]:
    """Response headers with the request ID and any security headers that are not set yet."""
    names = {name.lower() for name, _ in headers}
    missing = [pair for pair in HEADERS if pair[0] not in names]
    return [*headers, (b"x-request-id", request_id.encode()), *missing]


def client_address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def read_request_id(scope: Scope) -> str | None:
    """The X-Request-ID header, or None if it is missing or unsafe for logs."""
    value = dict(scope["headers"]).get(b"x-request-id", b"")
    return value.decode() if REQUEST_ID.fullmatch(value) else None


def is_head(request: Request) -> bool:
    """Whether the client sent HEAD, which the application sees as GET."""
    return request.scope.get("original_method") == "HEAD"


def _reject_early(scope: Scope) -> Response | None:
    """An error response if the request's URL or Content-Length is not acceptable."""
    headers: dict[bytes, Any] = dict(scope["headers"])
    if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > MAX_URL_LENGTH:
        detail = f"the URL has more than {MAX_URL_LENGTH} characters"
        return render(414, "url_too_long", detail, scope["request_id"], hint="shorten it")
    # PostgreSQL cannot store NUL in text, and fails if a query contains it.
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return render(400, "address", "the URL contains a NUL character", scope["request_id"], hint="remove it")
    length = headers.get(b"content-length", b"0")
    # int() raises an error for numbers with thousands of digits.
    if length.isdigit() and (len(length) > 18 or int(length) > _body_limit(scope)):
        return _too_large(scope, _body_limit(scope))
    return None


def _body_limit(scope: Scope) -> int:
    if scope["path"] == f"{API}/apply":
        return MAX_DOCUMENTS_BYTES
    if UPLOADS.fullmatch(scope["path"]):
        return MAX_FILE_BYTES
    return MAX_CODE_BYTES if CODE.fullmatch(scope["path"]) else MAX_BODY_BYTES


def _too_large(scope: Scope, limit: int) -> Response:
    detail = f"the body has more than {limit:,} bytes"
    hint = USE_VOLUME_HINT if UPLOADS.fullmatch(scope["path"]) else "send less data in the request"
    response = render(413, "too_large", detail, scope["request_id"], hint=hint)
    # The rest of the body has not been read, so the connection cannot be reused.
    response.headers["Connection"] = "close"
    return response
