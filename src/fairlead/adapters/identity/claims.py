"""Parses and checks a token's claims. The signature is verified elsewhere."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from fairlead.errors import Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.model.project_objects import MAX_NAME_LENGTH

LEEWAY = timedelta(seconds=60)  # allowed difference between clocks
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC).timestamp()  # datetime cannot represent years after 9999
MAX_SHOWN = 5
SIGN_IN = "sign in with the identity provider again and use the new token"
ASK_ADMINISTRATOR = "ask the identity provider's administrator to correct the tokens that it issues for this server"

Claims = Mapping[str, Any]


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse a JSON object, rejecting duplicate names and non-finite numbers. Raises `ValueError`."""
    try:
        # Decode first: json.loads would also accept bytes in UTF-16 and UTF-32.
        value = json.loads(content.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def check_issuer(claims: Claims, issuer: str) -> None:
    """Check that a token is from the trusted issuer. The URLs must be exactly equal."""
    value = claims.get("iss")
    if value != issuer:
        message = f"the token was issued by {short_repr(value)}; this server trusts {short_repr(issuer)}"
        raise Unauthenticated(message, f"get a token from {issuer}")


def check_audience(claims: Claims, audience: str) -> None:
    """Check that a token is for this server."""
    value = claims.get("aud")
    audiences = value if isinstance(value, list) else [value]
    if audience not in audiences:
        shown = ", ".join(map(short_repr, audiences[:MAX_SHOWN])) + (", ..." if len(audiences) > MAX_SHOWN else "")
        message = f"the token has the audience {shown or '[]'}; this server expects {short_repr(audience)}"
        raise Unauthenticated(message, f"request a token with the audience {audience} from the identity provider")


def check_login(claims: Claims, client: str, nonce: str) -> None:
    """Check that an ID token is from this sign-in and for this client."""
    if claims.get("nonce") != nonce:
        raise Unauthenticated("the token is from another sign-in (nonce)", "sign in again")
    # The issuer may list this client among the audiences of a token that it issued to another client.
    if claims.get("azp", client) != client:
        message = f"the token was issued to {short_repr(claims['azp'])} (azp); this server is {short_repr(client)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)


def parse_end(claims: Claims) -> datetime:
    """Return when a token expires."""
    expires = _timestamp(claims, "exp")
    if expires is None:
        raise Unauthenticated("the token has no expiry time (exp)", ASK_ADMINISTRATOR)
    return expires


def check_times(claims: Claims, now: datetime) -> None:
    """Check that a token is valid now."""
    expires = parse_end(claims)
    if now >= expires + LEEWAY:
        raise Unauthenticated(f"the token expired at {_format(expires)}; it is now {_format(now)}", SIGN_IN)
    for name, text in (("nbf", "is not valid before"), ("iat", "was issued at")):
        begins = _timestamp(claims, name)
        if begins is not None and now < begins - LEEWAY:
            message = f"the token {text} {_format(begins)} ({name}); it is now {_format(now)}"
            raise Unauthenticated(message, "check the clocks of this server and the identity provider")


def parse_user(claims: Claims, name: str) -> str:
    """Return the user that a token identifies."""
    value = claims.get(name)
    if not isinstance(value, str) or not _is_name(value):
        message = f"the token's {name!r} claim is not a valid user name: {short_repr(value)}"
        hint = f"it must have 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}"
        raise Unauthenticated(message, hint)
    # If anyone can sign up with any address, an unverified address would let them impersonate its owner.
    # Issuers that verify all addresses may omit the claim, and some issuers send it as a string.
    if name == "email" and claims.get("email_verified") in (False, "false"):
        message = f"the identity provider has not verified the email address {short_repr(value)}"
        raise Unauthenticated(message, "verify the address with the identity provider, then sign in again")
    return value


def parse_groups(claims: Claims, name: str) -> tuple[str, ...]:
    """Return the user's groups. The claim can be a string, a list, or missing."""
    value = claims.get(name, [])
    groups = [value] if isinstance(value, str) else value
    if not isinstance(groups, list):
        message = f"the token's {name!r} claim is not a list of groups: {short_repr(value)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)
    for group in groups:
        if not isinstance(group, str) or not _is_name(group):
            message = f"the token's {name!r} claim contains an invalid group name: {short_repr(group)}"
            hint = f"names must have 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}"
            raise Unauthenticated(message, hint)
    return tuple(dict.fromkeys(groups))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Duplicate names are rejected, because different parsers might use different values."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("it has duplicate names")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"it contains {name}, which is not JSON")


def _timestamp(claims: Claims, name: str) -> datetime | None:
    if name not in claims:
        return None
    value = claims[name]
    # A JSON number such as 1e999 is parsed as infinity, and True is an int in Python.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value < END_OF_TIME:
        message = f"the token's {name!r} claim is not a valid time: {short_repr(value)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)
    return datetime.fromtimestamp(value, UTC)


def _format(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable() and not text.isspace()
