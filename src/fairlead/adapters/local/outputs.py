"""Lists and opens runs' output files. Symbolic links are not followed, so no file outside the folder is read."""

import contextlib
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairlead.model.runs import OutputFile

MAX_FILES, MAX_DEPTH = 10_000, 50  # each folder level needs an open file descriptor
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a named pipe must not block


def list_outputs(folder: Path) -> list[OutputFile]:
    """List the regular files in a folder and its subfolders, sorted by path."""
    try:
        fd = os.open(folder, OPEN_FOLDER)
    except OSError:
        return []
    try:
        # Sorting needs all files, so the walk is limited as well: a run can create millions.
        files = islice(_walk(fd, "", MAX_DEPTH), 10 * MAX_FILES)
        return sorted(files, key=lambda file: file.path)[:MAX_FILES]
    finally:
        os.close(fd)


def open_output(folder: Path, path: str) -> BinaryIO:
    """Open a regular file in a folder. Raises OSError if it does not exist."""
    *folders, name = path.split("/")
    current = os.open(folder, OPEN_FOLDER)
    # Open the path part by part, because O_NOFOLLOW applies only to the last part of a path.
    try:
        for part in folders:
            child = os.open(_check_name(part), OPEN_FOLDER, dir_fd=current)
            os.close(current)
            current = child
        fd = os.open(_check_name(name), OPEN_FILE, dir_fd=current)
    finally:
        os.close(current)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(path)
    return os.fdopen(fd, "rb")


def _walk(folder: int, prefix: str, max_depth: int) -> Iterator[OutputFile]:
    with os.scandir(folder) as scan:
        entries = [entry for entry in scan if _is_utf8(entry.name)]
    for entry in entries:
        with contextlib.suppress(OSError):  # an active run may remove files during the walk
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and max_depth > 0:
                child = os.open(entry.name, OPEN_FOLDER, dir_fd=folder)
                try:
                    yield from _walk(child, f"{prefix}{entry.name}/", max_depth - 1)
                finally:
                    os.close(child)
            elif stat.S_ISREG(status.st_mode):
                yield OutputFile(prefix + entry.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _check_name(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name or not _is_utf8(name):
        raise FileNotFoundError(name)
    return name


def _is_utf8(name: str) -> bool:
    """Whether a file name is valid UTF-8. File names can contain any bytes; Python reads invalid ones as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
