"""The pure packages depend only on their arguments: no clock, no randomness, no files, no output.

Import contracts in pyproject.toml forbid most modules that could do this; these tests catch the rest.
"""

import ast
from collections.abc import Iterator

from tests.architecture.modules import MODULES, imports_of, tree_of

DECISIONS = ("resolution", "planning", "manifests", "scheduling", "lifecycle")
PURE = [name for name in MODULES if name.partition(".")[2].partition(".")[0] in ("model", *DECISIONS)]
DECIDING = [name for name in PURE if name.split(".")[1] in DECISIONS]
IMPURE_CALLS = {
    "breakpoint", "compile", "eval", "exec", "globals", "input", "open", "print", "__import__",
    "getenv", "monotonic", "now", "perf_counter", "sleep", "time_ns", "today", "token_hex", "urlopen", "utcnow",
    "uuid1", "uuid4", "uuid7", "read_bytes", "read_text", "write_bytes", "write_text",
}  # fmt: skip
IMPURE_MODULES = {"uuid", "calendar", "gc", "inspect", "atexit", "weakref", "contextvars"}
CONTAINERS = {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict"}


def test_pure_packages_call_nothing_impure() -> None:
    offenders = [f"{name}: {call}" for name in PURE for call in _calls(name) if _last_name(call) in IMPURE_CALLS]
    assert not offenders, "\n".join(offenders)
    assert sum(1 for name in PURE for _ in _calls(name)) > 1000  # check that calls are found at all


def test_decisions_import_nothing_impure() -> None:
    offenders = [
        f"{name}: {imported}"
        for name in DECIDING
        for imported in imports_of(MODULES[name])
        if imported.partition(".")[0] in IMPURE_MODULES
    ]
    assert not offenders, "\n".join(offenders)
    assert {name.split(".")[1] for name in DECIDING} == set(DECISIONS)


def test_no_pure_module_has_global_state() -> None:
    """No `global` statement, and no empty container at the top of a module, which could only be filled later.

    This does not detect caches: `cached_property` on instances and `lru_cache` on functions are allowed.
    """
    offenders = [f"{name}: {statement}" for name in PURE for statement in _global_state(tree_of(MODULES[name]))]
    assert not offenders, "\n".join(offenders)


def _calls(name: str) -> Iterator[str]:
    """The functions that a module calls, as written in its source, without `re.compile`."""
    for node in ast.walk(tree_of(MODULES[name])):
        if isinstance(node, ast.Call) and (call := ast.unparse(node.func)) != "re.compile":
            yield call


def _last_name(call: str) -> str:
    return call.rpartition(".")[2]


def _global_state(tree: ast.Module) -> Iterator[str]:
    yield from (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Global))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_empty_container(node.value):
            yield ast.unparse(node)


def _is_empty_container(value: ast.expr | None) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=func, args=args):
            name = _last_name(ast.unparse(func))
            return name == "defaultdict" or (name in CONTAINERS and not args)
        case _:
            return False
