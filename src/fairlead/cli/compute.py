"""`fairlead compute`: what administrators do with compute resources."""

import sys
from dataclasses import replace
from pathlib import Path

from fairlead.cli.printing import print_violations
from fairlead.core import linting
from fairlead.core.explaining import lines_of
from fairlead.files import documents, snapshots
from fairlead.model.plans import Violation


def lint(folder: Path, /) -> int:
    """Check definitions of compute resources: fields, names, contradictions, and the policies beside them.

    Parameters
    ----------
    folder
        A file or folder with compute resources. Policies and clusters in it are taken into account.
    """
    library = documents.load_library([(folder, "ComputeResource")])
    tree = snapshots.Tree.of(library)
    violations = list(library.violations)
    offered = [document for document in library.documents if document.kind == "ComputeResource"]
    for document in offered:
        policies = [policy for policy in library.of("Policy") if policy.scope in tree.path(document.object.scope)]
        for found in linting.lint(document.object, policies, library.of("Cluster")):
            where = f"{document.where}: {document.name}"
            if isinstance(found, Violation):
                violations.append(replace(found, where=where))
            else:
                first, *rest = lines_of(found)
                print("\n".join([f"warning: {where}: {first}", *rest]), file=sys.stderr)
    if not offered and not violations:
        violations.append(
            Violation("", "file", "has no compute resources", "write kind: ComputeResource", where=str(folder))
        )
    if not violations:
        print(f"{len(offered)} compute resource{'s' if len(offered) != 1 else ''}: no problems")
    return print_violations(violations)
