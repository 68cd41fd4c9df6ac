"""Authenticates users with tokens from an OpenID Connect issuer."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from joserfc import jws
from joserfc.errors import BadSignatureError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key

from fairlead.adapters.identity import issuers
from fairlead.adapters.identity.issuers import Fetch, IssuerKeys
from fairlead.errors import Unauthenticated, Unreadable
from fairlead.model.parsing import short_repr
from fairlead.ports import Principal

VIA = "oidc"
MAX_TOKEN_LENGTH = 16 * 1024
# Accept only asymmetric signatures: with a shared secret (HS*), any server that verifies tokens could forge them.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384"),
    *("EdDSA", "Ed25519"),  # Ed25519 is RFC 9864's name for EdDSA
)
# The issuer also signs other types of tokens for this audience, such as logout tokens, which do not identify a caller.
TYPES = ("jwt", "at+jwt")
NOT_A_TOKEN = "the bearer token is neither a token from this server nor a signed JSON Web Token"
SEND_TOKEN = "send only the complete token as `Authorization: Bearer <token>`"


class OidcAuthenticator:
    """Verifies tokens from exactly one issuer."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        user_claim: str = "sub",
        groups_claim: str = "groups",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        fetch: Fetch = issuers.fetch_document,
    ) -> None:
        if not (audience and user_claim and groups_claim):
            hint = "set oidc_audience, oidc_user_claim and oidc_groups_claim"
            raise Unreadable("the audience or a claim name is empty", hint)
        self.issuer = issuer
        self.audience = audience
        self.user_claim = user_claim
        self.groups_claim = groups_claim
        self._clock = clock
        self.keys = IssuerKeys(issuer, clock, fetch)

    def authenticate(self, bearer: str) -> Principal:
        """Return a token's owner. Raises `Unauthenticated` if it is invalid, `Unavailable` if it cannot be verified."""
        return self._read_principal(self._verify_token(bearer, self.audience))

    def authenticate_login(self, token: str, *, client: str, nonce: str) -> Principal:
        """Return the user of an ID token with this sign-in's nonce. Raises the same errors as `authenticate`."""
        verified = self._verify_token(token, client)
        issuers.check_login(verified, client, nonce)
        return self._read_principal(verified)

    def _verify_token(self, token: str, audience: str) -> issuers.Claims:
        """Verify a token's signature, issuer, audience and times, and return its claims."""
        header, unverified = _parse_token(token)
        algorithm, key_id = _check_header(header)
        # Also check the issuer before the signature, to reject tokens from other issuers without fetching keys.
        issuers.check_issuer(unverified, self.issuer)
        keys = self._choose_keys(key_id, algorithm)
        # From here on, only claims covered by the signature are used.
        verified = self._verify_signature(token, keys)
        issuers.check_issuer(verified, self.issuer)
        issuers.check_audience(verified, audience)
        issuers.check_times(verified, self._clock())
        return verified

    def _read_principal(self, proven: issuers.Claims) -> Principal:
        return Principal(
            user=issuers.parse_user(proven, self.user_claim),
            groups=issuers.parse_groups(proven, self.groups_claim),
            via=VIA,
            until=issuers.parse_end(proven),
        )

    def _choose_keys(self, key_id: str | None, algorithm: str) -> list[Key]:
        keys = self.keys.find(key_id)
        key_text = "a key without an ID" if key_id is None else f"the key {short_repr(key_id)}"
        if not keys:
            message = f"the token is signed with {key_text}, which {self.issuer} does not have"
            raise Unauthenticated(message, f"{issuers.SIGN_IN}; new issuer keys can take 30 seconds to be recognized")
        # The token names the algorithm, which an attacker can choose, so the algorithm must also match the key type.
        suitable = [key for key in keys if _suits(key, algorithm)]
        if not suitable:
            message = (
                f"the token is signed with {key_text} and {algorithm}, "
                f"but {self.issuer} has no such key for that algorithm"
            )
            raise Unauthenticated(message, issuers.SIGN_IN)
        # OpenID Connect requires a key ID if the issuer has several keys.
        if key_id is None and len(suitable) > 1:
            message = f"the token does not name the key it is signed with; {self.issuer} has {len(suitable)} keys"
            raise Unauthenticated(message, issuers.ASK_ADMINISTRATOR)
        return suitable

    def _verify_signature(self, token: str, keys: list[Key]) -> dict[str, Any]:
        for key in keys:  # several keys can have the same ID
            try:
                signed = jws.deserialize_compact(token, key, registry=_REGISTRY)
                return issuers.parse_object(signed.payload)
            except BadSignatureError:
                continue
            except (JoseError, ValueError):
                raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN) from None
        raise Unauthenticated(f"the token's signature is not from {self.issuer}", issuers.SIGN_IN)


class _Registry(jws.JWSRegistry):
    """The allowed algorithms. Only the size of the whole token limits the size of its parts."""

    max_header_length = max_payload_length = max_signature_length = MAX_TOKEN_LENGTH

    def get_alg(self, name: str) -> Any:
        # Do not call joserfc's method, which warns about the name EdDSA for every token.
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError()
        return self.algorithms[name]


# Unknown headers are ignored, as RFC 7515 requires, unless they are critical: _check_header rejects those.
_REGISTRY = _Registry(strict_check_header=False)


def _parse_token(bearer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims, both unverified."""
    if len(bearer) > MAX_TOKEN_LENGTH:
        message = f"the bearer token has {len(bearer)} characters; the limit is {MAX_TOKEN_LENGTH}"
        raise Unauthenticated(
            message, "configure the identity provider to issue smaller tokens, for example with fewer groups"
        )
    parts = bearer.split(".")
    if len(parts) != 3:
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN)
    try:
        return _parse_part(parts[0]), _parse_part(parts[1])
    except ValueError:
        # Not chained: the cause would contain a part of the token.
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN) from None


def _parse_part(part: str) -> dict[str, Any]:
    padded = part.encode("ascii") + b"=" * (-len(part) % 4)
    return issuers.parse_object(base64.b64decode(padded, altchars=b"-_", validate=True))


def _check_header(header: dict[str, Any]) -> tuple[str, str | None]:
    """Return the algorithm and the key ID. Keys inside the token (jwk, jku, x5c, x5u) are ignored."""
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if algorithm not in ALGORITHMS:
        message = f"the token is signed with {short_repr(algorithm)}; allowed algorithms: {', '.join(ALGORITHMS)}"
        raise Unauthenticated(message, "configure the identity provider to sign with RS256 or ES256")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in TYPES:
        raise Unauthenticated(f"tokens of type {short_repr(kind)} do not identify a caller", issuers.SIGN_IN)
    # `crit` lists extensions that a verifier must support; we support none. `b64` changes what is signed (RFC 7797).
    if "crit" in header or "b64" in header:
        raise Unauthenticated("the token requires unknown extensions (crit)", issuers.ASK_ADMINISTRATOR)
    if not isinstance(key_id, str | None):
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN)
    return algorithm, key_id


def _suits(key: Key, algorithm: str) -> bool:
    try:
        _REGISTRY.get_alg(algorithm).check_key(key)
    except JoseError:
        return False
    return True
