"""`fairlead apply` and `fairlead export`: files as the truth of a server."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.printing import count, print_violations
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
    """Make the server as files say: scopes, compute resources, templates and policies; all of them or none.

    Parameters
    ----------
    file
        A file or folder with YAML documents.
    prune
        Also remove what was applied before and is in no file any more.
    dry_run
        Only say what would change.
    force
        Also change what is managed by somebody else.
    manager
        In whose name: what is applied is shown as managed by it, and edited through it alone.
    as_json
        Print what changed as JSON.
    """
    library = documents.load_library((path, "ComputeResource") for path in file)
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
        return print_violations(
            [_place(found, [document.location for document in library.documents]) for found in error.violations]
        )
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
    """Write everything that the server keeps as files that can be applied again.

    Parameters
    ----------
    folder
        A folder for the files; left out, they are printed.
    as_json
        Print the documents as JSON.
    """
    found = api_client.find_api_client().get("/export")
    if as_json:
        print(json.dumps(found, indent=2))
    elif folder is None:
        print(yamls.format_documents(found), end="")
    else:
        _write(folder, found)
    return 0


def _place(found: Violation, files: Sequence[str]) -> Violation:
    """What the server says of a document, with the file that it stands in."""
    match = re.match(r"document ([0-9]+)(?:, [^:]*)?(.*)", found.location or "", re.DOTALL)
    return found if match is None else replace(found, location=f"{files[int(match[1]) - 1]}{match[2]}")


def _write(folder: Path, found: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, kinds in FILES.items():
        chosen = [document for document in found if document["kind"] in kinds]
        file = folder / name
        if chosen:
            file.write_text(yamls.format_documents(chosen), "utf-8")
            print(f"{file}: {count(len(chosen), 'document')}")
        elif file.exists():
            file.unlink()
            print(f"{file}: removed, nothing of it is kept")


def _print_changes(applied: dict[str, Any]) -> None:
    changes = [change for change in applied["changes"] if change["action"] != "unchanged"]
    for change in changes:
        print(f"{change['action']:<10}{change['kind']} {change['name']}")
    same = len(applied["changes"]) - len(changes)
    ending = ", as a dry run: nothing was kept" if applied["dry_run"] else ""
    print(f"{count(len(changes), 'change')}, {same} unchanged{ending}")
