"""Signing in at an OpenID Connect issuer: the authorization code flow with PKCE, for clients with and without a secret.

What comes back with a browser is only a code. Who came is in the ID token, which the issuer itself gives for the code.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode

from fairlead.adapters.identity import fetching
from fairlead.adapters.identity.claims import parse_object
from fairlead.adapters.identity.oidc import OidcAuthenticator
from fairlead.errors import Unauthenticated, Unavailable
from fairlead.model.parsing import short_repr
from fairlead.ports import LoginAttempt, Principal

Send = Callable[[str, Mapping[str, str], Mapping[str, str]], tuple[int, bytes]]

SCOPES = ("openid", "profile", "email")
GROUPS = "groups"  # a scope that only some issuers know, and others refuse
BASIC, POST = "client_secret_basic", "client_secret_post"
CHECK_ISSUER = "try again; where this stays, check that this server reaches the issuer, and how it is set up"
CHECK_CLIENT = (
    "sign in again; where this stays, check oidc_client_id, oidc_client_secret and what the issuer knows of them"
)


class OidcLogin:
    """Signs people in at the issuer that an identity trusts, as one client of it."""

    def __init__(
        self, identity: OidcAuthenticator, client_id: str, client_secret: str | None = None, send: Send = fetching.send
    ) -> None:
        self._identity, self._send = identity, send
        self._client_id, self._client_secret = client_id, client_secret

    @property
    def issuer(self) -> str:
        """Who signs people in."""
        return self._identity.issuer

    def begin(self, attempt: LoginAttempt, back: str) -> str:
        """Where a browser goes that is to come back to an address. Raise `Unavailable`."""
        described = self._identity.keys.describe()
        address = self._find_address(described, "authorization_endpoint", "sign-in page")
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": back,
            "scope": " ".join((*SCOPES, GROUPS) if GROUPS in _listed(described, "scopes_supported") else SCOPES),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    def finish(self, attempt: LoginAttempt, back: str, code: str) -> Principal:
        """Who came back. Raise `Unauthenticated` where that is nobody, `Unavailable` where it cannot be told."""
        described = self._identity.keys.describe()
        address = self._find_address(described, "token_endpoint", "tokens")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": attempt.verifier,
        }
        token = self._exchange(address, form, _listed(described, "token_endpoint_auth_methods_supported"))
        return self._identity.authenticate_login(token, client=self._client_id, nonce=attempt.nonce)

    def _find_address(self, described: Mapping[str, Any], name: str, of: str) -> str:
        try:
            return self._identity.keys.check_address(described, name, of)
        except ValueError as error:
            raise Unavailable(f"nobody can sign in at {self.issuer}: {error}", CHECK_ISSUER) from error

    def _exchange(self, address: str, form: dict[str, str], methods: list[Any]) -> str:
        """The ID token for a code. The answer is not repeated in messages: it may hold tokens."""
        own, headers = self._introduce(methods)
        try:
            status, content = self._send(address, form | own, headers)
        except OSError as error:
            raise Unavailable(f"{self.issuer} does not say who signed in: {error}", CHECK_ISSUER) from error
        answer = _parse_answer(content)
        if 400 <= status < 500:
            message = f"{self.issuer} refuses the sign-in with status {status}: {short_repr(answer.get('error'))}"
            raise Unauthenticated(message, CHECK_CLIENT)
        if status != 200:
            message = f"{self.issuer} does not say who signed in: it answers with status {status}"
            raise Unavailable(message, CHECK_ISSUER)
        token = answer.get("id_token")
        if not isinstance(token, str) or token.count(".") != 2:
            hint = "have it send ID tokens to this client that are signed and not encrypted"
            raise Unavailable(f"{self.issuer} does not say who signed in: it sent no signed ID token", hint)
        return token

    def _introduce(self, methods: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
        """How the issuer learns which client asks: what is added to the form, and to the headers."""
        if self._client_secret is None:
            return {"client_id": self._client_id}, {}
        if POST in methods and BASIC not in methods:
            return {"client_id": self._client_id, "client_secret": self._client_secret}, {}
        # Each is quoted first, as RFC 6749 wants: a colon in the id would end it.
        words = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
        return {}, {"Authorization": f"Basic {base64.b64encode(words.encode()).decode()}"}


def _parse_answer(content: bytes) -> dict[str, Any]:
    try:
        return parse_object(content)
    except ValueError:
        return {}  # whatever it is, it is no token; the status says more


def _listed(described: Mapping[str, Any], name: str) -> list[Any]:
    found = described.get(name)
    return found if isinstance(found, list) else []


def _challenge(verifier: str) -> str:
    """What the issuer is told of a verifier before it sees it (PKCE, S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
