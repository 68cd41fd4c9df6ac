"""HTML pages of sign-in links. They need neither scripts nor the web UI."""

import html
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{head}
<title>{title} · Fairlead</title></head>
<body><h1>{title}</h1>{body}</body></html>
"""
FORM = """<p>{text}</p>
<form method="post" action="{path}"><input type="hidden" name="code" value="{code}">
<input type="hidden" name="next" value="{landing}"><button>Sign in as {user}</button></form>
<p><a href="/">Cancel</a></p>"""


def render_reload(path: str, **parameters: str) -> HTMLResponse:
    """A page that opens a path of this server.

    Browsers do not send the session cookie after a link or redirect from another site, but they do after this page.
    """
    url = html.escape(f"{path}?{urlencode(parameters)}")
    head = f'<meta http-equiv="refresh" content="0;url={url}">'
    return HTMLResponse(PAGE.format(title="Sign in", head=head, body=f'<p><a href="{url}">Continue</a></p>'))


def render_confirmation(path: str, code: str, landing: str, user: str, current: str | None) -> HTMLResponse:
    """A page that asks before a sign-in link replaces the session of another user."""
    now = "" if current is None else f"You are signed in as {current}. "
    text = f"{now}This link signs this browser in as {user}."
    values = {"text": text, "path": path, "code": code, "landing": landing, "user": user}
    body = FORM.format(**{name: html.escape(value) for name, value in values.items()})
    response = HTMLResponse(PAGE.format(title="Sign in", head="", body=body))
    # With the default, no-referrer, browsers would send the form without its origin, and it would be rejected.
    response.headers["Referrer-Policy"] = "same-origin"
    return response
