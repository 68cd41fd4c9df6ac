"""`fairlead compute lint`: check compute resource definitions in files."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.printing import count, print_sentences, print_violations, print_warnings
from fairlead.files import documents, snapshots
from fairlead.files.documents import Document, Library
from fairlead.model.plans import PlanWarning, Violation
from fairlead.model.scopes import ScopeTree
from fairlead.planning import linting
from fairlead.planning.linting import LintResult


def lint(folder: Path, /, *, explain: Annotated[bool, Parameter(negative=(), show_default=False)] = False) -> int:
    """Check compute resource definitions: fields, names, contradictions and policies.

    Parameters
    ----------
    folder
        A file or folder with compute resources. Policies and clusters in it also apply.
    explain
        For each compute resource, explain what a pod gets and what may kill it.
    """
    library = documents.load_library([(folder, "ComputeResource")])
    tree = snapshots.tree_of(library)
    resources = [document for document in library.documents if document.kind == "ComputeResource"]
    trials = [(document, _try_out(document, library, tree)) for document in resources]
    findings = [
        replace(finding, location=_file_of(document)) for document, trial in trials for finding in trial.findings
    ]
    violations = [*library.violations, *snapshots.check_scopes(library)]
    violations += [finding for finding in findings if isinstance(finding, Violation)]
    warnings = [finding for finding in findings if isinstance(finding, PlanWarning)]
    if not resources and not violations:
        hint = "add a document with kind: ComputeResource"
        violations.append(Violation("", "file", "contains no compute resources", hint, location=str(folder)))
    for document, trial in trials if explain else ():
        print(document.name)
        print_sentences(trial.sentences)
    print_warnings(warnings)
    if not violations:
        print(f"{count(len(resources), 'compute resource')}: {count(len(warnings), 'warning')}, no violations")
    return print_violations(violations)


def _try_out(document: Document, library: Library, tree: ScopeTree) -> LintResult:
    scope = document.object.scope
    policies = [policy for policy in library.of("Policy") if policy.scope in tree.path(scope)]
    clusters = [cluster for cluster in library.of("Cluster") if tree.are_related(cluster.scope, scope)]
    return linting.lint_compute_resource(document.object, policies, clusters)


def _file_of(document: Document) -> str:
    # In a file with several documents, the location already contains the name.
    named = document.location.endswith(f", {document.name})")
    return document.location if named else f"{document.location}: {document.name}"
