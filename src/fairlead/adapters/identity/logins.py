"""Signs users in with the OpenID Connect authorization code flow and PKCE, with or without a client secret.

The browser returns only a code. The ID token that the issuer returns for that code identifies the user.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode

from fairlead.adapters.identity import issuers
from fairlead.adapters.identity.issuers import parse_object
from fairlead.adapters.identity.oidc import OidcAuthenticator
from fairlead.errors import Unauthenticated, Unavailable
from fairlead.model.parsing import short_repr
from fairlead.ports import LoginAttempt, Principal

Send = Callable[[str, Mapping[str, str], Mapping[str, str]], tuple[int, bytes]]

SCOPES = ("openid", "profile", "email")
GROUPS = "groups"  # a scope that some issuers do not support and reject
BASIC, POST = "client_secret_basic", "client_secret_post"
CHECK_ISSUER = "try again; if the problem persists, check oidc_issuer and that this server can reach the issuer"
CHECK_CLIENT = (
    "sign in again; if the problem persists, check oidc_client_id, oidc_client_secret "
    "and the client's configuration at the issuer"
)


class OidcLogin:
    """Signs users in as a client of the issuer that an authenticator trusts."""

    def __init__(
        self,
        authenticator: OidcAuthenticator,
        client_id: str,
        client_secret: str | None = None,
        send: Send = issuers.post_form,
    ) -> None:
        self._authenticator, self._send = authenticator, send
        self._client_id, self._client_secret = client_id, client_secret

    @property
    def issuer(self) -> str:
        """The issuer's URL."""
        return self._authenticator.issuer

    def begin(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Return the URL to which the browser is redirected. Raises `Unavailable` if the issuer cannot be reached."""
        metadata = self._authenticator.keys.metadata()
        url = self._find_url(metadata, "authorization_endpoint", "sign-in page")
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join((*SCOPES, GROUPS) if GROUPS in _list(metadata, "scopes_supported") else SCOPES),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"

    def finish(self, attempt: LoginAttempt, redirect_uri: str, code: str) -> Principal:
        """Exchange a code for a user. Raises `Unauthenticated` if it is invalid, `Unavailable` if the issuer fails."""
        metadata = self._authenticator.keys.metadata()
        url = self._find_url(metadata, "token_endpoint", "tokens")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        token = self._exchange(url, form, _list(metadata, "token_endpoint_auth_methods_supported"))
        return self._authenticator.authenticate_login(token, client=self._client_id, nonce=attempt.nonce)

    def _find_url(self, metadata: Mapping[str, Any], name: str, purpose: str) -> str:
        try:
            return self._authenticator.keys.check_url(metadata, name, purpose)
        except ValueError as error:
            raise Unavailable(f"cannot sign in through {self.issuer}: {error}", CHECK_ISSUER) from error

    def _exchange(self, url: str, form: dict[str, str], methods: list[Any]) -> str:
        """Exchange a code for an ID token. Messages do not contain the response, which may contain tokens."""
        fields, headers = self._client_credentials(methods)
        try:
            status, content = self._send(url, form | fields, headers)
        except OSError as error:
            raise Unavailable(f"cannot get the user from {self.issuer}: {error}", CHECK_ISSUER) from error
        response = _parse_response(content)
        if 400 <= status < 500:
            message = f"{self.issuer} rejected the sign-in with status {status}: {short_repr(response.get('error'))}"
            raise Unauthenticated(message, CHECK_CLIENT)
        if status != 200:
            message = f"cannot get the user from {self.issuer}: it responded with status {status}"
            raise Unavailable(message, CHECK_ISSUER)
        token = response.get("id_token")
        # A signed token has three parts, an encrypted one five.
        if not isinstance(token, str) or token.count(".") != 2:
            hint = "configure the issuer to send signed, unencrypted ID tokens to this client"
            raise Unavailable(f"cannot get the user from {self.issuer}: it sent no signed ID token", hint)
        return token

    def _client_credentials(self, methods: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form fields and headers that authenticate this client."""
        if self._client_secret is None:
            return {"client_id": self._client_id}, {}
        # An issuer that lists no methods supports client_secret_basic, the default in OpenID Connect Discovery.
        if POST in methods and BASIC not in methods:
            return {"client_id": self._client_id, "client_secret": self._client_secret}, {}
        # RFC 6749 requires that both are URL-encoded first, because a colon in the ID would look like the separator.
        credentials = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
        return {}, {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


def _parse_response(content: bytes) -> dict[str, Any]:
    try:
        return parse_object(content)
    except ValueError:
        return {}  # the caller reports the status, which says more than a parse error


def _list(metadata: Mapping[str, Any], name: str) -> list[Any]:
    value = metadata.get(name)
    return value if isinstance(value, list) else []


def _challenge(verifier: str) -> str:
    """Return the PKCE code challenge (S256) for a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
