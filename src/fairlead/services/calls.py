"""The context of a request to a service: credentials, address, If-Match and Idempotency-Key."""

import hashlib
from dataclasses import dataclass, field

from fairlead.ports import Principal


@dataclass(frozen=True)
class Call:
    """Context of one request to a service."""

    bearer: str | None = field(default=None, repr=False)  # hidden to keep it out of tracebacks and logs
    address: str = ""  # the client's, for the audit log
    request_id: str = ""
    revision: int | None = None  # the revision in If-Match
    revision_of: str | None = None  # the end of the object's ID in If-Match
    any_revision: bool = False  # whether the request has If-Match: *
    key: str | None = None  # the Idempotency-Key
    fingerprint: str = ""  # digest of the request, to detect a key that is reused for a different request
    principal: Principal | None = None  # the user, if already authenticated
    trusted: bool = False  # whether the caller is the server itself, with all permissions


def digest_of(text: str) -> str:
    """Return the SHA-256 digest of a string. Safe for tokens, which are too random to need a slow hash."""
    # Text from a JSON body can contain lone surrogates. Such a token is unknown, but must not cause an error.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
