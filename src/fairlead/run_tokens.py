"""Tokens of runs: with them code and outcome travel between the server and what executes a run. None is kept.

One is the sealed id of a try of its run, and dies with that try. The prefix has a dot, which no other token has, and
begins as all tokens of this server do, so that no issuer is ever asked about one.
"""

import base64

from fairlead.errors import Unauthenticated, Unavailable
from fairlead.ports import Keyring, Sealed

PREFIX = "fl_run."
PURPOSE = "run-token"


def is_run_token(bearer: str | None) -> bool:
    """Whether a token says that it is one of a run."""
    return bearer is not None and bearer.startswith(PREFIX)


def seal_run_token(keyring: Keyring, execution: str) -> str:
    """The token of a try of a run."""
    return PREFIX + format_sealed(keyring.seal(execution.encode(), PURPOSE))


def open_run_token(keyring: Keyring, token: str) -> str:
    """The id of the try whose token it is. Raise `Unauthenticated` where it is none that this server sealed."""
    try:
        return keyring.open(parse_sealed(token.removeprefix(PREFIX)), PURPOSE).decode()
    except (ValueError, Unavailable):
        message = "the token of a run was not made by this server, or its key was forgotten"
        raise Unauthenticated(message, "a run has its token from the server that started it") from None


def format_sealed(sealed: Sealed) -> str:
    """Something sealed as a word that addresses, headers and cookies take as it is."""
    return f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.content).decode().rstrip('=')}"


def parse_sealed(text: str) -> Sealed:
    """What such a word stands for. Raise ValueError where it is none."""
    key_id, _, content = text.partition(".")
    padding = b"=" * (-len(content) % 4)
    return Sealed(base64.b64decode(content.encode("ascii") + padding, altchars=b"-_", validate=True), key_id)
