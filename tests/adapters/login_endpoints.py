"""The authorization and token endpoints of a fake identity provider."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

CLIENT = "fairlead: web"
SECRET = "s3cret+/:&=ü"
AUTHORIZE, TOKEN = "/authorize", "/token"

Claims = dict[str, Any]


class LoginEndpoints:
    """An identity provider that signs everyone in as ada. Tests can change the claims."""

    def __init__(self, issuer: str, sign: Callable[[Claims], str]) -> None:
        self.issuer, self._sign = issuer, sign
        self.secret: str | None = SECRET
        self.methods: tuple[str, ...] = ("client_secret_basic",)  # supported client authentication methods
        self.claims: Claims = {}  # additional claims in ID tokens; None removes a claim
        self.sign_with: Callable[[Claims], str] | None = None
        self.error: dict[str, str] = {}  # redirect parameters to send instead of a code
        self.requests: list[dict[str, str]] = []
        self.exchanged: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def metadata(self) -> dict[str, Any]:
        """The endpoints in the discovery document."""
        addresses = {"authorization_endpoint": self.issuer + AUTHORIZE, "token_endpoint": self.issuer + TOKEN}
        return {**addresses, "token_endpoint_auth_methods_supported": list(self.methods)}

    def authorize(self, address: str) -> str:
        """The redirect URL for an authorization request."""
        request = dict(parse_qsl(urlsplit(address).query, strict_parsing=True))
        self.requests.append(request)
        assert (request["response_type"], request["client_id"]) == ("code", CLIENT)
        assert request["code_challenge_method"] == "S256"
        code = f"c0de/+&{len(self.requests):040}"
        self._codes[code] = request
        params = self.error or {"code": code, "iss": self.issuer, "session_state": "x.y"}
        return f"{request['redirect_uri']}?{urlencode({'state': request['state'], **params})}"

    def exchange(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The token response for a code."""
        self.exchanged.append(dict(form))
        if not self._is_authenticated(form, authorization):
            return 401, {"error": "invalid_client"}
        request = self._codes.pop(form.get("code", ""), None)
        if request is None or form.get("redirect_uri") != request["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": f"no such code: {form.get('code')}"}
        if _challenge(form.get("code_verifier", "")) != request["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "PKCE verification failed"}
        claims = {"iss": self.issuer, "aud": CLIENT, "nonce": request["nonce"], "groups": ["vision"], **self.claims}
        token = (self.sign_with or self._sign)({name: value for name, value in claims.items() if value is not None})
        return 200, {"access_token": "Pl4nted-access-token", "token_type": "Bearer", "id_token": token}

    def send(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        """A transport for `OidcLogin` without a network."""
        assert address == self.issuer + TOKEN
        status, body = self.exchange(form, headers.get("Authorization", ""))
        return status, json.dumps(body).encode()

    def _is_authenticated(self, form: Mapping[str, str], authorization: str) -> bool:
        if self.secret is None:
            return not authorization and form.get("client_id") == CLIENT and "client_secret" not in form
        if "client_secret_basic" in self.methods:
            name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, self.secret) and "client_secret" not in form
        return not authorization and (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
