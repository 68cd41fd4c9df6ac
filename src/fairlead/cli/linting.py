"""`fairlead compute lint`: what administrators define, checked before it is used."""

from dataclasses import replace
from pathlib import Path

from fairlead.cli.printing import count, print_violations, print_warnings
from fairlead.core import linting
from fairlead.core.trees import Tree
from fairlead.files import documents, snapshots
from fairlead.files.documents import Document, Library
from fairlead.model.plans import Finding, Violation, Warning


def lint(folder: Path, /) -> int:
    """Check definitions of compute resources: fields, names, contradictions, and the policies beside them.

    Parameters
    ----------
    folder
        A file or folder with compute resources. Policies and clusters in it are taken into account.
    """
    library = documents.load_library([(folder, "ComputeResource")])
    tree = snapshots.tree_of(library)
    offered = [document for document in library.documents if document.kind == "ComputeResource"]
    found = [finding for document in offered for finding in _lint(document, library, tree)]
    violations = [*library.violations, *snapshots.check_places(library)]
    violations += [finding for finding in found if isinstance(finding, Violation)]
    warnings = [finding for finding in found if isinstance(finding, Warning)]
    if not offered and not violations:
        hint = "write kind: ComputeResource"
        violations.append(Violation("", "file", "has no compute resources", hint, where=str(folder)))
    print_warnings(warnings)
    if not violations:
        print(f"{count(len(offered), 'compute resource')}: {count(len(warnings), 'warning')}, no violations")
    return print_violations(violations)


def _lint(document: Document, library: Library, tree: Tree) -> list[Finding]:
    scope = document.object.scope
    policies = [policy for policy in library.of("Policy") if policy.scope in tree.path(scope)]
    clusters = [cluster for cluster in library.of("Cluster") if tree.are_related(cluster.scope, scope)]
    named = document.where.endswith(f", {document.name})")
    where = document.where if named else f"{document.where}: {document.name}"
    return [replace(finding, where=where) for finding in linting.lint(document.object, policies, clusters)]
