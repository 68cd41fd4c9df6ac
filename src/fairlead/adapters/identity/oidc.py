"""Who somebody is, by a token that an OpenID Connect issuer signed."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from joserfc import jws
from joserfc.errors import BadSignatureError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key

from fairlead.adapters.identity import claims, fetching
from fairlead.adapters.identity.issuers import Fetch, IssuerKeys
from fairlead.errors import Unauthenticated, Unreadable
from fairlead.model.parsing import short_repr
from fairlead.ports import Principal

VIA = "oidc"
LONGEST_TOKEN = 16 * 1024
# Signatures that only the issuer can make. With a shared secret (HS*), whoever checks a token could also forge one.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384"),
    *("EdDSA", "Ed25519"),  # the second is what RFC 9864 calls the first
)
# A token to log out with, say, is signed by the same issuer and for the same audience, and is no proof of who calls.
TYPES = ("jwt", "at+jwt")
NOT_A_TOKEN = "the bearer token is neither a token of this server nor a signed JSON web token"
SEND_TOKEN = "send the whole token, and nothing else, as `Authorization: Bearer <token>`"


class OidcAuthenticator:
    """Knows who a bearer of a token is, and trusts exactly one issuer."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        user_claim: str = "sub",
        groups_claim: str = "groups",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        fetch: Fetch = fetching.fetch,
    ) -> None:
        if not (audience and user_claim and groups_claim):
            hint = "set the audience that tokens have for this server, and the claims with the user and the groups"
            raise Unreadable("an audience or the name of a claim is empty", hint)
        self.issuer = issuer
        self.audience = audience
        self.user_claim = user_claim
        self.groups_claim = groups_claim
        self._clock = clock
        self.keys = IssuerKeys(issuer, clock, fetch)

    def authenticate(self, bearer: str) -> Principal:
        """Who it is. Raise `Unauthenticated` where the token is not good, `Unavailable` where that cannot be told."""
        return self._read_principal(self._prove(bearer, self.audience))

    def authenticate_login(self, token: str, *, client: str, nonce: str) -> Principal:
        """Who signed in, by the ID token that a client got for a sign-in of this nonce. Raise as `identify` does."""
        proven = self._prove(token, client)
        claims.check_login(proven, client, nonce)
        return self._read_principal(proven)

    def _prove(self, token: str, audience: str) -> claims.Claims:
        """What a token claims, where the issuer signed it for this audience and it is good now."""
        header, claimed = _parse_token(token)
        algorithm, key_id = _check_header(header)
        # Before the signature, too: a token of somebody else is called that, and costs no look at the issuer.
        claims.check_issuer(claimed, self.issuer)
        keys = self._choose_keys(key_id, algorithm)
        proven = self._verify(token, keys)
        claims.check_issuer(proven, self.issuer)
        claims.check_audience(proven, audience)
        claims.check_times(proven, self._clock())
        return proven

    def _read_principal(self, proven: claims.Claims) -> Principal:
        return Principal(
            user=claims.parse_user(proven, self.user_claim),
            groups=claims.parse_groups(proven, self.groups_claim),
            via=VIA,
            until=claims.parse_end(proven),
        )

    def _choose_keys(self, key_id: str | None, algorithm: str) -> list[Key]:
        found = self.keys.find(key_id)
        named = "a key without a name" if key_id is None else f"the key {short_repr(key_id)}"
        if not found:
            message = f"the token is signed with {named}, which {self.issuer} does not have"
            raise Unauthenticated(message, f"{claims.LOG_IN}; keys that are new at the issuer are known in 30 seconds")
        suitable = [key for key in found if _suits(key, algorithm)]
        if not suitable:
            message = f"the token is signed with {named} by {algorithm}, for which {self.issuer} does not use it"
            raise Unauthenticated(message, claims.LOG_IN)
        if key_id is None and len(suitable) > 1:
            message = f"the token does not say with which of the {len(suitable)} keys of {self.issuer} it is signed"
            raise Unauthenticated(message, claims.ASK_ADMINISTRATOR)
        return suitable

    def _verify(self, token: str, keys: list[Key]) -> dict[str, Any]:
        """What the token claims, now that the issuer is known to have signed it."""
        for key in keys:
            try:
                signed = jws.deserialize_compact(token, key, registry=_REGISTRY)
                return claims.parse_object(signed.payload)
            except BadSignatureError:
                continue
            except (JoseError, ValueError):
                raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN) from None
        raise Unauthenticated(f"the token is not signed by {self.issuer}: the signature is wrong", claims.LOG_IN)


class _Registry(jws.JWSRegistry):
    """The algorithms that we allow, with sizes bounded by that of the whole token."""

    max_header_length = max_payload_length = max_signature_length = LONGEST_TOKEN

    def get_alg(self, name: str) -> Any:
        # Not joserfc's own: it warns of EdDSA's name with every token.
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError()
        return self.algorithms[name]


# Headers that we do not know are ignored, as RFC 7515 wants, unless they are critical: those are refused below.
_REGISTRY = _Registry(strict_check_header=False)


def _parse_token(bearer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims, of which nothing is proven yet."""
    if len(bearer) > LONGEST_TOKEN:
        message = f"the bearer token has {len(bearer)} characters; at most {LONGEST_TOKEN} are read"
        raise Unauthenticated(message, "have the identity provider put less into it, such as fewer groups")
    parts = bearer.split(".")
    if len(parts) != 3:
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN)
    try:
        return _parse_part(parts[0]), _parse_part(parts[1])
    except ValueError:
        # Not chained: the cause would carry a part of the token.
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN) from None


def _parse_part(part: str) -> dict[str, Any]:
    padded = part.encode("ascii") + b"=" * (-len(part) % 4)
    return claims.parse_object(base64.b64decode(padded, altchars=b"-_", validate=True))


def _check_header(header: dict[str, Any]) -> tuple[str, str | None]:
    """The algorithm and the key that a token names. A key that it brings (jwk, jku, x5c, x5u) is not looked at."""
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if algorithm not in ALGORITHMS:
        message = f"the token is signed by {short_repr(algorithm)}; allowed are {', '.join(ALGORITHMS)}"
        raise Unauthenticated(message, "have the identity provider sign with RS256 or ES256")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in TYPES:
        raise Unauthenticated(
            f"the token is of the type {short_repr(kind)}, which says nothing of who calls", claims.LOG_IN
        )
    if "crit" in header or "b64" in header:
        raise Unauthenticated("the token demands extensions (crit) that are not understood", claims.ASK_ADMINISTRATOR)
    if not isinstance(key_id, str | None):
        raise Unauthenticated(NOT_A_TOKEN, SEND_TOKEN)
    return algorithm, key_id


def _suits(key: Key, algorithm: str) -> bool:
    try:
        _REGISTRY.get_alg(algorithm).check_key(key)
    except JoseError:
        return False
    return True
