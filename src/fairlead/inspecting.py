"""A look at Python before it travels, so that typos are told at once. Nothing of it is executed."""

import ast
import warnings
from collections.abc import Iterator

from fairlead.errors import Unreadable
from fairlead.model.parsing import nearest

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
INNER_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# A module that gives whatever is asked of it: no name can be called missing.
ANYTHING = {"*", "__getattr__"}


class NoSuchName(Unreadable):
    """The code is right, and does not define what is to be called."""


def check_code(content: bytes, file: str, name: str) -> None:
    """Raise `Unreadable` where a file cannot be parsed or does not define a name."""
    defined = set(_list_names(_parse(content, file)))
    if name and name not in defined and not defined & ANYTHING:
        known = [found for found in defined if not found.startswith("_")]
        hint = nearest(name, known, "it has {known}") if known else f"define {name} at the top level of the file"
        raise NoSuchName(f"there is no function {name!r} in {file}", hint)


def _parse(content: bytes, file: str) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):  # of doubtful escapes: the run will tell
            return ast.parse(content, file)
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else file
        line = (error.text or "").strip()
        hint = f"correct: {line[:100]}" if line.isprintable() and line else "correct the file"
        raise Unreadable(f"{where}: {error.msg}", hint) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested without end
        message = f"{file} is no Python that can be read: {str(error) or 'nested too deeply'}"
        raise Unreadable(message, "correct it") from error


def _list_names(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines, also under `if` and `try`, but not inside functions and classes."""
    nodes: list[ast.AST] = [tree]  # no recursion: a chain of a thousand `elif` is a thousand deep
    while nodes:
        node = nodes.pop()
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(node, INNER_SCOPES) and not (isinstance(node, ast.AnnAssign) and node.value is None):
            nodes += ast.iter_child_nodes(node)
