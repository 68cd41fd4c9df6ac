"""The organization tree: ancestors, descendants and the cluster of each scope."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import PLATFORM, Cluster


@dataclass(frozen=True)
class ScopeTree:
    """The parent of each scope. The platform is the root and has no parent."""

    parents: Mapping[str, str] = field(default_factory=dict)

    def path(self, scope: str) -> list[str]:
        """A scope and its ancestors, from the platform down."""
        path = [scope]
        while (parent := self.parents.get(path[-1])) is not None:
            path.append(parent)
        # Files do not have to define the platform, and an unknown scope is treated as a child of the platform.
        return [*([] if PLATFORM in path else [PLATFORM]), *reversed(path)]

    def are_related(self, one: str, other: str) -> bool:
        """Whether one of two scopes contains the other, or they are the same."""
        return one in self.path(other) or other in self.path(one)

    def descendants(self, scope: str) -> list[str]:
        """All scopes inside a scope, nearest first."""
        descendants: list[str] = []
        waiting = [scope]
        while waiting:
            children = self.children.get(waiting.pop(0), [])
            descendants += children
            waiting += children
        return descendants

    def projects_in(self, scope: str) -> list[str]:
        """The names of the projects inside a scope."""
        return sorted(inner.partition("/")[2] for inner in self.descendants(scope) if inner.startswith("project/"))

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The children of each scope."""
        children: dict[str, list[str]] = {}
        for scope, parent in self.parents.items():
            children.setdefault(parent, []).append(scope)
        return children

    def cluster_of(self, scope: str) -> str | None:
        """The cluster that contains a scope, or the scope itself if it is a cluster; None if there is none."""
        return next((ancestor for ancestor in self.path(scope) if ancestor.startswith("cluster/")), None)


def find_cluster(clusters: Iterable[Cluster], path: Iterable[str]) -> Cluster:
    """The cluster on the path of a project, or the only cluster, or else a default cluster without GPU sharing."""
    known = list(clusters)
    on_path = set(path)
    containing = [cluster for cluster in known if cluster.scope in on_path]
    # If there is only one cluster, projects in files need no parent.
    if containing or len(known) == 1:
        return (containing or known)[-1]
    return Cluster(name="default")


def read_cluster(record: ScopeRecord) -> Cluster:
    """Convert a scope record to a cluster."""
    return Cluster.model_validate({"name": record.name, "parent": record.parent or PLATFORM, **record.details})
