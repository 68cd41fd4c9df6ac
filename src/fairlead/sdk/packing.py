"""How code becomes what a run executes: files and folders, functions of this program, and typos told at once."""

import ast
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairlead.errors import Unreadable
from fairlead.model.parsing import nearest
from fairlead.packing import Packed, pack_path

__all__ = ["Packed", "check_handler", "pack_function", "pack_path"]

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
INNER_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# A module that gives whatever is asked of it: no name can be called missing.
ANYTHING = {"*", "__getattr__"}


def pack_function(function: Callable[..., Any]) -> Packed:
    """A function with all that it uses of its author's own modules, for this version of Python alone."""
    from fairlead.sdk import pickling  # cloudpickle takes 25 ms, and only functions that lie in no file need it

    return pickling.pack_function(function)


def check_handler(path: Path, handler: str | None) -> None:
    """Raise `Unreadable` where a source cannot be parsed or has no such handler. Nothing of it is executed."""
    module, _, name = (handler or "").rpartition(":")
    file = _find_file(path, module, name)
    if file is None:
        return
    defined = set(_list_names(_parse(file)))
    if name and name not in defined and not defined & ANYTHING:
        known = [found for found in defined if not found.startswith("_")]
        hint = nearest(name, known, "it has {known}") if known else f"define {name} at the top level of the file"
        raise Unreadable(f"there is no function {name!r} in {file}", hint)


def _find_file(path: Path, module: str, name: str) -> Path | None:
    """The file that must be right for the handler; None where it comes with the image, or is no Python."""
    inside = path if path.is_dir() else path.parent
    if module and not (path.is_file() and path.stem == module):
        places = inside.joinpath(*module.split("."))
        return next(filter(Path.is_file, (places.with_suffix(".py"), places / "__init__.py")), None)
    if path.suffix == ".py" and path.is_file():
        return path
    if not path.exists():
        raise Unreadable(f"there is no {path}", "give the path of a file or folder")
    if name:
        kind = "a folder" if path.is_dir() else "no Python file"
        raise Unreadable(f"{path} is {kind}, and the handler is {name!r}", f"say the module too: module:{name}")
    if path.is_dir() and not (path / "__main__.py").is_file():
        hint = "say a handler such as train:main, or add __main__.py"
        raise Unreadable(f"{path} is a folder without __main__.py, and no handler is said", hint)
    return path / "__main__.py" if path.is_dir() else None


def _parse(file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):  # of doubtful escapes: the run will tell
            return ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        message = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "give a file that can be read") from error
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else str(file)
        line = (error.text or "").strip()
        hint = f"correct: {line[:100]}" if line.isprintable() and line else "correct the file"
        raise Unreadable(f"{where}: {error.msg}", hint) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested without end
        raise Unreadable(
            f"{file} is no Python that can be read: {str(error) or 'nested too deeply'}", "correct it"
        ) from error


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
