"""How code becomes what a run executes: files and folders, functions of this program, and typos told at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.errors import Unreadable
from fairlead.inspecting import check_code
from fairlead.packing import Packed, pack_path

__all__ = ["Packed", "check_handler", "pack_function", "pack_path"]


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
    try:
        content = file.read_bytes()
    except OSError as error:
        message = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "give a file that can be read") from error
    check_code(content, str(file), name)


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
