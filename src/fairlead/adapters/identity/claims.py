"""What a token claims, and what is wrong with it. Nothing here knows whether the token is genuine."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from fairlead.errors import Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.model.tokens import MAX_NAME_LENGTH

LEEWAY = timedelta(seconds=60)  # how far clocks may disagree
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
MOST_SHOWN = 5
LOG_IN = "log in at the identity provider again, and use the new token"
ASK_ADMINISTRATOR = "ask whoever runs the identity provider to change what it puts into tokens for this server"

Claims = Mapping[str, Any]


def parse_object(content: bytes) -> dict[str, Any]:
    """A JSON object in which every name stands once and every number is one. Raise `ValueError` for anything else."""
    try:
        # Not from bytes: json would guess UTF-16 and UTF-32, too.
        value = json.loads(content.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    return value


def check_issuer(claims: Claims, issuer: str) -> None:
    """A token is good only from the issuer that we trust, written exactly as we write it."""
    found = claims.get("iss")
    if found != issuer:
        message = f"the token was issued by {short_repr(found)}; this server trusts {short_repr(issuer)}"
        raise Unauthenticated(message, f"get a token from {issuer}")


def check_audience(claims: Claims, audience: str) -> None:
    """A token that was made for another server must not open this one."""
    found = claims.get("aud")
    listed = found if isinstance(found, list) else [found]
    if audience not in listed:
        shown = ", ".join(map(short_repr, listed[:MOST_SHOWN])) + (", ..." if len(listed) > MOST_SHOWN else "")
        message = f"the token is for {shown or 'nobody'}; this server is {short_repr(audience)}"
        raise Unauthenticated(message, f"ask the identity provider for a token with the audience {audience}")


def check_login(claims: Claims, client: str, nonce: str) -> None:
    """A token that tells of a sign-in must be of this very one, and made for whoever began it."""
    if claims.get("nonce") != nonce:
        raise Unauthenticated("the token is of another sign-in than the one that was begun (nonce)", "sign in again")
    if claims.get("azp", client) != client:
        message = f"the token was made for {short_repr(claims['azp'])} (azp); this server is {short_repr(client)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)


def parse_end(claims: Claims) -> datetime:
    """Until when a token is good, which it must say."""
    expires = _moment(claims, "exp")
    if expires is None:
        raise Unauthenticated("the token does not say when it expires (exp)", ASK_ADMINISTRATOR)
    return expires


def check_times(claims: Claims, now: datetime) -> None:
    """A token is good from when it says until when it says."""
    expires = parse_end(claims)
    if now >= expires + LEEWAY:
        raise Unauthenticated(f"the token expired at {_show(expires)}; it is {_show(now)}", LOG_IN)
    for name, doing in (("nbf", "is not good before"), ("iat", "was issued at")):
        begins = _moment(claims, name)
        if begins is not None and now < begins - LEEWAY:
            message = f"the token {doing} {_show(begins)} ({name}); it is {_show(now)}"
            raise Unauthenticated(
                message, "check that the clocks of this server and of the identity provider are right"
            )


def parse_user(claims: Claims, name: str) -> str:
    """Who the token is about."""
    found = claims.get(name)
    if not isinstance(found, str) or not _is_name(found):
        message = f"the token has no name of a user as its claim {name!r}: found {short_repr(found)}"
        raise Unauthenticated(message, f"it must be 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}")
    # Where anybody can sign up with any address, an unproven one would make them somebody else.
    if name == "email" and claims.get("email_verified") in (False, "false"):
        message = f"the identity provider has not verified that {short_repr(found)} belongs to the bearer of the token"
        raise Unauthenticated(message, "verify the address at the identity provider, then log in again")
    return found


def parse_groups(claims: Claims, name: str) -> tuple[str, ...]:
    """Which groups the user is in: one text or a list of them, and none where nothing is said."""
    found = claims.get(name, [])
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list):
        message = f"the token has no list of groups as its claim {name!r}: found {short_repr(found)}"
        raise Unauthenticated(message, ASK_ADMINISTRATOR)
    for group in listed:
        if not isinstance(group, str) or not _is_name(group):
            message = (
                f"the token has something that is no name of a group in its claim {name!r}: found {short_repr(group)}"
            )
            raise Unauthenticated(
                message, f"names are 1 to {MAX_NAME_LENGTH} printable characters; {ASK_ADMINISTRATOR}"
            )
    return tuple(dict.fromkeys(listed))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Of two claims of one name, two readers may believe different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("says something twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"has {name}, which is not JSON")


def _moment(claims: Claims, name: str) -> datetime | None:
    if name not in claims:
        return None
    found = claims[name]
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    if not is_number or not 0 <= found < END_OF_TIME:
        raise Unauthenticated(
            f"the token has no time as its claim {name!r}: found {short_repr(found)}", ASK_ADMINISTRATOR
        )
    return datetime.fromtimestamp(found, UTC)


def _show(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable() and not text.isspace()
