"""Permissions of a caller, derived from the roles granted to the user and their groups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fairlead.core.scope_tree import ScopeTree
from fairlead.model.roles import ROLE_PERMISSIONS, Permission, Role
from fairlead.model.scopes import PLATFORM


@dataclass(frozen=True)
class Permissions:
    """The roles of one caller by scope."""

    tree: ScopeTree
    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)

    def may(self, permission: Permission, scope: str) -> bool:
        """Whether the caller has the permission through a role in the scope or in a scope that contains it."""
        return any(
            permission in ROLE_PERMISSIONS[role]
            for ancestor in self.tree.path(scope)
            for role in self.roles.get(ancestor, ())
        )

    def sees(self, scope: str) -> bool:
        """Whether the caller has a role in the scope, in a scope that contains it, or in one inside it."""
        return self.visible is None or scope in self.visible

    @cached_property
    def visible(self) -> frozenset[str] | None:
        """The visible scopes: those with a role, all scopes inside them, and all that contain them. None means all."""
        # With None, lists need no scope condition.
        if PLATFORM in self.roles:
            return None
        # The scopes above are included, because their policies and compute resources apply to the caller's runs.
        return frozenset(
            related for scope in self.roles for related in (*self.tree.path(scope), *self.tree.descendants(scope))
        )

    def scopes_with(self, permission: Permission) -> frozenset[str] | None:
        """The scopes in which the caller has the permission. None means all."""
        granted = [
            scope for scope, roles in self.roles.items() if any(permission in ROLE_PERMISSIONS[role] for role in roles)
        ]
        if PLATFORM in granted:
            return None
        return frozenset(inner for scope in granted for inner in (scope, *self.tree.descendants(scope)))


def permissions_of(
    user: str, groups: Iterable[str], grants: Iterable[tuple[str, str, str]], tree: ScopeTree
) -> Permissions:
    """Collect the roles of a user and their groups from all grants, given as (subject, role, scope)."""
    subjects = {f"user:{user}", *(f"group:{group}" for group in groups)}
    roles: dict[str, set[Role]] = {}
    for subject, role, scope in grants:
        if subject in subjects:
            roles.setdefault(scope, set()).add(Role(role))
    return Permissions(tree, {scope: frozenset(granted) for scope, granted in roles.items()})
