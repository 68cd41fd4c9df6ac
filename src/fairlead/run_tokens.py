"""Tokens that runs use to download their code and upload their results. They are not stored.

A token is the encrypted ID of an attempt and is valid until that attempt has ended. Its prefix begins like that of all
other tokens from this server, so that it is never sent to an issuer. Only run tokens have a dot in their prefix.
"""

import base64

from fairlead.errors import Unauthenticated, Unavailable
from fairlead.ports import Keyring, Sealed

PREFIX = "fl_run."
PURPOSE = "run-token"


def is_run_token(bearer: str | None) -> bool:
    """Whether a token has the prefix of run tokens."""
    return bearer is not None and bearer.startswith(PREFIX)


def seal_run_token(keyring: Keyring, execution: str) -> str:
    """Create the token for an attempt of a run."""
    return PREFIX + format_sealed(keyring.seal(execution.encode(), PURPOSE))


def open_run_token(keyring: Keyring, token: str) -> str:
    """Return the ID of the attempt that a token belongs to. Raises `Unauthenticated` for an invalid token."""
    try:
        return keyring.open(parse_sealed(token.removeprefix(PREFIX)), PURPOSE).decode()
    # `Unavailable` would make the sidecar retry, but a deleted key does not come back.
    except (ValueError, Unavailable):
        message = "the run token is not from this server, or its key was deleted"
        raise Unauthenticated(message, "use the token that the server passed to the run") from None


def format_sealed(sealed: Sealed) -> str:
    """Encode an encrypted value for URLs, headers and cookies."""
    # Padding is left out, because `=` has a special meaning in URLs and cookies.
    return f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.content).decode().rstrip('=')}"


def parse_sealed(text: str) -> Sealed:
    """Decode an encrypted value. Raises ValueError if it is invalid."""
    key_id, _, content = text.partition(".")
    padding = b"=" * (-len(content) % 4)
    # `validate` rejects other characters. If b64decode skipped them, many different strings would be the same token.
    sealed = Sealed(base64.b64decode(content.encode("ascii") + padding, altchars=b"-_", validate=True), key_id)
    # The last character has bits that b64decode ignores.
    if format_sealed(sealed) != text:
        raise ValueError("not in canonical form")
    return sealed
