"""What every request passes: an id, limits on its size and form, headers of safety, a line in the log, a measure."""

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.ports import MakeId
from fairlead.server.problem_details import render, render_unknown
from fairlead.server.routing import API
from fairlead.services.run_uploads import LARGEST_FILE, TO_A_VOLUME

LARGEST_BODY = 1024 * 1024
LARGEST_DOCUMENTS = 8 * 1024 * 1024
LARGEST_CODE = 16 * 1024 * 1024
LONGEST_ADDRESS = 16 * 1024
CODE = re.compile(rf"{API}/projects/[^/]+/code/[^/]+")
UPLOADS = re.compile(rf"{API}/runs/[^/]+/uploads/.+", re.DOTALL)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET")
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# What every answer has, unless it brings its own.
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
    """What is noted of a request when it has been answered."""

    request_id: str
    method: str
    path: str
    address: str
    route: str = "none"
    status: int = 500
    run_id: str | None = None  # of one that a run answered


class Metrics:
    """What is counted of requests, for Prometheus. Labels are routes, never names that people gave."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Counter("fairlead_requests", "Requests that were answered", labels, registry=self.registry)
        self.seconds = Histogram(
            "fairlead_request_seconds", "How long requests took", ["method", "route"], registry=self.registry
        )
        self.underway = Gauge("fairlead_requests_underway", "Requests that wait for an answer", registry=self.registry)
        self.waiting = 0
        self.last_at = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """For how long nobody has asked anything."""
        return 0.0 if self.waiting else time.monotonic() - self.last_at

    @contextlib.contextmanager
    def noting(self, noted: AccessLog) -> Iterator[AccessLog]:
        """Count a request while it waits, and say in the log how it was answered."""
        started = time.perf_counter()
        self.underway.inc()
        self.waiting += 1
        try:
            yield noted
        finally:
            self.underway.dec()
            self.waiting -= 1
            self.last_at = time.monotonic()
            self._note(noted, time.perf_counter() - started)

    def _note(self, noted: AccessLog, seconds: float) -> None:
        method = noted.method if noted.method in METHODS else "other"
        self.requests.labels(method, noted.route, noted.status).inc()
        self.seconds.labels(method, noted.route).observe(seconds)
        # The path alone: a query may hold the word of a sign-in link.
        log.info(
            "answered",
            request_id=noted.request_id,
            method=method,
            path=noted.path[:500],
            status=noted.status,
            milliseconds=round(seconds * 1000, 1),
            address=noted.address,
            **({} if noted.run_id is None else {"run": noted.run_id}),
        )


class BodyTooLarge(Exception):  # never seen outside: it ends the reading of a body
    """A body has more bytes than are taken."""


class Middleware:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, make_id: MakeId) -> None:
        self.app, self.metrics, self.make_id = app, metrics, make_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or turn it away."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = scope["method"]
        if asked == "HEAD":
            scope = {
                **scope,
                "method": "GET",
                "asked": "HEAD",
            }  # the same answer, of which the server then leaves the body out
        scope["request_id"] = read_request_id(scope) or self.make_id()
        noted = AccessLog(scope["request_id"], asked, scope["path"], read_address(scope))

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                noted.status = message["status"]
                message["headers"] = mark(message["headers"], scope["request_id"])
            if asked == "HEAD" and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        with self.metrics.noting(noted):
            try:
                turned_away = _look_at(scope)
                if turned_away is not None:
                    await turned_away(scope, receive, send_marked)
                    return
                await self._let_through(scope, receive, send_marked)
            finally:
                noted.route = getattr(scope.get("route"), "path", "none")

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        most, seen, answered = _largest(scope), 0, False

        async def receive_some() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise BodyTooLarge
            return message

        async def send_noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, receive_some, send_noted)
        except BodyTooLarge:
            if not answered:
                await _too_large(scope, most)(scope, receive, send)
        except Exception as error:
            answer = render_unknown(scope["request_id"], scope["path"], error)
            if not answered:
                await answer(scope, receive, send)


def mark(headers: Any, request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with its id and with those of safety that it does not bring itself."""
    brought = {name.lower() for name, _ in headers}
    own = [pair for pair in HEADERS if pair[0] not in brought]
    return [*headers, (b"x-request-id", request_id.encode()), *own]


def read_address(scope: Scope) -> str:
    """Where a request comes from."""
    return str((scope.get("client") or ("",))[0])


def read_request_id(scope: Scope) -> str | None:
    """The id that the caller gave, where it is fit for logs."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if REQUEST_ID.fullmatch(given) else None


def is_head(request: Request) -> bool:
    """Whether only the headers of an answer are asked for."""
    return request.scope.get("asked") == "HEAD"


def _look_at(scope: Scope) -> Response | None:
    """What is wrong with a request that nobody needs to read further."""
    headers: dict[bytes, Any] = dict(scope["headers"])
    if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > LONGEST_ADDRESS:
        detail = f"the address has more than {LONGEST_ADDRESS} characters"
        return render(400, "address", detail, scope["request_id"], hint="shorten it")
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return render(400, "address", "the address has the character NUL", scope["request_id"], hint="take it out")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > 18 or int(length) > _largest(scope)):
        return _too_large(scope, _largest(scope))
    return None


def _largest(scope: Scope) -> int:
    if scope["path"] == f"{API}/apply":
        return LARGEST_DOCUMENTS
    if UPLOADS.fullmatch(scope["path"]):
        return LARGEST_FILE
    return LARGEST_CODE if CODE.fullmatch(scope["path"]) else LARGEST_BODY


def _too_large(scope: Scope, most: int) -> Response:
    detail = f"the body has more than {most:,} bytes"
    hint = TO_A_VOLUME if UPLOADS.fullmatch(scope["path"]) else "send less: keep data out of requests"
    answer = render(413, "too_large", detail, scope["request_id"], hint=hint)
    answer.headers["Connection"] = "close"
    return answer
