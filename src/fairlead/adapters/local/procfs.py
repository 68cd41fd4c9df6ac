"""Measures the resource usage of process trees through /proc. Standard library only."""

import os
from pathlib import Path
from typing import NamedTuple

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process, from /proc/<pid>/stat."""

    pid: int
    parent: int
    cpu_seconds: float
    resident: int


def list_tree(proc: str, root_pid: int) -> list[Process]:
    """List a process and its descendants; empty if the process has ended."""
    children: dict[int, list[Process]] = {}
    tree: list[Process] = []
    try:
        names = os.listdir(proc)
    except OSError:
        return []
    for name in names:
        if name.isdigit() and (process := _read(proc, name)) is not None:
            children.setdefault(process.parent, []).append(process)
            if process.pid == root_pid:
                tree.append(process)
    for process in tree:  # the list grows during iteration, to include children of children
        tree += children.get(process.pid, [])
    return tree


def measure_memory(proc: str, processes: list[Process], limit: int | None = None) -> int:
    """Return the memory of all processes. Above `limit`, shared memory is counted only once, which is slower."""
    # The sum counts shared pages once per process, so it is an upper bound, which is good enough below the limit.
    resident = sum(process.resident for process in processes)
    if len(processes) < 2 or limit is None or resident <= limit:
        return resident
    return sum(_read_pss(proc, process) for process in processes)


def measure_mount(path: str) -> int:
    """Return the number of bytes used on the file system mounted at a path."""
    try:
        file_system = os.statvfs(path)
    except OSError:
        return 0
    return (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize


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


def count_oom_kills() -> int:
    """Return how many processes this machine's kernel has killed because memory ran out."""
    try:
        for line in Path("/proc/vmstat").read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _read(proc: str, name: str) -> Process | None:
    try:
        with open(f"{proc}/{name}/stat", "rb") as file:
            # The program name is in parentheses and may contain any character.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # The first two fields were cut off. Numbers in proc(5): parent 4, user and system time 14, 15, resident pages 24.
    return Process(
        int(name), int(fields[1]), (int(fields[11]) + int(fields[12])) / CLOCK_TICKS, int(fields[21]) * PAGE_SIZE
    )


def _read_pss(proc: str, process: Process) -> int:
    try:
        with open(f"{proc}/{process.pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # the process has ended, or belongs to another user
    return process.resident
