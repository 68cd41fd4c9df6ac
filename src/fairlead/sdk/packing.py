"""Prepare code for upload: find the handler in files and folders, or pickle a function."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.errors import Unreadable
from fairlead.inspecting import check_code
from fairlead.packing import PackedCode, pack_path

__all__ = ["PackedCode", "check_handler", "pack_function", "pack_path"]


def pack_function(function: Callable[..., Any]) -> PackedCode:
    """Pickle a function with the local modules that it uses. The archive works only with this Python version."""
    from fairlead.sdk import pickling  # importing cloudpickle takes 25 ms, and only decorated functions need it

    return pickling.pack_function(function)


def check_handler(path: Path, handler: str | None) -> None:
    """Raise `Unreadable` if the source cannot be parsed or does not define the handler. Does not execute the source."""
    module, _, name = (handler or "").rpartition(":")
    file = _find_file(path, module, name)
    if file is None:
        return
    try:
        content = file.read_bytes()
    except OSError as error:
        message = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "check the path and its permissions") from error
    check_code(content, str(file), name)


def _find_file(path: Path, module: str, name: str) -> Path | None:
    """The file that must define the handler; None if the image contains it or it is not Python."""
    inside = path if path.is_dir() else path.parent
    if module and not (path.is_file() and path.stem == module):
        module_path = inside.joinpath(*module.split("."))
        # A module that is not in the folder may be installed in the image.
        return next(filter(Path.is_file, (module_path.with_suffix(".py"), module_path / "__init__.py")), None)
    if path.suffix == ".py" and path.is_file():
        return path
    if not path.exists():
        raise Unreadable(f"{path} does not exist", "use the path of a file or folder")
    if name:
        kind = "a folder" if path.is_dir() else "not a Python file"
        raise Unreadable(
            f"{path} is {kind}, but the handler {name!r} does not name a module", f"include the module: module:{name}"
        )
    if path.is_dir() and not (path / "__main__.py").is_file():
        hint = "set a handler such as train:main, or add __main__.py"
        raise Unreadable(f"{path} is a folder without __main__.py, and no handler is set", hint)
    return path / "__main__.py" if path.is_dir() else None
