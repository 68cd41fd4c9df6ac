"""An issuer of tokens without a network: its documents, its keys, and how often it was asked."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from fairlead.adapters.identity.logins import OidcLogin
from fairlead.adapters.identity.oidc import OidcAuthenticator
from tests.adapters.desks import CLIENT, Desk

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
    """The documents of an issuer by URL, and a clock that tests advance."""

    def __init__(self, *keys: Key, issuer: str = ISSUER) -> None:
        self.now = NOW
        self.down = False
        self.asked: list[str] = []
        self.desk = Desk(issuer, lambda claims: make_token(make_claims(**claims)))
        described = {"issuer": issuer, "jwks_uri": f"{issuer}/keys", **self.desk.described}
        self.documents: dict[str, Any] = {
            f"{issuer}/.well-known/openid-configuration": described,
            f"{issuer}/keys": {"keys": [publish(key) for key in keys or ALL]},
        }

    def fetch(self, address: str) -> bytes:
        """A transport for `OidcIdentity` without a network."""
        self.asked.append(address)
        if self.down:
            raise OSError("connection refused")
        return json.dumps(self.documents[address]).encode()

    def wait(self, **span: float) -> None:
        """Let time pass."""
        self.now += timedelta(**span)

    def rotate(self, *keys: Key) -> None:
        """Publish other keys."""
        self.documents[f"{ISSUER}/keys"] = {"keys": [publish(key) for key in keys]}

    def identity(self, **options: Any) -> OidcAuthenticator:
        """An identity verifier for this issuer."""
        named: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "clock": lambda: self.now, "fetch": self.fetch}
        return OidcAuthenticator(**(named | options))

    def login(self, **options: Any) -> OidcLogin:
        """A login client of this issuer."""
        return OidcLogin(self.identity(**options), CLIENT, self.desk.secret, self._send)

    def describe(self, **changed: Any) -> None:
        """Say something else in the discovery document; what is changed to None is left out."""
        document = f"{ISSUER}/.well-known/openid-configuration"
        said = self.documents[document] | changed
        self.documents[document] = {name: value for name, value in said.items() if value is not None}

    def _send(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self.down:
            raise OSError("connection refused")
        return self.desk.send(address, form, headers)


def publish(key: Key, **parameters: Any) -> dict[str, Any]:
    """A key as an issuer shows it."""
    return dict(key.as_dict(private=False)) | parameters


def make_claims(**changed: Any) -> dict[str, Any]:
    """The claims of a valid token. None removes a claim."""
    seconds = int(NOW.timestamp())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": seconds, "exp": seconds + 600, "groups": ["vision"]}
    return {name: value for name, value in (good | changed).items() if value is not None}


def make_token(claims: dict[str, Any] | bytes | None = None, key: Key = RSA, alg: str = "RS256", **header: Any) -> str:
    """A token that is signed with a key."""
    payload = claims if isinstance(claims, bytes) else json.dumps(make_claims() if claims is None else claims).encode()
    named = {"alg": alg, "typ": "JWT", "kid": key.kid} | header
    registry = _Quiet(strict_check_header=False)
    protected = {name: value for name, value in named.items() if value is not None}
    return jws.serialize_compact(protected, payload, key, registry=registry)


def make_part(value: Any) -> str:
    """A header or claims as a part of a token."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class _Quiet(jws.JWSRegistry):
    """joserfc's algorithms without a warning of their age; big headers are for tests of big headers."""

    max_header_length = 100_000

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]
