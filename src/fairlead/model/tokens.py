"""Tokens as people ask for them."""

from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.numbers import Seconds
from fairlead.model.parsing import Strict, parse_text, show, wrong

LONGEST_USER = 250


def parse_user(value: Any) -> str:
    """The name of a user, as an identity provider writes it."""
    text = parse_text(value)
    if not 1 <= len(text) <= LONGEST_USER or not text.isprintable():
        hint = f"use 1 to {LONGEST_USER} printable characters"
        raise wrong("name", f"is no name of a user: {show(text)}", hint)
    return text


User = Annotated[
    str, PlainValidator(parse_user), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_USER})
]


class TokenRequest(Strict):
    """A token: what it is for, how long it lasts, and whose it is."""

    EXAMPLE: ClassVar[Any] = {"name": "ci", "expires_in": "90d"}

    name: User
    expires_in: Seconds | None = None
    user: User | None = None
