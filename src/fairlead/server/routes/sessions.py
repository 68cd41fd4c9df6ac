"""Routes for browser sessions: sign in with a link, a token or an identity provider, and sign out."""

import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec
import structlog
from fastapi import Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from pydantic import Field, PlainValidator, WithJsonSchema

import fairlead
from fairlead.errors import FairleadError, NotFound, TooManyRequests, Unauthenticated, Unavailable, Unreadable
from fairlead.model.parsing import StrictModel, field_error, parse_text, short_repr
from fairlead.model.project_objects import SensitiveModel
from fairlead.model.resources import Variable
from fairlead.ports import LoginAttempt
from fairlead.server.http.cookies import Cookie
from fairlead.server.http.middleware import is_head
from fairlead.server.http.parameters import JsonBody
from fairlead.server.http.request_context import (
    Context,
    OidcContext,
    PublicContext,
    RequestContext,
    make_response,
    reject_cross_site,
    session_cookie,
)
from fairlead.server.http.routing import make_router, responses
from fairlead.server.routes.sign_in_pages import render_confirmation, render_reload
from fairlead.services.access.tokens import SESSION_LIFETIME, AuthorizationResponse, TokenView
from fairlead.services.runs.serving import RUN_ID

LOGIN, LOGIN_OIDC, CALLBACK, SIGN_IN_PAGE = "/login", "/login/oidc", "/login/callback", "/sign-in"
LOGIN_LIFETIME = timedelta(minutes=10)  # enough time to enter a password and a second factor
# State, nonce and verifier, 32 random bytes each in base64url, and the page to open.
LOGIN_VALUE = re.compile(r"([\w-]{43})\.([\w-]{43})\.([\w-]{43})\.(.*)", re.ASCII)
STATE = re.compile(r"[0-9a-f]{64}", re.ASCII)
MAX_LANDING_LENGTH = 2000  # stored percent-encoded in a cookie, which browsers limit to 4096 bytes
MAX_REASON_LENGTH = 300  # of the logged reason, which can contain text from the identity provider
# Codes in the URL of the sign-in page, in addition to `link` and `issuer`. The page has a text for each.
FAILURES = ((TooManyRequests, "limit"), (Unavailable, "unavailable"), (NotFound, "method"), (Unreadable, "path"))
LANDING_HINT = f"use a path on this server, such as /compute-resources, with at most {MAX_LANDING_LENGTH} characters"

router = make_router("sessions", prefix="")
log = structlog.get_logger()


class SignIn(SensitiveModel):
    """A token, or the one-time code of a sign-in link."""

    EXAMPLE: ClassVar[Any] = {"token": "fl_..."}

    token: Variable = Field(repr=False)


@dataclass(frozen=True)
class OidcSignIn:
    """An identity provider, and the URL where browsers start signing in with it."""

    issuer: str
    url: str


@dataclass(frozen=True)
class SignInMethods:
    """The available sign-in methods: a token, a link printed by the server, or an identity provider."""

    token: bool
    link: bool
    oidc: OidcSignIn | None
    version: str


def parse_landing(value: Any) -> str:
    """Parse the path of the page to open after signing in."""
    text = parse_text(value)
    if not _is_local_path(text):
        raise field_error("path", f"invalid path {short_repr(text)}", LANDING_HINT)
    return text


class SignInLinkRequest(StrictModel):
    """A request for a sign-in link. `next` is the path of the page to open."""

    EXAMPLE: ClassVar[Any] = {"next": "/policies"}

    next: Annotated[
        str, PlainValidator(parse_landing), WithJsonSchema({"type": "string", "maxLength": MAX_LANDING_LENGTH})
    ] = "/"


@dataclass(frozen=True)
class SignInLink:
    """A link that signs a browser in once."""

    url: str = field(repr=False)
    expires_at: datetime


SignInBody = Annotated[SignIn, Depends(JsonBody(SignIn))]
SignInLinkBody = Annotated[SignInLinkRequest, Depends(JsonBody(SignInLinkRequest, required=False))]
Landing = Annotated[str, Query(alias="next")]


