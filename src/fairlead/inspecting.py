"""Checks Python code before it is submitted, without executing it, so that typos are reported early."""

import ast
import warnings
from collections.abc import Iterator

from fairlead.errors import Unreadable
from fairlead.model.parsing import suggest_names

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
INNER_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# A module that defines one of these names can have any attribute, so no name is certain to be missing.
DYNAMIC_NAMES = {"*", "__getattr__"}


class NoSuchName(Unreadable):
    """The code does not define the function to call."""


def check_code(content: bytes, file: str, name: str) -> None:
    """Raise `Unreadable` if a file cannot be parsed or does not define a name."""
    defined = set(_list_names(_parse(content, file)))
    if name and name not in defined and not defined & DYNAMIC_NAMES:
        known = [each for each in defined if not each.startswith("_")]
        hint = suggest_names(name, known, "the file defines {known}") if known else f"define {name} at the top level"
        raise NoSuchName(f"no function {name!r} in {file}", hint)


def _parse(content: bytes, file: str) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):  # such as those about invalid escapes, which the run shows
            return ast.parse(content, file)
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else file
        line = (error.text or "").strip()
        hint = f"fix this line: {line[:100]}" if line.isprintable() and line else "fix the file"
        raise Unreadable(f"{where}: {error.msg}", hint) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested too deeply
        message = f"cannot parse {file} as Python: {str(error) or 'nested too deeply'}"
        raise Unreadable(message, "fix the file") from error


def _list_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines, including those in `if` and `try`, but not in functions and classes."""
    nodes: list[ast.AST] = [tree]  # not recursive: a chain of a thousand `elif` branches is a thousand levels deep
    while nodes:
        node = nodes.pop()
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            # `import os.path` defines os.
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        # An annotation without a value defines no name, and comprehension variables are not visible outside.
        elif not isinstance(node, INNER_SCOPES) and not (isinstance(node, ast.AnnAssign) and node.value is None):
            nodes += ast.iter_child_nodes(node)
