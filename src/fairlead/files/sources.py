"""Loads and packs a function's code from local files."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

from fairlead import packing
from fairlead.errors import Unreadable
from fairlead.model.plans import Finding, PlanWarning, Violation
from fairlead.model.requests import Action, Function
from fairlead.resolution.drafts import Code


def load_program() -> Code:
    """The programs that run in every Python container, without a function's code."""
    # Read as text and never imported: the programs run in containers, possibly with a different Python version.
    folder = resources.files("fairlead.in_container")
    return Code(
        bootstrap=folder.joinpath("bootstrap.py").read_text("utf-8"),
        sidecar=folder.joinpath("sidecar.py").read_text("utf-8"),
        function_server=folder.joinpath("function_server.py").read_text("utf-8"),
    )


def load_code(folder: Path, function: Function, action: Action = "job") -> tuple[Code, tuple[Finding, ...]]:
    """A function's packed code, and the findings if it cannot be packed or run."""
    code = load_program()
    if function.kind != "python" or function.source is None:
        return code, ()
    source = folder / function.source
    try:
        packed = packing.pack_path(source, folder)
    except Unreadable as error:
        return code, (_explain(error, source),)
    # A workspace opens the files in JupyterLab and calls no handler.
    findings = () if action == "workspace" else _check_script(source, function)
    return replace(code, archive=packed.archive, digest=packed.digest), tuple(findings)


def _check_script(source: Path, function: Function) -> Iterator[Violation]:
    """A folder without a handler needs a __main__.py."""
    if source.is_dir() and not (function.handler or function.command or (source / "__main__.py").exists()):
        message = f"{source} is a folder without __main__.py, and no handler is set"
        yield Violation("function.handler", "required", message, "set handler: module:function")


def _explain(error: Unreadable, source: Path) -> Finding:
    # Only a warning, because a request can be previewed without its code.
    if isinstance(error.__cause__, FileNotFoundError):
        message = f"{source} does not exist: the manifests do not contain the function's code"
        return PlanWarning("function.source", "missing", message, "use a path relative to the folder of the request")
    rule = "size" if isinstance(error, packing.TooLarge) else "file"
    return Violation("function.source", rule, str(error), error.hint)