@router.get(LOGIN, include_in_schema=False)
async def follow_link(context: PublicContext, code: str = "", landing: Landing = "/") -> Response:
    """Sign in with a sign-in link. Asks first if that could replace the session of another user."""
    request = context.request
    if is_head(request):
        return Response(status_code=204)  # link previews send HEAD and must not use up the code
    try:
        landing = _check_landing(landing)
        if _accepts_html(request):
            # Only sent to TLS and loopback addresses.
            site = request.headers.get("sec-fetch-site")
            if site in ("cross-site", "same-site"):
                return render_reload(LOGIN, code=code, next=landing)
            user = await context.run_in_thread(context.services.tokens.find_user, code)
            current = await context.run_in_thread(context.services.tokens.find_current_user)
            # Without the header, the browser may have a session cookie that it did not send.
            if site is None or current not in (None, user):
                return render_confirmation(LOGIN, code, landing, user, current)
    except FairleadError as error:
        return _explain(error, request, "link")
    return await _use_link(context, code, landing)


@router.post(LOGIN, include_in_schema=False)
async def confirm_link(context: PublicContext) -> Response:
    """Sign in with a sign-in link after the user confirmed it."""
    # Also without a session cookie: another site must not sign this browser in.
    reject_cross_site(context.request)
    form = parse_qs((await context.request.body()).decode("utf-8", "replace"))
    return await _use_link(context, form.get("code", [""])[0], form.get("next", ["/"])[0])


async def _use_link(context: RequestContext, code: str, landing: str) -> Response:
    try:
        landing = _check_landing(landing)
        session: TokenView = await context.run_in_thread(context.services.tokens.sign_in, code)
    except FairleadError as error:
        return _explain(error, context.request, "link")
    return _with_cookie(RedirectResponse(landing, 303), session, context.request)


@router.get(LOGIN_OIDC, include_in_schema=False)
async def begin_login(context: OidcContext, landing: Landing = "/") -> Response:
    """Redirect a browser to the identity provider."""
    try:
        landing = _check_landing(landing)
        attempt, address = await context.run_in_thread(context.services.logins.begin, _callback(context.request))
    except FairleadError as error:
        return _explain(error, context.request, "issuer")
    # The browser stores the login attempt, so the server needs no cleanup, and any server can finish the attempt.
    state = ".".join((attempt.state, attempt.nonce, attempt.verifier, quote(landing, safe="")))
    response = RedirectResponse(address, 303)
    # Lax, because browsers do not send a strict cookie after a redirect from the identity provider.
    _login_cookie(context.request).set(response, state, LOGIN_LIFETIME)
    return response


async def finish_login(context: OidcContext) -> Response:
    """Sign in a browser that returns from the identity provider."""
    params = context.request.query_params
    returned = AuthorizationResponse(
        **{part.name: params[part.name] for part in fields(AuthorizationResponse) if part.name in params}
    )
    try:
        attempt, landing = _read_attempt(context.request)
        back = _callback(context.request)
        session: TokenView = await context.run_in_thread(context.services.logins.finish, attempt, back, returned)
        response = _with_cookie(RedirectResponse(landing, 303), session, context.request)
    except FairleadError as error:
        response = _explain(error, context.request, "issuer")
    # The cookie is deleted even after a failure, because an attempt is valid only once.
    _login_cookie(context.request).delete(response)
    return response


# Identity providers may add parameters, so this is the only route that ignores unknown ones.
router.add_api_route(CALLBACK, finish_login, include_in_schema=False, route_class_override=APIRoute)


@router.get("/open/{run_id}", include_in_schema=False)
async def continue_to_run(context: PublicContext, run_id: str, state: str = "", again: bool = False) -> Response:
    """Redirect a browser from a run's host back to it, with a one-time code for this browser."""
    if not RUN_ID.fullmatch(run_id) or not STATE.fullmatch(state):
        raise Unreadable("invalid link to a run", "open the run from its page")
    request, services = context.request, context.services
    # Browsers do not send the session cookie after the redirect from the run's host.
    if context.call.bearer is None and not again:
        return render_reload(request.url.path, state=state, again="true")
    try:
        link = await context.run_in_thread(services.serving.open, run_id, request.app.state.hosts, state)
    except FairleadError:
        return RedirectResponse(f"/runs/{run_id}", 303)  # shows the sign-in form or the state of the run
    return RedirectResponse(link.url, 303)


@router.get("/api/v1/sessions", name="list_sign_in_methods", **responses(SignInMethods))
async def list_sign_in_methods(context: PublicContext) -> Response:
    """List the available sign-in methods."""
    logins = context.services.logins
    oidc = None if logins.issuer is None else OidcSignIn(logins.issuer, LOGIN_OIDC)
    methods = SignInMethods(token=True, link=logins.link, oidc=oidc, version=fairlead.__version__)
    return make_response(msgspec.json.encode(methods), methods, 200, context.request)


