"""Reads files: YAML documents with compute resources, templates, policies and scopes, and the code of functions."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairlead import source_code
from fairlead.errors import Unreadable
from fairlead.files import yamls
from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.parsing import StrictModel, short_repr, suggest_names, violations_of
from fairlead.model.plans import Finding, PlanWarning, Violation
from fairlead.model.requests import Action, Function
from fairlead.model.scopes import Cluster, Department, Project
from fairlead.resolution.drafts import Code

KINDS: Mapping[str, type[StrictModel]] = {
    "ComputeResource": ComputeResource,
    "Template": Template,
    "Policy": Policy,
    "Cluster": Cluster,
    "Department": Department,
    "Project": Project,
}
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Document:
    """An object and the location it was read from."""

    kind: str
    object: Any
    location: str
    data: Mapping[str, Any]  # as written in the file, without `kind`

    @property
    def name(self) -> str:
        """The name, or the scope of a policy; unique among documents of its kind."""
        return str(getattr(self.object, "name", None) or self.object.scope)


@dataclass(frozen=True)
class Library:
    """All documents that were read, and all violations."""

    documents: tuple[Document, ...] = ()
    violations: tuple[Violation, ...] = ()

    def of(self, kind: str) -> list[Any]:
        """The objects of a kind."""
        return [document.object for document in self.documents if document.kind == kind]


def load_library(paths: Iterable[tuple[Path, str]]) -> Library:
    """Read files and folders, each with a default kind for documents without one."""
    documents: dict[tuple[str, str], Document] = {}
    violations: list[Violation] = []
    read: set[Path] = set()
    for path, kind in paths:
        for file in list_files(path, violations):
            # A file may be given directly, in a folder and through a symbolic link at the same time.
            if file.resolve() not in read:
                read.add(file.resolve())
                _load_documents(file, kind, documents, violations)
    return Library(tuple(documents.values()), tuple(violations))


def list_files(path: Path, violations: list[Violation]) -> list[Path]:
    """The YAML files at a path: the file itself, or all files in the folder."""
    # path.is_dir() would raise an error for a name that is too long. Reading the file reports that error.
    if not os.path.isdir(path):
        return [path]
    # Sorted, so that neither the order of messages nor the first of two duplicates depends on the file system.
    inside = (file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix.lower() in SUFFIXES)
    # Skip hidden files inside the folder, which are usually backups or tool data. The folder itself may be hidden.
    files = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        hint = "use a folder with *.yaml files"
        violations.append(Violation("", "file", "has no YAML files", hint, location=str(path)))
    return files


def read_library(documents: Sequence[Any]) -> Library:
    """Read documents that are already parsed. Each must have a kind."""
    read: dict[tuple[str, str], Document] = {}
    violations: list[Violation] = []
    for index, data in enumerate(documents):
        _add(data, "", f"document {index + 1}{_name_suffix(data)}", read, violations)
    return Library(tuple(read.values()), tuple(violations))


def write_document(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An object as a document, without empty fields."""
    # 0 and false are values that the user set, so do not drop them.
    return {"kind": kind, **{name: value for name, value in data.items() if value not in (None, "", {}, [])}}


def parse_object(model: type[StrictModel], data: Any, location: str, violations: list[Violation]) -> Any:
    """Parse data into a model, or return None and add the violations."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        violations += [replace(violation, location=location) for violation in violations_of(error, model)]
        return None


def load_object(model: type[StrictModel], path: Path, violations: list[Violation], **defaults: Any) -> Any:
    """Load a file with exactly one object, or return None and add the violations."""
    loaded = yamls.load_file(path)
    if isinstance(loaded, Violation):
        violations.append(loaded)
        return None
    if len(loaded) != 1:
        message = "is empty" if not loaded else f"has {len(loaded)} documents"
        hint = "keep only one document" if loaded else "add fields, for example resources: {mem: 8Gi}"
        violations.append(Violation("", "yaml", message, hint, location=str(path)))
        return None
    # Anything other than a mapping is passed on, so that the model reports what was expected.
    data = defaults | loaded[0] if isinstance(loaded[0], dict) else loaded[0]
    return parse_object(model, data, str(path), violations)


def _load_documents(
    file: Path, kind: str, documents: dict[tuple[str, str], Document], violations: list[Violation]
) -> None:
    loaded = yamls.load_file(file)
    if isinstance(loaded, Violation):
        violations.append(loaded)
        return
    for index, data in enumerate(loaded):
        location = f"{file}" if len(loaded) == 1 else f"{file} (document {index + 1}{_name_suffix(data)})"
        _add(data, kind, location, documents, violations)


def _name_suffix(data: Any) -> str:
    # The document is not validated yet, so its name may be of any type and contain control characters.
    name = data.get("name") if isinstance(data, dict) else None
    return f", {name}" if isinstance(name, str) and name.isprintable() and len(name) < 80 else ""


def _add(
    data: Any, kind: str, location: str, documents: dict[tuple[str, str], Document], violations: list[Violation]
) -> None:
    document = _read(data, kind, location, violations)
    if document is not None:
        first = documents.setdefault((document.kind, document.name), document)
        if first is not document:
            violations.append(_duplicate(document, first))


def _read(data: Any, default: str, location: str, violations: list[Violation]) -> Document | None:
    if not isinstance(data, dict):
        message = f"must be a mapping, found {short_repr(data)}"
        hint = f"use fields and values, for example kind: {default or 'ComputeResource'}, name: ..."
        violations.append(Violation("", "mapping", message, hint, location=location))
        return None
    kind = default if data.get("kind") is None else data["kind"]
    if not kind:
        violations.append(
            Violation("kind", "required", "is missing", f"use one of {', '.join(KINDS)}", location=location)
        )
        return None
    if not isinstance(kind, str) or kind not in KINDS:
        message = f"unknown kind {short_repr(kind)}"
        violations.append(
            Violation("kind", "unknown_kind", message, suggest_names(str(kind), KINDS), location=location)
        )
        return None
    fields = {name: value for name, value in data.items() if name != "kind"}
    parsed = parse_object(KINDS[kind], fields, location, violations)
    return None if parsed is None else Document(kind, parsed, location, fields)


def _duplicate(document: Document, first: Document) -> Violation:
    if document.kind == "Policy":
        message = f"duplicate policy of {document.name}; the first one is in {first.location}"
        return Violation("scope", "duplicate", message, "merge them, or remove one", location=document.location)
    message = f"duplicate {document.kind} {document.name}; the first one is in {first.location}"
    return Violation("name", "duplicate", message, "rename or remove one", location=document.location)


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
        packed = source_code.pack_path(source, folder)
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
    rule = "size" if isinstance(error, source_code.TooLarge) else "file"
    return Violation("function.source", rule, str(error), error.hint)
