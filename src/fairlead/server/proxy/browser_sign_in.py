"""How a browser is let in at the host of a run: by a word in an address, then by a cookie that only goes there."""

import html
from urllib.parse import parse_qs

from fastapi import Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.types import Scope

from fairlead.errors import FairleadError, Unauthenticated, Unavailable
from fairlead.server.problem_details import Problem, render_known
from fairlead.server.proxy.headers import find_header, read_cookies
from fairlead.server.proxy.targets import Target
from fairlead.server.request_context import SAFE_METHODS
from fairlead.server.web_ui import accepts
from fairlead.services.serving import ServedHosts, SessionCookie

OURS = "/.fairlead/"  # what begins like this at the host of a run is never passed on to it
ENTER = f"{OURS}enter"
COOKIE = "fairlead_entrance"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · Fairlead</title></head>
<body><h1>{title}</h1><p>{said}</p><p><a href="{url}">The run at Fairlead</a></p></body></html>
"""


def read_ticket(scope: Scope, hosts: ServedHosts) -> str:
    """The ticket of a browser. Raise `Unauthenticated` where it has none."""
    wanted = f"{_cookie_name(hosts)}="
    found = next((cookie for cookie in read_cookies(scope) if cookie.startswith(wanted)), None)
    if found is None:
        message = "nobody has let this browser in here, or not within the last twelve hours"
        raise Unauthenticated(message, "open the run from its page at Fairlead, or with `fairlead open`")
    return found.removeprefix(wanted)


def read_word(scope: Scope) -> str:
    """The word with which a browser comes."""
    said: str = scope["query_string"].decode("latin-1")
    return parse_qs(said).get("word", [""])[0]


def let_in(ticket: SessionCookie, hosts: ServedHosts) -> Response:
    """Give a browser its ticket, and send it to the beginning."""
    answer = RedirectResponse("/", 303)
    # Lax: a strict cookie is not sent by a browser that comes from Fairlead's own page.
    answer.set_cookie(
        _cookie_name(hosts),
        ticket.text,
        max_age=int(ticket.lasts.total_seconds()),
        path="/",
        httponly=True,
        samesite="lax",
        secure=_is_secure(hosts),
    )
    return answer


def refuse_foreign(scope: Scope, target: Target, hosts: ServedHosts) -> None:
    """Raise where a browser was made to ask by a page of another origin, such as that of another run.

    It sends its cookie by itself, and names below one domain are one site to it. To come here by a link is no harm.
    """
    origin, site = find_header(scope, b"origin"), find_header(scope, b"sec-fetch-site")
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    own = (hosts.origin_of(target.run_id), f"{scheme}://{target.host.lower()}")
    safe = scope["type"] == "websocket" or scope["method"] in SAFE_METHODS
    by_link = (find_header(scope, b"sec-fetch-mode"), find_header(scope, b"sec-fetch-dest")) == ("navigate", "document")
    foreign_site = site in ("same-site", "cross-site") and not (by_link and safe)
    if foreign_site or (origin is not None and origin.lower() not in own) or (not safe and not (site or origin)):
        message = "the request comes from the page of another site, and its cookie does not count"
        raise Problem(403, "foreign_site", message, "ask from a page of the run itself, or with a token below /served")


def explain(error: FairleadError, scope: Scope, target: Target, hosts: ServedHosts) -> Response:
    """What went wrong: to a browser that has a run open a page, to all others a problem."""
    problem = render_known(error, scope["request_id"])
    by_person = target.is_own_host and scope["type"] == "http" and scope["method"] == "GET"
    if not by_person or not accepts(find_header(scope, b"accept") or "", "text/html"):
        return problem
    said = ". ".join(part[:1].upper() + part[1:] for part in (str(error), error.hint or "") if part)
    title = "Not now" if isinstance(error, Unavailable) else "Not here"
    url = f"{hosts.url}/runs/{target.run_id}"
    page = PAGE.format(title=title, said=html.escape(f"{said}."), url=html.escape(url))
    answer = HTMLResponse(page, problem.status_code)
    if isinstance(error, Unavailable):
        answer.headers["Retry-After"] = answer.headers["Refresh"] = str(error.retry_after_seconds)
    return answer


def _cookie_name(hosts: ServedHosts) -> str:
    """With TLS a name that browsers take from this very host alone: pages of other runs set cookies for them all."""
    return f"__Host-{COOKIE}" if _is_secure(hosts) else COOKIE


def _is_secure(hosts: ServedHosts) -> bool:
    return hosts.url.startswith("https://")
