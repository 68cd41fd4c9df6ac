"""Measures how much disk space a run uses: its files, and deleted files that its processes still have open.

Standard library only.
"""

import contextlib
import os
import stat
from collections.abc import Iterable


def measure_disk(folder: str, max_entries: int = 200_000) -> int:
    """Return the number of bytes used by the files in a folder, counting up to `max_entries` files."""
    total, folders = 0, [folder]
    while folders and max_entries > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    max_entries -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        # Count allocated space: a sparse file occupies less than its size. The unit is 512 bytes.
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue  # deleted, or not readable
    return total


def measure_deleted_files(proc: str, pids: Iterable[int], folder: str) -> int:
    """Return the bytes used by deleted files that processes have open, on the file system of a folder."""
    blocks: dict[int, int] = {}  # by inode, because processes share open files
    with contextlib.suppress(OSError):
        device = os.stat(folder).st_dev
        for pid in pids:
            for status in _list_open_files(f"{proc}/{pid}/fd"):
                if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                    blocks[status.st_ino] = status.st_blocks
    return sum(blocks.values()) * 512


def _list_open_files(folder: str) -> list[os.stat_result]:
    files = []
    with contextlib.suppress(OSError):  # the process has ended
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed in the meantime
                files.append(os.stat(f"{folder}/{name}"))
    return files
