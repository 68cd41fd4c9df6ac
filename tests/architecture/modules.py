"""The modules of the product, with their syntax trees and imports."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
FILES = sorted((SOURCES / "fairlead").rglob("*.py"))


def name_of(file: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text("utf-8"))


def imports_of(file: Path) -> Iterator[str]:
    """Every name that a file imports: modules, and names imported from them, which may also be modules."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = {name_of(file): file for file in FILES}
