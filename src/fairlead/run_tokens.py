"""Tokens of runs: with them code and outcome travel between the server and what executes a run. None is kept.

One is the sealed id of its run. The prefix has a dot, which no other token has, and begins as all tokens of this server
do, so that no issuer is ever asked about one.
"""

import base64
import binascii

from fairlead.errors import Unauthenticated, Unavailable
from fairlead.ports import Safe, Sealed

PREFIX = "fl_run."
PURPOSE = "run-token"


def is_run_token(bearer: str | None) -> bool:
    """Whether a token says that it is one of a run."""
    return bearer is not None and bearer.startswith(PREFIX)


def seal_run_token(safe: Safe, run_id: str) -> str:
    """The token of a run."""
    sealed = safe.seal(run_id.encode(), PURPOSE)
    return f"{PREFIX}{sealed.key_id}.{base64.urlsafe_b64encode(sealed.content).decode().rstrip('=')}"


def open_run_token(safe: Safe, token: str) -> str:
    """The id of the run whose token it is. Raise `Unauthenticated` where it is none that this server sealed."""
    key_id, _, text = token.removeprefix(PREFIX).partition(".")
    try:
        content = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return safe.open(Sealed(content, key_id), PURPOSE).decode()
    except (binascii.Error, UnicodeError, Unavailable):
        message = "the token of a run was not made by this server, or its key was forgotten"
        raise Unauthenticated(message, "a run has its token from the server that started it") from None
