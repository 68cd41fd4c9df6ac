"""Requests for API tokens."""

from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.numbers import Seconds
from fairlead.model.parsing import StrictModel, field_error, parse_text, short_repr

MAX_NAME_LENGTH = 250  # leaves room for the `group:` prefix in a grant's subject
PRINTABLE = WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH})


def parse_user(value: Any) -> str:
    """Parse a user name, as defined by an identity provider."""
    return _parse_printable(value, "user name")


def parse_token_name(value: Any) -> str:
    """Parse a token name."""
    return _parse_printable(value, "token name")


def _parse_printable(value: Any, noun: str) -> str:
    text = parse_text(value)
    if not 1 <= len(text) <= MAX_NAME_LENGTH or not text.isprintable():
        raise field_error(
            "name", f"invalid {noun} {short_repr(text)}", f"use 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return text


User = Annotated[str, PlainValidator(parse_user), PRINTABLE]
TokenName = Annotated[str, PlainValidator(parse_token_name), PRINTABLE]


class TokenRequest(StrictModel):
    """A request for a token. The default user is the caller."""

    EXAMPLE: ClassVar[Any] = {"name": "ci", "expires_in": "90d"}

    name: TokenName
    expires_in: Seconds | None = None
    user: User | None = None
