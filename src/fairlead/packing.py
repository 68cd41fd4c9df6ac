"""Code as one archive, packed so that equal code gives equal bytes: names in order, no times, no owners."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fairlead.errors import Unreadable

LARGEST_SOURCE = 10 * 1024 * 1024
# What machines leave behind. Editors leave locks too: .#train.py
SKIPPED = frozenset(
    {"__pycache__", ".git", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store"}
)
LOCK = ".#"


class TooLarge(Unreadable):
    """There is more of it than travels to a run as code."""


class Entry(NamedTuple):
    """A file of an archive."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class Packed:
    """Code that is ready to travel."""

    archive: bytes
    source: str  # the file or folder inside the archive
    handler: str | None = None

    @cached_property
    def digest(self) -> str:
        """What tells this archive from every other."""
        return f"sha256:{hashlib.sha256(self.archive).hexdigest()}"


def pack_path(path: Path, folder: Path | None = None) -> Packed:
    """A file or a folder; its name in the archive is as seen from a folder, or else its own name."""
    whole = Path(os.path.abspath(path))
    start = Path(os.path.abspath(folder)) if folder else whole.parent
    try:
        files = _measure(path, _list_files(whole, path))
        entries = [Entry(file.relative_to(start).as_posix(), *_read(file)) for file in files]
    except FileNotFoundError as error:
        raise Unreadable(f"there is no {error.filename or path}", "give the path of a file or folder") from error
    except OSError as error:
        message = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "give a file that can be read") from error
    if not entries:
        raise Unreadable(f"{path} is a folder without files", "put the code there, or give another path")
    return Packed(pack(entries), whole.relative_to(start).as_posix())


def pack(entries: Iterable[Entry]) -> bytes:
    """Files as a compressed archive."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, content, executable in sorted(entries):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _list_files(path: Path, shown: Path) -> Iterator[Path]:
    """The file itself, or the files of a folder; what is neither (a pipe, a device) could be read without end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        yield from _walk(path, os.path.realpath(path), ())
    elif stat.S_ISREG(mode):
        yield path
    else:
        raise Unreadable(f"{shown} is neither a file nor a folder", "give the path of a file or folder")


def _walk(folder: Path, root: str, above: tuple[str, ...]) -> Iterator[Path]:
    """The files in a folder and below. A link counts as what it leads to, which must be inside as well."""
    above = (*above, os.path.realpath(folder))
    with os.scandir(folder) as found:
        entries = [entry for entry in found if entry.name not in SKIPPED and not entry.name.startswith(LOCK)]
    for entry in entries:
        path = folder / entry.name
        if entry.is_symlink():
            _check_link(path, root, above)
        if entry.is_dir():
            yield from _walk(path, root, above)
        elif entry.is_file():
            yield path


def _check_link(path: Path, root: str, above: tuple[str, ...]) -> None:
    """A link leads to something, inside, and not back to where the walk comes from."""
    target = os.path.realpath(path)
    hint = "remove it, or put a copy of what is needed in its place; large data belongs on a volume"
    if os.path.commonpath((target, root)) != root:
        raise Unreadable(f"{path} is a link that leads outside {root}, to {target}", hint)
    if not os.path.exists(path):
        raise Unreadable(f"{path} is a link that leads nowhere", hint)
    if target in above:
        raise Unreadable(f"{path} is a link that leads back to {target}, which it is in", hint)


def _measure(path: Path, files: Iterable[Path]) -> list[Path]:
    """The files, unless they are too large together: found out before any is read, and without walking on."""
    sizes: dict[Path, int] = {}
    total = 0
    for file in files:
        sizes[file] = file.stat().st_size
        total += sizes[file]
        if total > LARGEST_SOURCE:
            largest = max(sizes, key=sizes.__getitem__)
            part = f", {sizes[largest]:,} of them in {largest}" if len(sizes) > 1 else ""
            message = f"{path} has more than {LARGEST_SOURCE:,} bytes{part}"
            raise TooLarge(message, "keep data out of the code: use a volume")
    return list(sizes)


def _read(file: Path) -> tuple[bytes, bool]:
    return file.read_bytes(), bool(file.stat().st_mode & stat.S_IXUSR)
