"""A fake token issuer without a network: documents, keys, and recorded requests."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from fairlead.adapters.identity.logins import OidcLogin
from fairlead.adapters.identity.oidc import OidcAuthenticator
from tests.adapters.login_endpoints import CLIENT, LoginEndpoints

ISSUER = "https://login.example.org/realms/forest"
AUDIENCE = "fairlead"
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
EC_384 = ECKey.generate_key("P-384", {"kid": "ec-384"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
ALL = (RSA, EC, EC_384, ED)


class Issuer:
    """An issuer's documents by URL, and a clock that tests advance."""

    def __init__(self, *keys: Key, issuer: str = ISSUER) -> None:
        self.now = NOW
        self.down = False
        self.requests: list[str] = []
        self.login_endpoints = LoginEndpoints(issuer, lambda claims: make_token(make_claims(**claims)))
        metadata = {"issuer": issuer, "jwks_uri": f"{issuer}/keys", **self.login_endpoints.metadata}
        self.documents: dict[str, Any] = {
            f"{issuer}/.well-known/openid-configuration": metadata,
            f"{issuer}/keys": {"keys": [publish(key) for key in keys or ALL]},
        }

    def fetch(self, address: str) -> bytes:
        """A transport for `OidcIdentity` without a network."""
        self.requests.append(address)
        if self.down:
            raise OSError("connection refused")
        return json.dumps(self.documents[address]).encode()

    def advance(self, **span: float) -> None:
        """Advance the clock."""
        self.now += timedelta(**span)

    def rotate(self, *keys: Key) -> None:
        """Publish different keys."""
        self.documents[f"{ISSUER}/keys"] = {"keys": [publish(key) for key in keys]}

    def identity(self, **options: Any) -> OidcAuthenticator:
        """An identity verifier for this issuer."""
        defaults: dict[str, Any] = {
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "clock": lambda: self.now,
            "fetch": self.fetch,
        }
        return OidcAuthenticator(**(defaults | options))

    def login(self, **options: Any) -> OidcLogin:
        """A login client for this issuer."""
        return OidcLogin(self.identity(**options), CLIENT, self.login_endpoints.secret, self._send)

    def describe(self, **fields: Any) -> None:
        """Change fields of the discovery document. None removes a field."""
        document = f"{ISSUER}/.well-known/openid-configuration"
        metadata = self.documents[document] | fields
        self.documents[document] = {name: value for name, value in metadata.items() if value is not None}

    def _send(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self.down:
            raise OSError("connection refused")
        return self.login_endpoints.send(address, form, headers)


def publish(key: Key, **parameters: Any) -> dict[str, Any]:
    """The public part of a key, as in a JWKS document."""
    return dict(key.as_dict(private=False)) | parameters


def make_claims(**changed: Any) -> dict[str, Any]:
    """The claims of a valid token. None removes a claim."""
    seconds = int(NOW.timestamp())
    valid = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": seconds, "exp": seconds + 600, "groups": ["vision"]}
    return {name: value for name, value in (valid | changed).items() if value is not None}


def make_token(claims: dict[str, Any] | bytes | None = None, key: Key = RSA, alg: str = "RS256", **header: Any) -> str:
    """A token that is signed with a key."""
    payload = claims if isinstance(claims, bytes) else json.dumps(make_claims() if claims is None else claims).encode()
    fields = {"alg": alg, "typ": "JWT", "kid": key.kid} | header
    registry = _LenientRegistry(strict_check_header=False)
    protected = {name: value for name, value in fields.items() if value is not None}
    return jws.serialize_compact(protected, payload, key, registry=registry)


def make_part(value: Any) -> str:
    """A header or claims, encoded as a token part."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class _LenientRegistry(jws.JWSRegistry):
    """joserfc's algorithms without deprecation warnings, and with room for large headers."""

    max_header_length = 100_000

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]
