"""Rules that every module follows: it is imported somewhere, has no catch-all name, and has docstrings."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator

import fairlead
from fairlead.errors import FairleadError
from tests.architecture.modules import MODULES, imports_of, tree_of

PUBLIC = [
    *("__version__", "project", "get_run", "Project", "Function", "Run"),
    *("FairleadError", "RequestRejected", "RunFailed", "NotFound", "Conflict", "PlanChanged", "Forbidden"),
    *("Unauthenticated", "Unavailable"),
]
# No module imports these: the CLI is started by its script and starts the server, the server starts the supervisor of
# each run as a program, the bootstrap is copied into runs as files, and the errors are for callers to catch.
ENTRY_POINTS = {"fairlead", "fairlead.app", "fairlead.cli", "fairlead.in_container.bootstrap", "fairlead.errors"} | {
    "fairlead.adapters.local.supervisor",
    "fairlead.in_container.sidecar",
    "fairlead.in_container.function_server",
}
CATCH_ALL = {"util", "utils", "helper", "helpers", "common", "base", "manager", "managers", "misc"}
# A line in the error tree: the branches, and the name, prefixed with its module unless that is errors.py.
TREE_LINE = re.compile(r"^(?P<branches>[│├└─ ]*)(?P<name>(?:[a-z_]+\.)*[A-Z]\w+)")

# Names of the SDK that are also the names of API models or services: each is the natural word for both.
SHARED_CLASS_NAMES = {"Function", "Project", "Runs", "Schedule"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_the_public_names_are_pinned() -> None:
    assert fairlead.__all__ == PUBLIC


def test_every_module_is_used() -> None:
    used = {imported for file in MODULES.values() for imported in imports_of(file)} | ENTRY_POINTS
    used |= set(_commands()) | {name.rpartition(".")[0] for name in MODULES}
    used |= {name for name in MODULES if _is_migration(name)}  # Alembic loads these from their folder
    assert sorted(MODULES.keys() - used) == []


def test_the_modules_of_all_commands_exist() -> None:
    commands = set(_commands())
    assert sorted(commands - MODULES.keys()) == []
    assert len(commands) >= 2


def test_no_module_has_a_catch_all_name() -> None:
    offenders = [name for name in MODULES if not CATCH_ALL.isdisjoint(name.split("."))]
    assert not offenders, "\n".join(offenders)


def test_modules_have_docstrings() -> None:
    trees = {name: tree_of(file) for name, file in MODULES.items()}
    offenders = [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert not offenders, "\n".join(offenders)


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name for file in MODULES.values() for node in ast.walk(tree_of(file)) if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in classes.items() if count > 1} == SHARED_CLASS_NAMES


def test_public_classes_and_functions_have_docstrings() -> None:
    offenders = [f"{name}.{missing}" for name in MODULES for missing in _undocumented(name)]
    assert not offenders, "\n".join(offenders)


def test_every_error_is_in_the_tree_of_errors() -> None:
    for name in MODULES:
        if not _is_migration(name):  # the migrations' env.py runs only inside Alembic
            importlib.import_module(name)
    documented = _documented_errors()
    assert documented == {_name_of(child): _name_of(parent) for child, parent in _errors(FairleadError)}
    names = Counter(name.rpartition(".")[2] for name in documented)
    assert [name for name, count in names.items() if count > 1] == []


def _commands() -> Iterator[str]:
    """The modules that the CLI names by import path, so that each is imported only when its command runs."""
    trees = [tree_of(file) for name, file in MODULES.items() if name.startswith("fairlead.cli")]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+:\w+", node.value):
            yield node.value.partition(":")[0]


def _is_migration(name: str) -> bool:
    return ".migrations." in name


def _undocumented(name: str) -> Iterator[str]:
    """Public classes, functions and methods without a docstring that need one."""
    for node in tree_of(MODULES[name]).body:
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            bases = getattr(importlib.import_module(name), node.name).__mro__[1:]
            for item in node.body:
                overrides = isinstance(item, Function) and any(hasattr(base, item.name) for base in bases)
                if isinstance(item, Function) and not overrides and _needs_docstring(item):
                    yield f"{node.name}.{item.name}"
        if not ast.get_docstring(node) and (isinstance(node, ast.ClassDef) or _needs_docstring(node)):
            yield node.name


# A function with one simple statement needs no docstring. A `with`, a loop or a `match` is one statement, but not a
# simple one. An override has the contract of the overridden method, an overload that of the implementation, and `main`
# is described by its module.
def _needs_docstring(function: Function) -> bool:
    simple = len(function.body) == 1 and not isinstance(
        function.body[0], ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.While | ast.If | ast.Try | ast.Match
    )
    is_overload = any(
        ast.unparse(decorator) in ("overload", "typing.overload") for decorator in function.decorator_list
    )
    is_public = not function.name.startswith("_") and function.name != "main"
    return is_public and not simple and not is_overload and not ast.get_docstring(function)


def _documented_errors() -> dict[str, str]:
    """Each error in the docstring of errors.py, with its parent in the tree."""
    docstring = ast.get_docstring(tree_of(MODULES["fairlead.errors"])) or ""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in docstring.split("\n\n")[1].splitlines():
        match = TREE_LINE.match(line)
        assert match, f"not a line of the tree: {line}"
        depth = len(match["branches"]) // len("├─ ")
        path[depth:] = [match["name"]]
        if depth:
            parents[match["name"]] = path[depth - 1]
    return parents


def _errors(parent: type[FairleadError]) -> Iterator[tuple[type[FairleadError], type[FairleadError]]]:
    """Every Fairlead error that derives from the parent, with its direct parent. Errors in tests are ignored."""
    for child in parent.__subclasses__():
        if child.__module__.partition(".")[0] == "fairlead":
            yield child, parent
            yield from _errors(child)


def _name_of(error: type[FairleadError]) -> str:
    return f"{error.__module__}.{error.__name__}".removeprefix("fairlead.").removeprefix("errors.")
