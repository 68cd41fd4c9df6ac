"""Deciding depends on nothing but its arguments: no clock, no chance, no file, no print."""

import ast

import pytest

from tests.architecture.modules import MODULES, imports_of, tree_of

PURE = [name for name in MODULES if name.startswith(("fairlead.core", "fairlead.model"))]
IMPURE_CALLS = {
    "breakpoint", "compile", "eval", "exec", "globals", "input", "open", "print", "__import__",
    "getenv", "monotonic", "now", "perf_counter", "sleep", "time_ns", "today", "token_hex", "urlopen", "utcnow",
    "uuid1", "uuid4", "uuid7", "read_bytes", "read_text", "write_bytes", "write_text",
}  # fmt: skip
IMPURE_MODULES = {"uuid", "calendar", "gc", "inspect", "atexit", "weakref", "contextvars"}


@pytest.mark.parametrize("name", PURE)
def test_nothing_outside_is_touched(name: str) -> None:
    calls = [node.func for node in ast.walk(tree_of(MODULES[name])) if isinstance(node, ast.Call)]
    called = {ast.unparse(func).rpartition(".")[2] for func in calls}
    called -= {"compile"} if _only_compiles_patterns(name) else set()
    assert called & IMPURE_CALLS == set()


@pytest.mark.parametrize("name", [name for name in PURE if name.startswith("fairlead.core")])
def test_time_and_chance_are_arguments(name: str) -> None:
    assert {module.partition(".")[0] for module in imports_of(MODULES[name])} & IMPURE_MODULES == set()


@pytest.mark.parametrize("name", PURE)
def test_nothing_is_remembered_between_calls(name: str) -> None:
    """No `global`, and no empty list, set or mapping at the top of a module that somebody could fill."""
    tree = tree_of(MODULES[name])
    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree))
    empty = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.List | ast.Dict | ast.Set)
        and not any(ast.iter_child_nodes(node.value))
    ]
    assert empty == []


def _only_compiles_patterns(name: str) -> bool:
    """Whether every `compile` of a module is `re.compile`."""
    found = [
        node.func
        for node in ast.walk(tree_of(MODULES[name]))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "compile"
    ]
    return all(ast.unparse(func) == "re.compile" for func in found)
