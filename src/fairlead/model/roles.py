"""Who may do what: roles that are granted to users and groups at scopes."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import Strict, parse_text, show, wrong
from fairlead.model.scopes import PLATFORM, ScopeRef

LONGEST_SUBJECT = 256


class Role(StrEnum):
    """A role of a user or group. It applies to a scope and to every scope inside it."""

    ADMIN = "admin"
    EDITOR = "editor"
    MEMBER = "member"
    VIEWER = "viewer"


class Permission(StrEnum):
    """A permission at a scope. The value completes the sentence "you may not ... <scope>"."""

    VIEW = "view"
    SHARE = "share compute resources, templates and policies in"
    RUN = "run workloads in"
    ADMINISTER = "administer"


ROLE_PERMISSIONS = {
    Role.ADMIN: frozenset(Permission),
    Role.EDITOR: frozenset({Permission.VIEW, Permission.SHARE}),
    Role.MEMBER: frozenset({Permission.VIEW, Permission.RUN}),
    Role.VIEWER: frozenset({Permission.VIEW}),
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
    scope: ScopeRef = PLATFORM
