"""What a door knows of a request before anything is decided: who claims to ask, from where, on which condition."""

import hashlib
from dataclasses import dataclass, field

from fairlead.ports import Principal


@dataclass(frozen=True)
class Call:
    """One request to a service."""

    bearer: str | None = field(default=None, repr=False)
    address: str = ""
    request_id: str = ""
    revision: int | None = None  # the revision that the caller read (If-Match)
    revision_of: str | None = None  # the end of the id of what it was read of
    any_revision: bool = False  # whether the caller replaces whatever is there (If-Match: *)
    key: str | None = None  # the idempotency key
    fingerprint: str = ""  # of what is asked, so that a key is not used for two different things
    principal: Principal | None = None  # who asks, where that is known already
    trusted: bool = False  # whether the program itself asks, and may do all


def digest_of(text: str) -> str:
    """How a token is kept: random enough that no slow hash is needed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
