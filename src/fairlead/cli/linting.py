"""`fairlead compute lint`: what administrators define, checked before it is used."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.printing import count, print_sentences, print_violations, print_warnings
from fairlead.core import linting
from fairlead.core.linting import Trial
from fairlead.core.scope_tree import Tree
from fairlead.files import documents, snapshots
from fairlead.files.documents import Document, Library
from fairlead.model.plans import Violation, PlanWarning


def lint(folder: Path, /, *, explain: Annotated[bool, Parameter(negative=(), show_default=False)] = False) -> int:
    """Check definitions of compute resources: fields, names, contradictions, and the policies beside them.

    Parameters
    ----------
    folder
        A file or folder with compute resources. Policies and clusters in it are taken into account.
    explain
        Say of each what a pod that uses it gets, and what may end it.
    """
    library = documents.load_library([(folder, "ComputeResource")])
    tree = snapshots.tree_of(library)
    offered = [document for document in library.documents if document.kind == "ComputeResource"]
    trials = [(document, _try_out(document, library, tree)) for document in offered]
    found = [replace(finding, location=_place(document)) for document, trial in trials for finding in trial.findings]
    violations = [*library.violations, *snapshots.check_places(library)]
    violations += [finding for finding in found if isinstance(finding, Violation)]
    warnings = [finding for finding in found if isinstance(finding, PlanWarning)]
    if not offered and not violations:
        hint = "write kind: ComputeResource"
        violations.append(Violation("", "file", "has no compute resources", hint, location=str(folder)))
    for document, trial in trials if explain else ():
        print(document.name)
        print_sentences(trial.sentences)
    print_warnings(warnings)
    if not violations:
        print(f"{count(len(offered), 'compute resource')}: {count(len(warnings), 'warning')}, no violations")
    return print_violations(violations)


def _try_out(document: Document, library: Library, tree: Tree) -> Trial:
    scope = document.object.scope
    policies = [policy for policy in library.of("Policy") if policy.scope in tree.path(scope)]
    clusters = [cluster for cluster in library.of("Cluster") if tree.are_related(cluster.scope, scope)]
    return linting.try_out(document.object, policies, clusters)


def _place(document: Document) -> str:
    named = document.location.endswith(f", {document.name})")
    return document.location if named else f"{document.location}: {document.name}"
