"""Signing in at an issuer: a browser goes there and comes back. What it comes back with proves nothing by itself."""

import hmac
import secrets
from dataclasses import dataclass, field

from fairlead.errors import NotFound, Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.ports import Login, LoginAttempt
from fairlead.services.calls import Call
from fairlead.services.tokens import Tokens, TokenView

AGAIN = "sign in again"


@dataclass(frozen=True)
class Returned:
    """What an issuer sends a browser back with."""

    state: str = field(default="", repr=False)
    code: str = field(default="", repr=False)
    iss: str | None = None
    error: str = ""
    error_description: str = ""


class Logins:
    """The use cases of signing in at an issuer, and whether a link signs in as well."""

    def __init__(self, tokens: Tokens, login: Login | None = None, *, link: bool = False) -> None:
        self._tokens, self._login, self.link = tokens, login, link

    @property
    def issuer(self) -> str | None:
        """Where people can sign in beside this server."""
        return None if self._login is None else self._login.issuer

    def begin(self, _call: Call, back: str) -> tuple[LoginAttempt, str]:
        """A new attempt, which the browser keeps to itself, and the address that it goes to."""
        attempt = LoginAttempt(*(secrets.token_urlsafe(32) for _ in range(3)))
        return attempt, self._find_login().begin(attempt, back)

    def finish(self, call: Call, attempt: LoginAttempt, back: str, returned: Returned) -> TokenView:
        """A session for whoever came back from the issuer, where it was this browser that went there."""
        login = self._find_login()
        # Somebody else's code, in a link that they made, would sign this browser in as them.
        if not hmac.compare_digest(attempt.state.encode(), returned.state.encode()):
            raise Unauthenticated("this is not the answer to the sign-in that this browser began last", AGAIN)
        if returned.iss not in (None, login.issuer):
            message = f"the answer comes from {short_repr(returned.iss)}; this server trusts {short_repr(login.issuer)}"
            raise Unauthenticated(message, AGAIN)
        if returned.error or not returned.code:
            described = f" ({short_repr(returned.error_description)})" if returned.error_description else ""
            message = f"{login.issuer} signed nobody in: {short_repr(returned.error or None)}{described}"
            raise Unauthenticated(message, f"{AGAIN}, or ask whoever runs the identity provider")
        return self._tokens.sign_in_as(call, login.finish(attempt, back, returned.code))

    def _find_login(self) -> Login:
        if self._login is None:
            raise NotFound("nobody signs in here at an issuer", "sign in with a token or a link")
        return self._login