@router.post(
    "/api/v1/sessions", name="sign_in", **responses(status=204, writing=True, limited=True, description="Signed in")
)
async def sign_in(context: PublicContext, body: SignInBody) -> Response:
    """Sign a browser in with a token. Sets the session cookie."""
    session: TokenView = await context.run_in_thread(context.services.tokens.sign_in, body.token)
    return _with_cookie(Response(status_code=204), session, context.request)


@router.delete("/api/v1/sessions", name="sign_out", **responses(status=204, writing=True, description="Signed out"))
async def sign_out(context: Context) -> Response:
    """End the session of this browser."""
    await context.run_in_thread(context.services.tokens.sign_out)
    response = Response(status_code=204)
    session_cookie(context.request.app.state.url).delete(response)
    return response


@router.post(
    "/api/v1/sessions/link",
    name="make_sign_in_link",
    **responses(SignInLink, status=201, writing=True, limited=True, description="Created"),
)
async def make_sign_in_link(context: Context, body: SignInLinkBody) -> Response:
    """Create a link that signs a browser in as you, once and within 15 minutes. Requires a token, not a session."""
    token: TokenView = await context.run_in_thread(context.services.tokens.make_link)
    landing = {"next": body.next} if body.next not in ("", "/") else {}
    address = f"{context.request.app.state.url.rstrip('/')}{LOGIN}?{urlencode({'code': token.token, **landing})}"
    assert token.expires_at is not None, "links always expire"
    link = SignInLink(address, token.expires_at)
    return make_response(msgspec.json.encode(link), link, 201, context.request)


def _with_cookie(response: Response, session: TokenView, request: Request) -> Response:
    # Strict: only requests from the page itself need the session. The page is public, so links from other sites work.
    cookie = session_cookie(request.app.state.url)
    cookie.set(response, session.token or "", SESSION_LIFETIME, samesite="strict")
    return response


def _login_cookie(request: Request) -> Cookie:
    return Cookie("fairlead_login", request.app.state.url, path=LOGIN)


def _callback(request: Request) -> str:
    """The redirect URI registered with the identity provider, regardless of the host that the browser used."""
    return f"{request.app.state.url.rstrip('/')}{CALLBACK}"


def _read_attempt(request: Request) -> tuple[LoginAttempt, str]:
    """The sign-in attempt from the browser's cookie, and the page to open afterwards."""
    match = LOGIN_VALUE.fullmatch(_login_cookie(request).read(request.scope) or "")
    if match is None:
        minutes = int(LOGIN_LIFETIME.total_seconds() // 60)
        message = f"this browser did not start a sign-in here within the last {minutes} minutes"
        raise Unauthenticated(message, f"sign in again at {request.app.state.url}")
    # The cookie is not signed, so the page is checked again.
    return LoginAttempt(match[1], match[2], match[3]), _check_landing(unquote(match[4]))


def _check_landing(text: str) -> str:
    if not _is_local_path(text):
        raise Unreadable(f"invalid path {short_repr(text)} in next", LANDING_HINT)
    return text or "/"


def _is_local_path(text: str) -> bool:
    """Whether a text is a path on this server. Browsers treat `//host` and `/\\host` as other sites, and ignore line
    breaks and tabs."""
    path = re.split(r"[?#]", text or "/")[0]
    own = path.startswith("/") and "//" not in path and "\\" not in text and text.isprintable()
    return own and len(quote(text, safe="")) <= MAX_LANDING_LENGTH


def _accepts_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _explain(error: FairleadError, request: Request, method: str) -> Response:
    """Redirect to the sign-in page with a code for the reason: browsers would show problem+json as plain data.

    The page shows its own text for each code, so that a link cannot make it show any other text.
    """
    # Programs get a machine-readable problem.
    if method == "link" and not _accepts_html(request):
        raise error
    reason = f"{error}: {error.hint}" if error.hint else str(error)
    reason = reason if len(reason) <= MAX_REASON_LENGTH else f"{reason[: MAX_REASON_LENGTH - 3]}..."
    log.info("sign-in failed", request_id=request.scope.get("request_id", ""), reason=reason)
    code = next((code for kind, code in FAILURES if isinstance(error, kind)), method)
    return RedirectResponse(f"{SIGN_IN_PAGE}?failed={code}", 303)
