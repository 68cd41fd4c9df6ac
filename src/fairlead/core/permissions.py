"""What a caller may see and do, from the roles granted to them and their groups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fairlead.core.scope_tree import Tree
from fairlead.model.roles import ROLE_PERMISSIONS, Permission, Role
from fairlead.model.scopes import PLATFORM


@dataclass(frozen=True)
class Permissions:
    """The roles of one caller by scope, in a tree."""

    tree: Tree
    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)

    def may(self, permission: Permission, scope: str) -> bool:
        """Whether the caller has a role at the scope or above it that allows the permission."""
        return any(
            permission in ROLE_PERMISSIONS[role]
            for place in self.tree.path(scope)
            for role in self.roles.get(place, ())
        )

    def sees(self, scope: str) -> bool:
        """Whether the caller has a role at the scope, above it, or below it."""
        return self.visible is None or scope in self.visible

    @cached_property
    def visible(self) -> frozenset[str] | None:
        """The scopes that the caller sees: those of their roles, all below, and all above. None: all there are."""
        if PLATFORM in self.roles:
            return None
        return frozenset(place for scope in self.roles for place in (*self.tree.path(scope), *self.tree.below(scope)))

    def reach(self, permission: Permission) -> frozenset[str] | None:
        """The scopes at which the caller may do the permission. None: everywhere."""
        granted = [
            scope for scope, roles in self.roles.items() if any(permission in ROLE_PERMISSIONS[role] for role in roles)
        ]
        if PLATFORM in granted:
            return None
        return frozenset(place for scope in granted for place in (scope, *self.tree.below(scope)))


def permissions_of(user: str, groups: Iterable[str], grants: Iterable[tuple[str, str, str]], tree: Tree) -> Permissions:
    """The permissions of a user in groups, from all grants as (subject, role, scope)."""
    subjects = {f"user:{user}", *(f"group:{group}" for group in groups)}
    roles: dict[str, set[Role]] = {}
    for subject, role, scope in grants:
        if subject in subjects:
            roles.setdefault(scope, set()).add(Role(role))
    return Permissions(tree, {scope: frozenset(found) for scope, found in roles.items()})
