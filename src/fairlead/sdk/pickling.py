"""Pickle a function from this program into an archive, together with the cloudpickle package that reads it."""

import contextlib
import inspect
import io
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle

from fairlead.errors import Unreadable
from fairlead.source_code import MAX_SOURCE_BYTES, ArchiveEntry, PackedCode, TooLarge, pack_entries

NAMELESS = "function"  # for lambdas and objects without a name
INSTALLED = ("site-packages", "dist-packages")  # folders with installed packages, which images should contain
# Limits for finding the cause of an error. The search is slow, because each step pickles an object again.
MAX_SEARCH_DEPTH, MAX_SEARCHED = 10, 1000


def pack_function(function: Callable[..., Any]) -> PackedCode:
    """Pickle a function. Raise `Unreadable` naming the object that cannot be pickled."""
    if not callable(function):
        raise Unreadable(f"{function!r} is not a function", "pass a function or the path of a source file")
    name = getattr(function, "__name__", NAMELESS)
    # The name becomes a file name and the handler. A lambda is called <lambda>.
    name = name if name.isidentifier() and name.isascii() else NAMELESS
    with _by_value(_list_own_modules()):
        try:
            content = _dump(function)
        except Exception as error:  # objects that the function uses may raise anything
            raise _explain(function, name, error) from error
    source = f"{name}.pkl"
    # Bytecode differs between Python versions. The bootstrap program refuses to load it in a different version.
    version = "{}.{}".format(*sys.version_info).encode()
    archive = pack_entries([ArchiveEntry(source, content), ArchiveEntry(".python-version", version), *_load_reader()])
    return PackedCode(archive, source, handler=name)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that rejects Fairlead objects, because a project contains its user's token."""

    def reducer_override(self, obj: Any) -> Any:
        if _is_ours(obj):
            raise pickle.PicklingError(f"Fairlead objects ({type(obj).__name__}) cannot be sent to a run")
        return super().reducer_override(obj)


class _Limited(io.BytesIO):
    """A buffer with a maximum size, so that pickling large data fails early."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MAX_SOURCE_BYTES:
            raise TooLarge(
                f"the pickled function is larger than {MAX_SOURCE_BYTES:,} bytes",
                "move data out of the code, for example to a volume",
            )
        return super().write(data)


def _dump(value: Any) -> bytes:
    file = _Limited()
    _Pickler(file).dump(value)
    return file.getvalue()


def _is_ours(value: Any) -> bool:
    return str(getattr(type(value), "__module__", "")).startswith("fairlead.sdk")


@cache
def _load_reader() -> tuple[ArchiveEntry, ...]:
    """The installed cloudpickle package. Few images contain it, and even fewer in this version."""
    files = Path(cloudpickle.__file__).parent.glob("*.py")
    return tuple(ArchiveEntry(f"cloudpickle/{file.name}", file.read_bytes()) for file in files)


def _list_own_modules() -> Iterator[ModuleType]:
    """The local modules, which images lack: in the working folder or next to the script, but not installed packages."""
    script = vars(sys.modules["__main__"]).get("__file__")
    # In a notebook, __main__ has no file, so only the working folder counts.
    own = {os.path.realpath(os.getcwd()), *([os.path.dirname(os.path.realpath(script))] if script else [])}
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    loaded: dict[str, Any] = dict(sys.modules)  # some libraries register objects that are not modules
    for name, module in loaded.items():
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        # Compiled modules cannot be pickled by value. cloudpickle pickles __main__ by value anyway.
        if not isinstance(file, str) or not file.endswith(".py") or name.partition(".")[0] in ("fairlead", "__main__"):
            continue
        path = os.path.realpath(file)
        # A virtual environment is often inside the working folder.
        installed = path.startswith(library + os.sep) or any(f"{os.sep}{place}{os.sep}" in path for place in INSTALLED)
        if not installed and any(path.startswith(os.path.join(folder, "")) for folder in own):
            yield module


@contextlib.contextmanager
def _by_value(modules: Iterator[ModuleType]) -> Iterator[None]:
    """Pickle the contents of these modules by value inside the context."""
    # The registry is global, so modules that the user registered must stay registered.
    before = cloudpickle.list_registry_pickle_by_value()
    # cloudpickle rejects modules that are not in sys.modules under their own name.
    named = {module.__name__: module for module in modules if module.__name__ in sys.modules}
    added = [module for name, module in named.items() if name not in before]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _explain(function: Any, name: str, error: Exception) -> Unreadable:
    """Describe which object used by the function cannot be pickled, and what to do."""
    # Pickle errors name a type, but not the variable that refers to it.
    path, culprit, error = _find_culprit(function, (), {id(function)}) or ((), function, error)
    used = f"it uses {'.'.join(path)} ({type(culprit).__name__}): " if path else ""
    hint = "create it inside the function, or move the function to a source file"
    if isinstance(error, TooLarge):
        hint = error.hint
    elif _is_ours(culprit):
        hint = "pass the values that the function needs as inputs"
    return Unreadable(f"the function {name} cannot be sent to a run: {used}{error}", hint)


def _find_culprit(value: Any, path: tuple[str, ...], seen: set[int]) -> tuple[tuple[str, ...], Any, Exception] | None:
    """The innermost object that cannot be pickled, with the path to it and the error; None if there is none."""
    if _is_ours(value) or len(path) >= MAX_SEARCH_DEPTH:
        return None
    outer = None
    for name, inner in islice(_list_uses(value), MAX_SEARCHED):
        if id(inner) in seen:  # objects can refer to each other
            continue
        seen.add(id(inner))
        try:
            _dump(inner)
        except Exception as error:
            here = (*path, name)
            culprit = _find_culprit(inner, here, seen) or (here, inner, error)
            # Skip functions and modules: they are never the cause, and may refer back to the function being searched.
            if not isinstance(culprit[1], FunctionType | ModuleType):
                return culprit
            outer = outer or culprit
    return outer


def _list_uses(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that are pickled together with a value, by name."""
    if isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                yield name, cell.cell_contents
        yield from (
            (name, value.__globals__[name]) for name in _list_names(value.__code__) if name in value.__globals__
        )
        # Use the defaults of this function, not those of a function that it wraps.
        defaults = inspect.signature(value, follow_wrapped=False).parameters.values()
        yield from (
            (parameter.name, parameter.default) for parameter in defaults if parameter.default is not parameter.empty
        )
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), (value.__name__, value.__func__))
    elif isinstance(value, partial):
        yield from (
            ("func", value.func),
            *value.keywords.items(),
            *((str(at), arg) for at, arg in enumerate(value.args)),
        )
    elif isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((str(at), inner) for at, inner in enumerate(value))
    yield from ((name, inner) for name, inner in getattr(value, "__dict__", {}).items() if not name.startswith("__"))


def _list_names(code: CodeType) -> Iterator[str]:
    """The global names that a function and its nested functions refer to."""
    yield from code.co_names
    # Nested functions and lambdas are code objects among the constants.
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_names(constant)
