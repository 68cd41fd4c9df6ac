"""The door: who asks and how, one hop to a thread for the one transaction of a use case, and the answer as bytes."""

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
from fairlead.server.problem_details import Problem
from fairlead.services.config_files import ConfigFiles
from fairlead.services.audits import Audits
from fairlead.services.calls import Call
from fairlead.services.capacity import CapacityReports
from fairlead.services.stored_code import CodeStore
from fairlead.services.compute_resources import ComputeResources
from fairlead.services.connections import Connections
from fairlead.services.executions import Executions
from fairlead.services.explanations import Explanations
from fairlead.services.run_feed import RunFeed
from fairlead.services.fit_checks import FitChecks
from fairlead.services.functions import Functions
from fairlead.services.grants import Grants
from fairlead.services.logins import Logins
from fairlead.services.policies import Policies
from fairlead.services.run_uploads import RunUploads
from fairlead.services.runs import Runs
from fairlead.services.schedules import Schedules
from fairlead.services.scopes import Scopes
from fairlead.services.secrets import Secrets
from fairlead.services.serving import Serving
from fairlead.services.settings import PlatformSettings
from fairlead.services.templates import Templates
from fairlead.services.tokens import Tokens
from fairlead.services.unit_of_work import UnitOfWorkFactory
from fairlead.services.volumes import Volumes

# More threads are slower: they only take the interpreter from each other.
THREADS = 4
OIDC_THREADS = 4  # of those that wait for an issuer, which takes nothing from anybody
CLUSTER_THREADS = 4  # of those that wait for a cluster, for up to a minute
COOKIE = "fairlead_session"
LONGEST_KEY = 255
TAIL = 8
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Services:
    """What users can do, by noun."""

    units: UnitOfWorkFactory
    scopes: Scopes
    connections: Connections
    compute_resources: ComputeResources
    templates: Templates
    policies: Policies
    secrets: Secrets
    volumes: Volumes
    runs: Runs
    fit_checks: FitChecks
    executions: Executions
    serving: Serving
    explanations: Explanations
    run_feed: RunFeed
    capacity: CapacityReports
    run_uploads: RunUploads
    stored_code: CodeStore
    functions: Functions
    schedules: Schedules
    grants: Grants
    tokens: Tokens
    logins: Logins
    audits: Audits
    settings: PlatformSettings
    config_files: ConfigFiles


