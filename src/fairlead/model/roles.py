"""Who may do what: roles that are granted to users and groups at scopes."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import Strict, parse_text, show, wrong
from fairlead.model.scopes import PLATFORM, Scope

LONGEST_SUBJECT = 256


class Role(StrEnum):
    """What somebody is at a scope, and so at all below it."""

    ADMIN = "admin"
    EDITOR = "editor"
    MEMBER = "member"
    VIEWER = "viewer"


class Deed(StrEnum):
    """What is done to something at a scope."""

    SEE = "see"
    OFFER = "offer compute resources, templates and policies in"
    WORK = "work in"
    GOVERN = "govern"


DEEDS = {
    Role.ADMIN: frozenset(Deed),
    Role.EDITOR: frozenset({Deed.SEE, Deed.OFFER}),
    Role.MEMBER: frozenset({Deed.SEE, Deed.WORK}),
    Role.VIEWER: frozenset({Deed.SEE}),
}


def parse_subject(value: Any) -> str:
    """Who gets a role: `user:<name>` or `group:<name>`."""
    text = parse_text(value)
    kind, _, name = text.partition(":")
    if kind not in ("user", "group") or not name or len(text) > LONGEST_SUBJECT or not name.isprintable():
        raise wrong("subject", f"is neither a user nor a group: {show(value)}", "write user:<name> or group:<name>")
    return text


Subject = Annotated[
    str, PlainValidator(parse_subject), WithJsonSchema({"type": "string", "pattern": "^(user|group):.+$"})
]


class Grant(Strict):
    """A role of a user or a group at a scope."""

    EXAMPLE: ClassVar[Any] = {"subject": "user:ada@example.org", "role": "member", "scope": "project/forest"}

    subject: Subject
    role: Role
    scope: Scope = PLATFORM
