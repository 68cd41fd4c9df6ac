"""Signing in with a browser: a link that works once, or a token; the session is a cookie that no script can read."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import Field

from fairlead.model.holdings import Hidden
from fairlead.model.requirements import Variable
from fairlead.server.bodies import Written
from fairlead.server.doors import COOKIE, Door, FreeDoor
from fairlead.server.routing import answers, make_router
from fairlead.services.tokens import SESSION_LASTS, TokenView

router = make_router("sessions", prefix="")


class SignIn(Hidden):
    """A token, or the word of a sign-in link."""

    EXAMPLE: ClassVar[Any] = {"token": "fl_..."}

    token: Variable = Field(repr=False)


WrittenSignIn = Annotated[SignIn, Depends(Written(SignIn))]
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fairlead</title></head>
<body><h1>Fairlead</h1><p>The server runs.</p>
<p>The API is described at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>;
who you are is at <a href="/api/v1/me">/api/v1/me</a>.</p></body></html>
"""


@router.get("/", include_in_schema=False)
async def index() -> Response:
    """What a browser finds here."""
    return HTMLResponse(PAGE)


@router.get("/login", include_in_schema=False)
async def follow_link(door: FreeDoor, word: str = "") -> Response:
    """Sign in with a link that works once."""
    if door.request.scope.get("asked") == "HEAD":
        return Response(status_code=204)  # whoever previews a link must not use it up
    session: TokenView = await door.perform(door.services.tokens.sign_in, word)
    return _with_cookie(RedirectResponse("/", 303), session, door.request)


@router.post("/api/v1/sessions", name="sign_in", **answers(status=204, writing=True, about="Signed in"))
async def sign_in(door: FreeDoor, said: WrittenSignIn) -> Response:
    """Sign a browser in with a token. The session is a cookie."""
    session: TokenView = await door.perform(door.services.tokens.sign_in, said.token)
    return _with_cookie(Response(status_code=204), session, door.request)


@router.delete("/api/v1/sessions", name="sign_out", **answers(status=204, writing=True, about="Signed out"))
async def sign_out(door: Door) -> Response:
    """End the session of this browser."""
    await door.perform(door.services.tokens.sign_out)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _with_cookie(answer: Response, session: TokenView, request: Request) -> Response:
    answer.set_cookie(
        COOKIE,
        session.token or "",
        max_age=int(SESSION_LASTS.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.app.state.url.startswith("https://"),
    )
    return answer
