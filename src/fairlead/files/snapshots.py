"""Builds a project's snapshot from documents: its scopes, policies and compute resources."""

from collections.abc import Iterator, Sequence

from fairlead.files.documents import Library
from fairlead.model.parsing import suggest_names
from fairlead.model.plans import PlanWarning, Violation
from fairlead.model.scopes import PLATFORM, Cluster, Scope, ScopeTree
from fairlead.resolution.drafts import Snapshot

SCOPE_KINDS = ("Cluster", "Department", "Project")


def tree_of(library: Library) -> ScopeTree:
    """The scope tree built from Cluster, Department and Project documents."""
    scopes: list[Scope] = [scope for kind in SCOPE_KINDS for scope in library.of(kind)]
    return ScopeTree({each.scope: each.parent for each in scopes})


def build_snapshot(library: Library, project: str) -> tuple[Snapshot, tuple[Violation, ...]]:
    """A project's snapshot, with violations if its scopes cannot be determined."""
    tree = tree_of(library)
    scope = f"project/{project}"
    path = tree.path(scope)
    violations = list(check_scopes(library))
    projects = {item.name for item in library.of("Project")}
    # Files that list projects are assumed to list all of them, so the name is probably a typo.
    if projects and project not in projects:
        hint = suggest_names(project, projects, "use one of {known}")
        violations.append(Violation("project", "scope", f"{scope} does not exist", hint))
    elif scope not in tree.parents:
        path, ambiguities = _guess_path(library, scope)
        violations += ambiguities
    clusters: dict[str, Cluster] = {item.scope: item for item in library.of("Cluster")}
    if not any(scope in clusters for scope in path):
        # The server would use its default cluster, which files do not name unless there is only one.
        if len(clusters) > 1 and not violations:
            violations.append(_cluster_unknown(scope, path[1], sorted(clusters)))
        path[1:1] = list(clusters) if len(clusters) == 1 else []
    cluster = next((clusters[scope] for scope in path if scope in clusters), Cluster(name="default"))
    policies = {policy.scope: policy for policy in library.of("Policy")}
    snapshot = Snapshot(
        project=project,
        cluster=cluster,
        policies=tuple(policies[scope] for scope in path if scope in policies),
        compute_resources={item.name: item for item in library.of("ComputeResource") if item.scope in path},
        templates={item.name: item for item in library.of("Template") if item.scope in path},
        sharing_clusters=tuple(item.name for item in library.of("Cluster") if item.gpu_sharing != "none"),
    )
    return snapshot, tuple(violations)


def check_scopes(library: Library) -> Iterator[Violation]:
    """Find references to undefined scopes of kinds that the documents define: the name may be misspelled."""
    for kind in SCOPE_KINDS:
        known = {each.scope for each in library.of(kind)}
        for document in library.documents if known else ():
            for field in ("scope", "parent"):
                scope = getattr(document.object, field, "")
                if scope.startswith(f"{kind.lower()}/") and scope not in known:
                    hint = suggest_names(scope, known, "use one of {known}")
                    yield Violation(field, "scope", f"{scope} does not exist", hint, location=document.location)


def warn_unrelated_policies(library: Library, project: str) -> tuple[PlanWarning, ...]:
    """Warnings for policies that do not apply to a project without a document: its name may be misspelled."""
    scope = f"project/{project}"
    if scope in tree_of(library).parents:
        return ()
    path, _ = _guess_path(library, scope)
    return tuple(
        PlanWarning(
            "project", "out_of_reach", f"the policy of {policy.scope} does not apply to {scope}", "set the project"
        )
        for policy in library.of("Policy")
        if policy.scope not in path
    )


def _cluster_unknown(scope: str, below_platform: str, clusters: Sequence[str]) -> Violation:
    message = f"{scope} could be in {' or '.join(clusters)}"
    return Violation("project", "scope", message, f"set the parent of {below_platform}, for example to {clusters[0]}")


def _guess_path(library: Library, project: str) -> tuple[list[str], list[Violation]]:
    """The scopes of a project without a document: under the only department or cluster that documents mention."""
    tree = tree_of(library)
    mentioned = {item.scope for kind in ("Policy", "ComputeResource", "Template") for item in library.of(kind)}
    mentioned |= {item.scope for kind in ("Cluster", "Department") for item in library.of(kind)}
    departments = sorted(scope for scope in mentioned if scope.startswith("department/"))
    above = tree.path(departments[0]) if departments else [PLATFORM]
    clusters = sorted(scope for scope in mentioned if scope.startswith("cluster/"))
    ambiguous = [candidates for candidates in (departments, clusters) if len(candidates) > 1]
    # Several clusters are not ambiguous if the only department is in one of them.
    if ambiguous and not (len(departments) == 1 and set(clusters) & set(above)):
        message = f"{project} could be in {' or '.join(ambiguous[0])}"
        hint = f"add a document: kind: Project, name: {project.partition('/')[2]}, parent: {ambiguous[0][0]}"
        return [*above, project], [Violation("project", "scope", message, hint)]
    # Directly under the platform, because a department may be in a cluster.
    if not set(clusters) & set(above):
        above[1:1] = clusters
    return [*above, project], []
