"""Signing in with a browser: by a link, a token or an issuer; the session is a cookie that no script can read."""

import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote, unquote, urlencode

import msgspec
import structlog
from fastapi import Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from pydantic import Field, PlainValidator, WithJsonSchema

import fairlead
from fairlead.errors import FairleadError, Unauthenticated, Unreadable
from fairlead.model.parsing import Strict, parse_text, show, wrong
from fairlead.model.project_objects import Hidden
from fairlead.model.requirements import Variable
from fairlead.ports import LoginAttempt
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import COOKIE, Context, OidcContext, PublicContext, make_response
from fairlead.server.routing import make_router, responses
from fairlead.services.logins import Returned
from fairlead.services.tokens import SESSION_LASTS, TokenView

LOGIN, LOGIN_OIDC, CALLBACK, SIGN_IN_PAGE = "/login", "/login/oidc", "/login/callback", "/sign-in"
LOGIN_COOKIE = "fairlead_login"
LOGIN_LASTS = timedelta(minutes=10)
LOGIN_VALUE = re.compile(r"([\w-]{43})\.([\w-]{43})\.([\w-]{43})\.(.*)", re.ASCII)
LONGEST_LANDING = 2000  # as it is written in the cookie, of which browsers keep 4096 bytes
LONGEST_SENTENCE = 300
OWN_PATH = "it must be a path of this server, such as /compute-resources, and not too long"

router = make_router("sessions", prefix="")
log = structlog.get_logger()


class SignIn(Hidden):
    """A token, or the word of a sign-in link."""

    EXAMPLE: ClassVar[Any] = {"token": "fl_..."}

    token: Variable = Field(repr=False)


@dataclass(frozen=True)
class OidcSignIn:
    """An issuer at which browsers sign in: where they go for that."""

    issuer: str
    url: str


@dataclass(frozen=True)
class SignInMethods:
    """How one can sign in: with a token, with a link that the server prints, at an issuer."""

    token: bool
    link: bool
    oidc: OidcSignIn | None
    version: str


def parse_landing(value: Any) -> str:
    """A path of our own page, in a body."""
    text = parse_text(value)
    if not _is_own(text):
        raise wrong("path", f"is {show(text)}, where nobody is sent", OWN_PATH)
    return text


class SignInLinkRequest(Strict):
    """A link that signs a browser in: where it brings it."""

    EXAMPLE: ClassVar[Any] = {"next": "/policies"}

    next: Annotated[
        str, PlainValidator(parse_landing), WithJsonSchema({"type": "string", "maxLength": LONGEST_LANDING})
    ] = "/"


@dataclass(frozen=True)
class SignInLink:
    """A link that signs a browser in, once."""

    url: str = field(repr=False)
    expires_at: datetime


WrittenSignIn = Annotated[SignIn, Depends(JsonBody(SignIn))]
WrittenLink = Annotated[SignInLinkRequest, Depends(JsonBody(SignInLinkRequest, required=False))]
Landing = Annotated[str, Query(alias="next")]


@router.get(LOGIN, include_in_schema=False)
async def follow_link(context: PublicContext, word: str = "", landing: Landing = "/") -> Response:
    """Sign in with a link that works once."""
    if context.request.scope.get("asked") == "HEAD":
        return Response(status_code=204)  # whoever previews a link must not use it up
    try:
        landing = _check_landing(landing)
        session: TokenView = await context.run_in_thread(context.services.tokens.sign_in, word)
    except FairleadError as error:
        if "text/html" not in context.request.headers.get("accept", ""):
            raise
        return _explain(error, context.request)
    return _with_cookie(RedirectResponse(landing, 303), session, context.request)


@router.get(LOGIN_OIDC, include_in_schema=False)
async def begin_login(context: OidcContext, landing: Landing = "/") -> Response:
    """Send a browser to the issuer, with all that it needs to come back."""
    try:
        landing = _check_landing(landing)
        attempt, address = await context.run_in_thread(context.services.logins.begin, _callback(context.request))
    except FairleadError as error:
        return _explain(error, context.request)
    kept = ".".join((attempt.state, attempt.nonce, attempt.verifier, quote(landing, safe="")))
    respond = RedirectResponse(address, 303)
    # Lax: a strict cookie is not sent by a browser that comes from the issuer's site.
    _set_cookie(respond, context.request, LOGIN_COOKIE, kept, LOGIN_LASTS, path=LOGIN, samesite="lax")
    return respond


async def finish_login(context: OidcContext) -> Response:
    """Sign in a browser that comes back from the issuer."""
    said = context.request.query_params
    returned = Returned(**{part.name: said[part.name] for part in fields(Returned) if part.name in said})
    try:
        attempt, landing = _read_attempt(context.request)
        back = _callback(context.request)
        session: TokenView = await context.run_in_thread(context.services.logins.finish, attempt, back, returned)
        respond = _with_cookie(RedirectResponse(landing, 303), session, context.request)
    except FairleadError as error:
        respond = _explain(error, context.request)
    respond.delete_cookie(LOGIN_COOKIE, path=LOGIN)
    return respond


