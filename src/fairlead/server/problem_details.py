"""Every failure as problem+json: what it is, in words, for programs, and what to do about it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fairlead.core.explanations import found_data
from fairlead.errors import (
    Changed,
    Conflict,
    FairleadError,
    Forbidden,
    NotFound,
    RequestRejected,
    RevisionMissing,
    Unauthenticated,
    Unavailable,
    Unreadable,
)
from fairlead.model.parsing import show
from fairlead.model.plans import Violation

log = structlog.get_logger()

MOST_TOLD = 100
PROBLEM = "application/problem+json"
STATUSES: Mapping[type[FairleadError], int] = {
    Unreadable: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    Changed: 412,
    RequestRejected: 422,
    RevisionMissing: 428,
    Unavailable: 503,
}
TITLES = {
    400: "The request cannot be read",
    401: "Nobody knows who asks",
    403: "Not allowed",
    404: "Not found",
    405: "Not done here",
    409: "Conflict",
    412: "Changed in the meantime",
    413: "Too large",
    415: "Not in a form that is read here",
    422: "The request breaks rules",
    428: "The revision is missing",
    500: "A mistake of the server",
    502: "The run broke off",
    503: "Not now",
    504: "The run does not answer",
}


class Problem(FairleadError):
    """A failure that only a door knows: of the request's form, not of what it asks."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.status, self.code = status, code


def install(app: FastAPI) -> None:
    """Answer every failure of an application."""
    app.add_exception_handler(FairleadError, _answer_known)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)


def render(status: int, code: str, detail: str, request_id: str, **more: Any) -> Response:
    """A problem as a response."""
    told = {name: value for name, value in more.items() if value is not None}
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after_seconds" in told:
        headers["Retry-After"] = str(told["retry_after_seconds"])
    body = {
        "type": f"urn:fairlead:problem:{code}",
        "title": TITLES.get(status, "Not possible"),
        "status": status,
        "code": code,
        "detail": detail,
        **told,
        "request_id": request_id,
    }
    return Response(msgspec.json.encode(body), status, headers, media_type=PROBLEM)


def render_known(error: FairleadError, request_id: str) -> Response:
    """An error of ours as a response."""
    status = error.status if isinstance(error, Problem) else STATUSES.get(type(error), 500)
    violations, detail = None, ""
    if isinstance(error, RequestRejected):
        violations = [found_data(found) for found in error.violations[:MOST_TOLD]]
        count = len(error.violations)
        more = f"; the first {MOST_TOLD} are told" if count > MOST_TOLD else ""
        detail = f"{count} rule{' is' if count == 1 else 's are'} broken{more}"
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


async def _answer_known(request: Request, error: Exception) -> Response:
    assert isinstance(error, FairleadError)
    return render_known(error, _request_id(request))


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return render(404, "not_found", f"there is nothing at {request.url.path[:200]}", _request_id(request))
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods_at(request)))
        answer = render(
            405, "method", f"{request.method} is not done here", _request_id(request), hint=f"use {allowed}"
        )
        answer.headers["Allow"] = allowed
        return answer
    return render(error.status_code, "http", str(error.detail), _request_id(request))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """What FastAPI itself finds wrong, with parameters in an address, in our words."""
    assert isinstance(error, RequestValidationError)
    violations = [
        Violation(
            ".".join(map(str, found["loc"][1:])),
            "required" if found["type"] == "missing" else "type",
            f"{found['msg'][:1].lower()}{found['msg'][1:]}, found {show(found.get('input'))}",
            _suggest(found),
        )
        for found in error.errors()
    ]
    return await _answer_known(request, RequestRejected(violations))


def _suggest(found: Mapping[str, Any]) -> str:
    """What to write in place of a parameter that FastAPI does not understand."""
    match found["type"]:
        case "missing":
            return f"say {found['loc'][-1]}"
        case "bool_parsing":
            return "write true or false"
        case "literal_error":
            return f"write {found['ctx']['expected']}"
        case kind if kind.startswith("int_"):
            return "write a whole number in digits"
        case _:
            return "/api/v1/openapi.json says what it may be"


def render_unknown(request_id: str, path: str, error: Exception) -> Response:
    """The answer to what nobody thought of; the log has the rest."""
    log.error("failed", request_id=request_id, path=path[:500], exc_info=error)
    detail = "something went wrong on the server; its log has the details under the request id"
    return render(500, "internal", detail, request_id)


def _methods_at(request: Request) -> set[str]:
    """Every method that some route of the same path has: a router answers for the first one alone."""
    matching = [route for route in request.app.routes if route.path_regex.match(request.url.path)]
    return {method for route in matching for method in route.methods or ()}


def _request_id(request: Request) -> str:
    return str(request.scope.get("request_id", ""))
