"""Request context: FastAPI dependencies that authenticate a request, run its use case in a thread and respond."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import anyio
import msgspec
from anyio import CapacityLimiter
from fastapi import Depends, Request, Response

from fairlead.run_tokens import is_run_token
from fairlead.server.http.cookies import Cookie
from fairlead.server.http.problem_details import Problem
from fairlead.services.registry import Services
from fairlead.services.transactions.unit_of_work import Call

# More threads are slower, because they compete for the interpreter lock. Requests that wait for other servers use
# separate threads, so that a slow server does not block all other requests.
THREADS = 4
OIDC_THREADS = 4  # for requests that wait for an identity provider
CLUSTER_THREADS = 4  # for requests that wait for a cluster, up to a minute
MAX_KEY_LENGTH = 255
ETAG_ID_LENGTH = 8  # characters of the ID in an ETag
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class RequestContext:
    """A request with the services that handle it."""

    services: Services
    call: Call
    request: Request
    limiter: CapacityLimiter

    async def run_in_thread(self, use_case: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a use case in a thread and return its result."""
        return await anyio.to_thread.run_sync(lambda: use_case(self.call, *args, **options), limiter=self.limiter)

    async def respond(
        self, use_case: Callable[..., Any], *args: Any, status: int = 200, quick: bool = False, **options: Any
    ) -> Response:
        """Run a use case and return its result as JSON, with its revision as the ETag.

        A `quick` use case reads a few rows. If the database is local, it runs on the event loop, because switching to
        a thread takes longer.
        """

        def run() -> tuple[bytes, Any]:
            result = use_case(self.call, *args, **options)
            # Encoding also happens in the thread, because a long list would block the event loop.
            return (b"" if result is None else msgspec.json.encode(result)), result

        on_event_loop = quick and self.request.app.state.reads_are_local
        body, result = run() if on_event_loop else await anyio.to_thread.run_sync(run, limiter=self.limiter)
        return make_response(body, result, status, self.request)


def make_response(body: bytes, result: Any, status: int, request: Request) -> Response:
    """A JSON response with an ETag; 304 if the client has the current revision, 204 if the body is empty."""
    headers = {"Cache-Control": "no-store"}
    if (revision := getattr(result, "revision", None)) is not None:
        # The ID distinguishes an object from a deleted one with the same name and revision.
        headers["ETag"] = f'"{revision}-{result.id[-ETAG_ID_LENGTH:]}"' if hasattr(result, "id") else f'"{revision}"'
        # Fields that are computed on each read can change without a new revision.
        is_stored = getattr(result, "DERIVED", None) == ()
        if (
            is_stored
            and request.method == "GET"
            and etag_matches(request.headers.get("if-none-match", ""), headers["ETag"])
        ):
            return Response(status_code=304, headers=headers)
    if not body:
        return Response(status_code=204, headers=headers)
    return Response(body, status, headers, media_type="application/json")


async def unauthenticated(request: Request) -> RequestContext:
    """Dependency: the context of a request, without authentication."""
    state = request.app.state
    return RequestContext(state.services, read_call(request), request, state.limiter)


async def unauthenticated_oidc(request: Request) -> RequestContext:
    """Like `unauthenticated`, but uses the threads for identity providers."""
    return replace(await unauthenticated(request), limiter=request.app.state.oidc_limiter)


async def authenticated(request: Request) -> RequestContext:
    """Dependency: the context of an authenticated request. Rejects other requests before reading their body."""
    context = await unauthenticated(request)
    units = context.services.units
    # A cached token is checked without a thread. The use case authenticates the caller again in its transaction.
    if not units.is_recently_authenticated(context.call):
        await context.run_in_thread(units.authenticate)
    # The fingerprint needs the body, so it is computed after authentication, and only for requests with a key.
    if context.call.key is None:
        return context
    return replace(context, call=replace(context.call, fingerprint=await _fingerprint(request)))


