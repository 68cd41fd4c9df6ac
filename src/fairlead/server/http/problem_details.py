"""Error responses as Problem Details (RFC 9457, application/problem+json)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fairlead.errors import (
    Changed,
    Conflict,
    FairleadError,
    Forbidden,
    NotFound,
    PreviewOutdated,
    QueueFull,
    RequestRejected,
    RevisionMissing,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unreadable,
)
from fairlead.model.explanations import finding_data
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation

log = structlog.get_logger()

# Limits the size of the response: a small body can contain thousands of mistakes.
MAX_VIOLATIONS = 100
PROBLEM = "application/problem+json"
STATUSES: Mapping[type[FairleadError], int] = {
    Unreadable: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PreviewOutdated: 409,
    QueueFull: 409,
    Changed: 412,
    RequestRejected: 422,
    RevisionMissing: 428,
    TooManyRequests: 429,
    Unavailable: 503,
}
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    412: "Precondition failed",
    413: "Content too large",
    414: "URL too long",
    415: "Unsupported media type",
    422: "Invalid request",
    428: "Precondition required",
    429: "Too many requests",
    431: "Request headers too large",
    500: "Internal server error",
    502: "Bad gateway",
    503: "Service unavailable",
    504: "Gateway timeout",
}


class Problem(FairleadError):
    """An HTTP error from the server itself, with its own status and code."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.status, self.code = status, code


def install(app: FastAPI) -> None:
    """Install the exception handlers in an application."""
    # Exception gets no handler here, because Starlette would re-raise it. The middleware handles unexpected errors.
    app.add_exception_handler(FairleadError, _handle_known)
    app.add_exception_handler(HTTPException, _handle_http)
    app.add_exception_handler(RequestValidationError, _handle_invalid)


def render(status: int, code: str, detail: str, request_id: str, **extra: Any) -> Response:
    """An error response. Members that are None are left out."""
    members = {name: value for name, value in extra.items() if value is not None}
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after_seconds" in members:
        headers["Retry-After"] = str(members["retry_after_seconds"])
    body = {
        "type": f"urn:fairlead:problem:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "code": code,
        "detail": detail,
        **members,
        "request_id": request_id,
    }
    return Response(msgspec.json.encode(body), status, headers, media_type=PROBLEM)


def render_known(error: FairleadError, request_id: str) -> Response:
    """The response for an expected error."""
    status = error.status if isinstance(error, Problem) else STATUSES.get(type(error), 500)
    violations, detail = None, ""
    if isinstance(error, RequestRejected):
        violations = [finding_data(violation) for violation in error.violations[:MAX_VIOLATIONS]]
        count = len(error.violations)
        shown = f" (showing the first {MAX_VIOLATIONS})" if count > MAX_VIOLATIONS else ""
        detail = f"{count} error{'' if count == 1 else 's'}{shown}"
    return render(
        status,
        error.code,
        detail or str(error),
        request_id,
        hint=error.hint,
        violations=violations,
        used_by=(error.used_by or None) if isinstance(error, Conflict) else None,
        retry_after_seconds=error.retry_after_seconds if isinstance(error, Unavailable) else None,
    )


def render_unknown(request_id: str, path: str, error: Exception) -> Response:
    """The response for an unexpected exception, which is logged with its traceback."""
    log.error("request failed", request_id=request_id, path=path[:500], exc_info=error)
    # The exception text may contain secrets, so it appears only in the log.
    detail = "internal error: see the server log for this request ID"
    return render(500, "internal", detail, request_id)


async def _handle_known(request: Request, error: Exception) -> Response:
    assert isinstance(error, FairleadError)
    return render_known(error, _request_id(request))


async def _handle_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return render(404, "not_found", f"no such path: {request.url.path[:200]}", _request_id(request))
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods_at(request)))
        response = render(
            405, "method", f"method {request.method} is not allowed here", _request_id(request), hint=f"use {allowed}"
        )
        response.headers["Allow"] = allowed
        return response
    return render(error.status_code, "http", str(error.detail), _request_id(request))


async def _handle_invalid(request: Request, error: Exception) -> Response:
    """Turn errors that FastAPI finds in parameters into violations."""
    assert isinstance(error, RequestValidationError)
    violations = [
        Violation(
            ".".join(map(str, error_item["loc"][1:])),  # without the leading `query` or `path`
            "required" if error_item["type"] == "missing" else "type",
            f"{error_item['msg'][:1].lower()}{error_item['msg'][1:]}, found {short_repr(error_item.get('input'))}",
            _suggest(error_item),
        )
        for error_item in error.errors()
    ]
    return await _handle_known(request, RequestRejected(violations))


def _suggest(error_item: Mapping[str, Any]) -> str:
    match error_item["type"]:
        case "missing":
            return f"add {error_item['loc'][-1]}"
        case "bool_parsing":
            return "write true or false"
        case "literal_error":
            return f"write {error_item['ctx']['expected']}"
        case kind if kind.startswith("int_"):
            return "write an integer"
        case _:
            return "see the parameters in /api/v1/openapi.json"


def _methods_at(request: Request) -> set[str]:
    """The methods of all routes for a path. Starlette knows only those of the first matching route."""
    matching = [route for route in request.app.routes if route.path_regex.match(request.url.path)]
    return {method for route in matching for method in route.methods or ()}


def _request_id(request: Request) -> str:
    return str(request.scope.get("request_id", ""))
