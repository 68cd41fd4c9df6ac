"""What every module looks like: needed, named, documented, and of a readable size."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from tests.architecture.modules import MODULES, ROOT, imports_of, tree_of

PUBLIC = [
    *("__version__", "project", "get_run", "Project", "Function", "Run"),
    *("FairleadError", "RequestRejected", "RunFailed", "NotFound", "Conflict", "Forbidden"),
    *("Unauthenticated", "Unavailable"),
]
# Nobody inside imports these: the terminal is started by its script and starts the server, the server starts the
# supervisor of each run as a program, the bootstrap travels to runs as files, and errors are for callers to catch.
ENTRY_POINTS = {"fairlead", "fairlead.app", "fairlead.cli", "fairlead.bootstrap", "fairlead.errors"} | {
    "fairlead.adapters.local.supervisor",
    "fairlead.handover",
    "fairlead.answering",
}
NAMES_OF_NOTHING = {"util", "utils", "helper", "helpers", "common", "base", "manager", "managers", "misc"}
LONGEST_FILE = 400
OVERRIDES = {
    "known_fields",
    "spell",
    "parse",
    "to_data",
    "format",
    "try_out",
    "to_fields",
    "to_written",
    "users",
    "follow",
} | {
    "process_bind_param",
    "process_result_value",
}

EACH_MODULE = pytest.mark.parametrize("name", MODULES)


def test_the_public_names_are_these() -> None:
    assert fairlead.__all__ == PUBLIC


def test_every_module_is_needed() -> None:
    needed = {imported for file in MODULES.values() for imported in imports_of(file)} | ENTRY_POINTS
    needed |= set(_commands()) | {name.rpartition(".")[0] for name in MODULES}
    needed |= {name for name in MODULES if ".migrations." in name}  # loaded by Alembic, from their folder
    assert sorted(MODULES.keys() - needed) == []


def test_the_commands_of_the_terminal_are_there() -> None:
    assert set(_commands()) <= MODULES.keys()
    assert len(set(_commands())) >= 2


@EACH_MODULE
def test_a_module_is_named_for_what_is_in_it(name: str) -> None:
    assert not set(name.split(".")) & NAMES_OF_NOTHING


@EACH_MODULE
def test_a_module_is_of_a_readable_size(name: str) -> None:
    assert len(MODULES[name].read_text("utf-8").splitlines()) <= LONGEST_FILE


@EACH_MODULE
def test_modules_and_public_names_have_docstrings(name: str) -> None:
    tree = tree_of(MODULES[name])
    if tree.body:  # an empty __init__.py only makes a package
        assert ast.get_docstring(tree), f"{name} says nothing of itself"
    assert [f"{name}.{found}" for found in _undocumented(tree)] == []


def test_every_error_is_in_the_drawing() -> None:
    tree = tree_of(MODULES["fairlead.errors"])
    drawing = ast.get_docstring(tree) or ""
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)", drawing.partition("\n\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert drawn == [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_no_test_file_is_too_long() -> None:
    files = [file for folder in ("tests", "examples", "bench") for file in (ROOT / folder).rglob("*.py")]
    assert [str(file) for file in files if _length(file) > LONGEST_FILE] == []


def _commands() -> Iterator[str]:
    """Modules that the terminal names by import path, so that they are loaded only when they are used."""
    doors = [tree_of(file) for name, file in MODULES.items() if name.startswith("fairlead.cli")]
    for node in (node for tree in doors for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+:\w+", node.value):
            yield node.value.partition(":")[0]


def _undocumented(tree: ast.Module) -> Iterator[str]:
    """Public functions and classes, and public methods and properties of public classes. An override needs none."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            overrides = OVERRIDES if node.bases else set()
            inner = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name not in overrides]
            yield from (f"{node.name}.{item.name}" for item in inner if _needs_docstring(item))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and _needs_docstring(node):
            yield node.name


def _needs_docstring(node: ast.ClassDef | ast.FunctionDef) -> bool:
    if any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in node.decorator_list):
        return False  # the function that they are forms of says it
    return not node.name.startswith("_") and node.name != "main" and not ast.get_docstring(node)


def _length(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())
