"""Tokens as people ask for them."""

from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.numbers import Seconds
from fairlead.model.parsing import Strict, parse_text, show, wrong

LONGEST_NAME = 250
PRINTABLE = WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_NAME})


def parse_user(value: Any) -> str:
    """The name of a user, as an identity provider writes it."""
    return _parse_printable(value, "a user")


def parse_token_name(value: Any) -> str:
    """The name of a token: what its user knows it by."""
    return _parse_printable(value, "a token")


def _parse_printable(value: Any, whose: str) -> str:
    text = parse_text(value)
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise wrong("name", f"is no name of {whose}: {show(text)}", f"use 1 to {LONGEST_NAME} printable characters")
    return text


User = Annotated[str, PlainValidator(parse_user), PRINTABLE]
TokenName = Annotated[str, PlainValidator(parse_token_name), PRINTABLE]


class TokenRequest(Strict):
    """A token: what it is for, how long it lasts, and whose it is."""

    EXAMPLE: ClassVar[Any] = {"name": "ci", "expires_in": "90d"}

    name: TokenName
    expires_in: Seconds | None = None
    user: User | None = None