# Issuers send more than we ask for, and may always send more: here alone, unknown parameters are no mistake.
router.add_api_route(CALLBACK, finish_login, include_in_schema=False, route_class_override=APIRoute)


@router.get("/api/v1/sessions", name="list_sign_in_methods", **responses(SignInMethods))
async def list_sign_in_methods(context: PublicContext) -> Response:
    """Say how one can sign in here."""
    logins = context.services.logins
    oidc = None if logins.issuer is None else OidcSignIn(logins.issuer, LOGIN_OIDC)
    ways = SignInMethods(token=True, link=logins.link, oidc=oidc, version=fairlead.__version__)
    return make_response(msgspec.json.encode(ways), ways, 200, context.request)


@router.post("/api/v1/sessions", name="sign_in", **responses(status=204, writing=True, description="Signed in"))
async def sign_in(context: PublicContext, said: WrittenSignIn) -> Response:
    """Sign a browser in with a token. The session is a cookie."""
    session: TokenView = await context.run_in_thread(context.services.tokens.sign_in, said.token)
    return _with_cookie(Response(status_code=204), session, context.request)


@router.delete("/api/v1/sessions", name="sign_out", **responses(status=204, writing=True, description="Signed out"))
async def sign_out(context: Context) -> Response:
    """End the session of this browser."""
    await context.run_in_thread(context.services.tokens.sign_out)
    respond = Response(status_code=204)
    respond.delete_cookie(COOKIE, path="/")
    return respond


@router.post(
    "/api/v1/sessions/link",
    name="make_sign_in_link",
    **responses(SignInLink, status=201, writing=True, description="Made"),
)
async def make_sign_in_link(context: Context, said: WrittenLink) -> Response:
    """Make a link that signs a browser in as you: once, within 15 minutes. Needs a token; a session makes none."""
    made: TokenView = await context.run_in_thread(context.services.tokens.make_link)
    landing = {"next": said.next} if said.next not in ("", "/") else {}
    address = f"{context.request.app.state.url.rstrip('/')}{LOGIN}?{urlencode({'word': made.token, **landing})}"
    assert made.expires_at is not None, "a link ends soon"
    link = SignInLink(address, made.expires_at)
    return make_response(msgspec.json.encode(link), link, 201, context.request)


def _with_cookie(respond: Response, session: TokenView, request: Request) -> Response:
    _set_cookie(respond, request, COOKIE, session.token or "", SESSION_LASTS, path="/", samesite="strict")
    return respond


def _set_cookie(
    respond: Response,
    request: Request,
    name: str,
    value: str,
    lasts: timedelta,
    *,
    path: str,
    samesite: Literal["lax", "strict"],
) -> None:
    respond.set_cookie(
        name,
        value,
        max_age=int(lasts.total_seconds()),
        path=path,
        httponly=True,
        samesite=samesite,
        secure=request.app.state.url.startswith("https://"),
    )


def _callback(request: Request) -> str:
    """Where the issuer sends browsers back to: the address that it knows, however this one came."""
    return f"{request.app.state.url.rstrip('/')}{CALLBACK}"


def _read_attempt(request: Request) -> tuple[LoginAttempt, str]:
    """What the browser kept of the sign-in that it began, and where it wants to go afterwards."""
    match = LOGIN_VALUE.fullmatch(request.cookies.get(LOGIN_COOKIE, ""))
    if match is None:
        minutes = int(LOGIN_LASTS.total_seconds() // 60)
        message = f"this browser did not begin to sign in here within the last {minutes} minutes"
        raise Unauthenticated(message, f"sign in again, at {request.app.state.url}")
    return LoginAttempt(match[1], match[2], match[3]), _check_landing(unquote(match[4]))


def _check_landing(text: str) -> str:
    """A path of our own page, in an address."""
    if not _is_own(text):
        raise Unreadable(f"next is {show(text)}, where nobody is sent", OWN_PATH)
    return text or "/"


def _is_own(text: str) -> bool:
    """Whether it is a path of ours. Browsers take `//host` and `/\\host` for other sites, and skip line breaks and
    tabs."""
    path = re.split(r"[?#]", text or "/")[0]
    own = path.startswith("/") and "//" not in path and "\\" not in text and text.isprintable()
    return own and len(quote(text, safe="")) <= LONGEST_LANDING


def _explain(error: FairleadError, request: Request) -> Response:
    """Our own page with a sentence on why nobody was signed in: a browser shows problems as bare data."""
    said = f"{error}: {error.hint}" if error.hint else str(error)
    said = said if len(said) <= LONGEST_SENTENCE else f"{said[: LONGEST_SENTENCE - 3]}..."
    log.info("sign-in failed", request_id=request.scope.get("request_id", ""), reason=said)
    return RedirectResponse(f"{SIGN_IN_PAGE}?failed={quote(said, safe='', errors='replace')}", 303)
