"""Sign-in with OpenID Connect: redirects the browser to the issuer and verifies the response."""

import hmac
import secrets
from dataclasses import dataclass, field

from fairlead.errors import NotFound, Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.ports import Login, LoginAttempt
from fairlead.services.calls import Call
from fairlead.services.tokens import Tokens, TokenView

SIGN_IN_AGAIN = "sign in again"


@dataclass(frozen=True)
class AuthorizationResponse:
    """The issuer's authorization response: query parameters of the redirect back to the server."""

    state: str = field(default="", repr=False)
    code: str = field(default="", repr=False)
    iss: str | None = None
    error: str = ""
    error_description: str = ""


class Logins:
    """Signs browsers in through an OpenID Connect issuer. `link` means that sign-in links are enabled too."""

    def __init__(self, tokens: Tokens, login: Login | None = None, *, link: bool = False) -> None:
        self._tokens, self._login, self.link = tokens, login, link

    @property
    def issuer(self) -> str | None:
        """The issuer URL; None if OpenID Connect is not configured."""
        return None if self._login is None else self._login.issuer

    def begin(self, _call: Call, redirect_uri: str) -> tuple[LoginAttempt, str]:
        """Start a sign-in. Returns the attempt, which the browser stores, and the issuer URL to redirect to."""
        # The state, nonce and PKCE verifier bind the response, the ID token and the code to this attempt.
        attempt = LoginAttempt(*(secrets.token_urlsafe(32) for _ in range(3)))
        return attempt, self._find_login().begin(attempt, redirect_uri)

    def finish(
        self, call: Call, attempt: LoginAttempt, redirect_uri: str, response: AuthorizationResponse
    ) -> TokenView:
        """Create a session from the issuer's response, if this browser started the sign-in."""
        login = self._find_login()
        # Prevents login CSRF: a link with an attacker's code would sign this browser in as the attacker.
        if not hmac.compare_digest(attempt.state.encode(), response.state.encode()):
            raise Unauthenticated("this response does not belong to this browser's last sign-in", SIGN_IN_AGAIN)
        # Prevents mix-up attacks (RFC 9207): another issuer must not complete this sign-in. Not all issuers send `iss`.
        if response.iss not in (None, login.issuer):
            message = f"the response is from {short_repr(response.iss)}, but the issuer is {short_repr(login.issuer)}"
            raise Unauthenticated(message, SIGN_IN_AGAIN)
        # Checked after the state, because otherwise any link could show its author's text as an error from the issuer.
        if response.error or not response.code:
            description = f" ({short_repr(response.error_description)})" if response.error_description else ""
            message = f"{login.issuer} rejected the sign-in: {short_repr(response.error or None)}{description}"
            raise Unauthenticated(message, f"{SIGN_IN_AGAIN}, or ask the identity provider's administrator")
        return self._tokens.sign_in_as(call, login.finish(attempt, redirect_uri, response.code))

    def _find_login(self) -> Login:
        if self._login is None:
            raise NotFound("sign-in with OpenID Connect is not configured", "sign in with a token or a link")
        return self._login
