"""Files that a run left. Whatever it put there, nothing outside its output folder is ever read: no link is followed."""

import contextlib
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairlead.model.observations import OutputFile

MOST_FILES, DEEPEST = 10_000, 50
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not keep the reader waiting


def list_outputs(folder: Path) -> list[OutputFile]:
    """The plain files below a folder, by name."""
    try:
        opened = os.open(folder, FOLDER)
    except OSError:
        return []
    try:
        found = islice(_walk(opened, "", DEEPEST), 10 * MOST_FILES)
        return sorted(found, key=lambda file: file.path)[:MOST_FILES]
    finally:
        os.close(opened)


def open_output(folder: Path, path: str) -> BinaryIO:
    """A plain file below a folder. Raise OSError where there is none."""
    *above, name = path.split("/")
    here = os.open(folder, FOLDER)
    try:
        for part in above:
            below = os.open(_plain(part), FOLDER, dir_fd=here)
            os.close(here)
            here = below
        opened = os.open(_plain(name), FILE, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileNotFoundError(path)
    return os.fdopen(opened, "rb")


def _walk(folder: int, prefix: str, deepest: int) -> Iterator[OutputFile]:
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if _is_text(entry.name)]
    for entry in found:
        with contextlib.suppress(OSError):  # the run may go on, and remove what it has just made
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode) and deepest > 0:
                below = os.open(entry.name, FOLDER, dir_fd=folder)
                try:
                    yield from _walk(below, f"{prefix}{entry.name}/", deepest - 1)
                finally:
                    os.close(below)
            elif stat.S_ISREG(seen.st_mode):
                yield OutputFile(prefix + entry.name, seen.st_size, datetime.fromtimestamp(seen.st_mtime, UTC))


def _plain(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name or not _is_text(name):
        raise FileNotFoundError(name)
    return name


def _is_text(name: str) -> bool:
    """Whether a name can be told. Names of files are any bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
