"""Browser sign-in on a run's host: a one-time code in the URL is exchanged for a session cookie.

During long requests, permissions are checked again and the run is marked as used.
"""

import html
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import parse_qs, urlencode

from anyio.abc import TaskGroup
from fastapi import Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.types import Scope

from fairlead.errors import FairleadError, Unauthenticated, Unavailable
from fairlead.server.http.cookies import Cookie
from fairlead.server.http.problem_details import Problem, render_known
from fairlead.server.http.request_context import SAFE_METHODS
from fairlead.server.http.web_ui import accepts
from fairlead.server.proxy.headers import Target, find_header
from fairlead.services.runs.serving import ServedHosts, SessionCookie
from fairlead.services.transactions.unit_of_work import digest_of

RESERVED_PATH = "/.fairlead/"  # never forwarded to the run
START_PATH, SIGN_IN_PATH = f"{RESERVED_PATH}start", f"{RESERVED_PATH}sign-in"
NONCE = re.compile(r"[\w-]{43}", re.ASCII)  # 32 random bytes in base64url
NONCE_LIFETIME = timedelta(minutes=10)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · Fairlead</title></head>
<body><h1>{title}</h1><p>{text}</p><p><a href="{url}">Open the run in Fairlead</a></p></body></html>
"""


def read_session_cookie(scope: Scope, hosts: ServedHosts) -> str:
    """The browser's session cookie. Raises `Unauthenticated` if it is missing."""
    value = _session_cookie(hosts).read(scope)
    if value is None:
        message = "this browser is not signed in to the run, or its twelve-hour session has expired"
        raise Unauthenticated(message, "open the run from its page in Fairlead, or with `fairlead open`")
    return value


def begin_sign_in(scope: Scope, target: Target, hosts: ServedHosts) -> Response:
    """Store a nonce in the browser, and redirect it to the server for a code that is bound to the nonce."""
    # An existing nonce stays valid, so that a user can open the run in two tabs.
    nonce = read_nonce(scope, hosts) or secrets.token_urlsafe(32)
    url = f"{hosts.url_at(read_parameter(scope, 'at'))}/open/{target.run_id}"
    response = RedirectResponse(f"{url}?{urlencode({'state': digest_of(nonce)})}", 303)
    _nonce_cookie(hosts).set(response, nonce, NONCE_LIFETIME)
    return response


def read_nonce(scope: Scope, hosts: ServedHosts) -> str | None:
    """The nonce in the browser's cookie."""
    nonce = _nonce_cookie(hosts).read(scope)
    return nonce if nonce is not None and NONCE.fullmatch(nonce) else None


def read_parameter(scope: Scope, name: str) -> str:
    """A parameter in the request URL; empty if there is none."""
    query: str = scope["query_string"].decode("latin-1")
    return parse_qs(query).get(name, [""])[0]


def start_session(cookie: SessionCookie, hosts: ServedHosts) -> Response:
    """Set the session cookie and redirect to the run's start page."""
    # The redirect removes the code from the address bar. A target in the URL would be an open redirect.
    response = RedirectResponse("/", 303)
    # Lax, because browsers do not send a strict cookie when the user follows a link from Fairlead's web UI.
    _session_cookie(hosts).set(response, cookie.value, cookie.lifetime)
    return response


def reject_cross_site(scope: Scope, target: Target, hosts: ServedHosts) -> None:
    """Raise `Problem` for a request from a page with another origin, for example another run's page (CSRF protection).

    SameSite cookies do not prevent this, because all run hosts belong to the same site. Following a link is allowed.
    """
    origin, site = find_header(scope, b"origin"), find_header(scope, b"sec-fetch-site")
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    # The public origin, and the one that this server sees: they differ if a proxy terminates TLS.
    own = (hosts.origin_of(target.run_id), f"{scheme}://{target.host.lower()}")
    # Browsers send Origin with every WebSocket, so the origin check below covers them.
    safe = scope["type"] == "websocket" or scope["method"] in SAFE_METHODS
    by_link = (find_header(scope, b"sec-fetch-mode"), find_header(scope, b"sec-fetch-dest")) == ("navigate", "document")
    foreign_site = site in ("same-site", "cross-site") and not (by_link and safe)
    # Browsers send at least one of the two headers with an unsafe request, so a request with neither is rejected.
    if foreign_site or (origin is not None and origin.lower() not in own) or (not safe and not (site or origin)):
        message = "cross-site request: the session cookie is not accepted from other sites"
        raise Problem(
            403,
            "foreign_site",
            message,
            "send it from one of the run's pages, or use a token and the path under /served",
        )


def render_error(error: FairleadError, scope: Scope, target: Target, hosts: ServedHosts) -> Response:
    """The response for an error: a page for a browser that opens a run, problem+json for other clients."""
    problem = render_known(error, scope["request_id"])
    is_browser = target.is_own_host and scope["type"] == "http" and scope["method"] == "GET"
    if not is_browser or not accepts(find_header(scope, b"accept") or "", "text/html"):
        return problem
    text = ". ".join(part[:1].upper() + part[1:] for part in (str(error), error.hint or "") if part)
    title = "Not available" if isinstance(error, Unavailable) else "Cannot open the run"
    url = f"{hosts.url}/runs/{target.run_id}"
    page = PAGE.format(title=title, text=html.escape(f"{text}."), url=html.escape(url))
    response = HTMLResponse(page, problem.status_code)
    if isinstance(error, Unavailable):
        # While a run is starting, its page reloads itself until the run is ready.
        response.headers["Retry-After"] = response.headers["Refresh"] = str(error.retry_after_seconds)
    return response


def _session_cookie(hosts: ServedHosts) -> Cookie:
    # The names of Fairlead's cookies begin with fairlead_, so that they are not forwarded to runs, see headers.py.
    return Cookie("fairlead_run_session", hosts.url)


def _nonce_cookie(hosts: ServedHosts) -> Cookie:
    return Cookie("fairlead_run_nonce", hosts.url, path=RESERVED_PATH)


class AccessRenewal:
    """Access to a run during one request or WebSocket. `authorize` checks permissions again and raises if it fails."""

    def __init__(self, authorize: Callable[[], Awaitable[object]], interval_seconds: float) -> None:
        self._authorize, self._interval = authorize, interval_seconds
        self._renewed_at = time.monotonic()
        self.error: FairleadError | None = None

    def on_activity(self, tasks: TaskGroup) -> None:
        """Call this whenever data is sent. Renews access if it is due, and cancels `tasks` if access was revoked."""
        # A timer is not used, because an idle connection must not keep an unused workspace from being stopped.
        if time.monotonic() - self._renewed_at >= self._interval:
            # Set before the check ends, so that data sent during the check does not start a second one.
            self._renewed_at = time.monotonic()
            tasks.start_soon(self._renew, tasks)

    async def _renew(self, tasks: TaskGroup) -> None:
        try:
            await self._authorize()
        except Unavailable:
            return  # an unavailable run or database does not mean that access was revoked
        except FairleadError as error:
            self.error = error
            tasks.cancel_scope.cancel()
