"""Roles and permissions, granted to users and groups at scopes."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import StrictModel, field_error, parse_text, short_repr
from fairlead.model.scopes import PLATFORM, ScopeRef

MAX_SUBJECT_LENGTH = 256


class Role(StrEnum):
    """A role for a user or group. It applies to a scope and every scope inside it."""

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
    # Editors manage compute resources, and members submit runs. Neither role includes the other.
    Role.EDITOR: frozenset({Permission.VIEW, Permission.SHARE}),
    Role.MEMBER: frozenset({Permission.VIEW, Permission.RUN}),
    Role.VIEWER: frozenset({Permission.VIEW}),
}


def parse_subject(value: Any) -> str:
    """Parse the subject of a grant: `user:<name>` or `group:<name>`."""
    text = parse_text(value)
    kind, _, name = text.partition(":")
    if kind not in ("user", "group") or not name or len(text) > MAX_SUBJECT_LENGTH or not name.isprintable():
        raise field_error("subject", f"invalid subject {short_repr(value)}", "use user:<name> or group:<name>")
    return text


Subject = Annotated[
    str, PlainValidator(parse_subject), WithJsonSchema({"type": "string", "pattern": "^(user|group):.+$"})
]


class Grant(StrictModel):
    """Grants a role to a user or group at a scope."""

    EXAMPLE: ClassVar[Any] = {"subject": "user:ada@example.org", "role": "member", "scope": "project/forest"}

    subject: Subject
    role: Role
    scope: ScopeRef = PLATFORM