async def authenticated_cluster(request: Request) -> RequestContext:
    """Like `authenticated`, but uses the threads for clusters."""
    return replace(await authenticated(request), limiter=request.app.state.cluster_limiter)


async def authenticated_run(request: Request) -> RequestContext:
    """Dependency: the context of a request sent by the run in its path, with the run token."""
    context = await unauthenticated(request)
    await context.run_in_thread(context.services.run_uploads.authenticate, request.path_params["run_id"])
    return context


async def authenticated_user_or_run(request: Request) -> RequestContext:
    """Dependency: the context of a request by an authenticated user, or by the run in its path."""
    context = await unauthenticated(request)
    return await (authenticated_run(request) if is_run_token(context.call.bearer) else authenticated(request))


def read_call(request: Request) -> Call:
    """Read a request's credentials, client address, precondition and idempotency key."""
    revision, tail, any_revision = _read_if_match(request.headers.get("if-match"))
    return Call(
        bearer=_read_bearer(request),
        address=request.client.host if request.client else "",
        request_id=str(request.scope.get("request_id", "")),
        revision=revision,
        revision_of=tail,
        any_revision=any_revision,
        key=_read_key(request),
    )


Context = Annotated[RequestContext, Depends(authenticated)]
ClusterContext = Annotated[RequestContext, Depends(authenticated_cluster)]
RunContext = Annotated[RequestContext, Depends(authenticated_run)]
UserOrRunContext = Annotated[RequestContext, Depends(authenticated_user_or_run)]
PublicContext = Annotated[RequestContext, Depends(unauthenticated)]
OidcContext = Annotated[RequestContext, Depends(unauthenticated_oidc)]


def session_cookie(url: str) -> Cookie:
    """The cookie with a browser's session."""
    return Cookie("fairlead_session", url)


def etag_matches(header: str, tag: str) -> bool:
    """Whether an If-None-Match header contains an ETag."""
    return header.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in header.split(","))


def _read_bearer(request: Request) -> str | None:
    # The header takes precedence and needs no CSRF protection, because browsers do not add tokens on their own.
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            message = "the Authorization header has no bearer token"
            raise Problem(401, "unauthenticated", message, "send Authorization: Bearer <token>")
        return token.strip()
    session = session_cookie(request.app.state.url).read(request.scope)
    if session is not None and request.method not in SAFE_METHODS:
        reject_cross_site(request)
    return session


def reject_cross_site(request: Request) -> None:
    """Raise `Problem` for a request from another site's page (CSRF protection)."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    # The request's host, and the public URL, which differs if a proxy terminates TLS.
    own = (f"{request.url.scheme}://{request.headers.get('host', '')}", request.app.state.url)
    if site not in (None, "same-origin", "none") or (site or origin) is None or origin not in (None, *own):
        message = "cross-site request: the session cookie is not accepted from other sites"
        raise Problem(403, "foreign_site", message, "send a token in the Authorization header instead")


def _read_if_match(header: str | None) -> tuple[int | None, str | None, bool]:
    """The revision and ID suffix in an If-Match header, and whether it is `*`."""
    if header is None:
        return None, None, False
    if header.strip() == "*":
        return None, None, True
    # Proxies that compress responses make ETags weak (W/). Nine digits fit in an integer column.
    match = re.fullmatch(r'(?:W/)?"([0-9]{1,9})(?:-([0-9a-z]{1,12}))?"|([0-9]{1,9})', header.strip(), re.ASCII)
    if match is None:
        raise Problem(
            400, "if_match", f"invalid ETag in If-Match: {header[:80]!r}", "send the ETag of the last response, or *"
        )
    return int(match[1] or match[3]), match[2], False


def _read_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if request.method != "POST":
        raise Problem(400, "idempotency_key", "Idempotency-Key is only allowed for POST", "remove the header")
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        message = f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} printable characters, found {len(key)}"
        raise Problem(400, "idempotency_key", message, "send a random value, such as a UUID")
    return key


async def _fingerprint(request: Request) -> str:
    target = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(target + await request.body()).hexdigest()
