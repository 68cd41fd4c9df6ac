"""The organization tree: who stands above whom, and which cluster a place is on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import PLATFORM, Cluster


@dataclass(frozen=True)
class ScopeTree:
    """Each place with its parent. The platform has none and stands above all."""

    parents: Mapping[str, str] = field(default_factory=dict)

    def path(self, scope: str) -> list[str]:
        """A scope and all above it, from the platform down."""
        found = [scope]
        while (parent := self.parents.get(found[-1])) is not None:
            found.append(parent)
        return [*([] if PLATFORM in found else [PLATFORM]), *reversed(found)]

    def are_related(self, one: str, other: str) -> bool:
        """Whether one of two scopes stands above the other, or they are the same."""
        return one in self.path(other) or other in self.path(one)

    def below(self, scope: str) -> list[str]:
        """All that stands below a scope, near ones first."""
        found: list[str] = []
        waiting = [scope]
        while waiting:
            children = self.children.get(waiting.pop(0), [])
            found += children
            waiting += children
        return found

    def projects_below(self, scope: str) -> list[str]:
        """The names of the projects that stand below a scope."""
        return sorted(place.partition("/")[2] for place in self.below(scope) if place.startswith("project/"))

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The places directly below each place."""
        children: dict[str, list[str]] = {}
        for scope, parent in self.parents.items():
            children.setdefault(parent, []).append(scope)
        return children

    def cluster_of(self, scope: str) -> str | None:
        """The cluster that a scope is on or is; None where it is above all or beside them."""
        return next((place for place in self.path(scope) if place.startswith("cluster/")), None)


def find_cluster(clusters: Iterable[Cluster], path: Iterable[str]) -> Cluster:
    """The cluster on a project's path, or the only one; one with whole GPUs where there is none."""
    known = list(clusters)
    on_path = set(path)
    above = [cluster for cluster in known if cluster.scope in on_path]
    if above or len(known) == 1:
        return (above or known)[-1]
    return Cluster(name="default")


def read_cluster(place: ScopeRecord) -> Cluster:
    """What a place says of the cluster that it is."""
    return Cluster.model_validate({"name": place.name, "parent": place.parent or PLATFORM, **place.details})
