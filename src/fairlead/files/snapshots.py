"""What a run of a project depends on, from documents alone: who is above it, and what reaches it."""

from collections.abc import Iterator

from fairlead.core.drafts import Snapshot
from fairlead.core.scope_tree import ScopeTree, find_cluster
from fairlead.files.documents import Library
from fairlead.model.parsing import suggest_names
from fairlead.model.plans import PlanWarning, Violation
from fairlead.model.scopes import PLATFORM, Scope

PLACES = ("Cluster", "Department", "Project")


def tree_of(library: Library) -> ScopeTree:
    """The tree that Cluster, Department and Project documents draw."""
    scopes: list[Scope] = [place for kind in PLACES for place in library.of(kind)]
    return ScopeTree({place.scope: place.parent for place in scopes})


def build_snapshot(library: Library, project: str) -> tuple[Snapshot, tuple[Violation, ...]]:
    """What reaches a project, and why that cannot be told where it cannot."""
    tree = tree_of(library)
    place = f"project/{project}"
    path = tree.path(place)
    unclear = list(check_places(library))
    projects = {item.name for item in library.of("Project")}
    if projects and project not in projects:
        hint = suggest_names(project, projects, "there are {known}")
        unclear.append(Violation("project", "scope", f"there is no {place}", hint))
    elif place not in tree.parents:
        path, unguessable = _guess_path(library, place)
        unclear += unguessable
    cluster = find_cluster(library.of("Cluster"), path)
    if cluster.scope not in path and library.of("Cluster"):
        path.insert(1, cluster.scope)
    policies = {policy.scope: policy for policy in library.of("Policy")}
    snapshot = Snapshot(
        project=project,
        cluster=cluster,
        policies=tuple(policies[scope] for scope in path if scope in policies),
        compute_resources={item.name: item for item in library.of("ComputeResource") if item.scope in path},
        templates={item.name: item for item in library.of("Template") if item.scope in path},
        sharing_clusters=tuple(item.name for item in library.of("Cluster") if item.gpu_sharing != "none"),
    )
    return snapshot, tuple(unclear)


def check_places(library: Library) -> Iterator[Violation]:
    """Scopes that no document describes, where documents describe others of their kind: names may be misspelt."""
    for kind in PLACES:
        known = {place.scope for place in library.of(kind)}
        for document in library.documents if known else ():
            for field in ("scope", "parent"):
                said = getattr(document.object, field, "")
                if said.startswith(f"{kind.lower()}/") and said not in known:
                    hint = suggest_names(said, known, "there are {known}")
                    yield Violation(field, "scope", f"there is no {said}", hint, location=document.location)


def warn_out_of_reach(library: Library, project: str) -> tuple[PlanWarning, ...]:
    """Policies that do not reach a project of which no document says where it belongs: a name may be misspelt."""
    place = f"project/{project}"
    if place in tree_of(library).parents:
        return ()
    path, _ = _guess_path(library, place)
    return tuple(
        PlanWarning(
            "project", "out_of_reach", f"the policy of {policy.scope} does not reach {place}", "name the project"
        )
        for policy in library.of("Policy")
        if policy.scope not in path
    )


def _guess_path(library: Library, place: str) -> tuple[list[str], list[Violation]]:
    """Where no document places the project: below the only department, or else the only cluster, that is named."""
    tree = tree_of(library)
    named = {item.scope for kind in ("Policy", "ComputeResource", "Template") for item in library.of(kind)}
    named |= {item.scope for kind in ("Cluster", "Department") for item in library.of(kind)}
    departments = sorted(scope for scope in named if scope.startswith("department/"))
    above = tree.path(departments[0]) if departments else [PLATFORM]
    clusters = sorted(scope for scope in named if scope.startswith("cluster/"))
    unclear = [candidates for candidates in (departments, clusters) if len(candidates) > 1]
    if unclear and not (len(departments) == 1 and set(clusters) & set(above)):
        message = f"{place} could be below {' or '.join(unclear[0])}"
        hint = f"add a document: kind: Project, name: {place.partition('/')[2]}, parent: {unclear[0][0]}"
        return [*above, place], [Violation("project", "scope", message, hint)]
    if not set(clusters) & set(above):
        above[1:1] = clusters
    return [*above, place], []