@dataclass(frozen=True)
class RequestContext:
    """A request on its way to a use case."""

    services: Services
    call: Call
    request: Request
    limiter: CapacityLimiter

    async def run_in_thread(self, use_case: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """What a use case says, worked out in a thread of its own."""
        return await anyio.to_thread.run_sync(lambda: use_case(self.call, *args, **options), limiter=self.limiter)

    async def answer(
        self, use_case: Callable[..., Any], *args: Any, status: int = 200, quick: bool = False, **options: Any
    ) -> Response:
        """What a use case says, as JSON, with its revision as the ETag.

        Quick: it reads a row or two. Where that waits for nobody, it is done here: going to a thread and back takes
        longer than a preview.
        """

        def work() -> tuple[bytes, Any]:
            told = use_case(self.call, *args, **options)
            return (b"" if told is None else msgspec.json.encode(told)), told

        here = quick and self.request.app.state.reads_are_local
        body, told = work() if here else await anyio.to_thread.run_sync(work, limiter=self.limiter)
        return make_response(body, told, status, self.request)


def make_response(body: bytes, told: Any, status: int, request: Request) -> Response:
    """An answer; nothing where the caller has it already, or where there is nothing to say."""
    headers = {"Cache-Control": "no-store"}
    if (revision := getattr(told, "revision", None)) is not None:
        # With the id: what was deleted and made anew under its name begins with the same revision.
        headers["ETag"] = f'"{revision}-{told.id[-TAIL:]}"' if hasattr(told, "id") else f'"{revision}"'
        # What is worked out when it is read changes without a revision.
        whole = getattr(told, "DERIVED", None) == ()
        if (
            whole
            and request.method == "GET"
            and etag_matches(request.headers.get("if-none-match", ""), headers["ETag"])
        ):
            return Response(status_code=304, headers=headers)
    if not body:
        return Response(status_code=204, headers=headers)
    return Response(body, status, headers, media_type="application/json")


async def unauthenticated(request: Request) -> RequestContext:
    """What a request says of itself, whoever sent it."""
    state = request.app.state
    return RequestContext(state.services, read_call(request), request, state.limiter)


async def unauthenticated_oidc(request: Request) -> RequestContext:
    """The same for what waits for somebody else's server: however slow that is, all others have their threads."""
    return replace(await unauthenticated(request), limiter=request.app.state.oidc_limiter)


async def authenticated(request: Request) -> RequestContext:
    """The same for those who are known alone: nobody else's body is read."""
    context = await unauthenticated(request)
    units = context.services.units
    if not units.knows(context.call):
        await context.run_in_thread(units.admit)
    if context.call.key is None:
        return context
    return replace(context, call=replace(context.call, fingerprint=await _fingerprint(request)))


async def authenticated_cluster(request: Request) -> RequestContext:
    """The same for what takes as long as a cluster does: however long that is, all others have their threads."""
    return replace(await authenticated(request), limiter=request.app.state.cluster_limiter)


async def authenticated_run(request: Request) -> RequestContext:
    """The same for the run alone that the request is about, which comes with a token of its own."""
    context = await unauthenticated(request)
    await context.run_in_thread(context.services.run_uploads.admit, request.path_params["run_id"])
    return context


async def authenticated_user_or_run(request: Request) -> RequestContext:
    """The same for those who are known, and for the run that the request is about."""
    context = await unauthenticated(request)
    return await (authenticated_run(request) if is_run_token(context.call.bearer) else authenticated(request))


def read_call(request: Request) -> Call:
    """Who asks, from where, on which condition."""
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


def _read_bearer(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            message = "the header Authorization has no bearer token"
            raise Problem(401, "unauthenticated", message, "send Authorization: Bearer <token>")
        return token.strip()
    session = request.cookies.get(COOKIE)
    if session is not None and request.method not in SAFE_METHODS:
        _refuse_foreign(request)
    return session


def etag_matches(header: str, tag: str) -> bool:
    """Whether one of the ETags that the caller has is this one."""
    return header.strip() == "*" or tag in (known.strip().removeprefix("W/") for known in header.split(","))


def _refuse_foreign(request: Request) -> None:
    """A browser sends the cookie by itself: a change must come from our own page."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = (f"{request.url.scheme}://{request.headers.get('host', '')}", request.app.state.url)
    if site not in (None, "same-origin", "none") or (site or origin) is None or origin not in (None, *own):
        message = "the request comes from another site, and its cookie does not count"
        raise Problem(403, "foreign_site", message, "send the token in the header Authorization")


def _read_if_match(header: str | None) -> tuple[int | None, str | None, bool]:
    """The revision that was read, the end of the id of what it was read of, and whether any will do."""
    if header is None:
        return None, None, False
    if header.strip() == "*":
        return None, None, True
    match = re.fullmatch(r'(?:W/)?"([0-9]{1,9})(?:-([0-9a-z]{1,12}))?"|([0-9]{1,9})', header.strip(), re.ASCII)
    if match is None:
        raise Problem(400, "if_match", f"If-Match is no ETag of ours: {header[:80]!r}", "send the ETag as it was, or *")
    return int(match[1] or match[3]), match[2], False


def _read_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if request.method != "POST":
        raise Problem(400, "idempotency_key", "Idempotency-Key is for POST alone", "leave it out")
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        message = f"Idempotency-Key must have 1 to {LONGEST_KEY} printable characters, found {len(key)}"
        raise Problem(400, "idempotency_key", message, "send a random one, such as a UUID")
    return key


async def _fingerprint(request: Request) -> str:
    told = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(told + await request.body()).hexdigest()
