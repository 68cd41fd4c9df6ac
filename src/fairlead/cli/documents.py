"""`fairlead apply` and `fairlead export`: a server's configuration as files."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.output import format_count, print_violations
from fairlead.errors import RequestRejected
from fairlead.files import documents, yamls
from fairlead.model.plans import Violation
from fairlead.sdk import api_client

FILES = {
    "tree.yaml": ("Cluster", "Department", "Project"),
    "policies.yaml": ("Policy",),
    "compute-resources.yaml": ("ComputeResource",),
    "templates.yaml": ("Template",),
}


def apply(
    *,
    file: Annotated[Sequence[Path], Parameter(name=["--file", "-f"], negative=())],
    prune: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    force: Annotated[bool, Parameter(negative=())] = False,
    manager: str = "files",
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Apply scopes, compute resources, templates and policies from files, all or nothing.

    Parameters
    ----------
    file
        A file or folder with YAML documents.
    prune
        Delete objects that were applied before and are no longer in the files.
    dry_run
        Print the changes without applying them.
    force
        Also change objects that another manager owns.
    manager
        The owner of the applied objects. Others cannot edit them without --force.
    as_json
        Print the changes as JSON.
    """
    library = documents.load_library((path, "ComputeResource") for path in file)
    # Checked here first, because the server does not know the file names.
    if library.violations:
        return print_violations(library.violations)
    written = [{"kind": document.kind, **document.data} for document in library.documents]
    body = {
        "documents": written,
        "prune": prune,
        "dry_run": dry_run,
        "force": force,
        "manager": manager,
    }
    try:
        applied = api_client.find_api_client().post("/apply", body)
    except RequestRejected as error:
        files = [document.location for document in library.documents]
        return print_violations([_locate(violation, files) for violation in error.violations])
    if as_json:
        print(json.dumps(applied, indent=2))
        return 0
    _print_changes(applied)
    return 0


def export(
    folder: Path | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Export the configuration as files for `fairlead apply`.

    Parameters
    ----------
    folder
        The output folder. Default: print to stdout.
    as_json
        Print the documents as JSON.
    """
    documents = api_client.find_api_client().get("/export")
    if as_json:
        print(json.dumps(documents, indent=2))
    elif folder is None:
        print(yamls.format_documents(documents), end="")
    else:
        _write(folder, documents)
    return 0


def _locate(violation: Violation, files: Sequence[str]) -> Violation:
    """Replace the document number in a violation's location with the file name."""
    match = re.match(r"document ([0-9]+)(?:, [^:]*)?(.*)", violation.location or "", re.DOTALL)
    return violation if match is None else replace(violation, location=f"{files[int(match[1]) - 1]}{match[2]}")


def _write(folder: Path, documents: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, kinds in FILES.items():
        chosen = [document for document in documents if document["kind"] in kinds]
        file = folder / name
        if chosen:
            file.write_text(yamls.format_documents(chosen), "utf-8")
            print(f"{file}: {format_count(len(chosen), 'document')}")
        # Otherwise the next apply would re-create deleted objects from the file of an earlier export.
        elif file.exists():
            file.unlink()
            print(f"{file}: removed")


def _print_changes(applied: dict[str, Any]) -> None:
    changes = [change for change in applied["changes"] if change["action"] != "unchanged"]
    for change in changes:
        print(f"{change['action']:<10}{change['kind']} {change['name']}")
    same = len(applied["changes"]) - len(changes)
    ending = " (dry run)" if applied["dry_run"] else ""
    print(f"{format_count(len(changes), 'change')}, {same} unchanged{ending}")
