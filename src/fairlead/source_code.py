"""Packs code into reproducible archives (sorted, no timestamps, no owners), and checks it without executing it."""

import ast
import gzip
import hashlib
import io
import os
import stat
import tarfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import Unreadable
from fairlead.model.parsing import suggest_names

MAX_SOURCE_BYTES = 10 * 1024 * 1024  # code is stored in the database and sent to every pod; data belongs on volumes
# Caches and metadata that tools create. Editors also create lock files, such as .#train.py.
SKIPPED = frozenset(
    {"__pycache__", ".git", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store"}
)
LOCK_PREFIX = ".#"

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
INNER_SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# A module that defines one of these names can have any attribute, so no name is certain to be missing.
DYNAMIC_NAMES = {"*", "__getattr__"}


class TooLarge(Unreadable):
    """The code is larger than the limit."""


class ArchiveEntry(NamedTuple):
    """A file in an archive."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class PackedCode:
    """A packed code archive."""

    archive: bytes
    source: str  # the file or folder inside the archive
    handler: str | None = None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the archive."""
        return f"sha256:{hashlib.sha256(self.archive).hexdigest()}"


def pack_path(path: Path, folder: Path | None = None) -> PackedCode:
    """Pack a file or a folder. Its name in the archive is relative to `folder`, which defaults to its parent."""
    # resolve() is not used: if the path is a symbolic link, the archive uses the link's name and not its target's.
    absolute = Path(os.path.abspath(path))
    start = Path(os.path.abspath(folder)) if folder else absolute.parent
    try:
        files = _check_size(path, _list_files(absolute, path))
        entries = [ArchiveEntry(file.relative_to(start).as_posix(), *_read_file(file)) for file in files]
    except FileNotFoundError as error:
        raise Unreadable(f"{error.filename or path} does not exist", "pass the path of a file or folder") from error
    except OSError as error:
        message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "pass a readable file") from error
    if not entries:
        raise Unreadable(f"the folder {path} contains no files", "add the code, or pass another path")
    return PackedCode(pack_entries(entries), absolute.relative_to(start).as_posix())


def pack_entries(entries: Iterable[ArchiveEntry]) -> bytes:
    """Pack files into a compressed archive."""
    packed = io.BytesIO()
    # By default, the gzip header contains the current time, which would change the digest.
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, content, executable in sorted(entries):
            entry = tarfile.TarInfo(name)
            # Store only the executable bit, because other permissions depend on the umask.
            entry.size, entry.mode = len(content), 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _list_files(path: Path, shown: Path) -> Iterator[Path]:
    """Yield the file, or the files in a folder. Rejects other types, such as named pipes, which can block forever."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        yield from _walk_folder(path, os.path.realpath(path), ())
    elif stat.S_ISREG(mode):
        yield path
    else:
        raise Unreadable(f"{shown} is not a file or folder", "pass the path of a file or folder")


def _walk_folder(folder: Path, root: str, parents: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders. Follows symbolic links whose target is inside the root."""
    parents = (*parents, os.path.realpath(folder))
    with os.scandir(folder) as scan:
        entries = [entry for entry in scan if entry.name not in SKIPPED and not entry.name.startswith(LOCK_PREFIX)]
    for entry in entries:
        path = folder / entry.name
        if entry.is_symlink():
            # A link that points outside could cause large or private files to be packed by accident.
            _check_link(path, root, parents)
        if entry.is_dir():
            yield from _walk_folder(path, root, parents)
        elif entry.is_file():  # sockets and pipes are left out
            yield path


def _check_link(path: Path, root: str, parents: tuple[str, ...]) -> None:
    """Check that a symbolic link points to an existing target inside the root and not to a parent folder."""
    target = os.path.realpath(path)
    hint = "remove it, or replace it with a copy; put large data on a volume"
    if os.path.commonpath((target, root)) != root:
        raise Unreadable(f"the symbolic link {path} points outside {root}, to {target}", hint)
    if not os.path.exists(path):
        raise Unreadable(f"the symbolic link {path} is broken", hint)
    # Following such a link would never end.
    if target in parents:
        raise Unreadable(f"the symbolic link {path} points to a folder that contains it: {target}", hint)


def _check_size(path: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files. Raises `TooLarge` as soon as their total size exceeds the limit, before reading any."""
    sizes: dict[Path, int] = {}
    total = 0
    for file in files:
        sizes[file] = file.stat().st_size
        total += sizes[file]
        if total > MAX_SOURCE_BYTES:
            largest = max(sizes, key=sizes.__getitem__)
            part = f", including {sizes[largest]:,} in {largest}" if len(sizes) > 1 else ""
            message = f"{path} has more than {MAX_SOURCE_BYTES:,} bytes{part}"
            raise TooLarge(message, "keep data out of the code; use a volume")
    return list(sizes)


def _read_file(file: Path) -> tuple[bytes, bool]:
    return file.read_bytes(), bool(file.stat().st_mode & stat.S_IXUSR)


class NoSuchName(Unreadable):
    """The code does not define the function to call."""


def check_code(content: bytes, file: str, name: str) -> None:
    """Raise `Unreadable` if a file cannot be parsed or does not define a name."""
    defined = set(_list_names(_parse_module(content, file)))
    if name and name not in defined and not defined & DYNAMIC_NAMES:
        known = [each for each in defined if not each.startswith("_")]
        hint = suggest_names(name, known, "the file defines {known}") if known else f"define {name} at the top level"
        raise NoSuchName(f"no function {name!r} in {file}", hint)


def _parse_module(content: bytes, file: str) -> ast.Module:
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
