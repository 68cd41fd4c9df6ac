"""What a run of a project depends on, from documents alone: who is above it, and what reaches it."""

from dataclasses import dataclass

from fairlead.core.drafts import Snapshot
from fairlead.files.documents import Library
from fairlead.model.plans import Violation
from fairlead.model.scopes import KINDS, PLATFORM, Cluster, Place, rank_of


@dataclass(frozen=True)
class Tree:
    """The organisation tree, as far as documents tell."""

    parents: dict[str, str]

    @classmethod
    def of(cls, library: Library) -> "Tree":
        """The tree that Cluster, Department and Project documents draw."""
        places: list[Place] = [place for kind in ("Cluster", "Department", "Project") for place in library.of(kind)]
        return cls({place.scope: place.parent for place in places})

    def path(self, scope: str) -> list[str]:
        """A scope and all above it, from the platform down."""
        found = [scope]
        while (parent := self.parents.get(found[-1])) is not None:
            found.append(parent)
        return [*([] if PLATFORM in found else [PLATFORM]), *reversed(found)]


def build_snapshot(library: Library, project: str) -> tuple[Snapshot, tuple[Violation, ...]]:
    """What reaches a project, and why that cannot be told where it cannot."""
    tree = Tree.of(library)
    place = f"project/{project}"
    path = tree.path(place)
    unclear: list[Violation] = []
    if place not in tree.parents:
        path, unclear = _guess_path(library, place)
    cluster = _find_cluster(library, path)
    reached = {scope: index for index, scope in enumerate(path)}
    return (
        Snapshot(
            project=project,
            cluster=cluster,
            policies=tuple(
                sorted(
                    (policy for policy in library.of("Policy") if policy.scope in reached),
                    key=lambda policy: reached[policy.scope],
                )
            ),
            compute_resources={item.name: item for item in library.of("ComputeResource") if item.scope in reached},
            templates={item.name: item for item in library.of("Template") if item.scope in reached},
            sharing_clusters=tuple(item.name for item in library.of("Cluster") if item.gpu_sharing != "none"),
        ),
        tuple(unclear),
    )


def _guess_path(library: Library, place: str) -> tuple[list[str], list[Violation]]:
    """Where no document places the project: below the only cluster and the only department that are named."""
    named = {item.scope for kind in ("Policy", "ComputeResource", "Template") for item in library.of(kind)}
    named |= {item.scope for kind in ("Cluster", "Department") for item in library.of(kind)}
    path, unclear = [PLATFORM], []
    for kind in KINDS[:-1]:
        found = sorted(scope for scope in named if scope.startswith(f"{kind}/"))
        if len(found) > 1:
            message = f"could be below {' or '.join(found)}"
            hint = f"add a document that says: kind: Project, name: {place.partition('/')[2]}, parent: {found[0]}"
            unclear.append(Violation("project", "scope", f"{place} {message}", hint))
        path += found[:1]
    return [*sorted(path, key=rank_of), place], unclear


def _find_cluster(library: Library, path: list[str]) -> Cluster:
    """The cluster on the project's path; one with whole GPUs and no name of its own where there is none."""
    clusters: list[Cluster] = library.of("Cluster")
    above = [cluster for cluster in clusters if cluster.scope in path]
    return above[-1] if above else clusters[0] if len(clusters) == 1 else Cluster(name="default")
